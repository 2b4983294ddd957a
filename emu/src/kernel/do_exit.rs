//! The end of a task (`do_exit`), in its fixed order.
//!
//! ```text
//! PF_EXITING, sched_process_exit ─► perf events torn down ─► deferred unwind flushed
//!            ─► exit_mm ─► files ─► task work ─► the parent is told ─► dead
//! ```
//!
//! A stack that is pending when a task ends is therefore captured while there is memory, but
//! after the task's own events are gone: only CPU-wide events get the record, and after the
//! EXIT record (E-17).

use arch::siginfo::SigInfo;
use arch::{SigSet, Signal};

use crate::kernel::scheduler::pause;
use crate::kernel::signal::{self, Target};
use crate::kernel::task::{Ending, TaskId};
use crate::kernel::vfs::FdTable;
use crate::kernel::wait::{Wait, Woken};
use crate::kernel::{Kernel, Point, State, scheduler, task_work};
use crate::perf::record::Record;

/// The innermost function of the path is `do_exit`. The task does not come back.
pub async fn do_exit(k: &Kernel) {
    k.step(Point::ExitSignals, |s| {
        s.task.exiting = true;
        let last = s.task.process.borrow().live == 1;
        s.trace_process_exit(last);
    })
    .await;
    k.step(Point::ExitPerf, exit_events).await;
    k.step(Point::ExitUnwind, |_| ()).await;
    let design = k.design();
    design.exit_flush(k).await;
    k.step(Point::ExitMm, exit_mm).await;
    k.step(Point::ExitFiles, |s| {
        s.task.fds = FdTable::default();
        s.release_events();
        s.wake(Wait::Files, usize::MAX);
    })
    .await;
    k.step(Point::ExitTaskWork, |_| ()).await;
    task_work::run(k).await;
    let over = |s: &mut State| {
        exit_notify(s);
        s.ending.is_some()
    };
    if k.step(Point::ExitNotify, over).await {
        // With the first process the run is over: the machine stays as it is.
        loop {
            pause().await;
        }
    }
    k.step(Point::ExitDead, |s| s.task.dead = true).await;
    scheduler::schedule(k).await;
}

/// `perf_event_exit_task`: the EXIT record, then the task's events are gone.
fn exit_events(state: &mut State) {
    let task = &state.task;
    let exit = Record::Exit {
        pid: task.pid,
        ppid: task.ppid,
        tid: task.tid,
        ptid: task.ppid,
        time: state.cpu.clock,
        cpu: state.cpu.id,
    };
    state.record(exit);
    state.close_task_events();
}

/// The run ends with tasks that live: their events are closed, and there is an EXIT record of
/// the first process, which is the end of the profile.
pub fn close_all_events(state: &mut State) {
    let first = state.first;
    let open: Vec<TaskId> = state.threads(first);
    for id in open {
        let Some(task) = state.task_of(id).filter(|t| !t.exiting) else { continue };
        let (pid, ppid, tid) = (task.pid, task.ppid, task.tid);
        let (time, cpu) = (state.cpu.clock, state.cpu.id);
        let exit = Record::Exit { pid, ppid, tid, ptid: ppid, time, cpu };
        state.record_end_of(id, &exit);
    }
    let all: Vec<TaskId> = state.tasks().map(|t| t.id).collect();
    for id in all {
        let Some(task) = state.task_mut(id) else { continue };
        let place = task.place;
        let instances = std::mem::take(&mut task.events.instances);
        let now = state.cpu_of(place.cpu()).map_or(state.cpu.clock, |cpu| cpu.clock);
        state.add_totals_at(instances, now);
    }
    let cpus: Vec<u32> = state.cpus().map(|c| c.id).collect();
    for id in cpus {
        let Some(cpu) = state.cpu_mut(id) else { continue };
        let now = cpu.clock;
        let instances = std::mem::take(&mut cpu.events.instances);
        state.add_totals_at(instances, now);
    }
    let end = state.cpus().map(|cpu| cpu.clock).max().unwrap_or_default();
    state.perf.profiles_mut().for_each(|(_, profile)| profile.close(end));
}

