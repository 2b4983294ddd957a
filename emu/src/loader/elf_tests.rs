//! Tests of [`super`]: crafted files, real files, truncation and mutation.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::loader::crafted::{BUILD_ID, Elf, NOTE_AT, Ph};
use crate::loader::fuzz::fuzz_elf;

const X86: Arch = Arch::X86_64;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/elf")
}

fn error(elf: &Elf) -> LoadError {
    parse(&elf.build()).unwrap_err()
}

/// The sound program with one program header changed.
fn with(index: usize, change: impl FnOnce(&mut Ph)) -> Elf {
    let mut elf = Elf::exec(X86);
    change(&mut elf.phdrs[index]);
    elf
}

#[test]
fn a_sound_program_is_read_completely() {
    for arch in Arch::ALL {
        let image = parse(&Elf::exec(arch).build()).unwrap();
        assert_eq!((image.arch, image.kind, image.entry), (arch, Kind::Exec, 0x40_1300));
        assert_eq!((image.phdr_vaddr, image.phnum, image.phentsize), (Some(0x40_0040), 10, 56));
        assert_eq!((image.load_min, image.load_max, image.span()), (0x40_0000, 0x40_3b10, 0x4000));
        let rights: Vec<_> = image.segments.iter().map(|s| (s.read, s.write, s.execute)).collect();
        assert_eq!(rights, [(true, false, false), (true, false, true), (true, true, false)]);
        assert_eq!(image.build_id.as_deref(), Some(&BUILD_ID[..]));
        assert!(!image.exec_stack);
        for span in [image.relro, image.tls, image.eh_frame_hdr, image.sframe] {
            assert!(span.is_some_and(|s| s.filesz != 0));
        }
        let pie = parse(&Elf::pie(arch).build()).unwrap();
        assert_eq!((pie.kind, pie.entry, pie.load_min), (Kind::Pie, 0x1300, 0));
    }
}

#[test]
fn the_oddities_that_linux_takes_are_taken() {
    // Segments in any order, several in one page, no file part at any offset, odd p_align.
    let mut elf = with(2, |p| (p.filesz, p.offset, p.align) = (0, 0xdead_beef, 3));
    elf.phdrs.truncate(3);
    elf.phdrs.swap(0, 2);
    elf.phdrs.push(Ph::load(0x300, 0x40_4300, 8, 4));
    elf.phdrs.push(Ph::load(0x308, 0x40_4308, 8, 6));
    // One without bytes, in no memory that is there.
    elf.phdrs.push(Ph::load(0x308, 0x40_5308, 0, 6));
    let image = parse(&elf.build()).unwrap();
    assert_eq!((image.segments.len(), image.alignment()), (5, 4096));
    let exec_stack = with(6, |p| p.flags |= 1);
    assert!(parse(&exec_stack.build()).unwrap().exec_stack);
    // Headers in no segment; alignment of a static-pie program.
    let mut elf = Elf::pie(X86);
    elf.phdrs.remove(0);
    elf.phdrs[0].align = 0x20_0000;
    let image = parse(&elf.build()).unwrap();
    assert_eq!((image.phdr_vaddr, image.alignment()), (None, 0x20_0000));
}

