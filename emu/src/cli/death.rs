//! The report on a guest that a signal ended: why, where, code, registers, stack.

use std::fmt::Write as _;

use arch::decode::{Access, Decoder, InsnClass};
use arch::siginfo::SigFields;
use arch::signal::{Signal, code};
use arch::{Arch, Regs};

use unwinder::Memory as _;

use crate::cli::output::Style;
use crate::cli::place::{Names, Place, base_name};
use crate::export::Images;
use crate::kernel::State;
use crate::mem::{Backing, PAGE};
use crate::perf::callchain::{Chain, Limits, walk_user};
use crate::perf::record::context;
use crate::symbols::LookupAddress;

/// Stack frames that are walked; a report shows fewer.
const MAX_FRAMES: u16 = u16::MAX;
/// Frames shown at each end of a long stack.
const SHOWN: usize = 12;
/// Bytes shown of an instruction.
const MAX_BYTES: usize = 8;
/// Instructions shown before and after the one at the PC.
const AROUND: usize = 5;
/// How far back a function's start may be for its instructions to be decoded from there.
const MAX_BACK: u64 = 64 << 10;

/// The signal that ended the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The signal.
    pub signal: Signal,
    /// `si_code`
    pub code: i32,
    /// `si_addr`, for signals that an instruction raised.
    pub addr: u64,
}

impl Death {
    /// How the guest of `state` died; `None` if it did not.
    pub fn of(state: &State) -> Option<Death> {
        let info = state.task.signals.death?;
        let addr = match info.fields {
            SigFields::Fault { addr } => addr,
            _ => 0,
        };
        Some(Death { signal: info.signal, code: info.code, addr })
    }

    /// An instruction raised it, so that code and registers explain it.
    fn is_fault(self) -> bool {
        self.signal.is_synchronous() && self.code > 0
    }

    /// The name of the code and what it says.
    fn reason(self) -> Option<(&'static str, &'static str)> {
        Some(match (self.signal, self.code) {
            (_, code::SI_USER) => ("SI_USER", "sent by kill"),
            (_, code::SI_TKILL) => ("SI_TKILL", "sent by the guest itself"),
            (_, code::SI_QUEUE) => ("SI_QUEUE", "sent by sigqueue"),
            (_, code::SI_TIMER) => ("SI_TIMER", "a timer expired"),
            (Signal::SIGTRAP, code::SI_KERNEL) => ("SI_KERNEL", "a breakpoint instruction"),
            (Signal::SIGSEGV, code::SI_KERNEL) => ("SI_KERNEL", "a general protection fault"),
            (_, code::SI_KERNEL) => ("SI_KERNEL", "sent by the kernel"),
            (Signal::SIGSEGV, code::SEGV_MAPERR) => ("SEGV_MAPERR", "nothing is mapped there"),
            (Signal::SIGSEGV, code::SEGV_ACCERR) => {
                ("SEGV_ACCERR", "the mapping does not permit it")
            }
            (Signal::SIGBUS, code::BUS_ADRALN) => ("BUS_ADRALN", "the address is not aligned"),
            (Signal::SIGBUS, code::BUS_ADRERR) => {
                ("BUS_ADRERR", "the mapped file ends before this page")
            }
            (Signal::SIGFPE, code::FPE_INTDIV) => {
                ("FPE_INTDIV", "an integer division by zero, or its result does not fit")
            }
            (Signal::SIGFPE, code::FPE_INTOVF) => ("FPE_INTOVF", "an integer overflow"),
            (Signal::SIGFPE, code::FPE_FLTDIV) => ("FPE_FLTDIV", "a division by zero"),
            (Signal::SIGFPE, code::FPE_FLTINV) => ("FPE_FLTINV", "an invalid operation"),
            (Signal::SIGILL, code::ILL_ILLOPC) => ("ILL_ILLOPC", "an undefined instruction"),
            (Signal::SIGILL, code::ILL_ILLOPN) => ("ILL_ILLOPN", "an undefined instruction"),
            (Signal::SIGILL, code::ILL_PRVOPC) => ("ILL_PRVOPC", "a privileged instruction"),
            (Signal::SIGTRAP, code::TRAP_BRKPT) => ("TRAP_BRKPT", "a breakpoint instruction"),
            (Signal::SIGTRAP, code::TRAP_TRACE) => ("TRAP_TRACE", "a single step"),
            (Signal::SIGSYS, code::SYS_SECCOMP) => ("SYS_SECCOMP", "a forbidden system call"),
            _ => return None,
        })
    }
}

