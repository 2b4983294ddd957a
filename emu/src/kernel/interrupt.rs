//! Interrupts: PMU overflow as NMI or IRQ, the timer.
//!
//! An interrupt from kernel mode pushes a frame record whose "return address" is the
//! interrupted address, so that a walk through it goes on in the interrupted frames. The
//! NMI has its own stack. Counters stand still from `NmiEnter` to `NmiExit`.

use std::future::Future;
use std::pin::Pin;

use arch::Arch;

use crate::kernel::kstack::KernelContext;
use crate::kernel::state::{HARDIRQ, Interrupted, NMI, PmuIrq};
use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State, aarch64, exit, x86_64};
use crate::perf::record::Time;

/// An interrupt that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// A hardware counter overflowed.
    Pmu,
    /// The timer fires.
    Timer,
}

/// A boxed path, for interrupts, which can arrive inside any step.
type Path = Pin<Box<dyn Future<Output = ()>>>;

/// Which interrupt arrives now, in kernel mode.
pub fn due(state: &State) -> Option<Pending> {
    let cpu = &state.cpu;
    cpu.kernel?;
    let masked = !cpu.irqs_on || cpu.level() >= 2;
    let pmu_masked = match state.config.pmu_irq {
        PmuIrq::Nmi => cpu.level() == 3,
        PmuIrq::Irq => masked,
    };
    if !pmu_masked && state.perf.overflowed(false).is_some() {
        return Some(Pending::Pmu);
    }
    (!masked && state.perf.next_deadline() <= cpu.clock).then_some(Pending::Timer)
}

/// A PMU overflow that hits kernel code.
pub fn pmu_in_kernel(k: Kernel) -> Path {
    Box::pin(async move {
        let nmi = k.with(|s| s.config.pmu_irq == PmuIrq::Nmi);
        let saved = k.with(|s| push_interrupt(s, nmi));
        let at = Interrupted::Kernel { at: saved.context, software: false };
        pmu_handler(&k, at, false, 0).await;
        k.with(|s| pop_interrupt(s, &saved));
    })
}

/// A PMU overflow that hits user code. Exit of an NMI never runs the exit loop; an IRQ's
/// does.
pub async fn pmu_in_user(k: &Kernel) {
    let is_nmi = k.with(|s| {
        let regs = s.core.regs();
        s.save_user_regs(&regs, u64::MAX);
        s.enter_kernel();
        s.config.pmu_irq == PmuIrq::Nmi && s.arch == Arch::X86_64
    });
    let regs = k.with(|s| s.user_regs());
    let at = Interrupted::User(regs);
    if is_nmi {
        pmu_handler(k, at, true, 0).await;
        k.with(|s| {
            s.cpu.kernel = None;
            s.cpu.irqs_on = true;
        });
    } else {
        // aarch64's pseudo-NMI from EL0 takes the ordinary interrupt's way out (E-15).
        let kept = k.with(|s| kept_in_exit(s.arch));
        let path = pmu_handler(k, at, true, kept).await;
        exit::to_user_mode(k, &path[..kept]).await;
    }
}

/// How many functions of an interrupt's path have not returned when the exit loop runs.
const fn kept_in_exit(arch: Arch) -> usize {
    match arch {
        Arch::X86_64 => x86_64::paths::INTERRUPT_EXIT,
        Arch::Aarch64 => aarch64::paths::INTERRUPT_EXIT,
    }
}

/// The functions of `path` return, all but the first `kept`.
async fn end_but(k: &Kernel, path: &[Named], kept: usize) {
    match kept {
        0 => k.end(path).await,
        _ => k.leave(&path[kept..]).await,
    }
}

async fn pmu_handler(k: &Kernel, at: Interrupted, in_user: bool, kept: usize) -> &'static [Named] {
    let (path, units) = k.with(|s| {
        s.perf.counting = false;
        let path = match (s.arch, in_user) {
            (Arch::X86_64, true) => x86_64::paths::PMU,
            (Arch::X86_64, false) => x86_64::paths::KERNEL_PMU,
            (Arch::Aarch64, true) => aarch64::paths::PMU,
            (Arch::Aarch64, false) => aarch64::paths::KERNEL_PMU,
        };
        let nmi = s.config.pmu_irq == PmuIrq::Nmi;
        (path, if nmi { NMI + HARDIRQ } else { HARDIRQ })
    });
    k.step(Point::NmiEnter, |s| s.cpu.preempt_count += units).await;
    k.begin(path).await;
    k.step(Point::NmiHandler, |_| ()).await;
    while let Some(index) = k.with(|s| s.perf.overflowed(in_user)) {
        k.step(Point::NmiSample, |s| s.sample(index, at, None)).await;
    }
    end_but(k, path, kept).await;
    k.step(Point::NmiExit, |s| s.cpu.preempt_count -= units).await;
    // Only now: the step's own cost is the handler's.
    k.with(|s| s.perf.counting = true);
    path
}

