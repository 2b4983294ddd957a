//! What every generated program has: its start, `setjmp`, `longjmp`, `switch`, coroutines.

use arch::Arch;

use super::Generator;
use super::asm::{Arg, Leap, Reg};
use super::code::{Label, List};
use super::layout::{self, *};

/// A signal and how its handler is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub number: u64,
    pub flags: u64,
    pub handler: Label,
    /// Where the handler returns to; `None` is the vDSO.
    pub restorer: Option<Label>,
}

const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_NODEFER: u64 = 0x4000_0000;
/// Number and flags; `SA_SIGINFO` is 4.
const SIGNALS: [(u64, u64); 4] =
    [(10, 0), (12, SA_ONSTACK), (23, SA_NODEFER | 4), (34, SA_ONSTACK | SA_NODEFER | 4)];

impl Signal {
    pub const fn on_alternate_stack(&self) -> bool {
        self.flags & SA_ONSTACK != 0
    }

    /// One of each kind.
    pub fn all(g: &mut Generator) -> Vec<Signal> {
        let all = SIGNALS.map(|(number, flags)| {
            let own = g.arch == Arch::X86_64 || g.random.one_in(2);
            let flags = flags | if own { SA_RESTORER } else { 0 };
            let handler = g.asm.code().label();
            Signal { number, flags, handler, restorer: own.then_some(g.restorer) }
        });
        all.into()
    }
}

/// Numbers of system calls: x86_64, aarch64.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    GetPid,
    Kill,
    TgKill,
    SigAction,
    SigProcMask,
    SigReturn,
    SigAltStack,
    ExitGroup,
}

impl Call {
    const fn number(self, arch: Arch) -> i64 {
        let (x86_64, aarch64) = match self {
            Call::GetPid => (39, 172),
            Call::Kill => (62, 129),
            Call::TgKill => (234, 131),
            Call::SigAction => (13, 134),
            Call::SigProcMask => (14, 135),
            Call::SigReturn => (15, 139),
            Call::SigAltStack => (131, 132),
            Call::ExitGroup => (231, 94),
        };
        match arch {
            Arch::X86_64 => x86_64,
            Arch::Aarch64 => aarch64,
        }
    }
}

impl Generator {
    /// A system call.
    pub(super) fn syscall(&mut self, call: Call, args: &[Arg]) {
        let number = call.number(self.arch);
        self.asm.syscall(number, args);
    }

    /// `word at addr = value`
    fn set(&mut self, addr: u64, value: u64) {
        self.asm.imm(Reg::S0, value);
        self.asm.store_abs(addr, Reg::S0);
    }

    /// Writes an entry at `base + at`; uses `S0`. The CFA is the stack pointer, or unknown.
    pub(super) fn entry(
        &mut self,
        base: Reg,
        at: u64,
        next: Option<Label>,
        kind: u64,
        known: bool,
    ) {
        let a = &mut *self.asm;
        match next {
            Some(label) => a.label_address(Reg::S0, label),
            None => a.imm(Reg::S0, 0),
        }
        a.store(base, at, Reg::S0);
        match known {
            true => a.mov(Reg::S0, Reg::Sp),
            false => a.imm(Reg::S0, 0),
        }
        a.store(base, at + 8, Reg::S0);
        a.imm(Reg::S0, kind);
        a.store(base, at + 16, Reg::S0);
    }

    /// A call of `target` by a function that has its `Level`; in `S1` goes an argument.
    pub(super) fn call(&mut self, target: Label, by_register: bool) {
        let after = self.asm.code().label();
        self.entry(Reg::Level, 0, Some(after), CALL, true);
        let a = &mut *self.asm;
        if by_register {
            a.label_address(Reg::S2, target);
        }
        a.mov(Reg::S0, Reg::Level);
        a.add(Reg::S0, ENTRY as i32);
        a.store_abs(TOP, Reg::S0);
        a.code().list(List::ToLevel);
        match by_register {
            true => a.call_reg(Reg::S2),
            false => a.call(target),
        }
        a.code().bind(after);
        a.store_abs(TOP, Reg::Level);
        a.code().list(List::Exact);
    }

    /// Says in the list that a tail call comes; then `leap` is to follow, and
    /// [`Generator::leapt`]. Uses `S0` and `S2`.
    pub(super) fn about_to_leap(&mut self) -> Label {
        let after = self.asm.code().label();
        let a = &mut *self.asm;
        a.load_abs(Reg::S0, TOP);
        a.label_address(Reg::S2, after);
        a.store(Reg::S0, 0, Reg::S2);
        a.imm(Reg::S2, TAIL);
        a.store(Reg::S0, 16, Reg::S2);
        a.add(Reg::S0, ENTRY as i32);
        a.store_abs(TOP, Reg::S0);
        a.code().list(List::WithoutTail);
        after
    }

    /// A tail call, from where the stack pointer is as at the function's start.
    pub(super) fn leap(&mut self, how: Leap, target: Label) {
        let after = self.about_to_leap();
        let a = &mut *self.asm;
        if how != Leap::Direct {
            a.label_address(Reg::S1, target);
        }
        match how {
            Leap::Direct => a.jump(target),
            Leap::Register => a.jump_reg(Reg::S1),
            Leap::Return => a.jump_by_return(Reg::S1),
        }
        a.code().bind(after);
        a.code().list(List::Exact);
    }

