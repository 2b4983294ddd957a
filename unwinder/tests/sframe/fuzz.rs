//! The oracle of [`unwinder::sframe::fuzz`] over the corpus and over mutations of it.

use std::fs;
use std::path::PathBuf;

use crate::random::Xorshift;
use unwinder::sframe::Table;
use unwinder::sframe::fuzz::fuzz_sframe;

use crate::guests;

/// The files of the corpus, in the order of their names.
fn corpus() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/sframe");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Changes `bytes` in a few places, to values that hurt.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    const EVIL: [u64; 8] =
        [0, 1, 0xf0, 0x7fff, 0x8000_0000, i64::MAX as u64, u64::MAX - 0xfff, u64::MAX];
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..),
            2 => {
                let width = [2, 4, 8][random.below(3)];
                let value = EVIL[random.below(EVIL.len())].to_le_bytes();
                let field = bytes.iter_mut().skip(at).take(width);
                field.zip(value).for_each(|(b, v)| *b = v);
            }
            3 | 4 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << random.below(8)),
            5 => {
                let small = random.below(9) as u8;
                bytes.iter_mut().skip(at).take(1).for_each(|b| *b = small);
            }
            _ => {
                let change = random.below(7) as u8;
                bytes.iter_mut().skip(at).take(1).for_each(|b| *b = b.wrapping_add(change));
            }
        }
    }
}

#[test]
fn real_sections_keep_every_promise() {
    for guest in guests::all() {
        fuzz_sframe(&guest.sframe.bytes);
    }
}

#[test]
fn mutated_sections_neither_panic_nor_break_a_promise() {
    let files = corpus();
    assert!(files.len() >= 14, "{} files", files.len());
    files.iter().for_each(|bytes| fuzz_sframe(bytes));
    let seed = std::env::var("FUZZ_SEED").map_or(1, |s| s.parse().unwrap());
    let mut random = Xorshift(0x7366_7261_6d65 ^ seed);
    let mut usable = 0;
    for _ in 0..20_000 {
        let mut bytes = files[random.below(files.len())].clone();
        mutate(&mut bytes, &mut random);
        usable += usize::from(Table::of_any_arch(0, &bytes[..]).is_ok());
        fuzz_sframe(&bytes);
    }
    assert!(usable > 5_000, "only {usable} mutations left anything to look up");
}
