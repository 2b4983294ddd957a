//! Entry from user mode, N0 to N3, N7; system calls.
//!
//! All paths from user mode begin and end with the same steps, in the functions that the
//! path's [`EntryPath`] says.

use std::hash::Hash;

use arch::syscalls::Sysno;
use arch::{Arch, Regs};

use crate::kernel::paths::{self, EntryPath};
use crate::kernel::symbols::Named;
use crate::kernel::syscalls::{self, Outcome};
use crate::kernel::{Kernel, Point, State, aarch64, exit, tracer, x86_64};

/// The saved "original" register of an entry that is no system call.
const NO_SYSCALL: u64 = u64::MAX;

/// N0 to N2 of an interrupt or exception: the user's registers are saved and returned.
pub async fn begin(k: &Kernel, path: &EntryPath) -> Regs {
    let processor = |s: &mut State| s.enter_kernel(path.functions[0].into(), false);
    let regs = begin_with(k, path, processor, save_regs).await;
    k.irqs_went_off(Named::HardirqsOffFinish).await;
    regs
}

/// N0 to N2, with what the processor does at N0 and what is saved at N1.
pub async fn begin_with<T: Hash>(
    k: &Kernel,
    path: &EntryPath,
    processor: impl FnOnce(&mut State),
    save: impl FnOnce(&mut State) -> T,
) -> T {
    k.step(Point::EntryRaw, processor).await;
    let saved = k.step(Point::EntryN1, save).await;
    k.enter(&path.functions[1..path.bookkeeping]).await;
    k.step(Point::EntryN2, |_| ()).await;
    saved
}

/// N1 of an interrupt or exception: what is saved.
pub fn save_regs(state: &mut State) -> Regs {
    let regs = state.hw_regs();
    state.save_user_regs(&regs, NO_SYSCALL);
    regs
}

/// N3: interrupts are on, and the functions that do the work are called.
pub async fn enable(k: &Kernel, path: &EntryPath) {
    k.enter(&path.functions[path.bookkeeping..path.unmasked]).await;
    k.irqs_go_on(Named::HardirqsOn).await;
    k.step(Point::EntryN3, |s| {
        s.cpu.nmi_masked = false;
        s.cpu.irqs_on = true;
    })
    .await;
    k.enter(&path.functions[path.unmasked..]).await;
}

/// The functions that did the work return; N7; the exit loop.
pub async fn finish(k: &Kernel, path: &EntryPath) {
    k.leave(&path.functions[path.unmasked..]).await;
    k.step(Point::EntryN7, |s| s.cpu.irqs_on = false).await;
    k.irqs_went_off(Named::HardirqsOff).await;
    k.leave(&path.functions[path.exit..path.unmasked]).await;
    exit::to_user_mode(k, path).await;
}

/// Executes the system call at which user code stopped, and returns to user mode.
pub async fn syscall(k: &Kernel) {
    let path = &paths::of(k.arch()).syscall;
    let save = |s: &mut State| {
        let regs = s.hw_regs();
        let nr = regs.syscall_nr();
        s.task.restart_value = match regs.arch {
            Arch::X86_64 => nr,
            Arch::Aarch64 => regs.gp[0],
        };
        s.save_user_regs(&after_entry(regs), nr);
    };
    begin_with(k, path, |s| s.enter_kernel(path.functions[0].into(), false), save).await;
    k.irqs_went_off(Named::HardirqsOffFinish).await;
    enable(k, path).await;
    // `exit_group` does not come back.
    if body(k).await != Outcome::Gone {
        finish(k, path).await;
    }
}

/// What the entry instruction and code do to the saved registers: on x86_64 the result
/// register starts as -ENOSYS.
fn after_entry(mut regs: Regs) -> Regs {
    if regs.arch == Arch::X86_64 {
        // `syscall`: RCX = return address, R11 = RFLAGS.
        regs.gp[arch::x86_64::regs::RCX] = regs.pc;
        regs.gp[arch::x86_64::regs::R11] = regs.flags;
        regs.set_ret((-38i64) as u64);
    }
    regs
}

/// N4 to N6.
async fn body(k: &Kernel) -> Outcome {
    let (traced, nr, args) = enter_work(k).await;
    let sysno = Sysno::from_nr(k.arch(), nr);
    let invoke = match k.arch() {
        Arch::X86_64 => x86_64::paths::invoke(sysno),
        Arch::Aarch64 => aarch64::paths::invoke(sysno),
    };
    k.enter(invoke).await;
    let outcome = syscalls::dispatch(k, nr, args).await;
    if outcome == Outcome::Gone {
        return outcome;
    }
    k.leave(invoke).await;
    k.step(Point::EntryN5, |s| {
        if let Outcome::Return(value) = outcome {
            set_ret(s, value);
        }
        syscalls::trace(s, sysno, &args, outcome);
    })
    .await;
    if traced {
        trace_exit(k, outcome).await;
    } else {
        k.step(Point::EntryN6, |_| ()).await;
    }
    outcome
}

/// N6, traced.
async fn trace_exit(k: &Kernel, outcome: Outcome) {
    k.call(Named::TraceExit.into()).await;
    k.step(Point::EntryN6, |s| exit_work(s, outcome)).await;
    k.ret().await;
}

/// N6 of a new task: x86_64's `ret_from_fork` ends the call that made it as if it had made the
/// call itself; arm64's does not.
pub async fn forked(k: &Kernel) {
    if k.arch() == Arch::X86_64 && k.constant(State::traces_exit) {
        trace_exit(k, Outcome::Return(0)).await;
    }
}

/// The register that returns a system call's result, in the slot.
fn set_ret(s: &mut State, value: u64) {
    let word = match s.arch {
        Arch::X86_64 => x86_64::pt_regs::AX,
        Arch::Aarch64 => aarch64::pt_regs::X0,
    };
    let at = s.slot() + 8 * word as u64;
    s.task.stack.store(&mut s.arena, at, value);
}

/// N4: whether the exit is traced, the call's number and its arguments.
async fn enter_work(k: &Kernel) -> (bool, u64, [u64; 6]) {
    let (enter, exit, nr, args) = k
        .step(Point::EntryN4, |s| {
            s.stats.syscalls += 1;
            (s.traces_enter(), s.traces_exit(), s.task.orig_nr, s.user_regs().syscall_args())
        })
        .await;
    if enter {
        k.call(Named::TraceEnter.into()).await;
        k.step(Point::TraceEnter, |s| s.trace_sys_enter(nr, args)).await;
        k.ret().await;
    }
    if k.constant(|s| !s.tracers.is_empty()) {
        tracer::at_system_call(k).await;
    }
    (exit, nr, args)
}

/// N6: the sys_exit tracepoints.
fn exit_work(state: &mut State, outcome: Outcome) {
    let nr = (outcome != Outcome::Keep).then_some(state.task.orig_nr);
    state.trace_sys_exit(nr);
}
