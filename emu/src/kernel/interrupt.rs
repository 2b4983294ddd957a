//! Interrupts: PMU overflow as NMI or IRQ, the timer.
//!
//! An interrupt from kernel mode pushes a frame record whose "return address" is the
//! interrupted address, so that a walk through it goes on in the interrupted frames. The
//! NMI has its own stack. Counters stand still while an overflow is handled, and until an NMI of
//! x86_64, or one that hit kernel code, has returned: samples do not count themselves. With
//! [`PmuIrq::NmiLatched`] they count again behind the handler, which has started them
//! (`intel_pmu_handle_irq`), and may overflow on the way out:
//!
//! ```text
//! NMI (E-11)   Idle ─delivered─► Executing ─overflow─► Latched
//!              it returns: Idle; from Latched the one that was latched comes now
//! ```
//!
//! An overflow that comes while NMIs are masked is taken once they are not, any number of them
//! once.

use arch::Arch;

use crate::kernel::kstack::KernelContext;
use crate::kernel::paths::{self, NestedPath};
use crate::kernel::sampling::{self, Interrupted, Overflow, UserPart};
use crate::kernel::state::{HARDIRQ, NMI, PmuIrq};
use crate::kernel::step::Path;
use crate::kernel::symbols::{Function, Named};
use crate::kernel::timers::Timer;
use crate::kernel::wait::Woken;
use crate::kernel::{Kernel, Point, State, entry, exit, scheduler, tracer};
use crate::perf::abi::flag;
use crate::perf::context::Slot;
use crate::perf::record::Time;

/// What comes before the next step of the path that runs.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a value on the stack, of one step")]
pub enum Pending {
    /// A software event overflowed in the step that is over.
    Overflow(Overflow),
    /// A hardware counter overflowed.
    Pmu,
    /// The self-interrupt of raised irq_work.
    IrqWork,
    /// Another CPU asks this one to look at its queue.
    Resched,
    /// The timer fires.
    Timer,
}

/// What comes now, in kernel mode.
pub fn due(state: &mut State) -> Option<Pending> {
    state.cpu.kernel?;
    if let Some(overflow) = state.cpu.overflows.pop_front() {
        return Some(Pending::Overflow(overflow));
    }
    let cpu = &state.cpu;
    if cpu.nmi_masked {
        return None;
    }
    let masked = cpu.masks_irqs();
    if !cpu.masks_pmu(state.config.pmu_irq) && wants_pmu(state, false) {
        return Some(Pending::Pmu);
    }
    if masked {
        return None;
    }
    if cpu.irq_work.is_raised() {
        return Some(Pending::IrqWork);
    }
    if cpu.resched_ipi {
        return Some(Pending::Resched);
    }
    (state.next_deadline() <= cpu.clock).then_some(Pending::Timer)
}

/// Whether the PMU has something to interrupt for.
fn wants_pmu(state: &State, in_user: bool) -> bool {
    state.overflowed(in_user).is_some() || !state.cpu.tracer_nmis.is_empty()
}

/// What comes now, in user mode.
pub fn due_in_user(state: &State) -> Option<Pending> {
    if wants_pmu(state, true) {
        Some(Pending::Pmu)
    } else if state.cpu.irq_work.is_raised() {
        Some(Pending::IrqWork)
    } else if state.cpu.resched_ipi {
        Some(Pending::Resched)
    } else {
        (state.next_deadline() <= state.cpu.clock).then_some(Pending::Timer)
    }
}

/// A PMU overflow that hits kernel code.
pub fn pmu_in_kernel(k: Kernel) -> Path<'static, ()> {
    Box::pin(async move {
        let path = &paths::of(k.arch()).kernel_pmu;
        let saved = k.step(Point::IrqDeliver, |s| deliver_pmu(s, path)).await;
        let at = Interrupted::Kernel { at: saved.context, software: false };
        let (inner, handler) = path.functions[1..].split_at(path.bookkeeping - 1);
        k.enter(inner).await;
        // An NMI of aarch64 is one by its handler, unless it hits code with interrupts off (E-15).
        let nmi = k.constant(|s| s.config.pmu_irq.is_nmi());
        let brackets = !nmi || k.arch() == Arch::Aarch64 && saved.irqs_on;
        pmu_handler(&k, at, handler, brackets).await;
        k.leave(inner).await;
        if !nmi {
            return end_in_kernel(&k, &saved).await;
        }
        if brackets && saved.irqs_on {
            k.irqs_go_on(Named::HardirqsOn).await;
        }
        k.last_step(Point::IrqReturn, |s| return_to_kernel(s, &saved));
    })
}

