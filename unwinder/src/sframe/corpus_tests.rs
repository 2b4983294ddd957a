//! The corpus that fuzzing starts from. `tests/sframe/fuzz.rs` runs it, with mutations.

use std::fs;
use std::path::PathBuf;

use super::crafted::{ADDRESS, Fun, Section, concatenate, sample};
use super::fuzz::fuzz_sframe;
use super::*;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/sframe")
}

/// The recipes of the corpus, by file name.
fn recipes() -> Vec<(&'static str, Vec<u8>)> {
    let of = |version, abi| sample(version, abi);
    let x86 = |version| of(version, Abi::Amd64);
    let pc_relative = Section { flags: 5, ..x86(Version::V2) };
    let mut unsorted = Section { flags: 4, ..x86(Version::V3) };
    unsorted.functions.reverse();
    let unusual = Section { auxiliary: vec![7; 6], gaps: [2, 4], ..x86(Version::V3) };
    let s390x = Fun::new(0x1000, 12, &[(0, 1, &[0]), (4, 1, &[16, -8, -16])]);
    vec![
        ("v1-x86_64", x86(Version::V1).build()),
        ("v2-x86_64", x86(Version::V2).build()),
        ("v2-x86_64-pc-relative", pc_relative.build()),
        ("v3-x86_64", x86(Version::V3).build()),
        ("v3-x86_64-unsorted", unsorted.build()),
        ("v3-x86_64-auxiliary", unusual.build()),
        ("v3-x86_64-overlap", overlap().build()),
        ("v1-aarch64", of(Version::V1, Abi::Aarch64).build()),
        ("v2-aarch64", of(Version::V2, Abi::Aarch64).build()),
        ("v3-aarch64", of(Version::V3, Abi::Aarch64).build()),
        ("v3-aarch64-big", of(Version::V3, Abi::Aarch64Big).build()),
        ("v3-s390x", Section::new(Version::V3, Abi::S390x, vec![s390x]).build()),
        ("concatenated", concatenate(&[x86(Version::V2), x86(Version::V3), pc_relative])),
        ("empty", Section::new(Version::V3, Abi::Amd64, Vec::new()).build()),
    ]
}

fn overlap() -> Section {
    let row: &[(u8, u8, &[i8])] = &[(0, 1, &[8]), (4, 1, &[16])];
    let functions =
        [(0x1000, 0), (0x1000, 64), (0x1000, 128), (0x1010, 16), (0x1020, 128), (0x1100, 16)];
    let functions = functions.map(|(start, size)| Fun::new(start, size, row)).to_vec();
    Section::new(Version::V3, Abi::Amd64, functions)
}

#[test]
fn the_corpus_is_what_the_recipes_make() {
    fs::create_dir_all(corpus()).unwrap();
    for (name, bytes) in recipes() {
        let path = corpus().join(name);
        if std::env::var_os("EMU_BLESS").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        assert!(
            fs::read(&path).unwrap_or_default() == bytes,
            "{} is not up to date: run the test with EMU_BLESS=1",
            path.display()
        );
        assert!(Table::of_any_arch(ADDRESS, &bytes[..]).is_ok(), "{name}");
        fuzz_sframe(&bytes);
    }
}
