//! System-call entry: N1 to N7.

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
    let (path, invoke, kept) = match arch {
        Arch::X86_64 => {
            (x86_64::paths::SYSCALL, x86_64::paths::INVOKE, x86_64::paths::SYSCALL_EXIT)
        }
        Arch::Aarch64 => {
            (aarch64::paths::SYSCALL, aarch64::paths::INVOKE, aarch64::paths::SYSCALL_EXIT)
        }
    };
    let (outer, inner) = path.split_at(kept);
    k.path(outer, async {
        k.step(Point::EntryRaw, |_| ()).await;
        k.step(Point::EntryN1, |s| {
            let regs = s.core.regs();
            let nr = regs.syscall_nr();
            let regs = after_entry(regs);
            s.save_user_regs(&regs, nr);
        })
        .await;
        k.calls(inner, body(k, invoke)).await;
        exit::exit_loop(k).await;
    })
    .await;
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

async fn body(k: &Kernel, invoke: &[Named]) {
    k.step(Point::EntryN2, |_| ()).await;
    k.step(Point::EntryN3, |s| s.cpu.irqs_on = true).await;
    let traced = k.with(|s| s.perf.wants(EventKind::SysEnter));
    if traced {
        k.call(Named::TraceEnter, async {
            k.step(Point::EntryN4, |s| {
                let regs = s.user_regs();
                let raw = Raw::SysEnter { id: s.task.orig_nr as i64, args: regs.syscall_args() };
                s.tracepoint(EventKind::SysEnter, raw);
            })
            .await;
        })
        .await;
    } else {
        k.step(Point::EntryN4, |_| ()).await;
    }
    let outcome = k.calls(invoke, syscalls::dispatch(k)).await;
    k.step(Point::EntryN6, |s| {
        let mut regs = s.user_regs();
        if let Outcome::Return(value) = outcome {
            regs.set_ret(value);
            s.set_user_regs(&regs);
        }
    })
    .await;
    if k.with(|s| s.perf.wants(EventKind::SysExit)) {
        k.call(Named::TraceExit, async {
            k.step(Point::EntryN6, |s| {
                let ret = s.user_regs().ret() as i64;
                let id = s.task.orig_nr as i64;
                s.tracepoint(EventKind::SysExit, Raw::SysExit { id, ret });
            })
            .await;
        })
        .await;
    }
    k.step(Point::EntryN7, |s| s.cpu.irqs_on = false).await;
}
