//! Tests of [`super::registry`].

use std::ops::Range;

use arch::{Arch, Errno};

use super::crafted::{Fun, Section, sample};
use super::registry::{LookupError, Mapping, Mappings, NotRegistered, Policy, RegisterError};
use super::*;
use crate::address::InterruptedAddress;
use crate::memory::Copied;
use crate::row::CfaRule;
use crate::{CodeAddress, LookupAddress, Memory};

/// Where the section is, and the code that it is for.
const AT: u64 = 0x10_0000;
const TEXT: Range<u64> = 0x1000..0x8000;

/// A process with a section, code, and data behind the code.
struct Process(Copied<Vec<u8>>);

impl Process {
    fn new(section: &Section) -> Process {
        let section = Section { address: AT, ..section.clone() };
        Process(Copied { address: AT, bytes: section.build() })
    }

    fn section(&self) -> Range<u64> {
        AT..AT + self.0.bytes.len() as u64
    }
}

impl Memory for Process {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read(address, bytes)
    }
}

impl Mappings for Process {
    fn mapping(&self, address: u64) -> Option<Mapping> {
        let maps = [(TEXT, true), (TEXT.end..0xa000, false), (AT..AT + 0x1000, false)];
        let (range, executable) = maps.into_iter().find(|(r, _)| r.contains(&address))?;
        Some(Mapping { range, executable })
    }
}

fn v3() -> Section {
    sample(Version::V3, Abi::Amd64)
}

fn empty() -> Registry {
    Registry::new(Arch::X86_64, Policy::default())
}

fn key(address: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(address)).lookup()
}

fn registered(section: &Section) -> (Registry, Process) {
    let (mut registry, mut process) = (empty(), Process::new(section));
    registry.register(process.section(), TEXT, &mut process).unwrap();
    (registry, process)
}

#[track_caller]
fn refused(section: &Section, error: RegisterError, errno: Errno) {
    let (mut registry, mut process) = (empty(), Process::new(section));
    assert_eq!(registry.register(process.section(), TEXT, &mut process), Err(error));
    assert_eq!(error.errno(), errno);
    assert!(registry.is_empty());
}

#[test]
fn lookups_are_those_of_the_table() {
    let (mut registry, mut process) = registered(&v3());
    let bytes = process.0.bytes.clone();
    let (table, _) = Table::new(Arch::X86_64, AT, bytes).unwrap();
    for pc in TEXT {
        match registry.lookup(key(pc), &mut process) {
            Ok(found) => assert_eq!(table.row(key(pc)), Ok(found)),
            Err(error) => {
                assert_eq!((error, error.errno()), (LookupError::NotCovered, Errno::EINVAL));
                assert!(table.row(key(pc)).is_err(), "{pc:#x}");
            }
        }
    }
    for pc in [0, 0xfff, 0x8000, u64::MAX] {
        assert_eq!(registry.lookup(key(pc), &mut process), Err(LookupError::NoSection));
    }
}

#[test]
fn arguments_have_to_be_in_mappings() {
    let (mut registry, mut process) = (empty(), Process::new(&v3()));
    let section = process.section();
    let mut register =
        |section: Range<u64>, text| registry.register(section, text, &mut process).unwrap_err();
    assert_eq!(register(0..section.end, TEXT), RegisterError::Zero);
    assert_eq!(register(section.clone(), 0..TEXT.end), RegisterError::Zero);
    let bad = RegisterError::SectionMapping;
    assert_eq!(register(AT..AT, TEXT), bad);
    assert_eq!(register(AT..AT + 0x1001, TEXT), bad);
    assert_eq!(register(0x20_0000..0x20_0100, TEXT), bad);
    let bad = RegisterError::TextMapping;
    assert_eq!(register(section.clone(), TEXT.start..TEXT.end + 1), bad);
    assert_eq!(register(section.clone(), TEXT.end..0x9000), bad);
    assert_eq!(register(section.clone(), 0x1000..0x1000), bad);
    assert_eq!(register(section, Range { start: 0x2000, end: 0x1000 }), bad);
    assert_eq!((bad.errno(), RegisterError::Zero.errno()), (Errno::EINVAL, Errno::EINVAL));
}

#[test]
fn headers_are_judged_by_the_policy() {
    let header = |offset, kind| RegisterError::Header(Error { offset, kind });
    let magic = v3().patch(0, &[0, 0]);
    refused(&magic, header(0, ErrorKind::Magic(0)), Errno::EINVAL);
    let foreign = sample(Version::V3, Abi::Aarch64);
    let kind = ErrorKind::Arch { found: Abi::Aarch64, wanted: "x86_64" };
    refused(&foreign, header(4, kind), Errno::EINVAL);
    let old = sample(Version::V2, Abi::Amd64);
    refused(&old, RegisterError::Version(Version::V2), Errno::EINVAL);
    refused(&Section { flags: 4, ..v3() }, RegisterError::NotSorted, Errno::EINVAL);
    refused(&Section { flags: 1, ..v3() }, RegisterError::NotPcRelative, Errno::EINVAL);
    let auxiliary = Section { auxiliary: vec![0; 4], ..v3() };
    refused(&auxiliary, RegisterError::Auxiliary, Errno::EINVAL);
    let no_functions = Section { functions: Vec::new(), ..v3() };
    refused(&no_functions, RegisterError::Empty, Errno::EINVAL);
    let no_rows = Section { functions: vec![Fun::new(0x1000, 8, &[])], ..v3() };
    refused(&no_rows, RegisterError::Empty, Errno::EINVAL);
    // Mapped, but not readable.
    let (mut registry, mut process) = (empty(), Process::new(&v3()));
    process.0.bytes.truncate(20);
    let error = registry.register(AT..AT + 0x400, TEXT, &mut process).unwrap_err();
    assert_eq!((error, error.errno()), (header(0, ErrorKind::Unreadable), Errno::EFAULT));
}

