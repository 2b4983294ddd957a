//! An assembler for sections, so that a test says what is in them.

use super::header::{Abi, Version};
use super::source::ByteOrder;

/// Address of a crafted section.
pub const ADDRESS: u64 = 0x40_0000;

/// A function to be written down.
#[derive(Clone, Debug)]
pub struct Fun {
    pub start: u64,
    pub size: u32,
    pub info: u8,
    /// Version 3: type.
    pub kind: u8,
    pub block: u8,
    /// Rows, as bytes.
    pub rows: Vec<Vec<u8>>,
}

impl Fun {
    /// One with one-byte starts: `(start, info, words of one byte)`.
    pub fn new(start: u64, size: u32, rows: &[(u8, u8, &[i8])]) -> Fun {
        let bytes = |&(start, info, words): &(u8, u8, &[i8])| {
            [start, info | (words.len() as u8) << 1]
                .into_iter()
                .chain(words.iter().map(|w| w.cast_unsigned()))
                .collect()
        };
        let rows = rows.iter().map(bytes).collect();
        Fun { start, size, info: 0, kind: 0, block: 0, rows }
    }

    pub fn info(mut self, info: u8) -> Fun {
        self.info = info;
        self
    }

    pub fn block(mut self, block: u8) -> Fun {
        self.block = block;
        self
    }

    pub fn kind(mut self, kind: u8) -> Fun {
        self.kind = kind;
        self
    }
}

/// A section to be written down.
#[derive(Clone, Debug)]
pub struct Section {
    pub version: Version,
    pub abi: Abi,
    pub flags: u8,
    pub fixed_fp: i8,
    pub fixed_ra: i8,
    pub auxiliary: Vec<u8>,
    /// Bytes between the headers and the functions, and between these and the rows.
    pub gaps: [usize; 2],
    pub address: u64,
    pub functions: Vec<Fun>,
    /// Bytes to change at last.
    pub patches: Vec<(usize, Vec<u8>)>,
}

impl Section {
    /// As the tools of the time write it.
    pub fn new(version: Version, abi: Abi, functions: Vec<Fun>) -> Section {
        Section {
            version,
            abi,
            flags: if version == Version::V3 { 5 } else { 1 },
            fixed_fp: 0,
            fixed_ra: if abi == Abi::Amd64 { -8 } else { 0 },
            auxiliary: Vec::new(),
            gaps: [0; 2],
            address: ADDRESS,
            functions,
            patches: Vec::new(),
        }
    }

    pub fn patch(mut self, at: usize, bytes: &[u8]) -> Section {
        self.patches.push((at, bytes.to_vec()));
        self
    }

    fn number(&self, value: u64, len: usize) -> Vec<u8> {
        match self.abi.order() {
            ByteOrder::Little => value.to_le_bytes()[..len].to_vec(),
            ByteOrder::Big => value.to_be_bytes()[8 - len..].to_vec(),
        }
    }

    pub fn build(&self) -> Vec<u8> {
        let (mut list, mut data) = (Vec::new(), Vec::new());
        let list_at = 28 + self.auxiliary.len() + self.gaps[0];
        for f in &self.functions {
            let field = list_at + list.len();
            let origin = self.address + if self.flags & 4 != 0 { field as u64 } else { 0 };
            let width = if self.version == Version::V3 { 8 } else { 4 };
            list.extend(self.number(f.start.wrapping_sub(origin), width));
            list.extend(self.number(f.size.into(), 4));
            list.extend(self.number(data.len() as u64, 4));
            match self.version {
                Version::V1 | Version::V2 => {
                    list.extend(self.number(f.rows.len() as u64, 4));
                    list.push(f.info);
                }
                Version::V3 => {
                    data.extend(self.number(f.rows.len() as u64, 2));
                    data.extend([f.info, f.kind, f.block]);
                }
            }
            if self.version == Version::V2 {
                list.extend([f.block, 0, 0]);
            }
            data.extend(f.rows.iter().flatten());
        }
        let mut bytes = self.number(0xdee2, 2);
        bytes.extend([self.version as u8, self.flags, self.abi as u8]);
        bytes.extend([self.fixed_fp.cast_unsigned(), self.fixed_ra.cast_unsigned()]);
        bytes.push(self.auxiliary.len() as u8);
        bytes.extend(self.number(self.functions.len() as u64, 4));
        bytes.extend(self.number(self.functions.iter().map(|f| f.rows.len() as u64).sum(), 4));
        bytes.extend(self.number(data.len() as u64, 4));
        bytes.extend(self.number(self.gaps[0] as u64, 4));
        let rows = self.gaps[0] + list.len() + self.gaps[1];
        bytes.extend(self.number(rows as u64, 4));
        bytes.extend(&self.auxiliary);
        bytes.extend(vec![0xee; self.gaps[0]]);
        bytes.extend(list);
        bytes.extend(vec![0xee; self.gaps[1]]);
        bytes.extend(data);
        for (at, patch) in &self.patches {
            bytes[*at..at + patch.len()].copy_from_slice(patch);
        }
        bytes
    }
}

