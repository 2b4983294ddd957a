//! Tracepoints: where they are hit, with which registers and payload.
//!
//! ```text
//! raw_syscalls:sys_enter, sys_exit     trace_syscall_enter, trace_syscall_exit
//! syscalls:sys_enter_*, sys_exit_*     the same places, but at the user's registers (P-10)
//! signal:signal_generate               __send_signal_locked; of a trap's signal: its handler
//! signal:signal_deliver                get_signal
//! sched:sched_process_exit             do_exit, after PF_EXITING, before the events go
//! x86_fpu:x86_fpu_regs_activated       exit_to_user_mode_prepare (X4), after a switch of tasks
//! ```
//!
//! Events that the same place hits are sampled in the order of the session.

use arch::sigaction::SigAction;
use arch::siginfo::SigInfo;
use arch::{Arch, Signal, Sysno};

use crate::kernel::State;
use crate::perf::record::{EventKind, Generated, Raw};

/// `task_struct.prio` at nice 0.
const DEFAULT_PRIO: i32 = 120;

/// Where the tasks' `struct fpu` would be, in the kernel's map of all memory.
const FIRST_FPU: u64 = 0xffff_8881_0000_0000;
/// Bytes from one to the next.
const FPU_SIZE: u64 = 0x2000;

/// The system call that a number register names: the number is an `int`.
const NUMBER: u64 = 0xffff_ffff;

impl State {
    /// Whether a tracepoint at the entry of a system call is wanted.
    pub fn traces_enter(&self) -> bool {
        let kind = |k| matches!(k, EventKind::SysEnter | EventKind::SysEnterOf(_));
        self.perf.kinds().any(kind)
    }

    /// The same of its exit.
    pub fn traces_exit(&self) -> bool {
        let kind = |k| matches!(k, EventKind::SysExit | EventKind::SysExitOf(_));
        self.perf.kinds().any(kind)
    }

    /// System call `nr` begins.
    pub fn trace_sys_enter(&mut self, nr: u64, args: [u64; 6]) {
        let regs = self.user_regs();
        let called = Sysno::from_nr(self.arch, nr & NUMBER);
        for (slot, kind) in self.active(EventKind::is_tracepoint) {
            match kind {
                EventKind::SysEnter => {
                    self.hit(slot, None, Some(Raw::SysEnter { id: nr as i64, args }));
                }
                EventKind::SysEnterOf(call) if Some(call) == called => {
                    let raw = Raw::SysEnterOf { call, nr: nr as i32, args };
                    self.hit(slot, Some(&regs), Some(raw));
                }
                _ => {}
            }
        }
    }

    /// A system call ends. `nr` is `None` after `rt_sigreturn`, which leaves none behind.
    pub fn trace_sys_exit(&mut self, nr: Option<u64>) {
        let regs = self.user_regs();
        let ret = regs.ret() as i64;
        let called = nr.and_then(|nr| Sysno::from_nr(self.arch, nr & NUMBER));
        let id = nr.map_or(-1, |nr| nr as i64);
        for (slot, kind) in self.active(EventKind::is_tracepoint) {
            match kind {
                EventKind::SysExit => self.hit(slot, None, Some(Raw::SysExit { id, ret })),
                EventKind::SysExitOf(call) if Some(call) == called => {
                    let raw = Raw::SysExitOf { call, nr: id as i32, ret };
                    self.hit(slot, Some(&regs), Some(raw));
                }
                _ => {}
            }
        }
    }

    /// A signal was sent to the task `who` (name, thread id); `group` says: to its process.
    pub fn trace_signal_generate(
        &mut self,
        info: &SigInfo,
        who: (String, u32),
        group: bool,
        result: Generated,
    ) {
        if !self.perf.wants(EventKind::SignalGenerate) {
            return;
        }
        let raw = Raw::SignalGenerate {
            signal: info.signal.number().into(),
            errno: info.errno,
            code: info.code,
            comm: who.0,
            pid: who.1,
            group,
            result,
        };
        self.tracepoint(EventKind::SignalGenerate, raw);
    }

    /// A signal was taken to be delivered. That of SIGKILL is not looked at.
    pub fn trace_signal_deliver(&mut self, info: &SigInfo, action: SigAction) {
        if !self.perf.wants(EventKind::SignalDeliver) {
            return;
        }
        let (errno, code) = match info.signal {
            Signal::SIGKILL => (0, 0),
            _ => (info.errno, info.code),
        };
        let signal = info.signal.number().into();
        let (handler, flags) = (action.handler, action.flags);
        let raw = Raw::SignalDeliver { signal, errno, code, handler, flags };
        self.tracepoint(EventKind::SignalDeliver, raw);
    }

    /// X4 of x86_64 (`switch_fpu_return`): the user's floating-point registers are loaded, unless
    /// they are those that the CPU has. A tracepoint in the tail of the exit (E-3a).
    pub fn activate_fpu(&mut self) {
        let me = Some(self.task.id);
        let valid = self.cpu.fpu_owner == me && self.task.fpu_cpu == Some(self.cpu.id);
        if self.arch != Arch::X86_64 || valid {
            return;
        }
        self.cpu.fpu_owner = me;
        self.task.fpu_cpu = Some(self.cpu.id);
        if self.perf.wants(EventKind::FpuRegsActivated) {
            let fpu = FIRST_FPU + u64::from(self.task.id.0) * FPU_SIZE;
            self.tracepoint(EventKind::FpuRegsActivated, Raw::FpuRegsActivated { fpu });
        }
    }

    /// The task ends, perhaps as the last of its process.
    pub fn trace_process_exit(&mut self, group_dead: bool) {
        if !self.perf.wants(EventKind::ProcessExit) {
            return;
        }
        let (comm, pid) = (self.task.name(), self.task.tid);
        let raw = Raw::ProcessExit { comm, pid, prio: DEFAULT_PRIO, group_dead };
        self.tracepoint(EventKind::ProcessExit, raw);
    }
}
