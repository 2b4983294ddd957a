//! A tiny ELF assembler for tests: files as readable recipes, any field of which
//! can be made wrong.

use arch::Arch;

/// One program header.
#[derive(Clone, Copy, Debug)]
pub struct Ph {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub vaddr: u64,
    pub filesz: u64,
    pub memsz: u64,
    pub align: u64,
}

impl Ph {
    /// A `PT_LOAD` of `size` bytes in file and memory; flags as `PF_X | PF_W | PF_R`.
    pub fn load(offset: u64, vaddr: u64, size: u64, flags: u32) -> Ph {
        Ph { kind: 1, flags, offset, vaddr, filesz: size, memsz: size, align: 0x1000 }
    }

    /// Any other header over `size` bytes of the file.
    pub fn other(kind: u32, flags: u32, offset: u64, vaddr: u64, size: u64) -> Ph {
        Ph { kind, align: 4, ..Ph::load(offset, vaddr, size, flags) }
    }
}

/// One file: header fields, program headers and patches over a zeroed body.
#[derive(Clone, Debug)]
pub struct Elf {
    pub class: u8,
    pub data: u8,
    pub kind: u16,
    pub machine: u16,
    pub entry: u64,
    pub phoff: u64,
    pub shoff: u64,
    pub phentsize: u16,
    /// `e_phnum`, when it shall differ from the number of program headers.
    pub phnum: Option<u16>,
    pub shnum: u16,
    pub phdrs: Vec<Ph>,
    /// (file offset, bytes) written over everything else, in order.
    pub patches: Vec<(usize, Vec<u8>)>,
    /// Size of the file.
    pub len: usize,
}

/// Where [`Elf::exec`] puts its build-id note, and the note.
pub const NOTE_AT: u64 = 0x280;
pub const BUILD_ID: [u8; 20] = *b"build-id build-id 20";

fn note() -> Vec<u8> {
    let mut note = Vec::new();
    for word in [4u32, 20, 3] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(BUILD_ID);
    note
}

impl Elf {
    /// A sound fixed-address program: headers, note, code, data with bss; all the
    /// headers that the parser reads.
    pub fn exec(arch: Arch) -> Elf {
        Elf { kind: 2, ..Elf::at(arch, 0x40_0000) }
    }

    /// The same as static-pie.
    pub fn pie(arch: Arch) -> Elf {
        Elf { kind: 3, ..Elf::at(arch, 0) }
    }

    /// All segments share the file's first page, so that the file stays small.
    fn at(arch: Arch, base: u64) -> Elf {
        let data = Ph { memsz: 0x1800, ..Ph::load(0x310, base + 0x2310, 0x10, 6) };
        Elf {
            class: 2,
            data: 1,
            kind: 0,
            machine: arch.elf_machine(),
            entry: base + 0x1300,
            phoff: 64,
            shoff: 0,
            phentsize: 56,
            phnum: None,
            shnum: 0,
            phdrs: vec![
                Ph::load(0, base, 0x300, 4),
                Ph::load(0x300, base + 0x1300, 0x10, 5),
                data,
                Ph::other(4, 4, NOTE_AT, base + NOTE_AT, 36),
                Ph::other(7, 4, 0x310, base + 0x2310, 8),
                Ph::other(0x6474_e550, 4, 0x2b0, base + 0x2b0, 0x10),
                Ph::other(0x6474_e551, 6, 0, 0, 0),
                Ph::other(0x6474_e552, 4, 0x310, base + 0x2310, 0x10),
                Ph::other(0x6474_e553, 4, 0x2c0, base + 0x2c0, 0x10),
                Ph::other(0x6474_e554, 4, 0x2d0, base + 0x2d0, 0x10),
            ],
            patches: vec![(NOTE_AT as usize, note())],
            len: 0x320,
        }
    }

    /// The file.
    pub fn build(&self) -> Vec<u8> {
        let mut file = vec![0; self.len];
        let mut header = b"\x7fELF".to_vec();
        header.extend([self.class, self.data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        header.extend(self.kind.to_le_bytes());
        header.extend(self.machine.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        for word in [self.entry, self.phoff, self.shoff] {
            header.extend(word.to_le_bytes());
        }
        header.extend(0u32.to_le_bytes());
        let phnum = self.phnum.unwrap_or(self.phdrs.len() as u16);
        for half in [64, self.phentsize, phnum, 64, self.shnum, 0] {
            header.extend(half.to_le_bytes());
        }
        put(&mut file, 0, &header);
        for (i, p) in self.phdrs.iter().enumerate() {
            let mut bytes = Vec::new();
            bytes.extend(p.kind.to_le_bytes());
            bytes.extend(p.flags.to_le_bytes());
            for word in [p.offset, p.vaddr, p.vaddr, p.filesz, p.memsz, p.align] {
                bytes.extend(word.to_le_bytes());
            }
            put(&mut file, (self.phoff as usize).saturating_add(56 * i), &bytes);
        }
        for (at, bytes) in &self.patches {
            put(&mut file, *at, bytes);
        }
        file
    }
}

/// Writes what fits: a recipe may put things past the end on purpose.
fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(room) = file.get_mut(at..) {
        let n = bytes.len().min(room.len());
        room[..n].copy_from_slice(&bytes[..n]);
    }
}