/// What is known of a death.
#[derive(Clone, Debug)]
pub struct Report {
    death: Death,
    /// What the instruction did: `write to address 0x0, a null pointer`.
    access: Option<String>,
    place: Place,
    /// Address, bytes, text.
    code: Vec<(u64, Vec<u8>, String)>,
    /// Address of the instruction to be marked.
    marked: u64,
    regs: Regs,
    stack: Vec<Entry>,
}

/// A part of the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// A frame, by its number from 0.
    Frame(usize, Place),
    /// The frame before, so many times more.
    Same(usize),
    /// So many frames that are not shown.
    Hidden(usize),
    /// The stack is longer than we look.
    Endless,
    /// What follows are no return addresses.
    Lost,
}

impl Report {
    /// Looks at the dead guest of `state`.
    pub fn new(state: &State, death: Death, images: &mut Images) -> Report {
        let names = Names::new(state, images);
        let regs = state.user_regs();
        let marked = faulting_pc(state, death, &regs);
        let place = names.place(LookupAddress::Instruction(marked));
        let (addresses, lost) = stack(state, &regs, marked);
        let mut stack = entries(&addresses, |at| names.place(at));
        stack.extend(lost.then_some(Entry::Lost));
        let access = if death.is_fault() { access(state, death, &regs) } else { None };
        let code = if is_code(state, marked) { around(state, &place, marked) } else { vec![] };
        Report { death, access, place, code, marked, regs, stack }
    }

    /// The report as text, for a guest called `name`.
    pub fn render(&self, name: &str, style: Style) -> String {
        let mut text = String::new();
        let signal = self.death.signal;
        let headline = format!("{name}: killed by {signal} ({})", signal.message());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "emu: {}", style.red(&headline));
        if let Some((code, meaning)) = self.death.reason() {
            let _ = writeln!(text, "  {code}: {meaning}");
        } else {
            let _ = writeln!(text, "  si_code {}", self.death.code);
        }
        if let Some(access) = &self.access {
            let _ = writeln!(text, "  {access}");
        }
        let _ = writeln!(text, "  at {}", self.place.short(style));
        text.push('\n');
        self.push_stack(&mut text, style);
        if self.death.is_fault() {
            text.push('\n');
            self.push_code(&mut text, style);
            text.push('\n');
            self.push_registers(&mut text, style);
        }
        text
    }

    fn push_stack(&self, text: &mut String, style: Style) {
        let _ = writeln!(text, "{}", style.bold("Stack, by frame pointer:"));
        for entry in &self.stack {
            let (number, lines) = match entry {
                Entry::Frame(i, place) => (format!("#{i}"), place.lines(style)),
                Entry::Same(n) => (String::new(), vec![format!("… the same {n} times more")]),
                Entry::Hidden(n) => (String::new(), vec![format!("… {n} frames not shown")]),
                Entry::Endless => (String::new(), vec!["… and so on".to_owned()]),
                Entry::Lost => {
                    (String::new(), vec!["… lost: a caller keeps no frame pointer".to_owned()])
                }
            };
            for (nth, line) in lines.iter().enumerate() {
                let number = if nth == 0 { number.as_str() } else { "" };
                let _ = writeln!(text, "  {number:<4} {line}");
            }
        }
    }

    fn push_code(&self, text: &mut String, style: Style) {
        let _ = writeln!(text, "{}", style.bold("Code:"));
        if self.code.is_empty() {
            let _ = writeln!(text, "  none at {:#x}", self.marked);
            return;
        }
        let bytes = |b: &[u8]| {
            let shown = b.iter().take(MAX_BYTES).map(|b| format!("{b:02x}"));
            let more = (b.len() > MAX_BYTES).then(|| "…".to_owned());
            shown.chain(more).collect::<Vec<_>>().join(" ")
        };
        let width = self.code.iter().map(|(_, b, _)| bytes(b).chars().count()).max().unwrap_or(0);
        for (addr, code, insn) in &self.code {
            let mark = if *addr == self.marked { "=>" } else { "" };
            let line = format!("  {mark:2} {addr:#018x}  {:<width$}  {insn}", bytes(code));
            let line = if mark.is_empty() { line } else { style.red(&line) };
            let _ = writeln!(text, "{line}");
        }
    }

    fn push_registers(&self, text: &mut String, style: Style) {
        let _ = writeln!(text, "{}", style.bold("Registers:"));
        for row in registers(&self.regs).chunks(4) {
            let cells = row.iter().map(|(name, value)| {
                let name = format!("{name:>6}");
                format!("{} {value:016x}", style.cyan(&name))
            });
            let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  "));
        }
    }
}

