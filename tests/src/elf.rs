//! Small crafted programs: an ELF header, program headers, code.

use std::path::{Path, PathBuf};

use arch::Arch;

/// Where the code of [`Elf::program`] is, in memory.
pub const CODE: u64 = 0x40_0000 + HEADERS;
/// Where its zeroed, writable data is.
pub const DATA: u64 = 0x60_0000;
/// Bytes of [`DATA`].
pub const DATA_SIZE: u64 = 0x1_0000;
/// Bytes before the code.
pub(crate) const HEADERS: u64 = 0x200;

/// `PT_LOAD`
pub const LOAD: u32 = 1;
/// `PT_INTERP`
pub const INTERP: u32 = 3;

/// A program header.
#[derive(Clone, Debug)]
pub struct Segment {
    /// `p_type`
    pub kind: u32,
    /// `p_flags`: 4 read, 2 write, 1 execute.
    pub flags: u32,
    /// `p_offset`
    pub offset: u64,
    /// `p_vaddr`
    pub vaddr: u64,
    /// `p_filesz`
    pub filesz: u64,
    /// `p_memsz`
    pub memsz: u64,
}

/// A file in the making; every field can be spoilt.
#[derive(Clone, Debug)]
pub struct Elf {
    /// `e_ident[EI_CLASS]`: 2 is 64-bit.
    pub class: u8,
    /// `e_ident[EI_DATA]`: 1 is little-endian.
    pub data: u8,
    /// `e_type`: 2 is an executable.
    pub kind: u16,
    /// `e_machine`
    pub machine: u16,
    /// `e_entry`
    pub entry: u64,
    /// Program headers.
    pub segments: Vec<Segment>,
    /// What follows the headers, from offset 0x200 on.
    pub code: Vec<u8>,
}

impl Elf {
    /// A program that begins with the first byte of `code`.
    pub fn program(arch: Arch, code: &[u8]) -> Elf {
        let machine = match arch {
            Arch::X86_64 => 62,
            Arch::Aarch64 => 183,
        };
        let size = HEADERS + code.len() as u64;
        let text = Segment {
            kind: LOAD,
            flags: 5,
            offset: 0,
            vaddr: 0x40_0000,
            filesz: size,
            memsz: size,
        };
        let data =
            Segment { kind: LOAD, flags: 6, offset: 0, vaddr: DATA, filesz: 0, memsz: DATA_SIZE };
        Elf {
            class: 2,
            data: 1,
            kind: 2,
            machine,
            entry: CODE,
            segments: vec![text, data],
            code: code.to_vec(),
        }
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut b = vec![0x7f, b'E', b'L', b'F', self.class, self.data, 1];
        b.resize(16, 0);
        b.extend(self.kind.to_le_bytes());
        b.extend(self.machine.to_le_bytes());
        b.extend(1u32.to_le_bytes());
        for word in [self.entry, 64, 0] {
            b.extend(word.to_le_bytes());
        }
        b.extend(0u32.to_le_bytes());
        for half in [64, 56, self.segments.len() as u16, 64, 0, 0] {
            b.extend(half.to_le_bytes());
        }
        for s in &self.segments {
            b.extend(s.kind.to_le_bytes());
            b.extend(s.flags.to_le_bytes());
            for word in [s.offset, s.vaddr, s.vaddr, s.filesz, s.memsz, 0x1000] {
                b.extend(word.to_le_bytes());
            }
        }
        b.resize(HEADERS as usize, 0);
        b.extend(&self.code);
        b
    }

    /// Writes the file, executable, as `dir/name`.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, dir: &Path, name: &str) -> PathBuf {
        write(dir, name, &self.bytes())
    }
}

/// Writes an executable file `dir/name`.
///
/// # Panics
///
/// If it cannot be written.
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    let set = std::fs::write(&path, bytes)
        .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)));
    set.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    path
}

/// A64 code from its words.
pub fn words(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Code that runs for ever.
pub fn endless(arch: Arch) -> Vec<u8> {
    match arch {
        // jmp .
        Arch::X86_64 => vec![0xeb, 0xfe],
        // b .
        Arch::Aarch64 => words(&[0x1400_0000]),
    }
}

/// Code that exits with a random byte as its status.
pub fn exit_with_random_byte(arch: Arch) -> Vec<u8> {
    match arch {
        // mov edi, DATA; mov esi, 1; xor edx, edx; mov eax, 318 (getrandom); syscall
        // movzx edi, byte [DATA]; mov eax, 231 (exit_group); syscall
        Arch::X86_64 => {
            b"\xbf\x00\x00\x60\x00\xbe\x01\x00\x00\x00\x31\xd2\xb8\x3e\x01\x00\x00\x0f\x05\
            \x0f\xb6\x3c\x25\x00\x00\x60\x00\xb8\xe7\x00\x00\x00\x0f\x05"
                .to_vec()
        }
        // movz x0, #0x60, lsl #16; mov x19, x0; mov x1, #1; mov x2, #0; mov x8, #278; svc #0
        // ldrb w0, [x19]; mov x8, #94; svc #0
        Arch::Aarch64 => words(&[
            0xd2a0_0c00,
            0xaa00_03f3,
            0xd280_0021,
            0xd280_0002,
            0xd280_22c8,
            0xd400_0001,
            0x3940_0260,
            0xd280_0bc8,
            0xd400_0001,
        ]),
    }
}

/// x86_64 code that copies 20,000 bytes with `rep movsb` and exits: 7 instructions.
pub fn copy_with_rep() -> Vec<u8> {
    // mov esi, CODE page; mov edi, DATA; mov ecx, 20000 (past the end of the text: no)
    // The source is the data itself, 0x8000 bytes further.
    let mut code = Vec::new();
    code.extend(b"\xbe\x00\x80\x60\x00"); // mov esi, DATA + 0x8000
    code.extend(b"\xbf\x00\x00\x60\x00"); // mov edi, DATA
    code.extend(b"\xb9\x20\x4e\x00\x00"); // mov ecx, 20000
    code.extend(b"\xf3\xa4"); // rep movsb
    code.extend(b"\x31\xff"); // xor edi, edi
    code.extend(b"\xb8\xe7\x00\x00\x00"); // mov eax, 231 (exit_group)
    code.extend(b"\x0f\x05"); // syscall
    code
}
