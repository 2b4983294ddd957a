//! System-call entry: N1 to N7.

use arch::syscalls::Sysno;
use arch::{Arch, Regs};

use crate::kernel::symbols::Named;
use crate::kernel::syscalls::{self, Outcome};
use crate::kernel::{Kernel, Point, aarch64, exit, x86_64};
use crate::perf::record::{EventKind, Raw};

/// Executes the system call at which user code stopped, and returns to user mode.
pub async fn syscall(k: &Kernel) {
    let arch = k.with(|s| {
        s.enter_kernel();
        s.arch
    });
    let (path, kept) = match arch {
        Arch::X86_64 => (x86_64::paths::SYSCALL, x86_64::paths::SYSCALL_EXIT),
        Arch::Aarch64 => (aarch64::paths::SYSCALL, aarch64::paths::SYSCALL_EXIT),
    };
    let (outer, inner) = path.split_at(kept);
    k.begin(outer).await;
    k.step(Point::EntryRaw, |_| ()).await;
    k.step(Point::EntryN1, |s| {
        let regs = s.core.regs();
        let nr = regs.syscall_nr();
        s.save_user_regs(&after_entry(regs), nr);
    })
    .await;
    k.enter(inner).await;
    body(k).await;
    k.leave(inner).await;
    exit::exit_loop(k, Named::ExitLoop).await;
    k.end(outer).await;
    exit::leave(k);
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

async fn body(k: &Kernel) {
    k.step(Point::EntryN2, |_| ()).await;
    k.step(Point::EntryN3, |s| s.cpu.irqs_on = true).await;
    if k.with(|s| s.perf.wants(EventKind::SysEnter)) {
        k.call(Named::TraceEnter.into()).await;
        k.step(Point::EntryN4, |s| {
            let args = s.user_regs().syscall_args();
            let raw = Raw::SysEnter { id: s.task.orig_nr as i64, args };
            s.tracepoint(EventKind::SysEnter, raw);
        })
        .await;
        k.ret().await;
    } else {
        k.step(Point::EntryN4, |_| ()).await;
    }
    let invoke = k.with(|s| {
        let sysno = Sysno::from_nr(s.arch, s.task.orig_nr);
        match s.arch {
            Arch::X86_64 => x86_64::paths::invoke(sysno),
            Arch::Aarch64 => aarch64::paths::invoke(sysno),
        }
    });
    k.enter(invoke).await;
    let outcome = syscalls::dispatch(k).await;
    k.leave(invoke).await;
    k.step(Point::EntryN5, |s| {
        if let Outcome::Return(value) = outcome {
            let mut regs = s.user_regs();
            regs.set_ret(value);
            s.set_user_regs(&regs);
        }
    })
    .await;
    // `exit_group` does not come back.
    if k.with(|s| s.perf.wants(EventKind::SysExit) && s.task.ending.is_none()) {
        k.call(Named::TraceExit.into()).await;
        k.step(Point::EntryN6, |s| {
            let ret = s.user_regs().ret() as i64;
            // `rt_sigreturn` leaves no system call behind.
            let id = if outcome == Outcome::Keep { -1 } else { s.task.orig_nr as i64 };
            s.tracepoint(EventKind::SysExit, Raw::SysExit { id, ret });
        })
        .await;
        k.ret().await;
    } else {
        k.step(Point::EntryN6, |_| ()).await;
    }
    k.step(Point::EntryN7, |s| s.cpu.irqs_on = false).await;
}
