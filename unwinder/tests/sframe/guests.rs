//! The sections, and that all of them are sound.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use arch::Arch;
use unwinder::address::InterruptedAddress;
use unwinder::row::Miss;
use unwinder::sframe::{Found, Function, Problem, Table, Version, WarningKind};
use unwinder::{CodeAddress, LookupAddress, Row};

/// A section and its address.
pub struct Section {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// A program's sections.
pub struct Guest {
    pub name: String,
    pub arch: Arch,
    pub sframe: Section,
    /// Of those programs that have less than a libc's worth of it.
    pub eh_frame: Option<Section>,
}

impl Guest {
    pub fn table(&self) -> Table<&[u8]> {
        let (table, warnings) = Table::new(self.arch, self.sframe.address, &self.sframe.bytes[..])
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        assert!(warnings.is_empty(), "{}: {warnings:?}", self.name);
        table
    }

    pub fn version(&self) -> Version {
        self.table().parts()[0].header.version
    }
}

/// The programs of `tests/data/sframe`.
pub fn all() -> Vec<Guest> {
    let mut sections = BTreeMap::<String, BTreeMap<String, Section>>::new();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sframe");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let [program, address, section] = file.split('.').collect::<Vec<_>>()[..] else {
            panic!("{file}");
        };
        let address = u64::from_str_radix(address, 16).unwrap();
        let section_of = sections.entry(program.into()).or_default();
        section_of.insert(section.into(), Section { address, bytes: fs::read(&path).unwrap() });
    }
    assert_eq!(sections.len(), 69);
    sections.into_iter().map(guest).collect()
}

fn guest((name, mut sections): (String, BTreeMap<String, Section>)) -> Guest {
    let arch = if name.contains("x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    let sframe = sections.remove("sframe").unwrap();
    Guest { name, arch, sframe, eh_frame: sections.remove("eh_frame") }
}

pub fn key(address: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(address)).lookup()
}

/// The row at `pc`, which has one.
pub fn row(table: &Table<&[u8]>, pc: u64) -> Option<Row> {
    match table.row(key(pc)) {
        Ok(Found::Row(row)) => Some(row),
        Ok(Found::SignalTrampoline) | Err(Miss::NotCovered) => None,
        Err(Miss::Bad(error)) => panic!("{pc:#x}: {error}"),
    }
}

pub fn functions(table: &Table<&[u8]>) -> Vec<Function> {
    table.functions().map(Result::unwrap).collect()
}

#[test]
fn the_tools_write_sound_sections() {
    let mut counts = BTreeMap::<Version, (usize, usize, u64)>::new();
    for guest in all() {
        let table = guest.table();
        for problem in table.check() {
            // gas describes a procedure without instructions, too.
            let empty = matches!(problem, Problem::Warning(w)
                if matches!(w.kind, WarningKind::EmptyFunction(_)));
            assert!(empty && guest.name.starts_with("musl-x86_64"), "{}: {problem}", guest.name);
        }
        let count = counts.entry(guest.version()).or_default();
        for function in functions(&table) {
            count.0 += 1;
            count.1 += table.rows(&function).map(Result::unwrap).count();
            for pc in function.range() {
                let row = row(&table, pc).unwrap_or_else(|| panic!("{}: {pc:#x}", guest.name));
                assert!(row.range.0 <= pc && pc < row.range.1);
                assert!(row.range.0 >= function.start && row.range.1 <= function.range().end);
                count.2 += 1;
            }
        }
    }
    println!("version: functions, rows, bytes of code: {counts:?}");
    assert!(counts.len() == 3 && counts.values().all(|c| c.2 > 1000));
}

#[test]
fn a_truncated_section_is_refused_wherever_it_ends() {
    for guest in all() {
        for len in 0..guest.sframe.bytes.len() {
            let cut = &guest.sframe.bytes[..len];
            Table::new(guest.arch, guest.sframe.address, cut).expect_err(&guest.name);
        }
    }
}

#[test]
fn a_version_is_not_mistaken_for_another_one() {
    for guest in all() {
        for version in [1, 2, 3].into_iter().filter(|&v| v != guest.version() as u8) {
            let mut bytes = guest.sframe.bytes.clone();
            bytes[2] = version;
            // Whatever is in it: it does not pass for sound.
            if let Ok((table, _)) = Table::new(guest.arch, guest.sframe.address, &bytes[..]) {
                assert_ne!(table.check(), [], "{} as version {version}", guest.name);
            }
        }
    }
}

#[test]
fn what_follows_the_section_in_its_segment_is_ignored() {
    // GNU ld makes the segment longer than the section, by zeros.
    for guest in all() {
        let mut bytes = guest.sframe.bytes.clone();
        bytes.extend([0; 75]);
        let (table, warnings) = Table::new(guest.arch, guest.sframe.address, bytes).unwrap();
        assert!(!warnings.iter().any(|w| matches!(w.kind, WarningKind::Trailing { .. })));
        assert_eq!(table.functions().count(), guest.table().functions().count());
    }
}
