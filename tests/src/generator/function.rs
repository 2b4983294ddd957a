//! Random functions.

use arch::Arch;

use super::Generator;
use super::asm::{Arg, Frame, Leap, Reg};
use super::code::{Label, List};
use super::layout::{self, *};
use super::runtime::{Call, Signal};

impl Generator {
    /// One of the program's functions.
    pub(super) fn any_function(&mut self) -> Label {
        let functions = &self.functions;
        functions[self.random.below(functions.len())]
    }

    fn other_function(&mut self, not: Label) -> Label {
        loop {
            let found = self.any_function();
            if found != not {
                return found;
            }
        }
    }

    /// `r = random number`; uses `S3`.
    fn draw(&mut self, r: Reg) {
        let a = &mut *self.asm;
        a.load_abs(r, RANDOM);
        a.imm(Reg::S3, 6_364_136_223_846_793_005);
        a.mul(r, Reg::S3);
        a.add(r, 1443);
        a.store_abs(RANDOM, r);
    }

    /// Goes to `out` if the program has done enough or the list is long.
    fn check_limits(&mut self, out: Label) {
        let a = &mut *self.asm;
        a.load_abs(Reg::S0, FUEL);
        a.jump_if_zero(Reg::S0, true, out);
        a.add(Reg::S0, -1);
        a.store_abs(FUEL, Reg::S0);
        a.load_abs(Reg::S0, TOP);
        a.jump_if_bit(Reg::S0, self.limit_bit, true, out);
    }

    /// Goes to `out` in one of two cases.
    fn perhaps(&mut self, out: Label) {
        self.draw(Reg::S0);
        let (bit, set) = (30 + self.random.below(30) as u32, self.random.one_in(2));
        self.asm.jump_if_bit(Reg::S0, bit, set, out);
    }

    fn any_leap(&mut self) -> Leap {
        self.random.pick(&[Leap::Direct, Leap::Register, Leap::Return])
    }

    /// A function without a frame: it makes no call.
    pub(super) fn leaf(&mut self, me: Label) {
        self.begin("leaf", me);
        let out = self.asm.code().label();
        self.check_limits(out);
        for _ in 0..self.random.below(4) {
            let skip = self.asm.code().label();
            self.perhaps(skip);
            match self.random.below(6) {
                0 | 1 => self.syscall(Call::GetPid, &[]),
                2 => self.jump_over(true),
                3 => self.jump_over(false),
                _ => self.raise_in_leaf(),
            }
            self.asm.code().bind(skip);
        }
        let target = self.other_function(me);
        match self.random.below(4) {
            0 => {
                self.perhaps(out);
                let how = self.any_leap();
                self.leap(how, target);
            }
            1 => {
                self.draw(Reg::S1);
                self.leap_if(target);
            }
            _ => {}
        }
        self.asm.code().bind(out);
        self.asm.ret();
    }

    fn any_frame(&mut self) -> Frame {
        let r = &mut self.random;
        let (fp, alloca) = (r.one_in(2), r.one_in(3));
        let mut saved = vec![Reg::Level];
        for reg in Reg::SAVED {
            let needed = reg == Reg::C3 && alloca && !fp;
            let free = reg != Reg::Level && !(fp && reg == Reg::Fp);
            if needed || free && r.one_in(3) {
                saved.push(reg);
            }
        }
        r.shuffle(&mut saved);
        let sign = if self.arch == Arch::Aarch64 { r.below(3) as u8 } else { 0 };
        Frame { fp, saved, locals: 16 * r.below(12) as u64, alloca, sign, style: r.below(12) }
    }

    /// A function with a frame.
    pub(super) fn function(&mut self, me: Label) {
        self.begin("function", me);
        self.framed(me, None);
    }

    /// The handler of a signal: the same, but it knows its CFA only now.
    pub(super) fn handler(&mut self, signal: &Signal) {
        self.begin("handler", signal.handler);
        let a = &mut *self.asm;
        a.cfa(Reg::S0);
        a.load_abs(Reg::S1, TOP);
        a.add(Reg::S1, -(ENTRY as i32));
        a.store(Reg::S1, 8, Reg::S0);
        self.framed(signal.handler, Some(signal));
    }