/// A PMU overflow that hits user code. Exit of an NMI never runs the exit loop; an IRQ's
/// does, and so does aarch64's pseudo-NMI from EL0 (E-15).
pub async fn pmu_in_user(k: &Kernel) {
    let path = &paths::of(k.arch()).pmu;
    let processor = |s: &mut State| {
        let nmi = s.config.pmu_irq.is_nmi();
        s.cpu.counting = false;
        s.enter_kernel(path.functions[0].into(), nmi);
    };
    let regs = entry::begin_with(k, path, processor, entry::save_regs).await;
    let at = Interrupted::User(regs);
    let nmi = k.constant(|s| s.config.pmu_irq.is_nmi());
    let brackets = !nmi || k.arch() == Arch::Aarch64;
    pmu_handler(k, at, &path.functions[path.bookkeeping..], brackets).await;
    if !brackets {
        k.leave(&path.functions[path.exit..path.bookkeeping]).await;
        exit::leave(k, path).await;
        return;
    }
    k.leave(&path.functions[path.exit..path.bookkeeping]).await;
    exit::to_user_mode(k, path).await;
}

/// The counters stand still; a sample for each that has overflowed. `functions` are those
/// of the handler. `brackets`: it is an interrupt like others, whose handler may be an NMI's.
async fn pmu_handler(k: &Kernel, at: Interrupted, functions: &[Named], brackets: bool) {
    let in_user = matches!(at, Interrupted::User(_));
    let mut counted = 0;
    if brackets {
        k.irqs_went_off(Named::HardirqsOffFinish).await;
        counted = k.count_up(HARDIRQ).await;
    }
    let units = k
        .step(Point::NmiEnter, |s| {
            let nmi = if s.config.pmu_irq.is_nmi() { NMI } else { 0 };
            s.cpu.preempt_count += nmi + HARDIRQ - counted;
            nmi + HARDIRQ
        })
        .await;
    if !brackets {
        k.irqs_went_off(Named::HardirqsOffFinish).await;
    }
    k.enter(functions).await;
    let found = |s: &mut State| (s.overflowed(in_user), std::mem::take(&mut s.cpu.tracer_nmis));
    let (mut next, programs) = k.step(Point::NmiHandler, found).await;
    while let Some(slot) = next {
        let user = sampling::request(k, slot).await;
        next = k
            .step(Point::NmiSample, |s| {
                s.sample(slot, at, None, user);
                s.overflowed(in_user)
            })
            .await;
    }
    for tracer in programs {
        tracer::ask(k, tracer).await;
    }
    k.leave(functions).await;
    k.step(Point::NmiExit, |s| {
        s.cpu.preempt_count -= units - counted;
        // A real NMI masks others until it returns, and so does a pseudo-NMI of code with
        // interrupts off; else the priority mask lets them in again
        // (`__gic_handle_irq_from_irqson`).
        s.cpu.nmi_masked &= !brackets;
        // The handler has started the counters again before it ends. What is behind it on the way
        // to user mode is counted where it is not the NMI's own: signals, task work.
        s.cpu.counting |= in_user && !s.cpu.nmi_masked || s.config.pmu_irq == PmuIrq::NmiLatched;
    })
    .await;
    if counted != 0 {
        k.count_down(HARDIRQ).await;
    }
}

/// The timer fires in kernel code.
pub fn timer_in_kernel(k: Kernel) -> Path<'static, ()> {
    Box::pin(async move {
        let path = &paths::of(k.arch()).kernel_timer;
        let saved = k.step(Point::IrqDeliver, |s| deliver(s, path, false)).await;
        let at = Interrupted::Kernel { at: saved.context, software: false };
        let (inner, handler) = path.functions[1..].split_at(path.bookkeeping - 1);
        k.enter(inner).await;
        k.irqs_went_off(Named::HardirqsOffFinish).await;
        timer_handler(&k, at, handler).await;
        k.leave(inner).await;
        end_in_kernel(&k, &saved).await;
    })
}

/// The timer fires in user code.
pub async fn timer_in_user(k: &Kernel) {
    let path = &paths::of(k.arch()).timer;
    let regs = entry::begin(k, path).await;
    timer_handler(k, Interrupted::User(regs), &path.functions[path.bookkeeping..]).await;
    k.leave(&path.functions[path.exit..path.bookkeeping]).await;
    exit::to_user_mode(k, path).await;
}

