//! The executor: it lets the CPUs take their steps in the order of their clocks.
//!
//! ```text
//! elect: the CPU that is behind ─► activate ─► poll the path of its task ─► records, births, ends
//! ```
//!
//! A path gives way when its CPU is ahead of another ([`Kernel::step`]), and when its task is
//! switched out. The order depends on nothing but the clocks, so a run is the same every time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use crate::engine::EngineError;
use crate::kernel::machine::Elected;
use crate::kernel::step::Path;
use crate::kernel::task::{Ending, KernelThread, TaskId};
use crate::kernel::user_mode::{self, Birth};
use crate::kernel::{Kernel, State, do_exit, idle, sessions, tracer};
use crate::perf::record::{Record, Time};
use crate::perf::session::SessionId;

/// Our own failure while a guest runs; `E` is that of whoever takes the records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The CPU failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The records could not be handed on.
    #[error(transparent)]
    Emit(E),
}

/// Runs the guest to its end. Records go to `emit` in batches, those of each
/// session in time order;
/// `interrupted` is looked at often.
///
/// # Errors
///
/// [`RunError`]
pub fn run<E>(
    k: &Kernel,
    interrupted: &AtomicBool,
    mut emit: impl FnMut(SessionId, &[Record]) -> Result<(), E>,
) -> Result<Ending, RunError<E>> {
    let mut paths = Paths::new(k);
    let mut records = Ordered::default();
    let mut emit = |batches: Batches| {
        let mut batches = batches.into_iter().filter(|(_, batch)| !batch.is_empty());
        batches.try_for_each(|(session, batch)| emit(session, &batch)).map_err(RunError::Emit)
    };
    loop {
        let went_on = paths.go_on(k);
        if let Some(failure) = k.with(|s| s.failure.take()) {
            return Err(failure.into());
        }
        records.add(k);
        let stop = interrupted.load(Ordering::Relaxed);
        let ending = match went_on {
            true => k.with(|s| ending(s, stop)),
            false => Some(Ending::Deadlock),
        };
        if ending.is_none() {
            emit(records.until(k.with(|s| s.horizon.min(s.cpu.clock))))?;
        }
        if let Some(ending) = ending {
            // A limit of ours, or Ctrl-C, does not go through the end of a task.
            k.with(do_exit::close_all_events);
            records.add(k);
            emit(records.until(Time::MAX))?;
            return Ok(ending);
        }
    }
}

fn ending(state: &mut State, interrupted: bool) -> Option<Ending> {
    let limit = state.stats.instructions >= state.config.max_instructions;
    state.ending.or(match (interrupted, limit) {
        (true, _) => Some(Ending::Interrupted),
        (false, true) => Some(Ending::Limit),
        (false, false) => None,
    })
}

impl State {
    /// The present CPU is now the elected one; returns the task whose path goes on. What an idle
    /// CPU's clock jumps over is idle time.
    fn go_on(&mut self, elected: Elected) -> TaskId {
        self.activate(elected.cpu);
        self.horizon = elected.horizon;
        self.cpu.clock = self.cpu.clock.max(elected.at);
        self.cpu.halted = false;
        self.cpu.current
    }
}

/// The path of each task.
#[allow(missing_debug_implementations, reason = "paths have no form")]
pub struct Paths(BTreeMap<TaskId, Path<'static, ()>>);

impl Paths {
    /// Those of the tasks that are there at the start.
    pub fn new(k: &Kernel) -> Paths {
        let tasks: Vec<(TaskId, Option<KernelThread>, Birth)> =
            k.with(|s| s.tasks().map(|t| (t.id, t.kernel_thread, Birth::of(t))).collect());
        let mut paths = Paths(BTreeMap::new());
        for (id, thread, birth) in tasks {
            let path: Path<'static, ()> = match thread {
                Some(KernelThread::Idle) => Box::pin(idle::idle(k.clone())),
                Some(KernelThread::Session(session)) => {
                    Box::pin(sessions::thread(k.clone(), session))
                }
                Some(KernelThread::Tracer(index)) => Box::pin(tracer::thread(k.clone(), index)),
                None => Box::pin(user_mode::live(k.clone(), birth)),
            };
            paths.0.insert(id, path);
        }
        paths
    }

    /// The CPU that is elected goes on until its path gives way; `false`: none can.
    pub fn go_on(&mut self, k: &Kernel) -> bool {
        let Some(elected) = k.with(State::elect_next) else { return false };
        let task = k.with(|s| s.go_on(elected));
        self.poll(k, task);
        true
    }

    /// Lets the path of `task` go on until it gives way.
    fn poll(&mut self, k: &Kernel, task: TaskId) {
        if let Some(path) = self.0.get_mut(&task) {
            // A path ends with its task, which is dead then.
            let _ = path.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        let (born, gone) =
            k.with(|s| (std::mem::take(&mut s.others.born), std::mem::take(&mut s.others.gone)));
        for id in born {
            self.0.insert(id, Box::pin(user_mode::live(k.clone(), Birth::Forked)));
        }
        for id in gone {
            self.0.remove(&id);
        }
    }
}

/// Records of each session.
type Batches = Vec<(SessionId, Vec<Record>)>;

/// Puts the records of all CPUs in time order, those of each session apart.
#[derive(Default)]
struct Ordered(Batches);

impl Ordered {
    /// Takes what the kernel has written.
    fn add(&mut self, k: &Kernel) {
        k.with(|s| {
            for (id, profile) in s.perf.profiles_mut() {
                if self.0.len() <= id.0 {
                    self.0.push((id, Vec::new()));
                }
                self.0[id.0].1.append(&mut profile.take_records());
            }
        });
    }

    /// Those before which no more can come: every CPU is at `now` or later.
    fn until(&mut self, now: Time) -> Batches {
        let each = self.0.iter_mut().map(|(id, records)| {
            records.sort_by_key(Record::time);
            let later = records.partition_point(|r| r.time() <= now);
            let rest = records.split_off(later);
            (*id, std::mem::replace(records, rest))
        });
        each.collect()
    }
}