/// Every variant with its whole text: the messages are part of the interface.
#[test]
fn the_header_is_checked() {
    let base = || Elf::exec(X86);
    let cases = [
        (
            b"#!/bin/sh\n".to_vec(),
            "is a script (\"#!\" at offset 0x0): give the ELF program that interprets it as the guest and the script as its argument",
        ),
        (
            Vec::new(),
            "the file has 0 bytes and the ELF header (offset 0x0) needs 64: it is truncated or not ELF",
        ),
        (
            base().build()[..63].to_vec(),
            "the file has 63 bytes and the ELF header (offset 0x0) needs 64: it is truncated or not ELF",
        ),
        (
            b"MZ\x90\0".to_vec(),
            "e_ident[EI_MAG] (offset 0x0) is [4d, 5a, 90, 00] and not 7f 45 4c 46: not an ELF file; give a static Linux program",
        ),
        (
            Elf { class: 1, ..base() }.build(),
            "e_ident[EI_CLASS] (offset 0x4) is 1 (32-bit): only 64-bit programs (2) run; build for x86_64 or aarch64",
        ),
        (
            Elf { data: 2, ..base() }.build(),
            "e_ident[EI_DATA] (offset 0x5) is 2 (big-endian): only little-endian programs (1) run",
        ),
        (
            Elf { kind: 1, ..base() }.build(),
            "e_type (offset 0x10) is 1 (an object file: link it first): only executables (2) and static-pie programs (3) run",
        ),
        (
            Elf { kind: 4, ..base() }.build(),
            "e_type (offset 0x10) is 4 (a core dump): only executables (2) and static-pie programs (3) run",
        ),
        (
            Elf { machine: 8, ..base() }.build(),
            "e_machine (offset 0x12) is 8: only x86_64 (62) and aarch64 (183) run",
        ),
        (
            Elf { entry: 0, ..base() }.build(),
            "e_entry (offset 0x18) is 0x0, which is in no executable PT_LOAD: not a program (a shared library, perhaps)",
        ),
        (
            Elf { entry: 0x40_2310, ..base() }.build(),
            "e_entry (offset 0x18) is 0x402310, which is in no executable PT_LOAD: not a program (a shared library, perhaps)",
        ),
        (
            Elf { phoff: u64::MAX, ..base() }.build(),
            "e_phoff (offset 0x20) is 0xffffffffffffffff: 10 program headers do not fit into 800 bytes; the file is truncated",
        ),
        (
            Elf { shoff: u64::MAX - 8, shnum: 2, ..base() }.build(),
            "e_shoff (offset 0x28) is 0xfffffffffffffff7: 2 section headers do not fit into 800 bytes; the file is truncated",
        ),
        (
            Elf { phentsize: 32, ..base() }.build(),
            "e_phentsize (offset 0x36) is 32 and must be 56: the header is damaged",
        ),
        (
            Elf { phnum: Some(0), ..base() }.build(),
            "e_phnum (offset 0x38) is 0 and must be 1 to 1170: the header is damaged or this is not a program",
        ),
        (
            Elf { phnum: Some(0xffff), ..base() }.build(),
            "e_phnum (offset 0x38) is 65535 and must be 1 to 1170: the header is damaged or this is not a program",
        ),
        (
            Elf { phdrs: vec![Ph::other(4, 4, 0, 0, 0)], ..base() }.build(),
            "e_phnum (offset 0x38): none of 1 program headers is a PT_LOAD with bytes, nothing to load; this is not a program",
        ),
    ];
    for (bytes, text) in cases {
        let error = parse(&bytes).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.exit_code()), (text, 126));
    }
}

