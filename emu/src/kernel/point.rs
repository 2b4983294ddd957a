//! The named step points of the kernel's paths.
//!
//! A step is the smallest unit between which an interrupt can arrive. Its cost is in
//! instructions, which are cycles here; costs are a model, chosen to be of the order
//! that a real kernel shows, and the same in every run.

macro_rules! points {
    ($($id:ident, $name:literal, $cost:literal, $rule:literal;)*) => {
        /// A step point.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Point {
            $(#[doc = $rule] $id,)*
        }

        impl Point {
            /// All points in the order of this file.
            pub const ALL: &[Point] = &[$(Point::$id,)*];

            /// `area.path.STEP`
            pub const fn name(self) -> &'static str {
                match self { $(Point::$id => $name,)* }
            }

            /// What happens at the step.
            pub const fn rule(self) -> &'static str {
                match self { $(Point::$id => $rule,)* }
            }

            /// Instructions that the step stands for.
            pub const fn cost(self) -> u64 {
                match self { $(Point::$id => $cost,)* }
            }
        }
    };
}

points! {
    EntryRaw, "entry.N0", 8, "kernel mode entered, interrupts off, the register slot still holds the previous entry";
    EntryN1, "entry.N1", 24, "user registers written to the register slot";
    EntryN2, "entry.N2", 12, "entry bookkeeping";
    EntryN3, "entry.N3", 8, "stack offset chosen, interrupts on; for an interrupt: hardirq count raised";
    EntryN4, "entry.N4", 12, "optional entry work is looked for";
    TraceEnter, "entry.N4.trace", 12, "sys_enter tracepoint";
    EntryN5, "entry.N5", 40, "body";
    EntryN6, "entry.N6", 8, "one-time exit work: sys_exit tracepoint";
    EntryN7, "entry.N7", 6, "interrupts off, on to the exit loop";
    Call, "call.enter", 4, "a modelled function was called: its frame record is on the stack";
    Return, "call.leave", 3, "a modelled function returned";
    Body, "syscall.body", 60, "a system call's work";
    Sleep, "sched.sleep", 400, "the task blocks: switched out";
    SchedPick, "sched.pick", 60, "interrupts off, the next task is chosen";
    SchedSame, "sched.same", 20, "it is the same task: interrupts as before";
    SchedSwitch, "sched.switch", 0, "the other task's stack is the CPU's (its cost is the switch's out)";
    Wake, "sched.wake", 400, "the task runs again: switched in";
    Idle, "sched.idle", 0, "nothing can run: the CPU halts, time goes on to the next interrupt";
    IdleLook, "sched.idle.look", 20, "the idle task looks whether there is somebody to run";
    IdleWake, "sched.idle.wake", 40, "an interrupt has ended the halt";
    WaitPrepare, "wait.prepare", 20, "the task says for what it waits";
    WaitFinish, "wait.finish", 20, "its wait is over, its timer is stopped";
    WaitOver, "wait.over", 4, "what a call keeps while it waits is forgotten";
    ForkPart, "fork.part", 1000, "a part of what the parent has is copied";
    ForkCopy, "fork.copy", 1000, "the child is made: memory, files, signals, events";
    ForkDone, "fork.done", 200, "the child is announced: its id, FORK record, tracepoint";
    ForkWake, "fork.wake", 300, "the child is put into a queue";
    ForkVfork, "fork.vfork", 20, "whether the child still uses the parent's memory";
    ExecPart, "exec.part", 1000, "a part of the program is read";
    ExecLoad, "exec.load", 1000, "the program is read and mapped, its stack built";
    ExecKill, "exec.kill", 60, "other threads of the process are told to end";
    ExecAlone, "exec.alone", 20, "whether they have";
    ExecSwitch, "exec.switch", 2000, "the new address space is the task's; COMM and MMAP2 records";
    SignalDie, "signal.die", 60, "a deadly signal: the other threads of the process are told to end";
    FaultLookup, "fault.lookup", 150, "the area of a faulting address is looked up";
    FaultPage, "fault.page", 500, "a page is brought in";
    FaultSignal, "fault.signal", 80, "a fault becomes a signal";
    ExitX1, "exit.X1", 6, "work bits read, interrupts off";
    ExitX2, "exit.X2", 10, "loop body begins: interrupts on";
    ExitResched, "exit.X2.ii", 4, "rescheduling";
    ExitUprobe, "exit.X2.iii", 2, "uprobe handling";
    ExitPatch, "exit.X2.iv", 2, "livepatch switch";
    ExitSignal, "exit.X2.v", 120, "signal code";
    ExitSignalWork, "signal.work", 0, "task work is looked for before any signal is taken (the cost is the signal code's)";
    ExitResume, "exit.X2.vi", 12, "resume work: task work";
    ExitArch, "exit.X2.vii", 2, "architecture's work";
    ExitX3, "exit.X3", 6, "interrupts off, work bits read again";
    ExitX4, "exit.X4", 6, "architecture's preparation";
    ExitX5, "exit.X5", 4, "unwind state reset: looked at (R1), or more, as the design has it";
    ExitX6, "exit.X6", 20, "back to user mode: tracing, context tracking, last-minute work";
    Leave, "exit.leave", 0, "the return instruction has run: user registers are the CPU's, counters go on (its cost is X6's)";
    IrqDeliver, "irq.deliver", 12, "the processor interrupts kernel code: its registers are saved on the stack";
    IrqEnter, "irq.enter", 30, "interrupt entered, hardirq count raised (N3)";
    IrqHandler, "irq.handler", 200, "interrupt handler body";
    IrqExit, "irq.exit", 30, "hardirq count lowered";
    IrqPreempt, "irq.preempt", 4, "whether another task's turn has come (E-10)";
    Resched, "irq.resched", 10, "the request to look at the queue has arrived";
    IrqReturn, "irq.return", 0, "the return instruction has run: the interrupted kernel code goes on";
    NmiEnter, "pmu.enter", 40, "the counters' interrupt, an NMI or not, is counted in";
    NmiHandler, "pmu.handler", 150, "overflowed counters are found";
    NmiSample, "pmu.sample", 300, "one event's sample is written";
    NmiExit, "pmu.exit", 40, "it is counted out";
    SoftwareSample, "perf.sample", 300, "a software event's sample is written, after the request for its user part";
    IrqWorkRun, "irq_work.run", 20, "raised work is done";
    TaskWorkTake, "task_work.run", 12, "the list of task work is taken";
    ExitSignals, "do_exit.signals", 20, "PF_EXITING set: no request is taken any more";
    ExitPerf, "do_exit.perf", 60, "the task's events are torn down";
    ExitUnwind, "do_exit.unwind", 4, "what is pending of the deferred unwinder is done";
    ExitMm, "do_exit.mm", 80, "the address space is left";
    ExitFiles, "do_exit.files", 80, "open files are closed";
    ExitTaskWork, "do_exit.work", 10, "the last task work";
    ExitNotify, "do_exit.notify", 120, "the last thread of a process: its parent is told";
    ExitDead, "do_exit.dead", 40, "the task is gone";
    RequestQ2, "unwind.request.Q2", 4, "refused for a thread of the kernel, an ending task, no user registers";
    RequestQ3, "unwind.request.Q3", 2, "in NMI the task work nudges itself";
    RequestQ4, "unwind.request.Q4", 2, "the work's bit is read; Q5: shifted";
    RequestQ6, "unwind.request.Q6", 2, "interrupts off";
    RequestQ8, "unwind.request.Q8", 2, "mask read; bit set already: 1";
    RequestQ9, "unwind.request.Q9", 6, "PENDING and the bit set in the mask; Q10: set already: the bit";
    RequestQ11, "unwind.request.Q11", 20, "task work queued";
    RequestQ12, "unwind.request.Q12", 2, "interrupts as before";
    CookieG1, "unwind.cookie.G1", 2, "the id has its CPU half: it is the cookie";
    CookieG2, "unwind.cookie.G2", 2, "the next count";
    CookieG3, "unwind.cookie.G3", 6, "the id's count: compare and exchange";
    CookieG4, "unwind.cookie.G4", 2, "the CPU's counter follows";
    CookieG5, "unwind.cookie.G5", 2, "the id's CPU half";
    CaptureC1, "unwind.capture.C1", 4, "refused without memory";
    CaptureC2, "unwind.capture.C2", 2, "whether there is a cache";
    CaptureAllocate, "unwind.capture.C2.alloc", 400, "a cache page is allocated";
    CaptureC4, "unwind.capture.C4", 4, "what is cached is used";
    CaptureC5, "unwind.capture.C5", 30, "the user stack is walked; absent pages come in";
    CaptureC6, "unwind.capture.C6", 4, "the cache has its length";
    CaptureC7, "unwind.capture.C7", 6, "USED set in the mask";
    ProcessP1, "unwind.process.P1", 2, "nothing pending: done";
    ProcessP2, "unwind.process.P2", 6, "PENDING taken out of the mask";
    ProcessP5, "unwind.process.P5", 4, "works that were served are left out";
    ProcessP6, "unwind.process.P6", 2, "cookie read";
    ProcessP7, "unwind.process.P7", 8, "SRCU section entered";
    ProcessP8, "unwind.process.P8", 4, "the next work: whether it asked";
    ProcessP8Next, "unwind.process.P8.next", 2, "the work behind it in the list";
    ProcessP8Completed, "unwind.process.P8.completed", 2, "the work's bit, read again, is completed";
    ProcessP9, "unwind.process.P9", 8, "SRCU section left";
    ResetR2, "unwind.reset.R2", 2, "pending: all is kept";
    ResetR3, "unwind.reset.R3", 6, "mask: compare and exchange with 0";
    ResetR4, "unwind.reset.R4", 2, "id = 0";
    ResetR5, "unwind.reset.R5", 2, "the cache is empty";
    ResetR6, "unwind.reset.R6", 2, "nobody has been served";
    UnwindFlush, "unwind.flush.1", 4, "the task ends: whether something is pending";
    UnwindFlushCancel, "unwind.flush.2", 20, "the queued item is cancelled";
    ListRead, "unwind.list", 2, "the list of tracers is gone through, under the mutex";
    InitLock, "unwind.init.lock", 20, "mutex taken";
    InitUnlock, "unwind.init.unlock", 20, "mutex released";
    CancelK2, "unwind.cancel.K2", 2, "the work's bit is read";
    CancelK3, "unwind.cancel.K3", 2, "a reserved bit: never registered";
    CancelK4, "unwind.cancel.K4", 20, "mutex taken";
    CancelK5, "unwind.cancel.K5", 6, "the work leaves the list";
    CancelK6, "unwind.cancel.K6", 2, "its bit is -1";
    CancelK7, "unwind.cancel.K7", 4, "its bit is free";
    CancelK8, "unwind.cancel.K8", 40, "waits for the readers that are inside";
    CancelK9, "unwind.cancel.K9", 10, "the bit leaves the mask and the cache of one thread";
    CancelUnlock, "unwind.cancel.unlock", 20, "mutex released";
    MutexRetry, "mutex.retry", 20, "a task that waited for a mutex takes it, if it is free";
    MutexGot, "mutex.got", 4, "how long it waited";
    SrcuLook, "srcu.look", 20, "whether readers from before are still inside";
    InitList, "unwind.init.1", 40, "the work is in the list, with its bit";
    InitFunction, "unwind.init.2", 2, "and has its function";
    CallchainUser, "perf.callchain.user", 2, "whether the task has a user stack to ask for";
    CallbackCall, "unwind.callback.call", 2, "the work's function is read and called";
    CallbackLog, "unwind.callback.log", 200, "a tracer writes the stack down";
    DeferredOutput, "perf.deferred.output", 250, "the record of a deferred stack is written";
    TimestampRequest2, "unwind_a.request.2", 2, "refused in NMI";
    TimestampRequest3, "unwind_a.request.3", 4, "refused for a thread of the kernel, an ending task, no user registers";
    TimestampRequest4, "unwind_a.request.4", 2, "interrupts off";
    TimestampRequest5, "unwind_a.request.5", 20, "the clock's value, unless there is one";
    TimestampRequest6, "unwind_a.request.6", 2, "pending already: 1";
    TimestampRequest7, "unwind_a.request.7", 20, "task work queued";
    TimestampRequest8, "unwind_a.request.8", 4, "pending; interrupts as before";
    TimestampWork2, "unwind_a.work.2", 2, "pending taken";
    TimestampWork5, "unwind_a.work.5", 2, "timestamp read";
    TimestampWork6, "unwind_a.work.6", 20, "mutex taken";
    TimestampWork7, "unwind_a.work.7", 4, "the next tracer";
    TimestampWork8, "unwind_a.work.8", 20, "mutex released";
    CookieRequest2, "unwind_b.request.2", 2, "refused in NMI";
    CookieRequest3, "unwind_b.request.3", 4, "refused for a thread of the kernel, an ending task, no user registers";
    CookieRequest4, "unwind_b.request.4", 2, "interrupts off";
    CookieRequest6, "unwind_b.request.6", 2, "pending already: 1";
    CookieRequest7, "unwind_b.request.7", 20, "task work queued";
    CookieRequest8, "unwind_b.request.8", 4, "pending; interrupts as before";
    CookieWork2, "unwind_b.work.2", 2, "pending taken";
    CookieWork5, "unwind_b.work.5", 2, "cookie read";
    CookieWork6, "unwind_b.work.6", 20, "mutex taken";
    CookieWork7, "unwind_b.work.7", 4, "the next tracer";
    CookieWork8, "unwind_b.work.8", 20, "mutex released";
    WorkRequest1, "unwind_w.request.1", 4, "refused in NMI and for what is no user task";
    WorkRequest2, "unwind_w.request.2", 2, "interrupts off, then the cookie";
    WorkRequest3, "unwind_w.request.3", 24, "queued already: 1; else the work's item goes on the task's list";
    WorkRequest4, "unwind_w.request.4", 2, "interrupts as before";
    WorkWork1, "unwind_w.work.1", 2, "the item is free";
    WorkWork3, "unwind_w.work.3", 4, "the one tracer";
    CaptureFault, "unwind.capture.fault", 8, "the walk meets a page that is absent: a page fault of the kernel";
    UprobeTrap, "uprobe.trap", 40, "a breakpoint of the kernel's own: its handlers run on the way out";
    UprobeHandler, "uprobe.handler", 120, "the registers are at the probed instruction, its handlers are called";
    UprobeSkip, "uprobe.skip", 40, "the instruction is emulated, or will be executed alone";
    TracerSleep, "tracer.sleep", 20, "a tracer's thread waits for the time at which it is registered or cancelled";
    TracerOn, "tracer.on", 20, "a tracer is registered: it asks from now on";
    TracerOff, "tracer.off", 20, "a tracer asks no more";
    TracerGone, "tracer.gone", 20, "its cancelling is over";
    TracerLook, "tracer.call", 4, "which tracers want the stack of this system call";
    TracerFired, "tracer.timer", 10, "which tracers' timers have fired";
    TracerRearm, "tracer.rearm", 4, "the timers are set anew";
    TracerAsk, "tracer.ask", 4, "whether the tracer still asks";
    TracerNote, "tracer.note", 6, "the tracer keeps its answer";
    ProcessP8Load, "unwind.process.P8.load", 2, "the work's bit and those of the works served are read";
    UprobeLook, "uprobe.look", 10, "whether a probed instruction was hit, or a probed function has returned";
    UprobeReturn, "uprobe.return", 120, "the registers are behind the return of a probed function, its handlers are called";
    SessionSleep, "session.sleep", 20, "a session's thread waits for the time at which it is opened or closed";
    SessionOpen, "session.open", 400, "a session beside the main one is opened: its events are on every task or CPU";
    SessionClose, "session.close", 400, "it is closed: its events are gone";
    BreakpointHit, "breakpoint.hit", 120, "a hardware breakpoint or single step: its events are counted";
    PreemptCount, "preempt.count", 0, "the preempt count is changed";
    TracePreemptirq, "preemptirq.trace", 12, "interrupts or preemption go off or on: tracepoint";
}

#[cfg(test)]
mod tests {
    use super::Point;

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = Point::ALL.iter().map(|p| p.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
