//! Every reason for which a walk ends, and policies.

use std::collections::BTreeSet;
use std::mem::discriminant;

use arch::Arch;
use unwinder::dwarf::Section;
use unwinder::memory::Copied;
use unwinder::module::{Problem, Sections};
use unwinder::policy::OnFailure;
use unwinder::{
    CodeAddress, Context, End, ExpressionError, Frame, InstructionPointer, InterruptedAddress,
    Method, Module, Modules, Policy, Registers, ReturnAddress, TableError, Walk,
};

use crate::common::{CODE, FRAME, one, one_of};

const SP: u64 = 0x7000;

type Bytes = Vec<u8>;

/// A process with one function at `CODE`, of 256 bytes, in a module of 4096.
fn process(arch: Arch, eh_frame: Option<Bytes>) -> Modules<Bytes> {
    let eh_frame = eh_frame.map(|bytes| Section { address: FRAME, bytes });
    let sections = Sections { eh_frame, ..Sections::default() };
    Modules::new([Module::new("m", arch, 0, std::iter::once(CODE..CODE + 0x1000), sections)])
}

fn stack(words: &[u64]) -> Copied<Bytes> {
    Copied { address: SP, bytes: words.iter().flat_map(|w| w.to_le_bytes()).collect() }
}

struct Case<'a> {
    policy: Policy,
    modules: &'a Modules<Bytes>,
    registers: Registers,
    pc: u64,
}

impl Case<'_> {
    fn walk(&self, words: &[u64], limit: usize) -> (Vec<Frame>, End) {
        let Case { policy, modules, registers, pc } = self;
        let run = |context: &mut Context| {
            let address = InstructionPointer(*pc).into();
            let walk = Walk::new(*policy, modules, address, registers, stack(words), context);
            let mut walk = walk.limit(limit);
            let frames: Vec<Frame> = walk.by_ref().collect();
            (frames, walk.end().unwrap())
        };
        let context = &mut Context::new();
        let found = run(context);
        assert_eq!(run(context), found, "by the cache");
        assert_eq!(run(&mut Context::uncached()), found, "without a cache");
        found
    }

    fn end(&self, words: &[u64]) -> End {
        self.walk(words, 20).1
    }
}

fn x86(policy: Policy, modules: &Modules<Bytes>) -> Case<'_> {
    let registers = Registers::of_frame(Arch::X86_64, SP, SP);
    Case { policy, modules, registers, pc: CODE }
}

/// Of a function with these instructions.
fn dwarf_end(instructions: &[u8], words: &[u64]) -> End {
    let modules = process(Arch::X86_64, Some(one(Arch::X86_64, instructions).bytes));
    x86(Policy::dwarf(), &modules).end(words)
}

fn all_ends() -> Vec<(End, End)> {
    let none = process(Arch::X86_64, None);
    let sound = process(Arch::X86_64, Some(one(Arch::X86_64, &[]).bytes));
    let fp = |words: &[u64]| x86(Policy::frame_pointer(), &none).end(words);
    let outside = Case { pc: 0x10, ..x86(Policy::dwarf(), &none) };
    let beside = Case { pc: CODE + 0x200, ..x86(Policy::dwarf(), &sound) };
    let at = |pc: u64| CodeAddress::from(InstructionPointer(pc));
    vec![
        (dwarf_end(&[0x07, 16], &[]), End::Undefined),
        (dwarf_end(&[], &[0]), End::NullReturnAddress),
        (fp(&[0, 0x40_0000]), End::NullFramePointer),
        (outside.end(&[]), End::NoModule(at(0x10))),
        (beside.end(&[]), End::NoRow(at(CODE + 0x200))),
        (dwarf_end(&[], &[]), End::BadRead { address: SP }),
        // DW_CFA_def_cfa r3 16
        (dwarf_end(&[0x0c, 3, 16], &[1]), End::UnknownRegister(3)),
        // DW_CFA_def_cfa_offset 0
        (dwarf_end(&[0x0e, 0], &[1]), End::NoProgress { sp: SP, cfa: SP }),
        (fp(&[0x7011, 0x40_0000, 0, 0]), End::BadFramePointer(0x7011)),
        // DW_CFA_def_cfa_expression { DW_OP_plus }
        (dwarf_end(&[0x0f, 1, 0x22], &[1]), End::Expression(ExpressionError::Malformed)),
        (x86(Policy::dwarf(), &sound).walk(&[CODE + 1; 20], 7).1, End::Limit),
    ]
}

