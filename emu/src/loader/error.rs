//! Why a file cannot be run: one sentence with the field, its file offset, its
//! value and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use arch::Arch;

/// Why a file cannot be loaded as a program.
///
/// The text is one line and names no file: [`FileError`] puts the path in front.
/// Offsets are byte offsets into the file; field names are those of the ELF gABI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such file (`ENOENT`).
    #[error("no such file")]
    Missing,
    /// The path names a directory.
    #[error("is a directory: name a program file")]
    Directory,
    /// The path names a device, a pipe or a socket.
    #[error("is a {0}: name a regular file")]
    NotRegular(&'static str),
    /// The file exists and cannot be read; the text is the host's.
    #[error("cannot be read: {0}")]
    Unreadable(String),

    /// The file begins with `#!`.
    #[error(
        "is a script (\"#!\" at offset 0x0): give the ELF program that interprets it as the guest and the script as its argument"
    )]
    Script,
    /// The file ends inside the ELF header.
    #[error(
        "the file has {len} bytes and the ELF header (offset 0x0) needs 64: it is truncated or not ELF"
    )]
    ShortHeader {
        /// Size of the file in bytes.
        len: u64,
    },
    /// The magic number is wrong.
    #[error(
        "e_ident[EI_MAG] (offset 0x0) is {0:02x?} and not 7f 45 4c 46: not an ELF file; give a static Linux program"
    )]
    NotElf([u8; 4]),
    /// `e_ident[EI_CLASS]` is not `ELFCLASS64`.
    #[error("e_ident[EI_CLASS] (offset 0x4) is {0}{hint}: only 64-bit programs (2) run; build for x86_64 or aarch64", hint = if *.0 == 1 { " (32-bit)" } else { "" })]
    Class(u8),
    /// `e_ident[EI_DATA]` is not `ELFDATA2LSB`.
    #[error("e_ident[EI_DATA] (offset 0x5) is {0}{hint}: only little-endian programs (1) run", hint = if *.0 == 2 { " (big-endian)" } else { "" })]
    Endian(u8),
    /// `e_type` is neither `ET_EXEC` nor `ET_DYN`.
    #[error("e_type (offset 0x10) is {0}{hint}: only executables (2) and static-pie programs (3) run", hint = type_hint(*.0))]
    Type(u16),
    /// `e_machine` is neither `EM_X86_64` nor `EM_AARCH64`.
    #[error("e_machine (offset 0x12) is {0}: only x86_64 (62) and aarch64 (183) run")]
    Machine(u16),
    /// `e_phentsize` is not the size of `Elf64_Phdr`.
    #[error("e_phentsize (offset 0x36) is {0} and must be 56: the header is damaged")]
    PhEntSize(u16),
    /// `e_phnum` is zero or larger than Linux takes (64 KiB of headers).
    #[error(
        "e_phnum (offset 0x38) is {0} and must be 1 to 1170: the header is damaged or this is not a program"
    )]
    PhNum(u16),
    /// The program headers do not lie inside the file.
    #[error(
        "e_phoff (offset 0x20) is {phoff:#x}: {phnum} program headers do not fit into {len} bytes; the file is truncated"
    )]
    PhOff {
        /// `e_phoff`.
        phoff: u64,
        /// `e_phnum`.
        phnum: u16,
        /// Size of the file in bytes.
        len: u64,
    },
    /// The section headers do not lie inside the file.
    #[error(
        "e_shoff (offset 0x28) is {shoff:#x}: {shnum} section headers do not fit into {len} bytes; the file is truncated"
    )]
    ShOff {
        /// `e_shoff`.
        shoff: u64,
        /// `e_shnum`, or `sh_size` of section 0 when that is zero.
        shnum: u64,
        /// Size of the file in bytes.
        len: u64,
    },
    /// A section's bytes do not lie inside the file.
    #[error(
        "section {index}: sh_offset (offset {offset:#x}) {start:#x} with sh_size {size:#x} ends after the file's {len} bytes; the file is truncated"
    )]
    SectionEnd {
        /// Number of the section header.
        index: u64,
        /// File offset of `sh_offset`.
        offset: u64,
        /// `sh_offset`.
        start: u64,
        /// `sh_size`.
        size: u64,
        /// Size of the file in bytes.
        len: u64,
    },
    /// The program asks for a dynamic linker.
    #[error(
        "program header {index}: PT_INTERP (offset {offset:#x}) asks for {interpreter:?}: dynamically linked programs are not run yet; link with -static or -static-pie"
    )]
    Interpreter {
        /// Number of the program header.
        index: usize,
        /// File offset of its `p_type`.
        offset: u64,
        /// Path of the interpreter, cut to 64 bytes.
        interpreter: String,
    },
    /// No program header is a `PT_LOAD` that has bytes.
    #[error(
        "e_phnum (offset 0x38): none of {0} program headers is a PT_LOAD with bytes, nothing to load; this is not a program"
    )]
    NoSegments(u16),
    /// A segment has more bytes in the file than in memory.
    #[error(
        "program header {index}: p_filesz (offset {offset:#x}) {filesz:#x} exceeds p_memsz {memsz:#x}: the program is damaged"
    )]
    FileSize {
        /// Number of the program header.
        index: usize,
        /// File offset of `p_filesz`.
        offset: u64,
        /// `p_filesz`.
        filesz: u64,
        /// `p_memsz`.
        memsz: u64,
    },
    /// A segment's bytes do not lie inside the file.
    #[error(
        "program header {index}: p_offset (offset {offset:#x}) {start:#x} with p_filesz {filesz:#x} ends after the file's {len} bytes; the file is truncated"
    )]
    SegmentEnd {
        /// Number of the program header.
        index: usize,
        /// File offset of `p_offset`.
        offset: u64,
        /// `p_offset`.
        start: u64,
        /// `p_filesz`.
        filesz: u64,
        /// Size of the file in bytes.
        len: u64,
    },
    /// File offset and address differ within the page, so that the file cannot be mapped.
    #[error(
        "program header {index}: p_offset (offset {offset:#x}) {start:#x} and p_vaddr {vaddr:#x} differ modulo the page size 4096: relink the program"
    )]
    Congruence {
        /// Number of the program header.
        index: usize,
        /// File offset of `p_offset`.
        offset: u64,
        /// `p_offset`.
        start: u64,
        /// `p_vaddr`.
        vaddr: u64,
    },
    /// A segment wraps around or leaves the user's address space.
    #[error(
        "program header {index}: p_vaddr (offset {offset:#x}) {vaddr:#x} with p_memsz {memsz:#x} leaves the address space, which ends at {limit:#x}"
    )]
    OutOfSpace {
        /// Number of the program header.
        index: usize,
        /// File offset of `p_vaddr`.
        offset: u64,
        /// `p_vaddr`.
        vaddr: u64,
        /// `p_memsz`.
        memsz: u64,
        /// One past the last address that the segment may use.
        limit: u64,
    },
    /// A segment of a fixed-address program lies below `vm.mmap_min_addr`.
    #[error(
        "program header {index}: p_vaddr (offset {offset:#x}) {vaddr:#x} is below vm.mmap_min_addr 0x10000: link the program higher"
    )]
    TooLow {
        /// Number of the program header.
        index: usize,
        /// File offset of `p_vaddr`.
        offset: u64,
        /// `p_vaddr`.
        vaddr: u64,
    },
    /// `p_align` is larger than the address space.
    #[error(
        "program header {index}: p_align (offset {offset:#x}) {align:#x} exceeds the address space: relink the program"
    )]
    Alignment {
        /// Number of the program header.
        index: usize,
        /// File offset of `p_align`.
        offset: u64,
        /// `p_align`.
        align: u64,
    },
    /// Two segments share an address.
    #[error(
        "program header {index}: p_vaddr (offset {offset:#x}) {vaddr:#x} lies inside the segment of program header {other}: relink the program"
    )]
    Overlap {
        /// Number of the program header that begins inside the other.
        index: usize,
        /// File offset of its `p_vaddr`.
        offset: u64,
        /// Its `p_vaddr`.
        vaddr: u64,
        /// Number of the other program header.
        other: usize,
    },
    /// The segments span more memory than the modelled machine commits to.
    #[error(
        "program header {index}: p_memsz (offset {offset:#x}) makes the program span {span:#x} bytes, more than the limit {limit:#x}"
    )]
    Span {
        /// Number of the program header with the highest end.
        index: usize,
        /// File offset of its `p_memsz`.
        offset: u64,
        /// Bytes from the lowest to the highest page.
        span: u64,
        /// The largest span that is loaded.
        limit: u64,
    },
    /// The entry point lies in no executable segment.
    #[error(
        "e_entry (offset 0x18) is {0:#x}, which is in no executable PT_LOAD: not a program (a shared library, perhaps)"
    )]
    Entry(u64),
    /// A program lies where the stack must be, or leaves no room for the vDSO.
    #[error(
        "the segments' p_vaddr and p_align put the {arch} program at {start:#x}-{end:#x}, which leaves no room for the stack or the vDSO below {top:#x}: relink the program"
    )]
    NoRoom {
        /// The program's architecture.
        arch: Arch,
        /// First page of the program.
        start: u64,
        /// End of its last page.
        end: u64,
        /// Top of the stack.
        top: u64,
    },
}

