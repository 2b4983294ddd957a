//! The life of a task that has user code: it runs, and kernel paths interrupt it.

use crate::engine::{Budget, EngineError, Exit};
use crate::kernel::hw_breakpoint::{self, Hit, Watched};
use crate::kernel::interrupt::{self, Pending};
use crate::kernel::schedule::Next;
use crate::kernel::scheduler::{self, pause};
use crate::kernel::symbols::Named;
use crate::kernel::task::Task;
use crate::kernel::{Kernel, State, entry, exit, fault, paths, uprobe};

/// User instructions between two looks at the interrupt flag: about a tenth of a second.
/// Counts are exact, so nothing that a guest or a profile shows depends on it.
const SLICE: u64 = 50_000_000;
/// Kernel entries between two of them.
const ENTRIES: u32 = 1000;
/// How far user code of one CPU may be ahead of the other CPUs, in nanoseconds.
pub const QUANTUM: u64 = 20_000;

/// How a task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// It is in user mode: the first program.
    Running,
    /// It was forked: it comes out of the kernel (E-5).
    Forked,
}

impl Birth {
    /// That of a task which was there before the run.
    pub const fn of(task: &Task) -> Birth {
        match task.out.kernel {
            Some(_) => Birth::Forked,
            None => Birth::Running,
        }
    }
}

/// The whole life of a task. It ends inside the kernel, and so never returns.
pub async fn live(k: Kernel, birth: Birth) {
    if birth == Birth::Forked {
        scheduler::first_run(&k).await;
        entry::forked(&k).await;
        let path = &paths::of(k.arch()).fork;
        k.irqs_go_off(Named::HardirqsOff).await;
        exit::to_user_mode(&k, path).await;
        user_interrupts(&k).await;
    }
    let mut entries = 0;
    loop {
        loop {
            match k.with(before) {
                Next::Go => break,
                Next::Look => user_interrupts(&k).await,
                Next::GiveWay => pause().await,
            }
        }
        let (reason, hit) = match k.with(run_user) {
            Ok(run) => run,
            Err(error) => {
                k.with(|s| s.failure = Some(error));
                pause().await;
                continue;
            }
        };
        if let Some(hit) = hit {
            // What else has stopped it comes again.
            hw_breakpoint::handle(&k, hit).await;
        } else {
            after_run(&k, reason).await;
        }
        user_interrupts(&k).await;
        entries += 1;
        if reason == Exit::Budget || entries >= ENTRIES || k.with(|s| s.wants_executor()) {
            entries = 0;
            pause().await;
        }
    }
}

/// Whether user code may go on.
fn before(state: &mut State) -> Next {
    if state.cpu.clock > state.horizon {
        return Next::GiveWay;
    }
    state.ask(|schedule, state| schedule.before_user(state)).unwrap_or(Next::Go)
}

/// User code has stopped.
async fn after_run(k: &Kernel, reason: Exit) {
    match reason {
        Exit::Syscall => entry::syscall(k).await,
        Exit::PageFault { page, access } => {
            match k.with(|s| hw_breakpoint::meet(s, page, access)) {
                Some(Some(hit)) => hw_breakpoint::handle(k, hit).await,
                Some(None) => {}
                None => {
                    let cause = k.with(|s| fault::of_page(s, page, access));
                    fault::handle(k, cause).await;
                }
            }
        }
        Exit::Exception(e) => match k.with(|s| uprobe::hit(s, e)) {
            Some(addr) => uprobe::handle(k, addr).await,
            None => {
                let cause = k.with(|s| fault::of_exception(s, e));
                fault::handle(k, cause).await;
            }
        },
        Exit::Budget => {}
    }
}

impl State {
    /// Whether there is something for the executor to do before user code goes on.
    fn wants_executor(&self) -> bool {
        let limit = self.stats.instructions >= self.config.max_instructions;
        self.perf.profiles().any(|(_, p)| !p.records.is_empty()) || self.ending.is_some() || limit
    }
}

/// Runs user code until something happens. What hit hardware breakpoints comes first.
fn run_user(state: &mut State) -> Result<(Exit, Option<Hit>), EngineError> {
    state.compact_events();
    let mut budget = user_budget(state);
    let stepped = uprobe::begin_step_over(state);
    let alone = hw_breakpoint::arm(state);
    if stepped.is_some() || alone.is_some() {
        budget.instructions = budget.instructions.min(1);
    }
    state.load_engine();
    state.core.set_clock(state.cpu.clock);
    let began = state.cpu.clock;
    let State { core, arena, mm, perf, .. } = state;
    let run = match &*perf.armed {
        [] => core.run(arena, &mut mm.table, budget)?,
        breakpoints => {
            let mut watched = Watched { table: &mut mm.table, breakpoints };
            core.run(arena, &mut watched, budget)?
        }
    };
    if let Some(addr) = stepped {
        uprobe::end_step_over(state, addr, run.retired > 0);
    }
    state.account();
    state.cpu.clock += run.retired;
    state.cpu.accounted = state.cpu.clock;
    state.task.times.user += run.retired;
    state.cpu.tick.went_on(run.retired);
    state.stats.instructions += run.retired;
    state.stats.branches += run.branches;
    state.count_user(run.retired, run.branches);
    state.tell(|timeline, s| timeline.user(s, began, run.retired));
    let hit = alone.and_then(|step| hw_breakpoint::stepped(state, step, run.retired));
    Ok((run.exit, hit))
}

/// How far user code may run: to the next overflow, timer, limit, look at the flag, or to where
/// another CPU is too far behind.
fn user_budget(state: &State) -> Budget {
    let mut budget = state.counters_budget();
    let now = state.cpu.clock;
    let timer = state.next_deadline().saturating_sub(now);
    let limit = state.config.max_instructions.saturating_sub(state.stats.instructions);
    let others = state.horizon.saturating_add(QUANTUM).saturating_sub(now);
    budget.instructions = budget.instructions.min(timer).min(limit).min(others).min(SLICE);
    budget
}

/// Interrupts that arrive between two user instructions.
async fn user_interrupts(k: &Kernel) {
    while let Some(pending) = k.with(|s| interrupt::due_in_user(s)) {
        k.with(State::held_up);
        match pending {
            Pending::Pmu | Pending::Overflow(_) => interrupt::pmu_in_user(k).await,
            Pending::IrqWork => interrupt::irq_work_in_user(k).await,
            Pending::Resched => interrupt::resched_in_user(k).await,
            Pending::Timer => interrupt::timer_in_user(k).await,
        }
    }
}