#[test]
fn the_segments_are_checked() {
    let cases = [
        (
            with(3, |p| p.kind = 3),
            "program header 3: PT_INTERP (offset 0xe8) asks for \"\\u{4}\": dynamically linked programs are not run yet; link with -static or -static-pie",
        ),
        (
            with(1, |p| p.memsz = 0),
            "program header 1: p_filesz (offset 0x98) 0x10 exceeds p_memsz 0x0: the program is damaged",
        ),
        (
            with(1, |p| p.filesz = 0x11),
            "program header 1: p_filesz (offset 0x98) 0x11 exceeds p_memsz 0x10: the program is damaged",
        ),
        (
            with(1, |p| (p.filesz, p.memsz) = (0x400, 0x400)),
            "program header 1: p_offset (offset 0x80) 0x300 with p_filesz 0x400 ends after the file's 800 bytes; the file is truncated",
        ),
        (
            with(1, |p| p.offset = 0xffff_ffff_ffff_f300),
            "program header 1: p_offset (offset 0x80) 0xfffffffffffff300 with p_filesz 0x10 ends after the file's 800 bytes; the file is truncated",
        ),
        (
            with(1, |p| p.vaddr += 1),
            "program header 1: p_offset (offset 0x80) 0x300 and p_vaddr 0x401301 differ modulo the page size 4096: relink the program",
        ),
        (
            with(1, |p| p.memsz = 1 << 60),
            "program header 1: p_vaddr (offset 0x88) 0x401300 with p_memsz 0x1000000000000000 leaves the address space, which ends at 0x7fffffffe000",
        ),
        (
            with(1, |p| p.vaddr = 0xffff_ffff_ffff_f300),
            "program header 1: p_vaddr (offset 0x88) 0xfffffffffffff300 with p_memsz 0x10 leaves the address space, which ends at 0x7fffffffe000",
        ),
        (
            with(1, |p| p.vaddr = 0xf300),
            "program header 1: p_vaddr (offset 0x88) 0xf300 is below vm.mmap_min_addr 0x10000: link the program higher",
        ),
        (
            with(1, |p| p.align = 1 << 60),
            "program header 1: p_align (offset 0xa8) 0x1000000000000000 exceeds the address space: relink the program",
        ),
        (
            with(1, |p| p.memsz = 0x1011),
            "program header 2: p_vaddr (offset 0xc0) 0x402310 lies inside the segment of program header 1: relink the program",
        ),
        (
            with(2, |p| p.memsz = MAX_SPAN),
            "program header 2: p_memsz (offset 0xd8) makes the program span 0x1000003000 bytes, more than the limit 0x1000000000",
        ),
    ];
    for (elf, text) in cases {
        assert_eq!(error(&elf).to_string(), text);
    }
    let mut dynamic = with(3, |p| p.kind = 3);
    dynamic.patches.push((NOTE_AT as usize, b"/lib64/ld-linux-x86-64.so.2\0".to_vec()));
    let LoadError::Interpreter { interpreter, .. } = error(&dynamic) else { panic!("{dynamic:?}") };
    assert_eq!(interpreter, "/lib64/ld-linux-x86-64.so.2");
}

#[test]
fn the_sections_must_lie_inside_the_file() {
    let section = |kind: u32, start: u64, size: u64| {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_le_bytes());
        bytes.resize(24, 0);
        bytes.extend(start.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.resize(64, 0);
        bytes
    };
    let with = |shnum, table: Vec<u8>| {
        let mut elf = Elf { shoff: 0x320, shnum, len: 0x320 + table.len(), ..Elf::exec(X86) };
        elf.patches.push((0x320, table));
        elf
    };
    let two = |s: Vec<u8>| [section(0, 0, 0), s].concat();
    assert!(parse(&with(2, two(section(1, 0x300, 0x20))).build()).is_ok());
    assert!(parse(&with(2, two(section(SHT_NOBITS, 0x300, u64::MAX))).build()).is_ok());
    let text = "section 1: sh_offset (offset 0x378) 0x300 with sh_size 0x1000 ends after the file's 928 bytes; the file is truncated";
    assert_eq!(error(&with(2, two(section(1, 0x300, 0x1000)))).to_string(), text);
    // e_shnum 0: the number is section 0's sh_size.
    assert!(parse(&with(0, [section(0, 0, 2), section(1, 0x300, 0x20)].concat()).build()).is_ok());
    for count in [3, u64::MAX / 64, u64::MAX] {
        let elf = with(0, [section(0, 0, count), section(1, 0x300, 0x20)].concat());
        assert_eq!(error(&elf), LoadError::ShOff { shoff: 0x320, shnum: count, len: 928 });
    }
}

/// The corpus of linked programs, as (name, bytes), sorted.
fn linked() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .filter(|(name, _)| name.starts_with("linked-"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 4, "two architectures, static and static-pie");
    files
}

#[test]
fn linked_programs_are_read() {
    for (name, bytes) in linked() {
        let image = parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(name.contains(image.arch.name()));
        assert_eq!(image.kind == Kind::Pie, name.contains("-pie"));
        assert_eq!(image.build_id.map(|id| id.len()), Some(20), "{name}");
        assert!(image.eh_frame_hdr.is_some_and(|s| s.bytes(&bytes).is_some()), "{name}");
        fuzz_elf(&bytes);
    }
}

