//! Tests of [`super`].

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::ops::Range;

use arch::Arch;

use super::*;
use crate::memory::Copied;
use crate::sframe::Version;
use crate::sframe::crafted::{Section, sample};
use crate::sframe::header::Abi;
use crate::sframe::registry::{Mapping, Mappings, Policy};
use crate::{InterruptedAddress, ReturnAddress};

#[test]
fn without_sections_it_is_the_walk_of_7_3() {
    let words: [u64; 6] = [0x1010, 0x40_1000, 0x1020, 0x40_2000, 0, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut regs = Regs::new(Arch::X86_64);
    (regs.pc, regs.gp[Arch::X86_64.fp()]) = (0x40_0000, 0x1000);
    regs.set_sp(0x1000);
    let mut memory = Copied { address: 0x1000, bytes };
    let mut registry = Registry::new(Arch::X86_64, Policy::default());
    let mut found = Vec::new();
    walk(&mut registry, &regs, 99, &mut memory, &mut |ip| found.push(ip));
    let mut expected = Vec::new();
    let state = unwind_user::State::start(&regs, false).unwrap();
    unwind_user::walk(state, 99, &mut memory, &mut |ip| expected.push(ip));
    assert_eq!(found, expected);
    assert_eq!(found, [0x40_0000, 0x40_1000, 0x40_2000, 0]);
    let mut first = 0;
    assert_eq!(walk(&mut registry, &regs, 2, &mut memory, &mut |_| first += 1), End::Limit);
    assert_eq!(first, 2);
}

/// A process: pieces of memory, of which the first is the section or the program.
struct Process(Vec<Copied<Vec<u8>>>);

impl Memory for Process {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.iter_mut().any(|piece| piece.read(address, bytes))
    }
}

/// All of it is mapped, and may be executed.
impl Mappings for Process {
    fn mapping(&self, _: u64) -> Option<Mapping> {
        Some(Mapping { range: 1..u64::MAX, executable: true })
    }
}

const STACK: u64 = 0x7000;

/// Sixteen words, each with its own value; frame records lead upwards.
fn stack() -> Copied<Vec<u8>> {
    let word = |n: u64| if n.is_multiple_of(2) { STACK + 8 * (n + 2) } else { 0x40_0000 + n };
    let bytes = (0..16).flat_map(|n| word(n).to_le_bytes()).collect();
    Copied { address: STACK, bytes }
}

/// A thread whose other register, 10, points into its stack as well.
fn registers(arch: Arch) -> Registers {
    let mut regs = Regs::new(arch);
    regs.set_sp(STACK);
    regs.gp[arch.fp()] = STACK + 32;
    regs.gp[10] = STACK + 64;
    Registers::of_thread(&regs)
}

const AT: u64 = 0x10_0000;
const TEXT: Range<u64> = 0x1000..0x8000;

fn crafted() -> (Registry, Process) {
    let section = Section { address: AT, ..sample(Version::V3, Abi::Amd64) };
    let section = Copied { address: AT, bytes: section.build() };
    let range = AT..AT + section.bytes.len() as u64;
    let mut process = Process(vec![section, stack()]);
    let mut registry = Registry::new(Arch::X86_64, Policy::default());
    registry.register(range, TEXT, &mut process).unwrap();
    (registry, process)
}

/// The caller's address and stack pointer by one step, and those by the frame record.
fn steps(address: CodeAddress) -> [Option<(u64, Option<u64>)>; 2] {
    let (mut registry, mut process) = crafted();
    let registers = registers(Arch::X86_64);
    let caller = |c: Caller| (c.address.value(), c.registers.sp());
    let found = step(&mut registry, address, &registers, &mut process).ok().map(caller);
    [found, unwind_user::step(&registers, &mut process).ok().map(caller)]
}

#[test]
fn a_row_is_applied() {
    let [found, by_record] = steps(InstructionPointer(0x1000).into());
    // cfa = sp + 16
    assert_eq!(found, Some((0x40_0001, Some(STACK + 16))));
    assert_ne!(found, by_record);
}

#[test]
fn a_row_with_another_register_is_for_the_topmost_frame() {
    // cfa = r10
    let [found, by_record] = steps(InstructionPointer(0x3006).into());
    assert_eq!(found, Some((0x40_0007, Some(STACK + 64))));
    for address in [ReturnAddress(0x3007).into(), InterruptedAddress(0x3006).into()] {
        assert_eq!(steps(address), [by_record; 2]);
    }
}

/// The walk begins at a topmost frame.
#[test]
fn a_walk_begins_with_all_registers() {
    let (mut registry, mut process) = crafted();
    let mut regs = Regs::new(Arch::X86_64);
    regs.pc = 0x3006;
    regs.set_sp(STACK);
    regs.gp[Arch::X86_64.fp()] = STACK + 32;
    regs.gp[10] = STACK + 64;
    let mut found = Vec::new();
    walk(&mut registry, &regs, 2, &mut process, &mut |ip| found.push(ip));
    assert_eq!(found, [0x3006, 0x40_0007]);
}

