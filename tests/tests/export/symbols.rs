//! The symbolizer over crafted, real and broken files.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arch::Arch;
use emu::perf::record::{CpuMode, KernelSymbol};
use emu::symbols::LookupAddress::{Instruction, Return};
use emu::symbols::{Image, LookupAddress, SourceFrame, Symbolizer};

use crate::cases::FUNCTIONS;
use crate::elf::{self, TEXT_ADDR, TEXT_OFFSET, TEXT_SIZE};
use crate::{dwarf, guests};

/// A process that maps the text of `bytes` where it was linked.
fn mapped(bytes: Vec<u8>) -> Symbolizer {
    let mut s = Symbolizer::new(&[]);
    let image = Arc::new(Image::from_bytes("/bin/x", bytes.into()));
    s.add_mapping(TEXT_ADDR, TEXT_SIZE, TEXT_OFFSET, image);
    s
}

fn name(s: &Symbolizer, at: LookupAddress) -> String {
    let frame = s.lookup(at, CpuMode::User);
    assert_eq!(frame.address, at.address());
    match (frame.function, frame.dso) {
        (Some(f), Some(dso)) => format!("{}+{:#x} {dso}", f.name, f.offset),
        (None, Some(dso)) => format!("? {dso}"),
        (None, None) => "?".into(),
        (Some(_), None) => panic!("a function without a file"),
    }
}

#[test]
fn instructions_and_return_addresses() {
    for arch in Arch::ALL {
        let s = mapped(elf::executable(arch.elf_machine(), &FUNCTIONS));
        assert_eq!(name(&s, Instruction(0x40_1040)), "main+0x0 /bin/x");
        assert_eq!(name(&s, Return(0x40_1040)), "_start+0x40 /bin/x");
        assert_eq!(name(&s, Return(0x40_1041)), "main+0x1 /bin/x");
        assert_eq!(name(&s, Instruction(0x40_1220)), "? /bin/x");
        assert_eq!(name(&s, Return(0x40_1000)), "?");
        assert_eq!(name(&s, Return(0)), "?");
        assert_eq!(name(&s, Instruction(u64::MAX)), "?");
    }
}

#[test]
fn later_mappings_replace_earlier_ones() {
    let image = |n: &str| Arc::new(Image::empty(n));
    let mut s = Symbolizer::new(&[]);
    s.add_mapping(0x1000, 0x4000, 0, image("old"));
    s.add_mapping(0x2000, 0x1000, 0, image("new"));
    let at = |s: &Symbolizer, a| name(s, Instruction(a));
    assert_eq!(at(&s, 0x1fff), "? old");
    assert_eq!(at(&s, 0x2000), "? new");
    assert_eq!(at(&s, 0x3000), "? old");
    assert_eq!(at(&s, 0x4fff), "? old");
    assert_eq!(at(&s, 0x5000), "?");
    let copy = s.clone();
    s.remove_mapping(0x1800, 0x2000);
    assert_eq!([at(&s, 0x17ff), at(&s, 0x1800), at(&s, 0x3800)], ["? old", "?", "? old"]);
    s.add_mapping(0, u64::MAX, 0, image("all"));
    s.add_mapping(5, 0, 0, image("nothing"));
    assert_eq!(at(&s, 0x1000), "? all");
    s.clear_mappings();
    assert_eq!([at(&s, 0x1000), at(&copy, 0x1000)], ["?", "? old"]);
}

/// The right part of a cut mapping keeps its file offsets.
#[test]
fn a_cut_mapping_keeps_its_offsets() {
    let mut s = mapped(elf::executable(62, &FUNCTIONS));
    s.remove_mapping(TEXT_ADDR, 0x1000 / 8);
    assert_eq!(name(&s, Instruction(0x40_1210)), "leaf+0x10 /bin/x");
    assert_eq!(name(&s, Instruction(0x40_11ff)), "?");
}

#[test]
fn kernel_symbols() {
    let symbol = |addr, len, n: &str| KernelSymbol { addr, len, name: n.into() };
    let base = 0xffff_ffff_8100_0000;
    let s = Symbolizer::new(&[symbol(base + 0x100, 0x10, "b"), symbol(base, 0x100, "a")]);
    let at = |a| {
        let f = s.lookup(a, CpuMode::Kernel).function;
        f.map_or("?".into(), |f| format!("{}+{:#x}", f.name, f.offset))
    };
    assert_eq!(at(Instruction(base + 0x100)), "b+0x0");
    assert_eq!(at(Return(base + 0x100)), "a+0x100");
    assert_eq!(at(Return(base + 0x110)), "b+0x10");
    assert_eq!(at(Instruction(base + 0x110)), "?");
    assert_eq!(at(Instruction(base - 1)), "?");
    assert_eq!(name(&s, Instruction(base)), "?", "a user address in the kernel's half");
}

fn source(s: &Symbolizer, at: LookupAddress) -> Vec<String> {
    let text = |f: SourceFrame| {
        let part = |x: Option<Arc<str>>| x.unwrap_or_else(|| "?".into());
        format!("{} {}:{}", part(f.function), part(f.file), f.line.unwrap_or(0))
    };
    s.source(at).into_iter().map(text).collect()
}

#[test]
fn lines_and_inlined_functions() {
    let s = mapped(elf::executable_with_debug(62, &FUNCTIONS, &dwarf::debug()));
    assert_eq!(source(&s, Instruction(TEXT_ADDR)), ["main main.c:10"]);
    assert_eq!(source(&s, Instruction(TEXT_ADDR + 0x40)), ["helper main.c:20", "main main.c:12"]);
    assert_eq!(source(&s, Return(TEXT_ADDR + 0x80)), ["helper main.c:20", "main main.c:12"]);
    assert_eq!(source(&s, Instruction(TEXT_ADDR + 0x80)), ["main main.c:13"]);
    assert_eq!(source(&s, Instruction(TEXT_ADDR + 0x200)), [""; 0]);
    assert_eq!(source(&mapped(elf::executable(62, &FUNCTIONS)), Instruction(TEXT_ADDR)), [""; 0]);
}