/// The address space is left: the futex of `set_tid_address` is woken, a parent that waits for
/// its memory goes on, and of the last task the pages are free.
pub fn exit_mm(state: &mut State) {
    release_mm(state);
    let Some(id) = state.task.mm.take() else { return };
    debug_assert_eq!(id, state.mm.id);
    state.mm.users -= 1;
    // How the first process died is told after the run, with its memory.
    if state.mm.users == 0 && state.task.pid != state.first {
        let State { mm, arena, .. } = state;
        mm.release(arena);
    }
}

/// `mm_release`: what a task that leaves its address space owes to others.
pub fn release_mm(state: &mut State) {
    state.release_robust_list();
    let at = std::mem::take(&mut state.task.clear_child_tid);
    if at != 0 && state.mm.users > 1 {
        let _ = state.write_user(at, &[0; 4]);
        state.mm.kernel_faults.clear();
        state.wake_futex(at);
    }
    if std::mem::take(&mut state.task.vfork) {
        let on = Wait::Vfork(state.task.id);
        state.wake(on, usize::MAX);
    }
}

/// `exit_notify`: the last thread of a process leaves a zombie, and its parent gets a signal.
fn exit_notify(state: &mut State) {
    let (pid, times, ending) = (state.task.pid, state.task.times, state.task.ending);
    let process = state.task.process.clone();
    let last = {
        let mut process = process.borrow_mut();
        process.dead_threads.add(times);
        process.live -= 1;
        process.live == 0
    };
    state.wake(Wait::Threads(pid), usize::MAX);
    if !last {
        return;
    }
    let ending = process.borrow().group_exit.or(ending).unwrap_or(Ending::Exited(0));
    state.adopt_children(pid);
    if pid == state.first {
        state.ending = Some(ending);
        return;
    }
    let (parent, exit_signal) = {
        let mut process = process.borrow_mut();
        process.zombie = Some(ending);
        (process.parent, process.exit_signal)
    };
    state.zombies.insert(pid, process);
    let ignores = state.tell_parent(parent, exit_signal, pid, ending);
    if ignores {
        state.zombies.remove(&pid);
    }
    state.wake(Wait::Child(parent), usize::MAX);
}

impl State {
    /// Children of a process that ends belong to init, which waits for them at once.
    fn adopt_children(&mut self, pid: u32) {
        const INIT: u32 = 1;
        let all: Vec<TaskId> = self.tasks().map(|t| t.id).collect();
        for id in all {
            let Some(task) = self.task_mut(id) else { continue };
            if task.process.borrow().parent == pid && task.kernel_thread.is_none() {
                task.process.borrow_mut().parent = INIT;
                task.ppid = INIT;
            }
        }
        self.zombies.retain(|_, z| z.borrow().parent != pid);
    }

    /// The parent gets its signal; returns whether it does not want to wait for its children.
    fn tell_parent(&mut self, parent: u32, number: u8, child: u32, ending: Ending) -> bool {
        let threads = self.threads(parent);
        let Some(&leader) = threads.first() else { return true };
        let Some(signal) = Signal::new(u64::from(number)) else { return false };
        let (code, status) = ending.as_child_status();
        let uid = self.task.uid;
        let info = SigInfo::child(signal, code, child as i32, uid, status);
        let ignores = self.task_of(leader).is_some_and(|t| t.signals.reaps_children());
        signal::send_to(self, leader, info, Target::Process);
        ignores && signal == Signal::SIGCHLD
    }

    /// All threads of the present task's process end (`do_group_exit`).
    pub fn kill_group(&mut self, ending: Ending) {
        let own = self.task.id;
        let mut first = false;
        {
            let mut process = self.task.process.borrow_mut();
            if process.group_exit.is_none() {
                process.group_exit = Some(ending);
                first = true;
            }
        }
        if first {
            self.kill_other_threads(own);
        }
    }

    /// Each of the other threads of the process dies at its next look at its signals.
    pub fn kill_other_threads(&mut self, own: TaskId) {
        let pid = self.task.pid;
        for id in self.threads(pid).into_iter().filter(|&id| id != own) {
            if let Some(task) = self.task_mut(id) {
                task.signals.blocked = SigSet::EMPTY;
                task.signals.doomed = true;
                task.work.signal_pending = true;
            }
            self.wake_task(id, Woken::Interrupted);
            self.nudge(id);
        }
    }
}