/// The instruction to blame: a trap of x86 leaves the PC behind it.
fn faulting_pc(state: &State, death: Death, regs: &Regs) -> u64 {
    let before = regs.pc.wrapping_sub(1);
    let trapped = regs.arch == Arch::X86_64
        && death.signal == Signal::SIGTRAP
        && death.code == code::SI_KERNEL
        && peek(state, before, 1) == [0xcc];
    if trapped { before } else { regs.pc }
}

/// What the instruction tried to do with which address.
fn access(state: &State, death: Death, regs: &Regs) -> Option<String> {
    if !matches!(death.signal, Signal::SIGSEGV | Signal::SIGBUS) {
        return None;
    }
    let decoder = Decoder::new(regs.arch);
    let tag = if regs.arch == Arch::Aarch64 { 0xff << 56 } else { 0 };
    let mut operands = decoder.memory_operand(&peek(state, regs.pc, 16), regs);
    operands.iter_mut().for_each(|a| a.addr &= !tag);
    let verb = |write| if write { "write to" } else { "read from" };
    if death.code == code::SI_KERNEL {
        // The kernel does not tell the address of a general protection fault.
        let canonical = |addr: u64| ((addr << 16) as i64 >> 16) as u64 == addr;
        return Some(match operands.iter().find(|a| !canonical(a.addr)) {
            Some(a) => format!("{} the non-canonical address {:#x}", verb(a.write), a.addr),
            None => "an instruction that user code may not execute".to_owned(),
        });
    }
    let addr = death.addr;
    let touches = |a: &&Access| addr.wrapping_sub(a.addr) < u64::from(a.size.max(1));
    let what = match operands.iter().filter(touches).map(|a| a.write).max() {
        _ if addr == regs.pc => "jump to",
        Some(write) => verb(write),
        None => "access to",
    };
    Some(format!("{what} address {addr:#x}, {}", whereabouts(state, addr, regs)))
}

/// What is at `addr`, in words.
fn whereabouts(state: &State, addr: u64, regs: &Regs) -> String {
    if addr < crate::mem::mm::MIN_ADDR {
        return "a null pointer or close to one".to_owned();
    }
    if addr >= state.arch.task_size() {
        return "outside the user's address space".to_owned();
    }
    if let Some(area) = state.mm.area(addr) {
        let bit = |set, letter| if set { letter } else { '-' };
        let p = area.prot;
        let rights: String =
            [bit(p.read, 'r'), bit(p.write, 'w'), bit(p.exec, 'x')].iter().collect();
        let name = match &area.backing {
            Backing::File { .. } => base_name(&state.vfs.identify(area).1),
            _ if area.flags.heap => "[heap]".to_owned(),
            _ if area.name.is_empty() => "anonymous memory".to_owned(),
            _ => area.name.to_owned(),
        };
        return format!("in {name} ({rights})");
    }
    let stack = state.mm.area_above(addr).filter(|a| a.flags.grows_down);
    if stack.is_some() && addr.abs_diff(regs.sp()) < 16 * PAGE {
        let limit = state.mm.layout.stack_limit >> 10;
        return format!("just below the stack: it has reached its limit of {limit} KiB");
    }
    "in no mapping".to_owned()
}

/// Bytes of guest memory, as many as are present.
fn peek(state: &State, addr: u64, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let in_page = (PAGE - addr % PAGE) as usize;
    if state.mm.peek(&state.arena, addr, &mut bytes) {
        return bytes;
    }
    bytes.truncate(in_page.min(most));
    if bytes.len() < most && state.mm.peek(&state.arena, addr, &mut bytes) {
        return bytes;
    }
    Vec::new()
}