#[test]
fn every_reason_to_end() {
    let all = all_ends();
    for (found, expected) in &all {
        assert_eq!(found, expected);
        assert!(!found.to_string().contains('\n'));
    }
    let bad = dwarf_end(&[0x3f], &[1]);
    assert!(matches!(bad, End::Table(TableError::Dwarf(_))), "{bad}");
    let kinds: BTreeSet<String> =
        all.iter().map(|(end, _)| format!("{:?}", discriminant(end))).collect();
    assert_eq!(kinds.len(), all.len());
}

#[test]
fn frames_and_how_they_were_found() {
    let modules = process(Arch::X86_64, Some(one(Arch::X86_64, &[]).bytes));
    let (frames, end) = x86(Policy::dwarf(), &modules).walk(&[CODE + 9, 0x99], 9);
    let frame = |address: CodeAddress, cfa| Frame { address, cfa, method: Some(Method::Dwarf) };
    let expected = [
        Frame { address: InstructionPointer(CODE).into(), cfa: None, method: None },
        frame(ReturnAddress(CODE + 9).into(), Some(SP + 8)),
        frame(ReturnAddress(0x99).into(), Some(SP + 16)),
    ];
    assert_eq!(frames, expected);
    assert_eq!(end, End::NoModule(ReturnAddress(0x99).into()));
}

#[test]
fn a_missing_rule_leads_to_the_next_method_and_a_failure_to_the_end() {
    let modules = process(Arch::X86_64, Some(one(Arch::X86_64, &[]).bytes));
    let both = Policy::new(&[Method::Dwarf, Method::FramePointer]);
    let words = [0x99, 0, 0x40_0000];
    let registers = Registers::of_frame(Arch::X86_64, SP, SP + 8);
    let x86 = |policy, modules| Case { policy, modules, registers, pc: CODE };
    let beside = Case { pc: CODE + 0x200, ..x86(both, &modules) };
    let methods = |case: &Case<'_>, words: &[u64]| -> Vec<Method> {
        case.walk(words, 9).0.iter().filter_map(|f| f.method).collect()
    };
    assert_eq!(methods(&beside, &words), [Method::FramePointer]);
    assert_eq!(methods(&x86(both, &modules), &words), [Method::Dwarf, Method::FramePointer]);
    // A rule that cannot be applied: CFA = sp.
    let broken = process(Arch::X86_64, Some(one(Arch::X86_64, &[0x0e, 0]).bytes));
    assert_eq!(x86(both, &broken).end(&words), End::NoProgress { sp: SP, cfa: SP });
    let mut go_on = both;
    go_on.on_failure = OnFailure::NextMethod;
    assert_eq!(methods(&x86(go_on, &broken), &words), [Method::FramePointer]);
    // Not even then does a walk go on behind the outermost frame.
    let outermost = process(Arch::X86_64, Some(one(Arch::X86_64, &[0x07, 16]).bytes));
    assert_eq!(x86(go_on, &outermost).end(&words), End::Undefined);
}

#[test]
fn the_kernels_walk_gives_zeros_and_never_goes_down() {
    let none = process(Arch::X86_64, None);
    let kernel = x86(Policy::kernel(), &none);
    let values = |words: &[u64]| -> Vec<u64> {
        kernel.walk(words, 9).0.iter().map(|f| f.address.value()).collect()
    };
    assert_eq!(values(&[0x7010, 7, 0x7020, 0, 0, 9]), [CODE, 7, 0, 9]);
    assert_eq!(kernel.end(&[0x7000, 7]), End::BadFramePointer(0x7000));
    assert_eq!(x86(Policy::new(&[]), &none).end(&[]), End::NoRow(kernel_start()));
}