/// A small file must not cost much, whatever it refers to how often.
#[test]
fn hostile_debug_information() {
    let start = Instant::now();
    let deep = mapped(elf::executable_with_debug(62, &FUNCTIONS, &dwarf::nested(1_000_000)));
    assert_eq!(source(&deep, Instruction(TEXT_ADDR)), [""; 0]);
    let shallow = mapped(elf::executable_with_debug(62, &FUNCTIONS, &dwarf::nested(100)));
    assert_eq!(source(&shallow, Instruction(TEXT_ADDR)), ["main main.c:10"]);
    let shared =
        mapped(elf::executable_with_debug(62, &FUNCTIONS, &dwarf::shared(20_000, 500_000)));
    source(&shared, Instruction(TEXT_ADDR));
    source(&shared, Instruction(TEXT_ADDR + 0x50));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Looks up addresses all over a file that may be anything.
fn exercise(bytes: &[u8]) {
    let image = Image::from_bytes("x", bytes.into());
    let step = (bytes.len() / 16).max(1);
    for offset in (0..bytes.len() + step).step_by(step) {
        image.function(offset as u64);
        image.source(offset as u64);
    }
    image.function(TEXT_OFFSET + 0x44);
    image.source(TEXT_OFFSET + 0x44);
    image.source(u64::MAX);
}

/// A generator of pseudo-random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n as u64) as usize
    }
}

/// Changes some bytes, prefers small and extreme values, or cuts the file.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        bytes[at] = match random.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at] ^ 1 << random.below(8),
            _ => random.below(256) as u8,
        };
    }
    if random.below(8) == 0 {
        bytes.truncate(random.below(bytes.len()).max(1));
    }
}

#[test]
fn mutated_files_do_no_harm() {
    let crafted = elf::executable_with_debug(62, &FUNCTIONS, &dwarf::debug());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Bytes that are not text or padding matter: all headers and tables.
    let text = TEXT_OFFSET as usize..(TEXT_OFFSET + TEXT_SIZE) as usize;
    for _ in 0..5_000 {
        let mut head = crafted[..text.start].to_vec();
        head.truncate(0x300);
        let mut tail = crafted[text.end..].to_vec();
        if random.below(3) == 0 {
            mutate(&mut head, &mut random)
        } else {
            mutate(&mut tail, &mut random)
        }
        head.resize(text.end, 0);
        head.extend(tail);
        exercise(&head);
    }
    for (_, path) in guests::guests().into_iter().step_by(5) {
        let file = std::fs::read(&path).unwrap();
        if file.len() > 200_000 {
            continue;
        }
        for _ in 0..20 {
            let mut bytes = file.clone();
            (0..20).for_each(|_| mutate(&mut bytes, &mut random));
            exercise(&bytes);
        }
    }
    for n in 0..crafted.len().min(0x400) {
        exercise(&crafted[..n]);
    }
}

/// This test's own executable: large, with debug information of rustc.
#[test]
fn own_executable() {
    let path = std::env::current_exe().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let elf = goblin::elf::Elf::parse(&bytes).unwrap();
    let marker = elf.syms.iter().find(|s| {
        s.is_function()
            && elf.strtab.get_at(s.st_name).is_some_and(|n| n.contains("marker_function"))
    });
    let address = marker.unwrap().st_value;
    let segment = elf.program_headers.iter().find(|p| p.vm_range().contains(&(address as usize)));
    let segment = segment.unwrap();
    let offset = address - segment.p_vaddr + segment.p_offset;
    assert!(marker_function(1) == 3);

    let image = Image::from_bytes("me", bytes.into());
    let (name, distance) = image.function(offset).unwrap();
    assert_eq!((&*name, distance), ("export::symbols::marker_function", 0));
    let frames = image.source(offset);
    // Optimised code may begin with something inlined: the outermost frame is its own.
    let own = frames.last().unwrap();
    let file = own.file.clone().unwrap();
    assert!(Path::new(&*file).ends_with("tests/export/symbols.rs"), "{file}");
    assert!((MARKER_LINE..MARKER_LINE + 2).contains(&own.line.unwrap()), "{:?}", own.line);
}

const MARKER_LINE: u32 = line!() + 2;
#[inline(never)]
fn marker_function(n: u32) -> u32 {
    std::hint::black_box(n) + 2
}

/// The kernel puts a restorer's address where a return address would be: it is the
/// restorer's first byte, whatever function ends before it.
#[test]
fn restorers_are_named_though_nothing_calls_them() {
    let mut seen = 0;
    for (arch, path) in guests::guests() {
        let bytes = std::fs::read(&path).unwrap();
        let file = goblin::elf::Elf::parse(&bytes).unwrap();
        let restorers = ["__restore_rt", "__restore", "restore_rt", "sys_restore"];
        for symbol in &file.syms {
            let called = file.strtab.get_at(symbol.st_name).unwrap_or_default();
            if !restorers.contains(&called) || symbol.st_value == 0 {
                continue;
            }
            let mut s = Symbolizer::new(&[]);
            let image = Arc::new(Image::from_bytes("x", bytes.clone().into()));
            for p in file.program_headers.iter().filter(|p| p.is_executable()) {
                s.add_mapping(p.p_vaddr, p.p_memsz, p.p_offset, image.clone());
            }
            let found = name(&s, Return(symbol.st_value));
            assert!(found.contains("restore") && found.contains("+0x0 "), "{arch} {found}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}