    fn framed(&mut self, me: Label, handles: Option<&Signal>) {
        let mut frame = self.any_frame();
        let alternate = handles.is_some_and(Signal::on_alternate_stack);
        let tail = if alternate { 2 } else { self.random.below(5) };
        if tail < 2 {
            frame.style &= !2; // the signature ends before the return instruction
        }
        self.asm.prologue(&frame);
        self.asm.load_abs(Reg::Level, TOP);
        if alternate {
            self.count_alternate(1);
        }
        let out = self.asm.code().label();
        self.check_limits(out);
        for _ in 0..1 + self.random.below(4) {
            self.statement(&frame, 2);
        }
        let target = self.other_function(me);
        match tail {
            0 => {
                self.perhaps(out);
                self.asm.epilogue(&frame);
                let how = self.any_leap();
                self.leap(how, target);
            }
            1 => {
                self.draw(Reg::S1);
                self.asm.epilogue(&frame);
                self.leap_if(target);
                self.asm.ret_after(&frame);
            }
            _ => {}
        }
        self.asm.code().bind(out);
        if alternate {
            self.count_alternate(-1);
        }
        self.asm.epilogue(&frame);
        self.asm.ret_after(&frame);
    }

    fn count_alternate(&mut self, by: i32) {
        self.asm.load_abs(Reg::S0, ON_ALTERNATE);
        self.asm.add(Reg::S0, by);
        self.asm.store_abs(ON_ALTERNATE, Reg::S0);
    }

    /// Something that a function does, half of the time. `depth` bounds statements in
    /// statements.
    fn statement(&mut self, frame: &Frame, depth: usize) {
        let skip = self.asm.code().label();
        self.perhaps(skip);
        match self.random.below(16) {
            0 => self.syscall(Call::GetPid, &[]),
            1 => self.jump_over(true),
            2 => self.jump_over(false),
            3 | 4 => self.raise(),
            5 | 6 if depth > 0 => self.attempt(frame, depth - 1),
            7 | 8 => self.throw(),
            9 | 10 => self.give_way(),
            11 if frame.alloca => self.alloca(),
            _ => {
                let (target, by_register) = (self.any_function(), self.random.one_in(3));
                self.call(target, by_register);
            }
        }
        self.asm.code().bind(skip);
    }

    /// A jump inside the function, by a register or by a return instruction.
    fn jump_over(&mut self, by_return: bool) {
        let there = self.asm.code().label();
        self.asm.label_address(Reg::S1, there);
        match by_return {
            true => self.asm.jump_by_return(Reg::S1),
            false => self.asm.jump_reg(Reg::S1),
        }
        self.asm.ret(); // never reached
        self.asm.code().bind(there);
    }

    fn alloca(&mut self) {
        self.draw(Reg::S0);
        let a = &mut *self.asm;
        a.low_bits(Reg::S0, 5);
        a.imm(Reg::S2, 16);
        a.mul(Reg::S0, Reg::S2);
        a.sub_sp(Reg::S0);
    }

    /// Sends a signal to itself; `after` comes behind the system call.
    fn kill(&mut self, signal: &Signal, after: Label) {
        match self.random.one_in(2) {
            true => self.syscall(Call::Kill, &[Arg::At(PID), Arg::Imm(signal.number)]),
            false => {
                let args = [Arg::At(PID), Arg::At(PID), Arg::Imm(signal.number)];
                self.syscall(Call::TgKill, &args);
            }
        }
        self.asm.code().bind(after);
    }

    /// Lets all signals through; a handler that was left may have kept them blocked.
    fn unblock(&mut self) {
        let args = [2, ZERO, 0, 8].map(Arg::Imm); // SIG_SETMASK
        self.syscall(Call::SigProcMask, &args);
    }