#[test]
fn a_truncated_program_is_refused_wherever_it_ends() {
    for (name, bytes) in linked() {
        for len in (0..bytes.len().min(4096))
            .chain((4096..bytes.len()).step_by(61))
            .chain([bytes.len() - 1])
        {
            let error = parse(&bytes[..len]).expect_err(&name);
            assert_eq!(error.exit_code(), 126);
            assert!(error.to_string().contains("offset 0x"), "{name} cut to {len}: {error}");
        }
    }
}

#[test]
fn the_catalogue_of_guests_is_read() {
    for arch in Arch::ALL {
        let folder =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guests/bin").join(arch.name());
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let image = parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(image.arch, arch);
            fuzz_elf(&bytes);
            for part in 1..8 {
                assert!(parse(&bytes[..bytes.len() * part / 8]).is_err());
            }
        }
    }
}

/// The recipes of the corpus, by file name.
fn recipes() -> Vec<(&'static str, Elf)> {
    let mut dynamic = with(3, |p| p.kind = 3);
    dynamic.patches.push((NOTE_AT as usize, b"/lib/ld.so\0".to_vec()));
    vec![
        ("crafted-exec-x86_64", Elf::exec(X86)),
        ("crafted-exec-aarch64", Elf::exec(Arch::Aarch64)),
        ("crafted-pie-x86_64", Elf::pie(X86)),
        ("crafted-pie-aarch64", Elf::pie(Arch::Aarch64)),
        ("crafted-interpreter", dynamic),
        ("crafted-overlap", with(1, |p| p.memsz = 0x1011)),
        ("crafted-wrap", with(1, |p| p.vaddr = 0xffff_ffff_ffff_f300)),
        ("crafted-empty-segment", with(1, |p| p.memsz = 0)),
        ("crafted-huge", with(2, |p| p.memsz = 1 << 60)),
        ("crafted-many-headers", Elf { phnum: Some(1170), ..Elf::exec(X86) }),
    ]
}

#[test]
fn the_corpus_is_what_the_recipes_make() {
    for (name, elf) in recipes() {
        let (path, bytes) = (corpus().join(name), elf.build());
        if std::env::var_os("EMU_BLESS").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        let there = fs::read(&path).unwrap_or_default();
        assert!(
            there == bytes,
            "{} is not up to date: run the test with EMU_BLESS=1",
            path.display()
        );
    }
}

/// Marsaglia's xorshift64.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Changes `bytes` in a few places, most often in the headers and to values that
/// hurt.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    const EVIL: [u64; 9] =
        [0, 1, 0xfff, 0x1000, 1 << 47, 1 << 60, i64::MAX as u64, u64::MAX - 0xfff, u64::MAX];
    for _ in 0..=random.below(4) {
        let reach = if random.below(4) == 0 { bytes.len() } else { bytes.len().min(1024) };
        let at = random.below(reach);
        match random.below(6) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << random.below(8)),
            1 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..),
            width => {
                // A field: 2, 4 or 8 aligned bytes.
                let width = [2, 4, 8][width - 3];
                let value = EVIL[random.below(EVIL.len())].to_le_bytes();
                let field = bytes.iter_mut().skip(at / width * width).take(width);
                field.zip(value).for_each(|(b, v)| *b = v);
            }
        }
    }
}

#[test]
fn mutated_programs_neither_panic_nor_break_a_promise() {
    let files: Vec<Vec<u8>> = recipes()
        .into_iter()
        .map(|(_, elf)| elf.build())
        .chain(linked().into_iter().map(|(_, b)| b))
        .collect();
    let mut random = Xorshift(0x656d_7520_656c_6600);
    for _ in 0..20_000 {
        let mut bytes = files[random.below(files.len())].clone();
        mutate(&mut bytes, &mut random);
        fuzz_elf(&bytes);
    }
}
