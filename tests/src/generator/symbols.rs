//! Adds a symbol table to a file.

/// `file` with section headers and a symbol of type FUNC for each of `functions`, names with
/// ascending addresses; each ends where the next one starts, the last at `end`.
pub(super) fn with_symbols<'a>(
    mut file: Vec<u8>,
    functions: impl Iterator<Item = (&'a str, u64)>,
    end: u64,
) -> Vec<u8> {
    let functions: Vec<_> = functions.collect();
    let ends = functions.iter().skip(1).map(|f| f.1).chain([end]);
    let (mut symtab, mut strtab) = (vec![0; 24], vec![0]);
    for (&(name, start), end) in functions.iter().zip(ends) {
        symtab.extend((strtab.len() as u32).to_le_bytes());
        symtab.extend([0x12, 0, 0xf1, 0xff]); // STB_GLOBAL, STT_FUNC; SHN_ABS
        symtab.extend(start.to_le_bytes());
        symtab.extend((end - start).to_le_bytes());
        strtab.extend(name.as_bytes());
        strtab.push(0);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    let symtab_at = file.len() as u64;
    file.extend(&symtab);
    let strtab_at = file.len() as u64;
    file.extend(&strtab);
    file.resize(file.len().next_multiple_of(8), 0);
    let headers = file.len() as u64;
    let mut section = |kind: u32, offset: u64, size: usize, link: u32, info: u32, entry: u64| {
        file.extend(0u32.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [0, 0, offset, size as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(link.to_le_bytes());
        file.extend(info.to_le_bytes());
        file.extend(8u64.to_le_bytes());
        file.extend(entry.to_le_bytes());
    };
    section(0, 0, 0, 0, 0, 0);
    section(2, symtab_at, symtab.len(), 2, 1, 24);
    section(3, strtab_at, strtab.len(), 0, 0, 0);
    file[40..48].copy_from_slice(&headers.to_le_bytes()); // e_shoff
    file[60..62].copy_from_slice(&3u16.to_le_bytes()); // e_shnum
    file
}