/// The self-interrupt of irq_work arrives in kernel code.
pub fn irq_work_in_kernel(k: Kernel) -> Path<'static, ()> {
    Box::pin(async move {
        let path = &paths::of(k.arch()).kernel_irq_work;
        let saved = k.step(Point::IrqDeliver, |s| deliver(s, path, false)).await;
        let (inner, handler) = path.functions[1..].split_at(path.bookkeeping - 1);
        k.enter(inner).await;
        k.irqs_went_off(Named::HardirqsOffFinish).await;
        irq_work_handler(&k, handler).await;
        k.leave(inner).await;
        end_in_kernel(&k, &saved).await;
    })
}

/// The same in user code: its exit goes through the exit loop, which is its purpose.
pub async fn irq_work_in_user(k: &Kernel) {
    let path = &paths::of(k.arch()).irq_work;
    entry::begin(k, path).await;
    irq_work_handler(k, &path.functions[path.bookkeeping..]).await;
    k.leave(&path.functions[path.exit..path.bookkeeping]).await;
    exit::to_user_mode(k, path).await;
}

/// Another CPU's request arrives in kernel code.
pub fn resched_in_kernel(k: Kernel) -> Path<'static, ()> {
    Box::pin(async move {
        let path = &paths::of(k.arch()).kernel_resched;
        let saved = k.step(Point::IrqDeliver, |s| deliver(s, path, false)).await;
        let (inner, handler) = path.functions[1..].split_at(path.bookkeeping - 1);
        k.enter(inner).await;
        k.irqs_went_off(Named::HardirqsOffFinish).await;
        resched_handler(&k, handler).await;
        k.leave(inner).await;
        end_in_kernel(&k, &saved).await;
    })
}

/// The same in user code: its exit goes through the exit loop, which looks at the queue.
pub async fn resched_in_user(k: &Kernel) {
    let path = &paths::of(k.arch()).resched;
    entry::begin(k, path).await;
    resched_handler(k, &path.functions[path.bookkeeping..]).await;
    k.leave(&path.functions[path.exit..path.bookkeeping]).await;
    exit::to_user_mode(k, path).await;
}

/// `irq_enter_rcu`
async fn count_in(k: &Kernel) {
    let counted = k.count_up(HARDIRQ).await;
    k.step(Point::IrqEnter, |s| {
        s.cpu.nmi_masked = false;
        s.cpu.preempt_count += HARDIRQ - counted;
    })
    .await;
}

/// `irq_exit_rcu`
async fn count_out(k: &Kernel) {
    let counted = k.count_down(HARDIRQ).await;
    k.step(Point::IrqExit, |s| s.cpu.preempt_count -= HARDIRQ - counted).await;
}

/// `scheduler_ipi` does nothing: that there was an interrupt is enough.
async fn resched_handler(k: &Kernel, functions: &[Named]) {
    count_in(k).await;
    k.enter(functions).await;
    k.step(Point::Resched, |s| s.cpu.resched_ipi = false).await;
    k.leave(functions).await;
    count_out(k).await;
}

/// E-10: an interrupt of kernel code that had interrupts on ends in another task's turn, if that is
/// due. The idle task looks by itself.
async fn end_in_kernel(k: &Kernel, saved: &Saved) {
    let preempts = |s: &mut State| s.preempts(saved.irqs_on) && !s.task.is_idle();
    if k.step(Point::IrqPreempt, preempts).await {
        scheduler::preempt(k).await;
    }
    if saved.irqs_on {
        k.irqs_go_on(Named::HardirqsOn).await;
    }
    k.last_step(Point::IrqReturn, |s| return_to_kernel(s, saved));
}

async fn irq_work_handler(k: &Kernel, functions: &[Named]) {
    count_in(k).await;
    k.enter(functions).await;
    k.step(Point::IrqWorkRun, |s| {
        s.cpu.irq_work.run();
        s.run_wakeups();
    })
    .await;
    k.leave(functions).await;
    count_out(k).await;
}

/// `functions` are those of the handler.
async fn timer_handler(k: &Kernel, at: Interrupted, functions: &[Named]) {
    let counted = k.count_up(HARDIRQ).await;
    let mut next = k
        .step(Point::IrqEnter, |s| {
            s.cpu.nmi_masked = false;
            s.cpu.preempt_count += HARDIRQ - counted;
            run_timers(s);
            s.expired_clock()
        })
        .await;
    k.enter(functions).await;
    if k.constant(|s| !s.tracers.is_empty()) {
        tracer::at_timer(k).await;
    }
    while let Some(slot) = next {
        let user = match k.constant(|s| clock_excluded(s, slot, &at)) {
            true => UserPart::Immediate,
            false => sampling::request(k, slot).await,
        };
        next = k
            .step(Point::IrqHandler, |s| {
                cpu_clock(s, slot, at, user);
                s.expired_clock()
            })
            .await;
    }
    k.leave(functions).await;
    count_out(k).await;
}

