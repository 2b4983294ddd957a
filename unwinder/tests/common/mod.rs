//! A small assembler for call-frame information, and what all tests of tables need.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(dead_code, reason = "every test binary uses a part")]

pub mod guests;

use arch::Arch;
use unwinder::dwarf::{Context, Error, Section, Sections, Table, Warning};
use unwinder::row::{CfaRule, Miss, Row, Rule};
use unwinder::{CodeAddress, InstructionPointer, LookupAddress};

/// Where tests put `.eh_frame`, `.eh_frame_hdr` and code.
pub const FRAME: u64 = 0x40_0000;
pub const HEADER: u64 = 0x3f_0000;
pub const CODE: u64 = 0x10_0000;

/// DW_EH_PE_pcrel | sdata4, as all producers use.
pub const PCREL: u8 = 0x1b;

pub fn at(address: u64) -> LookupAddress {
    CodeAddress::from(InstructionPointer(address)).lookup()
}

pub fn uleb(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Bytes out of numbers and slices.
#[macro_export]
macro_rules! bytes {
    ($($part:expr),* $(,)?) => {{
        let mut all: Vec<u8> = Vec::new();
        $( all.extend_from_slice($part.as_ref()); )*
        all
    }};
}

/// A section under construction.
#[derive(Clone)]
pub struct Frame {
    pub arch: Arch,
    pub bytes: Vec<u8>,
    /// 64-bit DWARF lengths.
    pub wide: bool,
    /// `.debug_frame`
    pub debug: bool,
}

/// Parts of a common information entry.
#[derive(Clone, Copy)]
pub struct Cie<'a> {
    pub version: u8,
    pub augmentation: &'a str,
    /// The data of a `z` augmentation.
    pub data: &'a [u8],
    pub code_align: u64,
    pub data_align: i8,
    pub return_address: u8,
    pub instructions: &'a [u8],
}

impl Frame {
    pub fn new(arch: Arch) -> Frame {
        Frame { arch, bytes: Vec::new(), wide: false, debug: false }
    }

    pub fn debug(arch: Arch) -> Frame {
        Frame { debug: true, ..Frame::new(arch) }
    }

    fn entry(&mut self, id: impl FnOnce(usize) -> u64, contents: &[u8]) -> usize {
        let offset = self.bytes.len();
        let id_size = if self.wide && self.debug { 8 } else { 4 };
        let length = contents.len() + id_size;
        if self.wide {
            self.bytes.extend(u32::MAX.to_le_bytes());
            self.bytes.extend((length as u64).to_le_bytes());
        } else {
            self.bytes.extend((length as u32).to_le_bytes());
        }
        let id = id(self.bytes.len());
        self.bytes.extend(&id.to_le_bytes()[..id_size]);
        self.bytes.extend(contents);
        offset
    }

    pub fn cie(&mut self, cie: Cie<'_>) -> usize {
        let mut c = bytes![[cie.version], cie.augmentation, [0]];
        if self.debug && cie.version >= 4 {
            c.extend([8, 0]);
        }
        c.extend(uleb(cie.code_align));
        c.extend([cie.data_align as u8 & 0x7f, cie.return_address]);
        if cie.augmentation.starts_with('z') {
            c.extend(uleb(cie.data.len() as u64));
            c.extend(cie.data);
        }
        c.extend(cie.instructions);
        let id = if self.debug { u64::MAX } else { 0 };
        self.entry(|_| id, &c)
    }

    /// The CIE that compilers write: CFA = sp + 8 (0), return address at CFA - 8 (in x30).
    pub fn usual_cie(&mut self, augmentation: &str) -> usize {
        let (code_align, return_address, instructions): (_, _, &[u8]) = match self.arch {
            Arch::X86_64 => (1, 16, &[0x0c, 7, 8, 0x90, 1]),
            Arch::Aarch64 => (4, 30, &[0x0c, 31, 0]),
        };
        self.cie(Cie {
            version: 1,
            augmentation,
            data: if augmentation.contains('R') { &[PCREL] } else { &[] },
            code_align,
            data_align: -8,
            return_address,
            instructions,
        })
    }

    /// An FDE with pc-relative addresses (`.debug_frame`: absolute ones).
    pub fn fde(&mut self, cie: usize, start: u64, len: u64, instructions: &[u8]) -> usize {
        let lengths = if self.wide { 12 } else { 4 } + 4;
        let field = FRAME + (self.bytes.len() + lengths) as u64;
        let contents = match self.debug {
            true => bytes![start.to_le_bytes(), len.to_le_bytes(), instructions],
            false => bytes![
                (start.wrapping_sub(field) as u32).to_le_bytes(),
                (len as u32).to_le_bytes(),
                [0],
                instructions
            ],
        };
        let debug = self.debug;
        self.entry(|base| if debug { cie as u64 } else { (base - cie) as u64 }, &contents)
    }

    pub fn terminator(&mut self) {
        self.bytes.extend([0; 4]);
    }

    pub fn sections(&self) -> Sections<&[u8]> {
        match self.debug {
            true => Sections::DebugFrame { bytes: &self.bytes },
            false => eh_frame(&self.bytes, None),
        }
    }

    pub fn table(&self) -> (Table<&[u8]>, Vec<Warning>) {
        Table::new(self.arch, self.sections()).unwrap()
    }

    /// The row at `address` of a section that has no faults.
    pub fn row(&self, address: u64) -> Result<Row, Miss<Error>> {
        let (table, warnings) = self.table();
        assert_eq!(warnings, []);
        table.row(at(address), &mut Context::new())
    }
}

pub fn eh_frame<'a>(frame: &'a [u8], header: Option<&'a [u8]>) -> Sections<&'a [u8]> {
    Sections::EhFrame {
        frame: Section { address: FRAME, bytes: frame },
        header: header.map(|bytes| Section { address: HEADER, bytes }),
        text: None,
        got: None,
    }
}

/// A section with the usual CIE and one FDE at [`CODE`].
pub fn one(arch: Arch, instructions: &[u8]) -> Frame {
    one_of(arch, "zR", instructions)
}

pub fn one_of(arch: Arch, augmentation: &str, instructions: &[u8]) -> Frame {
    let mut frame = Frame::new(arch);
    let cie = frame.usual_cie(augmentation);
    frame.fde(cie, CODE, 0x100, instructions);
    frame
}

/// `.eh_frame_hdr` of `frame` with entries (first address, offset of the FDE), as linkers
/// write it: DW_EH_PE_datarel | sdata4.
pub fn header(frame: u64, entries: &[(u64, usize)]) -> Vec<u8> {
    let pointer = frame.wrapping_sub(HEADER + 4) as u32;
    let mut all = bytes![[1, PCREL, 3, 0x3b], pointer.to_le_bytes()];
    all.extend((entries.len() as u32).to_le_bytes());
    for &(start, fde) in entries {
        all.extend((start.wrapping_sub(HEADER) as u32).to_le_bytes());
        all.extend(((frame + fde as u64).wrapping_sub(HEADER) as u32).to_le_bytes());
    }
    all
}

/// `register + offset`
pub fn cfa(register: u8, offset: i64) -> CfaRule {
    CfaRule::Register { register, offset }
}

/// All rules of a row that are not silent.
pub fn rules(row: &Row) -> Vec<(u8, Rule)> {
    (0..).zip(row.rules).filter(|(_, rule)| *rule != Rule::Unmentioned).collect()
}
