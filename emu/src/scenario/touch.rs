//! What a step can have to do with what other CPUs do: where a search has to try other orders.
//!
//! Two steps of different CPUs that touch nothing in common give the same state in either order, so
//! that another CPU's turn needs to be tried only before steps that touch what is shared, and an
//! NMI's only before steps that touch what it could see or change. A test holds this table to the
//! code: no step may change more than it says.

use crate::kernel::Point;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touch {
    /// Nothing that anybody could learn of.
    Nothing,
    /// State of its own task or CPU, which interrupts of it see, and no other CPU.
    Own,
    /// State that other CPUs see or change.
    Shared,
}

/// That of the step at `point`, whatever the design.
pub const fn of(point: Point) -> Touch {
    use Point::*;
    match point {
        // Frame records, bookkeeping, costs.
        Call | Return | EntryN1 | EntryN2 | EntryN4 | EntryN6 | TraceEnter | ForkPart
        | ExecPart | ExitPatch | ExitArch | ExitFiles | ExitTaskWork | IrqHandler | NmiHandler
        | IrqDeliver | CallbackLog | CancelK3 | MutexGot | TimestampWork7 | CookieWork7
        | UprobeLook | TracerRearm | TracerNote | SchedSame | TracePreemptirq | CallchainUser => {
            Touch::Nothing
        }
        // Work bits, which a wake-up or a signal of another CPU sets.
        ExitX1 | ExitX3 | ExitUprobe | ExitResume | ExitSignal | ExitSignalWork | ExitResched
        | IrqPreempt | Resched => Touch::Shared,
        // The scheduler's queues, and who waits.
        Sleep | SchedPick | SchedSwitch | Wake | Idle | IdleLook | IdleWake | WaitPrepare
        | WaitFinish | WaitOver | IrqEnter => Touch::Shared,
        // A system call's work may be anything. Ends and births.
        Body | ForkCopy | ForkDone | ForkWake | ForkVfork | ExecLoad | ExecKill | ExecAlone
        | ExecSwitch | SignalDie | ExitMm | ExitNotify | ExitDead | ExitPerf => Touch::Shared,
        // The tracers and their works.
        RequestQ4 | ProcessP7 | ProcessP8 | ProcessP8Next | ProcessP8Load | ProcessP9
        | CallbackCall | ListRead | InitLock | InitUnlock | InitList | InitFunction | CancelK2
        | CancelK4 | CancelK5 | CancelK6 | CancelK7 | CancelK8 | CancelK9 | CancelUnlock
        | MutexRetry | SrcuLook | TimestampWork6 | TimestampWork8 | CookieWork6 | CookieWork8
        | TimestampRequest7 | CookieRequest7 | WorkRequest3 | WorkWork1 | TracerSleep
        | TracerOn | TracerOff | TracerGone | TracerLook | TracerFired | TracerAsk
        | SessionSleep | SessionOpen | SessionClose => Touch::Shared,
        // A task's mask and who was served, from which a cancelling takes the bit (K9).
        RequestQ8 | RequestQ9 | RequestQ11 | CaptureC7 | ProcessP1 | ProcessP2 | ProcessP5
        | ProcessP8Completed | ExitX5 | ResetR2 | ResetR3 | ResetR6 | UnwindFlush => Touch::Shared,
        // The count of failing allocations is the machine's.
        CaptureAllocate => Touch::Shared,
        _ => Touch::Own,
    }
}
