//! The fuzzing oracles over their corpus and over mutations of it.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;
#[path = "common/random.rs"]
mod random;

use std::fs;
use std::path::PathBuf;

use arch::Arch::{Aarch64, X86_64};
use common::{CODE, Cie, Frame, PCREL, guests, header, one, one_of};
use random::Xorshift;
use unwinder::dwarf::fuzz::{FRAME, fuzz_eh_frame, fuzz_eh_frame_hdr};

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus").join(target)
}

fn files(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 10);
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Every kind of instruction in one function.
const EVERYTHING: &[u8] = &[
    0x41, 0x0c, 6, 16, 0x83, 2, 0x02, 1, 0x07, 3, 0x0a, 0x03, 1, 0, 0x08, 3, 0x05, 6, 2, 0x11, 6,
    0x7e, 0x04, 1, 0, 0, 0, 0x14, 3, 2, 0x15, 3, 0x7e, 0x09, 12, 13, 0x0b, 0x41, 0xc3, 0x06, 6,
    0x0d, 7, 0x0e, 8, 0x41, 0x12, 6, 0x7e, 0x13, 0x7d, 0x2e, 8, 0x41, 0x10, 3, 2, 0x77, 8, 0x16, 6,
    1, 0x31, 0x41, 0x0f, 3, 0x77, 8, 0x06,
];

/// The crafted sections of the corpus.
fn frames() -> Vec<(String, Frame)> {
    let mut all: Vec<(String, Frame)> = Vec::new();
    let mut add = |name: &str, frame| all.push((format!("crafted-{name}"), frame));
    add("empty", Frame::new(X86_64));
    add("everything", one(X86_64, EVERYTHING));
    add(
        "signed",
        one_of(Aarch64, "zRB", &[0x41, 0x2d, 0x0a, 0x41, 0x2d, 0x0b, 0x41, 0x16, 34, 1, 0x31]),
    );
    add("tagged", one_of(Aarch64, "zRGBS", &[0x41, 0x2d, 0x41, 0x2c]));
    add("states", one(X86_64, &[0x0a; 20]));
    let mut wide = Frame { wide: true, ..Frame::new(X86_64) };
    let cie = wide.usual_cie("zR");
    wide.fde(cie, CODE, 0x100, EVERYTHING);
    add("wide", wide);
    let mut overlap = Frame::new(X86_64);
    let cie = overlap.usual_cie("zR");
    for (start, len) in [(0x10, 0x10), (0, 0x40), (0x30, 0x20), (0x10, 0x10), (0x60, 0)] {
        overlap.fde(cie, CODE + start, len, &[0x41, 0x0e, 16]);
    }
    overlap.terminator();
    overlap.fde(cie, CODE + 0x60, 0x10, &[]);
    add("overlap", overlap);
    for version in [1, 3, 4] {
        let mut debug = Frame::debug(Aarch64);
        let cie = debug.cie(Cie {
            version,
            augmentation: "B",
            data: &[],
            code_align: 4,
            data_align: -8,
            return_address: 30,
            instructions: &[0x0c, 31, 0],
        });
        let to = (CODE + 8).to_le_bytes();
        debug.fde(cie, CODE, 0x100, &bytes![[0x41, 0x0e, 16, 0x01], to, [0x2d]]);
        debug.fde(cie, u64::MAX - 8, 8, &[0x04, 255, 255, 255, 255, 0x41]);
        add(&format!("debug-{version}"), debug);
    }
    let mut encodings = Frame::new(X86_64);
    for encoding in [0, 2, 3, 4, 9, 10, 11, 12, 0x1c, 0x2b, 0x50, 0x9b, 0xff] {
        let cie = encodings.cie(Cie {
            version: 1,
            augmentation: "zPLR",
            data: &[PCREL, 0, 0, 0, 0, 0x0b, encoding],
            code_align: 1,
            data_align: -8,
            return_address: 16,
            instructions: &[0x0c, 7, 8, 0x90, 1],
        });
        encodings.fde(cie, CODE, 8, &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    add("encodings", encodings);
    all
}

/// The corpus by target and file name, from recipes and from dumps of programs.
fn recipes() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, frame) in frames() {
        all.push(("eh_frame", name, frame.bytes));
    }
    for guest in guests::dumps() {
        let small = !guest.name.contains("alloca") && !guest.name.contains("gcc16");
        for section in [guest.eh_frame, guest.debug_frame].into_iter().flatten().enumerate() {
            if small {
                let name = format!("{}-{}", guest.name, section.0);
                all.push(("eh_frame", name, section.1.1));
            }
        }
    }
    all.extend(headers());
    all
}