/// The instructions around the one at `pc`.
fn around(state: &State, place: &Place, pc: u64) -> Vec<(u64, Vec<u8>, String)> {
    let decoder = Decoder::new(state.arch);
    let step_back = match state.arch {
        // Every instruction is a word.
        Arch::Aarch64 => Some(pc.saturating_sub(4 * AROUND as u64)),
        Arch::X86_64 => place.function_start().filter(|start| pc - start <= MAX_BACK),
    };
    // Only what lies in the page of the PC is sure to be there.
    let start = step_back.filter(|s| *s <= pc).unwrap_or(pc);
    let before = match peek(state, start, (pc - start) as usize) {
        bytes if bytes.len() as u64 == pc - start => decoder.disassemble(&bytes, start),
        _ => Vec::new(),
    };
    // A function that begins with data may not decode up to the PC exactly.
    let meets = before.last().is_none_or(|(at, bytes, _)| at + bytes.len() as u64 == pc);
    let mut lines = if meets { before } else { Vec::new() };
    lines.drain(..lines.len().saturating_sub(AROUND));
    let code = peek(state, pc, 16 * (AROUND + 1));
    lines.extend(decoder.disassemble(&code, pc).into_iter().take(AROUND + 1));
    lines
}

/// Whether `addr` may be executed.
fn is_code(state: &State, addr: u64) -> bool {
    state.mm.area(addr).is_some_and(|a| a.prot.exec)
}

/// The user stack from `pc` outwards, and whether it ended in a frame that is none.
fn stack(state: &State, regs: &Regs, pc: u64) -> (Vec<LookupAddress>, bool) {
    let mut chain = Chain::new(MAX_FRAMES, Limits::default());
    walk_user(&mut chain, regs, false, &mut state.present());
    let mut callers: Vec<u64> =
        chain.into_words().into_iter().filter(|a| *a < context::MAX).skip(1).collect();
    // A register that is no frame pointer leads to words that are no return addresses. A
    // signal's trampoline was not called either, but callers follow it.
    let decoder = Decoder::new(regs.arch);
    let mut lost = false;
    while let Some(last) = callers.pop_if(|a| !follows_call(state, &decoder, *a)) {
        // Zeros are how a chain ends that is whole.
        lost |= last != 0;
    }
    if !is_code(state, pc) {
        // A jump into nowhere: the function that made it has not called by frames.
        let caller = match regs.arch {
            Arch::X86_64 => state.present().word(regs.sp()),
            Arch::Aarch64 => Some(regs.gp[arch::aarch64::regs::LR]),
        };
        callers.splice(0..0, caller.filter(|a| follows_call(state, &decoder, *a)));
    }
    let pc = LookupAddress::Instruction(pc);
    (std::iter::once(pc).chain(callers.into_iter().map(LookupAddress::Return)).collect(), lost)
}

/// Whether `addr` is behind a call instruction.
fn follows_call(state: &State, decoder: &Decoder, addr: u64) -> bool {
    let lengths = match decoder.arch() {
        Arch::X86_64 => 2..=8,
        Arch::Aarch64 => 4..=4,
    };
    lengths.into_iter().any(|len: u8| {
        let Some(start) = addr.checked_sub(len.into()) else { return false };
        let bytes = peek(state, start, len.into());
        let insn = decoder.insn(&bytes);
        insn.is_some_and(|i| i.len == len && matches!(i.class, InsnClass::Call { .. }))
    }) && is_code(state, addr - 1)
}

/// The stack as it is shown: repeated frames once, of a long rest the ends.
fn entries(stack: &[LookupAddress], place: impl Fn(LookupAddress) -> Place) -> Vec<Entry> {
    // Number of the frame, how often it comes.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, at) in stack.iter().enumerate() {
        match runs.last_mut() {
            Some((first, times)) if stack.get(*first) == Some(at) => *times += 1,
            _ => runs.push((i, 1)),
        }
    }
    let hidden = match runs.len() {
        n if n > 2 * SHOWN + 1 => SHOWN..n - SHOWN,
        _ => 0..0,
    };
    let mut list = Vec::new();
    for (nth, &(first, times)) in runs.iter().enumerate() {
        if hidden.contains(&nth) {
            if nth == hidden.start {
                let frames = runs[hidden.clone()].iter().map(|(_, times)| times).sum();
                list.push(Entry::Hidden(frames));
            }
            continue;
        }
        if let Some(at) = stack.get(first) {
            list.push(Entry::Frame(first, place(*at)));
        }
        if times > 1 {
            list.push(Entry::Same(times - 1));
        }
    }
    if stack.len() >= usize::from(MAX_FRAMES) {
        list.push(Entry::Endless);
    }
    list
}