#[test]
fn older_revisions_took_version_2() {
    let policy = Policy { versions: &[Version::V2], pc_relative: false, ..Policy::default() };
    let mut registry = Registry::new(Arch::X86_64, policy);
    let mut process = Process::new(&sample(Version::V2, Abi::Amd64));
    assert_eq!(registry.register(process.section(), TEXT, &mut process), Ok(()));
    let Ok(Found::Row(row)) = registry.lookup(key(0x2003), &mut process) else { panic!() };
    assert_eq!(row.cfa, CfaRule::Register { register: 7, offset: 16 });
    let mut process = Process::new(&v3());
    let refused = registry.register(process.section(), 0x8000..0x9000, &mut process);
    assert_eq!(refused, Err(RegisterError::TextMapping));
    let refused = registry.register(process.section(), 0x7000..0x8000, &mut process);
    assert_eq!(refused, Err(RegisterError::Version(Version::V3)));
}

#[test]
fn texts_do_not_overlap_and_memory_is_limited() {
    let (mut registry, mut process) = (
        Registry::new(Arch::X86_64, Policy { max_sections: 3, ..Policy::default() }),
        Process::new(&v3()),
    );
    let section = process.section();
    let mut register = |text| registry.register(section.clone(), text, &mut process);
    assert_eq!(register(0x2000..0x3000), Ok(()));
    for text in [0x1fff..0x2001, 0x2fff..0x3001, 0x2000..0x3000, 0x1000..0x4000, 0x2800..0x2900] {
        let error = register(text).unwrap_err();
        assert_eq!((error, error.errno()), (RegisterError::Exists, Errno::EEXIST));
    }
    assert_eq!((register(0x1000..0x2000), register(0x3000..0x4000)), (Ok(()), Ok(())));
    let error = register(0x5000..0x6000).unwrap_err();
    assert_eq!((error, error.errno()), (RegisterError::NoMemory, Errno::ENOMEM));
    assert_eq!(registry.len(), 3);
}

#[test]
fn a_section_is_unregistered_for_all_its_texts() {
    let (mut registry, mut process) = (empty(), Process::new(&v3()));
    for text in [0x1000..0x2000, 0x2000..0x3000] {
        registry.register(process.section(), text, &mut process).unwrap();
    }
    assert_eq!(registry.unregister(AT + 8), Err(NotRegistered(AT + 8)));
    assert_eq!((registry.len(), registry.unregister(AT)), (2, Ok(())));
    assert!(registry.is_empty());
    assert_eq!(registry.unregister(AT).map_err(NotRegistered::errno), Err(Errno::EINVAL));
}

/// The lookup of `pc` fails by `kind`, and the section is gone.
#[track_caller]
fn dropped((mut registry, mut process): (Registry, Process), pc: u64, kind: ErrorKind) {
    match registry.lookup(key(pc), &mut process) {
        Err(LookupError::Fault(error)) => assert_eq!(error.kind, kind),
        other => panic!("{other:?}"),
    }
    assert!(registry.is_empty());
    assert_eq!(registry.lookup(key(pc), &mut process), Err(LookupError::NoSection));
}

#[test]
fn a_fault_removes_the_section() {
    let (registry, mut process) = registered(&v3());
    process.0.bytes.clear();
    dropped((registry, process), 0x2000, ErrorKind::Unreadable);
    assert_eq!(
        LookupError::Fault(Error { offset: 0, kind: ErrorKind::Unreadable }).errno(),
        Errno::EFAULT
    );
    // The functions were swapped since.
    let (registry, mut process) = registered(&v3());
    let mut swapped = v3();
    swapped.functions.swap(0, 3);
    process.0.bytes = Section { address: AT, ..swapped }.build();
    dropped((registry, process), 0x1000, ErrorKind::Unsorted { index: 0 });
    // A function that is not in the text.
    let (mut registry, mut process) = (empty(), Process::new(&v3()));
    registry.register(process.section(), 0x2040..0x8000, &mut process).unwrap();
    dropped((registry, process), 0x2041, ErrorKind::NotCode { start: 0x2000 });
    // Rows that start together, which are read elsewhere.
    let row: &[(u8, u8, &[i8])] = &[(0, 1, &[8]), (4, 1, &[16]), (4, 1, &[24])];
    let equal = Section::new(Version::V3, Abi::Amd64, vec![Fun::new(0x1000, 8, row)]);
    dropped(registered(&equal), 0x1004, ErrorKind::RowOrder { start: 4, lowest: 5 });
    let word = v3();
    let rows_at = 28 + 16 * word.functions.len();
    let word = word.patch(rows_at + 5 + 1, &[0x67]);
    dropped(registered(&word), 0x1000, ErrorKind::WordSize);
}