fn headers() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |name: &str, frame: &Frame, header: &[u8]| {
        let len = (frame.bytes.len() as u16).to_le_bytes();
        let bytes = bytes![len, frame.bytes, header];
        all.push(("eh_frame_hdr", format!("crafted-{name}"), bytes));
    };
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    let second = frame.fde(cie, CODE + 0x100, 0x80, &[0x0e, 2]);
    let first = frame.fde(cie, CODE, 0x100, &[0x0e, 1, 0x41, 0x0e, 4]);
    let third = frame.fde(cie, CODE + 0x200, 0x100, &[0x0e, 3]);
    let entries = [(CODE, first), (CODE + 0x100, second), (CODE + 0x200, third)];
    let good = header(FRAME, &entries);
    add("good", &frame, &good);
    add("none", &frame, &[]);
    add("truncated", &frame, &good[..20]);
    add("omitted", &frame, &bytes![[1, PCREL, 0xff, 0xff], good[4..8]]);
    add("unsorted", &frame, &header(FRAME, &[entries[2], entries[1], entries[0]]));
    add("missing", &frame, &header(FRAME, &entries[1..]));
    add("lying", &frame, &header(FRAME, &[(CODE, second), (CODE + 0x100, first), entries[2]]));
    add("inside", &frame, &header(FRAME, &[(CODE, first + 1), entries[1], entries[2]]));
    add("elsewhere", &frame, &header(FRAME + 8, &entries));
    add("nothing", &Frame::new(X86_64), &header(FRAME, &[]));
    add("huge", &frame, &bytes![[1, PCREL, 4, 0x3b], good[4..8], u64::MAX.to_le_bytes()]);
    // One too many, far outside the section, that hides the end of a function.
    let mut far = bytes![[1, 4, 3, 4], FRAME.to_le_bytes(), 4u32.to_le_bytes()];
    for (start, fde) in entries.into_iter().chain([(CODE + 0x280, 1 << 40)]) {
        far.extend(bytes![start.to_le_bytes(), (FRAME + fde as u64).to_le_bytes()]);
    }
    add("far", &frame, &far);
    for (name, encoding) in [("absolute", 4u8), ("four", 3), ("two", 2), ("leb", 1)] {
        let size = if encoding == 4 { 8 } else { encoding + 1 } as usize;
        let mut wide = bytes![[1, 4, 3, encoding], FRAME.to_le_bytes(), 3u32.to_le_bytes()];
        for (start, fde) in entries {
            wide.extend(&start.to_le_bytes()[..size]);
            wide.extend(&(FRAME + fde as u64).to_le_bytes()[..size]);
        }
        add(name, &frame, &wide);
    }
    all
}

#[test]
fn the_corpus_is_what_the_recipes_make() {
    for (target, name, bytes) in recipes() {
        let path = corpus(target).join(name);
        if std::env::var_os("EMU_BLESS").is_some() {
            fs::create_dir_all(corpus(target)).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let there = fs::read(&path).unwrap_or_default();
        assert!(
            there == bytes,
            "{} is not up to date: run the test with EMU_BLESS=1",
            path.display()
        );
    }
}

#[test]
fn the_corpus_breaks_no_promise() {
    files("eh_frame").iter().for_each(|bytes| fuzz_eh_frame(bytes));
    files("eh_frame_hdr").iter().for_each(|bytes| fuzz_eh_frame_hdr(bytes));
    // Each target's inputs are bytes for the other too.
    files("eh_frame").iter().for_each(|bytes| fuzz_eh_frame_hdr(bytes));
    files("eh_frame_hdr").iter().for_each(|bytes| fuzz_eh_frame(bytes));
}

/// Changes `bytes` in a few places, to values that hurt.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    const EVIL: [u64; 8] =
        [0, 1, 0x7f, 0xff, u32::MAX as u64, 1 << 63, i64::MAX as u64, u64::MAX - 0xf];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << random.below(8)),
            1 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..at + random.below(64).min(bytes.len() - at)),
            // An instruction or an encoding.
            3 | 4 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = random.next() as u8),
            width => {
                let width = [1, 4, 8][width - 5];
                let value = EVIL[random.below(EVIL.len())].to_le_bytes();
                bytes.iter_mut().skip(at).take(width).zip(value).for_each(|(b, v)| *b = v);
            }
        }
    }
}

fn mutations(target: &str, seed: u64, fuzz: fn(&[u8])) {
    let files = files(target);
    let mut random = Xorshift(seed);
    for _ in 0..10_000 {
        let mut bytes = files[random.below(files.len())].clone();
        mutate(&mut bytes, &mut random);
        fuzz(&bytes);
    }
}

#[test]
fn mutated_sections_break_no_promise() {
    mutations("eh_frame", 0x6568_5f66_7261_6d65, fuzz_eh_frame);
}

#[test]
fn mutated_headers_break_no_promise() {
    mutations("eh_frame_hdr", 0x6568_5f66_7261_6d65, fuzz_eh_frame_hdr);
}