/// Names and values, in the order in which people look for them.
fn registers(regs: &Regs) -> Vec<(&'static str, u64)> {
    use arch::x86_64::regs as x;
    match regs.arch {
        Arch::X86_64 => {
            let order = [x::RAX, x::RBX, x::RCX, x::RDX, x::RSI, x::RDI, x::RBP, x::RSP];
            let mut list: Vec<_> = order
                .into_iter()
                .chain(x::R8..=x::R15)
                .map(|r| (x::NAMES[r], regs.gp[r]))
                .collect();
            list.extend([("rip", regs.pc), ("rflags", regs.flags), ("fs", regs.tls)]);
            list
        }
        Arch::Aarch64 => {
            let names = arch::aarch64::regs::NAMES;
            let mut list: Vec<_> = names.into_iter().zip(regs.gp).collect();
            list.extend([("pc", regs.pc), ("pstate", regs.flags), ("tpidr", regs.tls)]);
            list
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn place(at: LookupAddress) -> Place {
        let function = Some((format!("f{:x}", at.address()), 1));
        Place { address: at.address(), function, file: None, source: vec![] }
    }

    fn returns(addresses: impl IntoIterator<Item = u64>) -> Vec<LookupAddress> {
        addresses.into_iter().map(LookupAddress::Return).collect()
    }

    #[test]
    fn recursion_is_shown_once() {
        let stack = returns([1, 2, 2, 2, 3]);
        let list = entries(&stack, place);
        let frame = |i: usize| Entry::Frame(i, place(stack[i]));
        assert_eq!(list, [frame(0), frame(1), Entry::Same(2), frame(4)]);
    }

    #[test]
    fn both_ends_of_a_long_stack_are_shown() {
        let list = entries(&returns(0..1000), place);
        assert_eq!(list.len(), 2 * SHOWN + 1);
        assert_eq!(list[SHOWN], Entry::Hidden(1000 - 2 * SHOWN));
        assert!(matches!(list.last(), Some(Entry::Frame(999, _))));
        // Two functions that call each other, without end.
        let list = entries(&returns((0..65_535).map(|i| i % 2)), place);
        assert_eq!(list.last(), Some(&Entry::Endless));
        assert_eq!(entries(&[], place), []);
    }

    fn report(signal: Signal, code: i32) -> Report {
        let mut regs = Regs::new(Arch::X86_64);
        regs.pc = 0x40_1234;
        Report {
            death: Death { signal, code, addr: 0 },
            access: Some("write to address 0x0".to_owned()),
            place: place(LookupAddress::Instruction(regs.pc)),
            code: vec![
                (0x40_1233, vec![0x55], "push rbp".into()),
                (0x40_1234, vec![0x89; 11], "mov".into()),
            ],
            marked: regs.pc,
            regs,
            stack: entries(&returns([regs.pc, 0x40_2000]), place),
        }
    }

    #[test]
    fn a_fault_is_explained() {
        let text = report(Signal::SIGSEGV, code::SEGV_MAPERR).render("prog", Style::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "emu: prog: killed by SIGSEGV (Segmentation fault)");
        assert_eq!(lines[1], "  SEGV_MAPERR: nothing is mapped there");
        assert_eq!(lines[2], "  write to address 0x0");
        assert_eq!(lines[3], "  at 0x401234 f401234+0x1");
        assert!(lines.contains(&"  #1   0x0000000000402000 f402000+0x1"), "{text}");
        assert!(
            lines.contains(&"  => 0x0000000000401234  89 89 89 89 89 89 89 89 …  mov"),
            "{text}"
        );
        assert!(text.contains("rip 0000000000401234"), "{text}");
        let colour = report(Signal::SIGSEGV, code::SEGV_MAPERR).render("prog", Style::COLOUR);
        assert!(colour.contains("\x1b[1;31m"));
    }

    #[test]
    fn a_signal_that_was_sent_shows_no_code() {
        let text = report(Signal::SIGABRT, code::SI_TKILL).render("prog", Style::PLAIN);
        assert!(text.contains("sent by the guest itself") && text.contains("#0"), "{text}");
        assert!(!text.contains("Registers") && !text.contains("Code"), "{text}");
    }

    #[test]
    fn every_register_has_a_name() {
        assert_eq!(registers(&Regs::new(Arch::X86_64)).len(), 19);
        assert_eq!(registers(&Regs::new(Arch::Aarch64)).len(), 35);
    }
}
