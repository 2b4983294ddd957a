//! Sessions of perf beside the main one, each as a `perf record` of its own: opened and closed
//! while the guest runs.
//!
//! ```text
//!  from = 0:  open before the guest's first instruction, as the main one
//!  else:      thread of the kernel: sleeps until `from` ─► SessionOpen: an instance of each event
//!             on every task of the guest (or every CPU); what is there already is announced
//!  until:     the thread sleeps ─► SessionClose: the instances are gone, wherever they are
//! ```
//!
//! The thread stands for the tool, which is a task, too: opening and closing take it CPU time.
//! All sessions share perf's single work in the deferred unwinder, so none registers or cancels
//! anything: whoever listens gets every record of a stack, whosever sample asked for it. Probes
//! and breakpoints of a session are in place during the whole run; they count while it is open.

use crate::kernel::perf_event::output::mmap2;
use crate::kernel::scheduler;
use crate::kernel::task::{KernelThread, Place, TaskId};
use crate::kernel::tracer::sleep;
use crate::kernel::{Kernel, Point, State};
use crate::perf::context::Instance;
use crate::perf::opened::Target;
use crate::perf::record::{Record, Session, Time};
use crate::perf::session::{Phase, SessionId, Span};

/// Thread id of the first session's thread, above those of the tracers.
const FIRST_TID: u32 = 300;

/// The life of a session's thread.
pub async fn thread(k: Kernel, session: SessionId) {
    scheduler::first_run(&k).await;
    let span = k.constant(|s| s.perf.profile(session).map(|p| p.span));
    let Some(Span { from, until }) = span else { return };
    sleep(&k, Point::SessionSleep, Some(from)).await;
    k.step(Point::SessionOpen, |s| s.open_session(session)).await;
    if let Some(until) = until {
        sleep(&k, Point::SessionSleep, Some(until)).await;
        k.step(Point::SessionClose, |s| s.close_session(session)).await;
    }
    // The thread stays, as a tool that writes its file.
    loop {
        sleep(&k, Point::SessionSleep, None).await;
    }
}

impl State {
    /// Opens the sessions that are open from the start, and makes the threads of those that are
    /// opened or closed later. Before the run; `None`: no memory is left.
    pub fn begin_sessions(&mut self) -> Option<()> {
        let spans = self.perf.profiles().skip(1).map(|(id, p)| (id, p.span));
        let spans: Vec<(SessionId, Span)> = spans.collect();
        for &(session, span) in spans.iter().filter(|(_, span)| span.from == 0) {
            debug_assert!(span.until != Some(0));
            self.open_session(session);
        }
        for &(session, span) in &spans {
            if span != Span::default() {
                let comm = format!("perf/{}", session.0).into_bytes();
                let tid = FIRST_TID + session.0 as u32;
                self.add_kernel_thread(tid, comm, KernelThread::Session(session))?;
            }
        }
        Some(())
    }

    /// `perf_event_open` of all its events, for every task or CPU. The tool, which has no part in
    /// this, tells of tasks and mappings that are there already.
    fn open_session(&mut self, id: SessionId) {
        let State { perf, .. } = self;
        let callchains = &perf.callchains;
        let profile = id.0.checked_sub(1).and_then(|n| perf.beside.get_mut(n));
        let Some(profile) = profile.filter(|p| p.phase == Phase::Waits) else { return };
        profile.open(callchains);
        let session = profile.session.clone();
        self.announce_tasks(id, &session);
        let events = &session.events;
        if session.system_wide() {
            for cpu in session.monitored_cpus() {
                self.change_context(Target::Cpu(cpu), |context, now| context.open(id, events, now));
            }
        } else {
            let guests = self.tasks().filter(|t| t.kernel_thread.is_none() && !t.exiting);
            let guests: Vec<(TaskId, bool)> =
                guests.map(|t| (t.id, matches!(t.place, Place::Running(_)))).collect();
            for (task, running) in guests {
                self.change_context(Target::Task(task.0, None), |context, now| match running {
                    true => context.open(id, events, now),
                    false => context.open_at_rest(id, events, now),
                });
            }
        }
        self.assign_counters();
    }

    /// Its events are closed. What waits to be written for them, as the stack of a sample, is
    /// written no more.
    fn close_session(&mut self, id: SessionId) {
        let of = |i: &Instance| i.session_event().is_some_and(|of| of.session == id);
        let mut closed = Vec::new();
        for target in self.contexts_with(of) {
            self.change_context(target, |context, now| closed.extend(context.close(id, now)));
        }
        self.add_totals(closed);
        let now = self.cpu.clock;
        if let Some(profile) = self.perf.profile_mut(id) {
            profile.close(now);
        }
        self.assign_counters();
    }

    /// COMM of every task and MMAP2 of every process that a session finds: with the present time
    /// if it is there from the start, else as the tool makes them, with none.
    fn announce_tasks(&mut self, id: SessionId, session: &Session) {
        let from_start = self.cpu.clock == 0;
        let mut records = Vec::new();
        for task in self.tasks().filter(|t| !t.exiting) {
            let (pid, tid, comm) = (task.pid, task.tid, task.name());
            let exec = match task.kernel_thread {
                None => from_start,
                Some(KernelThread::Idle) => continue,
                Some(_) if !session.system_wide() => continue,
                Some(_) => false,
            };
            records.push(Record::Comm { pid, tid, time: 0, cpu: self.cpu.id, comm, exec });
            if task.kernel_thread.is_none() && task.pid == task.tid {
                records.extend(self.mappings(session, task.id));
            }
        }
        for record in records {
            self.record_in(id, record);
        }
    }

    /// MMAP2 of all mappings of a process that the session wants to know of.
    fn mappings(&self, session: &Session, task: TaskId) -> Vec<Record> {
        let task = self.task_of(task);
        let Some((task, mm)) = task.and_then(|t| Some((t, self.mm_of(t.mm?)?))) else {
            return Vec::new();
        };
        let wanted = mm.areas().filter(|a| a.prot.exec || session.wants_data_mappings());
        let of = (task.pid, task.tid, 0 as Time, self.cpu.id);
        wanted
            .map(|area| {
                let (file, path) = self.vfs.identify(area);
                mmap2(of, area, file, path)
            })
            .collect()
    }
}