fn kernel_start() -> CodeAddress {
    InstructionPointer(CODE).into()
}

#[test]
fn signal_trampolines_by_their_code_and_by_their_table() {
    // mov eax, 15; syscall: at the stack's start, where the handler returns to.
    let mut words = vec![0; 200];
    words[0] = u64::from_le_bytes([0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05, 0]);
    words[1] = SP; // the handler's return address
    // The kernel's frame is above: rip 0x44 and rsp in its ucontext.
    let frame = SP + 16;
    let saved = |offset: u64| ((frame - SP + offset) / 8) as usize;
    words[saved(arch::sigframe::saved_pc(Arch::X86_64))] = CODE + 1;
    words[saved(arch::sigframe::saved_register(Arch::X86_64, 7).unwrap())] = SP + 800;
    words[100] = 0x99;
    let modules = process(Arch::X86_64, Some(one(Arch::X86_64, &[]).bytes));
    let policy = Policy::new(&[Method::Dwarf, Method::SignalCode]);
    let registers = Registers::of_frame(Arch::X86_64, SP + 8, 0);
    let case = Case { policy, modules: &modules, registers, pc: CODE };
    let (frames, end) = case.walk(&words, 9);
    let found: Vec<_> = frames.iter().map(|f| (f.address, f.method)).collect();
    let expected = [
        (InstructionPointer(CODE).into(), None),
        (ReturnAddress(SP).into(), Some(Method::Dwarf)),
        (InterruptedAddress(CODE + 1).into(), Some(Method::SignalCode)),
        (ReturnAddress(0x99).into(), Some(Method::Dwarf)),
    ];
    assert_eq!(found, expected);
    assert_eq!(end, End::NoRow(ReturnAddress(0x99).into()));
}

#[test]
fn walks_on_stacks_that_lead_nowhere_end() {
    // A signal frame that restores itself: CFA = rsp, rip = [rsp], rsp = [rsp + 8].
    let code = [
        0x0f, 2, 0x77, 0, // def_cfa_expression { breg7 0 }
        0x10, 16, 2, 0x77, 0, // expression r16 { breg7 0 }
        0x10, 7, 2, 0x77, 8, // expression r7 { breg7 8 }
    ];
    let modules = process(Arch::X86_64, Some(one_of(Arch::X86_64, "zRS", &code).bytes));
    let (frames, end) = x86(Policy::dwarf(), &modules).walk(&[CODE, SP], 1000);
    assert!(frames.len() < 100, "{}", frames.len());
    assert_eq!(end, End::NoProgress { sp: SP, cfa: SP });
    // aarch64: records do not tell the stack pointer, and a row may lead down again.
    let down = one(Arch::Aarch64, &[0x0c, 29, 0x0, 0x9d, 2, 0x9e, 1]);
    let modules = process(Arch::Aarch64, Some(down.bytes));
    let mut registers = Registers::of_frame(Arch::Aarch64, SP, SP);
    registers.set(30, CODE + 4);
    let policy = Policy::new(&[Method::Dwarf, Method::FramePointer]);
    let case = Case { policy, modules: &modules, registers, pc: CODE + 0x300 };
    let words = [0x7020, CODE + 4, 0x7000, CODE + 0x300, 0x7040, CODE + 4, 0, 0, 0, 0];
    assert!(case.walk(&words, 1000).0.len() < 100);
}

#[test]
fn a_bad_table_is_absent_and_its_error_kept() {
    let section = Section { address: FRAME, bytes: vec![1, 2, 3] };
    let sections = Sections { sframe: Some(section), ..Sections::default() };
    let module = Module::new("m", Arch::X86_64, 0, std::iter::once(0..9), sections);
    assert!(module.sframe().is_none() && module.eh_frame().is_none());
    assert!(matches!(module.problems(), [Problem::Unusable(TableError::Sframe(_))]));
    assert!(module.problems()[0].to_string().starts_with(".sframe, offset 0x"));
}
