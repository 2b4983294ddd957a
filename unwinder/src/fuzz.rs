//! The oracle that fuzzing whole walks drives: what must hold for any tables and any stack.
//!
//! ```text
//! kind 1 · length of .eh_frame 2 · length of .sframe 2 · registers 34 × 8
//! .eh_frame · .sframe · the stack, from the stack pointer in the registers on
//! ```
//!
//! Bit 0 of `kind` chooses the architecture, the bits above it the policy. The input may be
//! cut off anywhere; what is missing is 0 or empty.

use arch::{Arch, Regs};

use crate::dwarf::Section;
use crate::memory::Copied;
use crate::module::Sections;
use crate::policy::OnFailure;
use crate::{CodeAddress, Context, End, Frame, InstructionPointer, Module, Modules, Policy};
use crate::{Registers, Walk, step};

/// Where `.eh_frame` is said to be, with the code around it.
pub const EH_FRAME: u64 = 0x40_0000;
/// Where `.sframe` is said to be.
pub const SFRAME: u64 = 0x50_0000;

/// Frames of a walk at most.
const LIMIT: usize = 300;

/// Takes bytes apart.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self, len: usize) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(len);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }
}

/// A walk of one policy and its end.
type Walked = (Vec<Frame>, End);

/// Reads `bytes` as tables, registers and a stack, and walks.
///
/// # Panics
///
/// When a promise is broken: a walk of more frames than its limit or without an end, one that
/// a cache changes, one that differs from single steps.
pub fn fuzz_walk(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = input.number(1);
    let arch = if kind & 1 == 0 { Arch::X86_64 } else { Arch::Aarch64 };
    let (eh_frame, sframe) = (input.number(2) as usize, input.number(2) as usize);
    let mut regs = Regs::new(arch);
    regs.gp.fill_with(|| input.number(8));
    regs.pc = input.number(8);
    let known = input.number(8) as u32;
    let (eh_frame, sframe) = (input.take(eh_frame), input.take(sframe));
    let memory = Copied { address: regs.sp(), bytes: input.0 };
    let section = |address, bytes| Some(Section { address, bytes });
    let sections = Sections {
        eh_frame: section(EH_FRAME, eh_frame),
        sframe: section(SFRAME, sframe),
        ..Sections::default()
    };
    let text = std::iter::once(0x1000..0x1000_0000);
    let modules = Modules::new([Module::new("fuzz", arch, 0, text, sections)]);
    let mut registers = Registers::of_thread(&regs);
    registers.keep(known | 1 << arch.sp());
    check(policy(kind >> 1), &modules, InstructionPointer(regs.pc).into(), &registers, &memory);
}

fn policy(kind: u64) -> Policy {
    let mut policy = match kind & 7 {
        0 => Policy::best(),
        1 => Policy::dwarf(),
        2 => Policy::sframe(),
        3 => Policy::frame_pointer(),
        4 => Policy::kernel(),
        5 => Policy::kernel_sframe(),
        6 => Policy::new(&[crate::Method::SignalCode, crate::Method::Dwarf]),
        _ => Policy::new(&crate::Method::ALL),
    };
    if kind & 8 != 0 {
        policy.on_failure = OnFailure::NextMethod;
    }
    policy
}

fn check(
    policy: Policy,
    modules: &Modules<&[u8]>,
    address: CodeAddress,
    registers: &Registers,
    memory: &Copied<&[u8]>,
) {
    let walk = |context: &mut Context, limit| -> Walked {
        let walk = Walk::new(policy, modules, address, registers, memory.clone(), context);
        let mut walk = walk.limit(limit);
        let frames: Vec<Frame> = walk.by_ref().collect();
        assert!(walk.next().is_none(), "frames behind the end");
        let end = walk.end().unwrap_or_else(|| panic!("a walk without an end"));
        // From the first frame on, and behind some that the iterator gave.
        for given in [0, 1, 3] {
            let walk = Walk::new(policy, modules, address, registers, memory.clone(), context);
            let mut walk = walk.limit(limit);
            let mut visited: Vec<Frame> = walk.by_ref().take(given).collect();
            let why = walk.visit(|frame| visited.push(frame));
            assert_eq!((&visited, why), (&frames, end), "visited from frame {given} on");
        }
        (frames, end)
    };
    let mut context = Context::new();
    let (frames, end) = walk(&mut context, LIMIT);
    assert!(frames.len() <= LIMIT);
    assert_eq!(end == End::Limit, frames.len() == LIMIT, "{end}");
    assert_eq!(frames.first().map(|f| (f.address, f.method)), Some((address, None)));
    assert!(frames.iter().skip(1).all(|f| f.method.is_some()));
    assert!(!end.to_string().contains('\n'));
    let again = walk(&mut context, LIMIT);
    assert_eq!(again, (frames.clone(), end), "by the cache");
    let uncached = walk(&mut Context::uncached(), LIMIT);
    assert_eq!(uncached, (frames.clone(), end), "without a cache");
    let (some, limit) = walk(&mut context, frames.len());
    assert_eq!((some, limit), (frames.clone(), End::Limit), "with a limit");
    check_steps(policy, modules, (address, registers), memory, &frames, end);
}

/// Steps with all registers lead to the same frames. A walk may end where a step still leads
/// on: it sees that there is no progress.
fn check_steps(
    policy: Policy,
    modules: &Modules<&[u8]>,
    (mut address, registers): (CodeAddress, &Registers),
    memory: &Copied<&[u8]>,
    frames: &[Frame],
    end: End,
) {
    let mut registers = *registers;
    let mut context = Context::uncached();
    let mut step = |address, registers: &Registers| {
        step(&policy, modules, address, registers, &mut memory.clone(), &mut context)
    };
    for frame in frames.iter().skip(1) {
        let unwound = step(address, &registers).unwrap_or_else(|end| panic!("{frame:?}: {end}"));
        assert_eq!(frame.address, unwound.caller.address);
        assert_eq!((frame.cfa, frame.method), (unwound.caller.cfa, Some(unwound.method)));
        (address, registers) = (unwound.caller.address, unwound.caller.registers);
    }
    match (step(address, &registers), end) {
        (_, End::Limit) | (Ok(_), End::NoProgress { .. }) => {}
        (Err(other), end) => assert_eq!(other, end),
        (Ok(unwound), end) => panic!("{end}, but a step leads to {}", unwound.caller.address),
    }
}
