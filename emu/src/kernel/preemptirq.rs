//! Interrupts and preemption go off and on: the tracepoints `preemptirq:*`.
//!
//! ```text
//! irqs     off  entry (N2), N7, X3, an interrupt of kernel code, __schedule
//!          on   N3, X2, X6 behind the reset, the end of an interrupt, of __schedule
//! preempt  off  an interrupt is counted in, schedule();  on  the reverse
//! ```
//!
//! The kernel is one that is built with the tracer of such sections and without lockdep
//! (`kernel/trace/trace_preemptirq.c`): each CPU knows whether interrupts were off when they were
//! last traced (`tracing_irq_cpu`), and only a change is told. An NMI that hits code with
//! interrupts on says that they are off and, without lockdep, never that they are on again: the
//! next entry is silent.
//!
//! The tracepoints are hit with interrupts off, by functions that the steps here are in. Without
//! such an event none of it happens, and none of it costs. Not traced: what locks do, and the
//! request of a deferred stack.

use crate::kernel::symbols::{Named, text_base};
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::{EventKind, Raw};
use crate::perf::toggle::Toggle;

/// Who tells of preemption: `preempt_count_add` and the function that it calls.
const PREEMPT_OFF: [Named; 2] = [Named::PreemptCountAdd, Named::TracePreemptOff];
/// The reverse.
const PREEMPT_ON: [Named; 2] = [Named::PreemptCountSub, Named::TracePreemptOn];

impl Kernel {
    /// Whether anything here is looked at. It changes when a guest opens an event, not in between.
    pub fn traces_toggles(&self) -> bool {
        self.constant(|s| s.perf.preemptirq)
    }

    /// Interrupts have been turned off, of which `by` tells.
    pub async fn irqs_went_off(&self, by: Named) {
        if self.traces_toggles() {
            self.toggle(&[by], |s| s.trace_irqs(false)).await;
        }
    }

    /// Interrupts will be turned on, of which `by` tells.
    pub async fn irqs_go_on(&self, by: Named) {
        if self.traces_toggles() {
            self.toggle(&[by], |s| s.trace_irqs(true)).await;
        }
    }

    /// Interrupts are turned off, and `by` tells of it, if that is looked at.
    pub async fn irqs_go_off(&self, by: Named) {
        if self.traces_toggles() {
            self.step(Point::Call, |s| {
                s.cpu.irqs_on = false;
                s.push_function(by.into());
            })
            .await;
            self.step(Point::TracePreemptirq, |s| s.trace_irqs(false)).await;
            self.ret().await;
        }
    }

    /// That is told, and interrupts are on behind it.
    pub async fn turn_irqs_on(&self) {
        self.call(Named::HardirqsOn.into()).await;
        self.step(Point::TracePreemptirq, |s| s.trace_irqs(true)).await;
        self.step(Point::Return, |s| {
            s.pop_function();
            s.cpu.irqs_on = true;
        })
        .await;
    }

    /// These units come into the preempt count, if that is told: those that are in it now.
    pub async fn count_up(&self, units: u32) -> u32 {
        if !self.traces_toggles() {
            return 0;
        }
        self.toggle(&PREEMPT_OFF, |s| {
            s.cpu.preempt_count += units;
            s.trace_preempt(Toggle::PreemptDisable, units);
        })
        .await;
        units
    }

    /// They leave it, if that is told: those that have.
    pub async fn count_down(&self, units: u32) -> u32 {
        if !self.traces_toggles() {
            return 0;
        }
        self.enter(&PREEMPT_ON).await;
        self.step(Point::TracePreemptirq, |s| s.trace_preempt(Toggle::PreemptEnable, units)).await;
        self.leave(&PREEMPT_ON).await;
        // An idle task of the boot has nothing to lower.
        let lower = |s: &mut State| {
            s.cpu.preempt_count = s.cpu.preempt_count.saturating_sub(units);
        };
        self.step(Point::PreemptCount, lower).await;
        units
    }

    async fn toggle(&self, functions: &[Named], hit: impl FnOnce(&mut State)) {
        self.enter(functions).await;
        self.step(Point::TracePreemptirq, hit).await;
        self.leave(functions).await;
    }
}

impl State {
    /// `trace_hardirqs_on`, `trace_hardirqs_off` and their kind: a change is told.
    fn trace_irqs(&mut self, on: bool) {
        if self.cpu.irqs_traced_off == on {
            self.cpu.irqs_traced_off = !on;
            let toggle = if on { Toggle::IrqEnable } else { Toggle::IrqDisable };
            let [caller, parent] = self.callers();
            self.trace_toggle(toggle, caller, parent);
        }
    }

    /// `preempt_latency_start` and `_stop`: these units are the whole count. The caller is that of
    /// `preempt_count_add`, its parent the first that is no function of locks: itself.
    fn trace_preempt(&mut self, toggle: Toggle, units: u32) {
        if self.cpu.preempt_count == units {
            let [_, caller] = self.callers();
            self.trace_toggle(toggle, caller, caller);
        }
    }

    fn trace_toggle(&mut self, toggle: Toggle, caller: u64, parent: u64) {
        let text = text_base(self.arch);
        let offset = |address: u64| address.wrapping_sub(text) as i32;
        let raw =
            Raw::Preemptirq { toggle, caller_offs: offset(caller), parent_offs: offset(parent) };
        self.tracepoint(EventKind::Preemptirq(toggle), raw);
    }

    /// `CALLER_ADDR0` and `CALLER_ADDR1` of the function that runs; 0 where nobody called.
    fn callers(&self) -> [u64; 2] {
        let inner = self.frame_record(self.cpu.kernel.unwrap_or_default().fp);
        let outer = inner.and_then(|record| self.frame_record(record.fp));
        [inner, outer].map(|record| record.map_or(0, |record| record.address))
    }
}