/// What an unsuitable `e_type` means, for the message.
fn type_hint(e_type: u16) -> &'static str {
    match e_type {
        1 => " (an object file: link it first)",
        4 => " (a core dump)",
        _ => "",
    }
}

impl LoadError {
    /// The exit status for this error, as shells give it: 127 when there is no
    /// such file, 126 when it is there and cannot be run.
    pub fn exit_code(&self) -> u8 {
        match self {
            LoadError::Missing => 127,
            _ => 126,
        }
    }

    /// The error for a failed open, stat or read of the program file.
    pub fn from_io(error: &io::Error) -> LoadError {
        match error.kind() {
            io::ErrorKind::NotFound => LoadError::Missing,
            io::ErrorKind::IsADirectory => LoadError::Directory,
            _ => LoadError::Unreadable(error.to_string()),
        }
    }
}

/// A [`LoadError`] with the file that it is about; prints as `PATH: error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {source}", path = printable(.path))]
pub struct FileError {
    /// The program file as the user named it.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: LoadError,
}

impl FileError {
    /// See [`LoadError::exit_code`].
    pub fn exit_code(&self) -> u8 {
        self.source.exit_code()
    }
}

/// A path on one line: control characters are escaped, invalid UTF-8 is replaced.
fn printable(path: &Path) -> String {
    let mut line = String::new();
    for c in path.to_string_lossy().chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