/// The modes that an event skips: with `exclude_idle` the idle task too.
fn clock_excluded(state: &State, slot: Slot, at: &Interrupted) -> bool {
    let instance = state.instance(slot);
    let busy = instance.opened().is_some_and(|event| event.attr.has(flag::EXCLUDE_IDLE));
    at.is_excluded(&instance.event) || busy && state.task.is_idle()
}

/// `perf_swevent_hrtimer`: a sample of the interrupted context, the timer forwarded. Excluded
/// modes are skipped.
fn cpu_clock(state: &mut State, slot: Slot, at: Interrupted, user: UserPart) {
    let now = state.cpu.clock;
    let excluded = clock_excluded(state, slot, &at);
    let counter = &mut state.instance_mut(slot).counter;
    counter.left = 0;
    if excluded {
        counter.left = counter.period as i64;
    } else {
        counter.total += counter.period;
        state.sample(slot, at, None, user);
    }
    // `hrtimer_forward_now` with a floor of 10 µs.
    let instance = state.instance_mut(slot);
    if instance.deadline == Time::MAX {
        // It was throttled.
        return;
    }
    let step: Time = instance.counter.period.max(10_000);
    let behind = now.saturating_sub(instance.deadline) / step + 1;
    instance.deadline += behind * step;
}

/// The kernel's own timers that have fired.
fn run_timers(state: &mut State) {
    while let Some(timer) = state.cpu.timers.fired(state.cpu.clock) {
        match timer {
            Timer::Timeout(task) => state.wake_task(task, Woken::Late),
            Timer::Real(pid) => state.real_timer_fired(pid),
            Timer::Slice => state.slice_is_over(),
            Timer::Tick => state.perf_tick(),
        }
    }
}

/// What an interrupt of kernel code puts aside.
#[derive(Clone, Debug, Hash)]
pub struct Saved {
    context: KernelContext,
    /// Interrupts were on.
    pub irqs_on: bool,
    nmi_masked: bool,
    counting: bool,
}

/// Words that the hardware and the entry code push before the first function.
const INTERRUPT_FRAME: u64 = 8 * 21;

/// A PMU overflow is delivered. An NMI has its own stack.
fn deliver_pmu(state: &mut State, path: &NestedPath) -> Saved {
    let saved = deliver(state, path, state.config.pmu_irq.is_nmi());
    state.cpu.counting = false;
    saved
}

/// The processor interrupts kernel code and enters the first function of `path`.
pub fn deliver(state: &mut State, path: &NestedPath, nmi: bool) -> Saved {
    let context = state.cpu.kernel.unwrap_or_default();
    let masked = nmi || state.arch == Arch::Aarch64;
    let irqs_on = std::mem::replace(&mut state.cpu.irqs_on, false);
    let nmi_masked = std::mem::replace(&mut state.cpu.nmi_masked, masked);
    // One that hits the way out of another, on the stack of those, goes on below it.
    let elsewhere = nmi && !state.cpu.nmi_stack.holds(context.sp);
    let sp = if elsewhere { state.cpu.nmi_stack.top() } else { context.sp };
    let function = Function::from(path.functions[0]);
    let mut inner = KernelContext {
        ip: function.step_address(state.arch, Point::IrqDeliver),
        sp: (sp - INTERRUPT_FRAME) & !15,
        fp: context.fp,
    };
    let State { task, cpu, arena, .. } = state;
    let stack = if nmi { &cpu.nmi_stack } else { &task.stack };
    inner.push(stack, arena, context.ip);
    cpu.kernel = Some(inner);
    cpu.functions.push(function);
    Saved { context, irqs_on, nmi_masked, counting: cpu.counting }
}

/// Ends [`deliver`].
pub fn return_to_kernel(state: &mut State, saved: &Saved) {
    state.cpu.functions.pop();
    state.cpu.kernel = Some(saved.context);
    state.cpu.irqs_on = saved.irqs_on;
    state.cpu.nmi_masked = saved.nmi_masked;
    state.cpu.counting = saved.counting;
}