/// The timer fires in kernel code.
pub fn timer_in_kernel(k: Kernel) -> Path {
    Box::pin(async move {
        let saved = k.with(|s| push_interrupt(s, false));
        let at = Interrupted::Kernel { at: saved.context, software: false };
        let path = k.with(|s| match s.arch {
            Arch::X86_64 => x86_64::paths::KERNEL_TIMER,
            Arch::Aarch64 => aarch64::paths::KERNEL_TIMER,
        });
        timer_handler(&k, path, at, 0).await;
        k.with(|s| pop_interrupt(s, &saved));
    })
}

/// The timer fires in user code.
pub async fn timer_in_user(k: &Kernel) {
    let (path, regs) = k.with(|s| {
        let regs = s.core.regs();
        s.save_user_regs(&regs, u64::MAX);
        s.enter_kernel();
        let path = match s.arch {
            Arch::X86_64 => x86_64::paths::TIMER,
            Arch::Aarch64 => aarch64::paths::TIMER,
        };
        (path, regs)
    });
    let kept = k.with(|s| kept_in_exit(s.arch));
    timer_handler(k, path, Interrupted::User(regs), kept).await;
    exit::to_user_mode(k, &path[..kept]).await;
}

async fn timer_handler(k: &Kernel, path: &[Named], at: Interrupted, kept: usize) {
    k.begin(path).await;
    k.step(Point::IrqEnter, |s| s.cpu.preempt_count += HARDIRQ).await;
    while let Some(index) = k.with(|s| expired(s)) {
        k.step(Point::IrqHandler, |s| cpu_clock(s, index, at)).await;
    }
    k.step(Point::IrqExit, |s| s.cpu.preempt_count -= HARDIRQ).await;
    end_but(k, path, kept).await;
}

fn expired(state: &State) -> Option<usize> {
    state.perf.deadlines.iter().position(|&t| t <= state.cpu.clock)
}

/// `perf_swevent_hrtimer`: a sample of the interrupted context, the timer forwarded. The
/// idle and excluded modes are skipped.
fn cpu_clock(state: &mut State, index: usize, at: Interrupted) {
    let (event, now) = (&state.perf.session.events[index], state.cpu.clock);
    let excluded = match at {
        Interrupted::User(_) => event.exclude_user,
        Interrupted::Kernel { .. } => event.exclude_kernel,
    };
    let period = state.perf.counters[index].period;
    state.perf.counters[index].left = 0;
    if excluded {
        state.perf.counters[index].left = period as i64;
    } else {
        state.perf.counters[index].total += period;
        state.sample(index, at, None);
    }
    // `hrtimer_forward_now` with a floor of 10 µs.
    let step: Time = state.perf.counters[index].period.max(10_000);
    let behind = now.saturating_sub(state.perf.deadlines[index]) / step + 1;
    state.perf.deadlines[index] += behind * step;
}

/// What an interrupt puts aside.
#[derive(Clone, Debug)]
struct Saved {
    context: KernelContext,
    irqs_on: bool,
}

/// Words that the hardware and the entry code push before the first function.
const INTERRUPT_FRAME: u64 = 8 * 21;

fn push_interrupt(state: &mut State, own_stack: bool) -> Saved {
    let context = state.cpu.kernel.unwrap_or_default();
    let irqs_on = std::mem::replace(&mut state.cpu.irqs_on, false);
    let sp = if own_stack { state.cpu.nmi_stack.top() } else { context.sp };
    let mut inner =
        KernelContext { ip: context.ip, sp: (sp - INTERRUPT_FRAME) & !15, fp: context.fp };
    let State { task, cpu, arena, .. } = state;
    let stack = if own_stack { &cpu.nmi_stack } else { &task.stack };
    inner.push(stack, arena, context.ip);
    cpu.kernel = Some(inner);
    Saved { context, irqs_on }
}

fn pop_interrupt(state: &mut State, saved: &Saved) {
    state.cpu.kernel = Some(saved.context);
    state.cpu.irqs_on = saved.irqs_on;
}