    fn raise(&mut self) {
        let signal = self.random.pick(&self.signals);
        self.unblock();
        let after = self.asm.code().label();
        self.entry(Reg::Level, 0, Some(after), SIGNAL, true);
        self.entry(Reg::Level, ENTRY, signal.restorer, CALL, false);
        let a = &mut *self.asm;
        a.mov(Reg::S0, Reg::Level);
        a.add(Reg::S0, 2 * ENTRY as i32);
        a.store_abs(TOP, Reg::S0);
        a.code().list(List::ToLevel);
        self.kill(&signal, after);
        self.asm.store_abs(TOP, Reg::Level);
        self.asm.code().list(List::Exact);
    }

    fn raise_in_leaf(&mut self) {
        let signal = self.random.pick(&self.signals);
        self.unblock();
        let after = self.asm.code().label();
        self.asm.load_abs(Reg::S4, TOP);
        self.entry(Reg::S4, 0, Some(after), SIGNAL, true);
        self.entry(Reg::S4, ENTRY, signal.restorer, CALL, false);
        let a = &mut *self.asm;
        a.mov(Reg::S0, Reg::S4);
        a.add(Reg::S0, 2 * ENTRY as i32);
        a.store_abs(TOP, Reg::S0);
        self.asm.code().list(List::Without(2));
        self.kill(&signal, after);
        // The handler's tail calls may have made the list longer.
        self.asm.store_abs(TOP, Reg::S4);
        self.asm.code().list(List::Exact);
    }

    /// `setjmp` and statements; something else if they are left by `longjmp`.
    fn attempt(&mut self, frame: &Frame, depth: usize) {
        let (caught, end) = (self.asm.code().label(), self.asm.code().label());
        let setjmp = self.setjmp;
        self.call(setjmp, false);
        self.asm.jump_if_zero(Reg::S0, false, caught);
        if frame.alloca {
            // What is called from here has other CFAs than `setjmp` had.
            self.alloca();
        }
        for _ in 0..1 + self.random.below(3) {
            self.statement(frame, depth);
        }
        self.asm.load_abs(Reg::S0, JUMPS);
        self.asm.add(Reg::S0, -(BUFFER as i32));
        self.asm.store_abs(JUMPS, Reg::S0);
        self.asm.jump(end);
        self.asm.code().bind(caught);
        self.statement(frame, depth);
        self.asm.code().bind(end);
    }

    /// `longjmp` to one of the innermost three buffers, if there is one.
    fn throw(&mut self) {
        let (ready, none) = (self.asm.code().label(), self.asm.code().label());
        let outwards = self.random.below(3);
        let a = &mut *self.asm;
        a.load_abs(Reg::S1, JUMPS);
        a.mov(Reg::S0, Reg::S1);
        a.low_bits(Reg::S0, BUFFER_BITS);
        a.jump_if_zero(Reg::S0, true, none);
        for _ in 0..outwards {
            a.mov(Reg::S0, Reg::S1);
            a.add(Reg::S0, -(BUFFER as i32));
            a.mov(Reg::S2, Reg::S0);
            a.low_bits(Reg::S2, BUFFER_BITS);
            a.jump_if_zero(Reg::S2, true, ready);
            a.mov(Reg::S1, Reg::S0);
        }
        a.code().bind(ready);
        let longjmp = self.random.pick(&self.longjmp);
        self.call(longjmp, false);
        self.asm.code().bind(none);
    }

    /// Switches to another stack, not from the alternate signal stack, which the other may
    /// need.
    fn give_way(&mut self) {
        let skip = self.asm.code().label();
        self.asm.load_abs(Reg::S0, ON_ALTERNATE);
        self.asm.jump_if_zero(Reg::S0, false, skip);
        let to = layout::coroutine(self.random.below(STACKS as usize) as u64);
        self.asm.imm(Reg::S1, to);
        let (switch, by_register) = (self.random.pick(&self.switch), self.random.one_in(3));
        self.call(switch, by_register);
        self.asm.code().bind(skip);
    }
}