    /// A tail call if a bit of `S1` is set.
    pub(super) fn leap_if(&mut self, target: Label) {
        let after = self.about_to_leap();
        let a = &mut *self.asm;
        a.jump_if_bit(Reg::S1, 33, true, target);
        a.code().bind(after);
        a.load_abs(Reg::S0, TOP);
        a.add(Reg::S0, -(ENTRY as i32));
        a.store_abs(TOP, Reg::S0);
        a.code().list(List::Exact);
    }

    /// The functions of every program, and its signals' handlers.
    pub(super) fn runtime(&mut self) {
        self.start();
        self.jumps();
        self.switches();
        for index in 1..STACKS {
            self.coroutine(index);
        }
        let restorer = self.restorer;
        self.begin("restorer", restorer);
        self.asm.code().list(List::Without(1));
        self.syscall(Call::SigReturn, &[]);
        self.asm.code().list(List::Exact);
    }

    fn start(&mut self) {
        let start = self.asm.code().label();
        self.begin("start", start);
        self.set(TOP, list(0));
        self.asm.mov(Reg::Level, Reg::S0);
        self.set(JUMPS, buffers(0));
        self.set(FUEL, self.fuel);
        let seed = self.random.below(1 << 31) as u64;
        self.set(RANDOM, seed);
        self.set(CURRENT, layout::coroutine(0));
        let mut places = [0, 1, 2];
        self.random.shuffle(&mut places);
        for index in 1..STACKS {
            let top = stack(places[index as usize]) + STACK_SIZE;
            let entry = self.coroutines[index as usize - 1];
            let sp = self.asm.new_stack(top, entry);
            for (at, value) in [(0, sp), (8, list(index)), (16, buffers(index))] {
                self.set(layout::coroutine(index) + at, value);
            }
        }
        self.syscall(Call::GetPid, &[]);
        self.asm.result();
        self.asm.store_abs(PID, Reg::S0);
        self.set(ALTERNATE, stack(places[0]));
        self.set(ALTERNATE + 16, STACK_SIZE);
        self.syscall(Call::SigAltStack, &[Arg::Imm(ALTERNATE), Arg::Imm(0)]);
        for signal in self.signals.clone() {
            self.install(&signal);
        }
        for _ in 0..4 {
            let (target, by_register) = (self.any_function(), self.random.one_in(3));
            self.call(target, by_register);
        }
        self.syscall(Call::ExitGroup, &[Arg::Imm(0)]);
    }

    fn install(&mut self, signal: &Signal) {
        self.asm.label_address(Reg::S0, signal.handler);
        self.asm.store_abs(ACTION, Reg::S0);
        self.set(ACTION + 8, signal.flags);
        if let Some(restorer) = signal.restorer {
            self.asm.label_address(Reg::S0, restorer);
            self.asm.store_abs(ACTION + 16, Reg::S0);
        }
        let args = [signal.number, ACTION, 0, 8].map(Arg::Imm);
        self.syscall(Call::SigAction, &args);
    }

    fn jumps(&mut self) {
        let setjmp = self.setjmp;
        self.begin("setjmp", setjmp);
        let a = &mut *self.asm;
        a.load_abs(Reg::S1, JUMPS);
        a.add(Reg::S1, BUFFER as i32);
        a.store_abs(JUMPS, Reg::S1);
        a.load_abs(Reg::S0, ON_ALTERNATE);
        a.store(Reg::S1, 64, Reg::S0);
        a.setjmp();
        for (style, label) in self.longjmp.into_iter().enumerate() {
            self.begin("longjmp", label);
            let a = &mut *self.asm;
            a.load(Reg::S0, Reg::S1, 64);
            a.store_abs(ON_ALTERNATE, Reg::S0);
            a.mov(Reg::S0, Reg::S1);
            a.add(Reg::S0, -(BUFFER as i32));
            a.store_abs(JUMPS, Reg::S0);
            a.longjmp(style);
        }
    }

    /// `switch(S1 = coroutine)`
    fn switches(&mut self) {
        for (style, label) in self.switch.into_iter().enumerate() {
            self.begin("switch", label);
            let a = &mut *self.asm;
            a.save_all();
            a.load_abs(Reg::S0, CURRENT);
            a.mov(Reg::S2, Reg::Sp);
            a.store(Reg::S0, 0, Reg::S2);
            a.load_abs(Reg::S2, TOP);
            a.store(Reg::S0, 8, Reg::S2);
            a.store_abs(SAVED, Reg::S2);
            a.load_abs(Reg::S2, JUMPS);
            a.store(Reg::S0, 16, Reg::S2);
            a.store_abs(CURRENT, Reg::S1);
            a.load(Reg::S2, Reg::S1, 16);
            a.store_abs(JUMPS, Reg::S2);
            a.load(Reg::S2, Reg::S1, 8);
            a.store_abs(TOP, Reg::S2);
            a.code().list(List::Saved);
            a.load(Reg::S2, Reg::S1, 0);
            a.mov(Reg::Sp, Reg::S2);
            a.restore_all(style);
            a.code().list(List::Exact);
        }
    }

    /// Calls functions and gives way, for ever.
    fn coroutine(&mut self, index: u64) {
        let label = self.coroutines[index as usize - 1];
        self.begin("coroutine", label);
        self.asm.load_abs(Reg::Level, TOP);
        let again = self.asm.code().label();
        self.asm.code().bind(again);
        for _ in 0..2 {
            let target = self.any_function();
            self.call(target, false);
        }
        self.asm.imm(Reg::S1, layout::coroutine((index + 1) % STACKS));
        let switch = self.switch[0];
        self.call(switch, false);
        self.asm.jump(again);
    }
}