#[test]
fn a_trampoline_is_left_to_the_frame_record() {
    let [found, by_record] = steps(InstructionPointer(0x3200).into());
    assert!(found.is_some() && found == by_record, "{found:x?}");
}

/// What is present is walked as ever; an absent section or stack ends the walk, and the list stays.
#[test]
fn a_walk_of_what_is_present_ends_where_that_ends() {
    let mut regs = Regs::new(Arch::X86_64);
    regs.pc = 0x1000;
    regs.set_sp(STACK);
    regs.gp[Arch::X86_64.fp()] = STACK + 32;
    let walked = |registry: &Registry, process: &mut Process| {
        let mut found = Vec::new();
        let end = walk_present(registry, &regs, 99, process, &mut |ip| found.push(ip));
        (found, end)
    };
    let (mut registry, mut process) = crafted();
    let mut faultable = Vec::new();
    let end = walk(&mut registry, &regs, 99, &mut process, &mut |ip| faultable.push(ip));
    assert!(faultable.len() > 2, "{faultable:x?}");
    assert_eq!(walked(&registry, &mut process), (faultable, end));

    let stack = process.0.pop();
    let (found, end) = walked(&registry, &mut process);
    assert_eq!((found, end), (vec![0x1000], End::BadRead { address: STACK + 8 }));

    process.0 = stack.into_iter().collect();
    let (found, end) = walked(&registry, &mut process);
    assert_eq!(found, [0x1000], "no frame record is tried");
    assert!(matches!(end, End::Table(_)), "{end}");
    assert_eq!(registry.len(), 1);
    let mut later = Vec::new();
    walk(&mut registry, &regs, 99, &mut process, &mut |ip| later.push(ip));
    assert!(later.len() > 1 && registry.is_empty(), "{later:x?}");
}

#[test]
fn a_section_that_is_gone_is_dropped() {
    let (mut registry, mut process) = crafted();
    process.0.remove(0);
    let address = InstructionPointer(0x1000).into();
    let registers = registers(Arch::X86_64);
    let found = step(&mut registry, address, &registers, &mut process);
    assert_eq!(found, unwind_user::step(&registers, &mut process));
    assert!(registry.is_empty());
}

/// The policy of that name and the kernel's list say the same everywhere in programs of the
/// lab, from frames of each kind.
#[cfg(feature = "elf")]
#[test]
fn the_policy_is_the_same() {
    use goblin::elf::Elf;
    use goblin::elf::program_header::{PF_X, PT_LOAD};

    use crate::{Context, Module, Modules, unwind};

    for (arch, name) in [
        (Arch::X86_64, "lab-signals-v3"),
        (Arch::X86_64, "lab-recursion-v3"),
        (Arch::Aarch64, "lab-signals-v3"),
    ] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../guests/bin");
        let file = std::fs::read(format!("{folder}/{}/{name}", arch.name())).unwrap();
        let elf = Elf::parse(&file).unwrap();
        let loaded = elf.program_headers.iter().filter(|p| p.p_type == PT_LOAD);
        let pieces = loaded
            .clone()
            .map(|p| Copied { address: p.p_vaddr, bytes: file[p.file_range()].to_vec() });
        let mut process = Process(pieces.chain([stack()]).collect());
        let text = loaded.clone().find(|p| p.p_flags & PF_X != 0).unwrap();
        let text = text.p_vaddr..text.p_vaddr + text.p_memsz;
        let is_sframe = |at| elf.shdr_strtab.get_at(at) == Some(".sframe");
        let section = elf.section_headers.iter().find(|s| is_sframe(s.sh_name)).unwrap();
        let mut registry = Registry::new(arch, Policy::default());
        let section = section.sh_addr..section.sh_addr + section.sh_size;
        registry.register(section, text.clone(), &mut process).unwrap();
        let modules = Modules::new([Module::from_elf(name, &file[..], 0).unwrap()]);
        let (policy, mut context) = (crate::Policy::kernel_sframe(), Context::new());
        let registers = registers(arch);
        let mut by_row = 0;
        for pc in text {
            let kinds: [CodeAddress; 3] = [
                InstructionPointer(pc).into(),
                ReturnAddress(pc).into(),
                InterruptedAddress(pc).into(),
            ];
            for address in kinds {
                let listed = step(&mut registry, address, &registers, &mut process);
                let by_policy = unwind::step(
                    &policy,
                    &modules,
                    address,
                    &registers,
                    &mut process,
                    &mut context,
                );
                by_row += usize::from(listed != unwind_user::step(&registers, &mut process));
                assert_eq!(listed, by_policy.map(|u| u.caller), "{arch} {name} {address}");
            }
        }
        assert!(by_row > 100, "{arch} {name}: {by_row}");
    }
}
