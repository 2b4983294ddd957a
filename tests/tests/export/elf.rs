//! Small ELF files, made of bytes: code, a symbol table, a build-id.

/// Where the code is, in the file and in memory.
pub const TEXT_OFFSET: u64 = 0x1000;
/// Virtual address of the code.
pub const TEXT_ADDR: u64 = 0x40_1000;
/// Bytes of code.
pub const TEXT_SIZE: u64 = 0x1000;
/// The build-id note's content.
pub const BUILD_ID: [u8; 20] = *b"emu export test 0123";

/// Sections of debug information: abbreviations, entries, lines.
#[derive(Default)]
pub struct Debug {
    pub abbrev: Vec<u8>,
    pub info: Vec<u8>,
    pub line: Vec<u8>,
}

/// An executable for `machine` with global functions `(name, address, size)`.
pub fn executable(machine: u16, functions: &[(&str, u64, u64)]) -> Vec<u8> {
    executable_with_debug(machine, functions, &Debug::default())
}

/// The same with debug information.
pub fn executable_with_debug(
    machine: u16,
    functions: &[(&str, u64, u64)],
    debug: &Debug,
) -> Vec<u8> {
    let mut b = vec![0; (TEXT_OFFSET + TEXT_SIZE) as usize];
    let mut strings = vec![0];
    let mut symbols = vec![0; 24];
    for &(name, addr, size) in functions {
        symbols.extend((strings.len() as u32).to_le_bytes());
        symbols.extend([0x12, 0, 2, 0]); // global function in section 2
        symbols.extend(addr.to_le_bytes());
        symbols.extend(size.to_le_bytes());
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    let mut note = Vec::new();
    for word in [4u32, 20, 3] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(BUILD_ID);
    b[0x200..0x200 + note.len()].copy_from_slice(&note);

    let names = b"\0.note.gnu.build-id\0.text\0.symtab\0.strtab\0.shstrtab\0\
        .debug_abbrev\0.debug_info\0.debug_line\0";
    let place = |b: &mut Vec<u8>, bytes: &[u8]| {
        b.resize(b.len().next_multiple_of(8), 0);
        let at = b.len() as u64;
        b.extend(bytes);
        (at, bytes.len() as u64)
    };
    let symtab = place(&mut b, &symbols);
    let strtab = place(&mut b, &strings);
    let shstrtab = place(&mut b, names);
    let abbrev = place(&mut b, &debug.abbrev);
    let info = place(&mut b, &debug.info);
    let line = place(&mut b, &debug.line);
    let sections = b.len().next_multiple_of(8);
    b.resize(sections, 0);
    let mut section = |name: u32, kind: u32, flags, addr, (at, size), link: u32, info: u32, ent| {
        b.extend(name.to_le_bytes());
        b.extend(kind.to_le_bytes());
        for x in [flags, addr, at, size] {
            b.extend(u64::to_le_bytes(x));
        }
        b.extend(link.to_le_bytes());
        b.extend(info.to_le_bytes());
        b.extend(u64::to_le_bytes(4));
        b.extend(u64::to_le_bytes(ent));
    };
    section(0, 0, 0, 0, (0, 0), 0, 0, 0);
    section(1, 7, 2, 0x40_0200, (0x200, note.len() as u64), 0, 0, 0);
    section(20, 1, 6, TEXT_ADDR, (TEXT_OFFSET, TEXT_SIZE), 0, 0, 0);
    section(26, 2, 0, 0, symtab, 4, 1, 24);
    section(34, 3, 0, 0, strtab, 0, 0, 0);
    section(42, 3, 0, 0, shstrtab, 0, 0, 0);
    section(52, 1, 0, 0, abbrev, 0, 0, 0);
    section(66, 1, 0, 0, info, 0, 0, 0);
    section(78, 1, 0, 0, line, 0, 0, 0);

    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend(2u16.to_le_bytes()); // ET_EXEC
    head.extend(machine.to_le_bytes());
    head.extend(1u32.to_le_bytes());
    for x in [TEXT_ADDR, 64, sections as u64] {
        head.extend(x.to_le_bytes());
    }
    head.extend(0u32.to_le_bytes());
    for x in [64u16, 56, 3, 64, 9, 5] {
        head.extend(x.to_le_bytes());
    }
    let mut segment = |kind: u32, flags: u32, at: u64, addr: u64, size: u64, align: u64| {
        head.extend(kind.to_le_bytes());
        head.extend(flags.to_le_bytes());
        for x in [at, addr, addr, size, size, align] {
            head.extend(x.to_le_bytes());
        }
    };
    segment(1, 4, 0, 0x40_0000, 0x1000, 0x1000);
    segment(1, 5, TEXT_OFFSET, TEXT_ADDR, TEXT_SIZE, 0x1000);
    segment(4, 4, 0x200, 0x40_0200, note.len() as u64, 4);
    b[..head.len()].copy_from_slice(&head);
    b
}