/// The sections `sections` one behind the other, as lld leaves them.
pub fn concatenate(sections: &[Section]) -> Vec<u8> {
    let mut bytes = Vec::<u8>::new();
    for section in sections {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let address = section.address + bytes.len() as u64;
        bytes.extend(Section { address, ..section.clone() }.build());
    }
    bytes
}

/// A small section with something of everything that its version has.
pub fn sample(version: Version, abi: Abi) -> Section {
    let functions = match abi {
        Abi::Amd64 => amd64(version),
        _ => aarch64(version),
    };
    Section::new(version, abi, functions)
}

fn amd64(version: Version) -> Vec<Fun> {
    let mut functions = vec![
        Fun::new(0x1000, 16, &[(0, 1, &[16]), (6, 1, &[24])]).block(16),
        Fun::new(0x1010, 40, &[(0, 1, &[8]), (11, 1, &[16])]).info(0x10).block(16),
        Fun::new(0x2000, 0x80, &[(0, 1, &[8]), (1, 1, &[16, -16]), (4, 0, &[16, -16])]),
        wide(0x2100, 0x400),
    ];
    if version == Version::V3 {
        functions.push(flexible(0x3000));
        functions.push(Fun::new(0x3200, 9, &[]).info(0x80)); // trampoline
        functions.push(Fun::new(0x3210, 9, &[(0, 1, &[8])]).info(0x80));
        functions.push(Fun::new(0x3220, 32, &[])); // outermost
        functions.push(Fun::new(0x3240, 32, &[(0, 1, &[8]), (4, 1, &[])]));
    }
    functions
}

/// Starts of two bytes, words of two and four.
fn wide(start: u64, size: u32) -> Fun {
    let rows = vec![
        vec![0x00, 0x00, 0x03, 0x08],
        vec![0x10, 0x01, 0x23, 0x00, 0x10],
        vec![0x20, 0x02, 0x43, 0x00, 0x00, 0x10, 0x00],
    ];
    Fun { start, size, info: 1, kind: 0, block: 0, rows }
}

/// A function that realigns the stack, as gcc writes it: register 10 points at the arguments.
pub fn flexible(start: u64) -> Fun {
    let rows = vec![
        vec![0x00, 0x04, 0x39, 0x08],
        vec![0x05, 0x04, 0x51, 0x00],
        vec![0x11, 0x0a, 0x51, 0x00, 0x00, 0x33, 0x00],
        vec![0x26, 0x0a, 0x33, 0xd8, 0x00, 0x33, 0x00],
        vec![0xbc, 0x0a, 0x51, 0x00, 0x00, 0x33, 0x00],
        vec![0xcd, 0x0a, 0x39, 0x08, 0x00, 0x33, 0x00],
    ];
    Fun { start, size: 0xd0, info: 0, kind: 1, block: 0, rows }
}

fn aarch64(version: Version) -> Vec<Fun> {
    let mut functions = vec![
        Fun::new(0x1000, 12, &[(0, 1, &[0]), (4, 1, &[16, -8, -16]), (8, 1, &[0])]),
        Fun::new(0x1100, 64, &[(0, 1, &[0]), (4, 0x81, &[0]), (8, 0x80, &[32, -24, -32])])
            .info(0x20),
        Fun::new(0x1200, 32, &[(0, 1, &[0]), (8, 1, &[16, -16])]),
    ];
    if version == Version::V3 {
        functions.push(Fun::new(0x1300, 8, &[]).info(0x80));
        functions.push(Fun::new(0x1310, 8, &[(0, 1, &[])]));
    }
    functions
}
