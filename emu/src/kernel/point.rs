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
    Idle, "sched.idle", 0, "nothing can run: time goes on to the next wake-up";
    Wake, "sched.wake", 400, "the task runs again: switched in";
    FaultLookup, "fault.lookup", 150, "the area of a faulting address is looked up";
    FaultPage, "fault.page", 500, "a page is brought in";
    FaultSignal, "fault.signal", 80, "a fault becomes a signal";
    ExitX1, "exit.X1", 6, "work bits read, interrupts off";
    ExitX2, "exit.X2", 10, "loop body begins: interrupts on";
    ExitResched, "exit.X2.ii", 4, "rescheduling";
    ExitUprobe, "exit.X2.iii", 2, "uprobe handling";
    ExitPatch, "exit.X2.iv", 2, "livepatch switch";
    ExitSignal, "exit.X2.v", 120, "signal code";
    ExitResume, "exit.X2.vi", 12, "resume work: task work";
    ExitArch, "exit.X2.vii", 2, "architecture's work";
    ExitX3, "exit.X3", 6, "interrupts off, work bits read again";
    ExitX4, "exit.X4", 6, "architecture's preparation";
    ExitX5, "exit.X5", 4, "unwind state reset";
    ExitX6, "exit.X6", 20, "back to user mode: tracing, context tracking, last-minute work";
    Leave, "exit.leave", 0, "the return instruction has run: user registers are the CPU's, counters go on (its cost is X6's)";
    IrqDeliver, "irq.deliver", 12, "the processor interrupts kernel code: its registers are saved on the stack";
    IrqEnter, "irq.enter", 30, "interrupt entered, hardirq count raised (N3)";
    IrqHandler, "irq.handler", 200, "interrupt handler body";
    IrqExit, "irq.exit", 30, "hardirq count lowered";
    IrqReturn, "irq.return", 0, "the return instruction has run: the interrupted kernel code goes on";
    NmiEnter, "nmi.enter", 40, "NMI entered, counts raised";
    NmiHandler, "nmi.handler", 150, "overflowed counters are found";
    NmiSample, "nmi.sample", 300, "one event's sample is written";
    NmiExit, "nmi.exit", 40, "counts lowered";
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
