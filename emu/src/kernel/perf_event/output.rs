//! What goes into the rings: samples, and the records that tell of tasks and mappings.
//!
//! ```text
//! sample of an instance ──────────────► its event's ring
//! COMM, MMAP2, FORK, EXIT, SWITCH,  ─┬► the profile of each session that is open
//! CALLCHAIN_DEFERRED                 └► the ring of each active event that asks for such records
//! ```

use std::rc::Rc;

use arch::{Arch, Regs, perf_regs};

use crate::kernel::State;
use crate::kernel::perf_event::read;
use crate::kernel::sampling::Interrupted;
use crate::kernel::task::TaskId;
use crate::mem::{Area, Backing};
use crate::perf::abi::{flag, sample_type as bit};
use crate::perf::context::{Context, Instance, Output};
use crate::perf::encode::{Body, Fields, SampleId};
use crate::perf::opened::{Opened, Target};
use crate::perf::payload;
use crate::perf::reader::Written;
use crate::perf::record::{EventKind, FileId, Record, Sample, Session, Time};
use crate::perf::ring::{self, How};
use crate::perf::session::{Profile, SessionId};

/// Flags of events that get records of tasks.
const TASK: u64 = flag::COMM | flag::MMAP | flag::MMAP2 | flag::MMAP_DATA | flag::TASK;
/// Flags with one of which a CPU's event is on the CPU's list of those that get records (P-7).
const LISTED: u64 = TASK
    | flag::COMM_EXEC
    | flag::KSYMBOL
    | flag::CONTEXT_SWITCH
    | flag::TEXT_POKE
    | flag::BPF_EVENT;

/// Whether an event asks for records of this kind.
fn wants(event: &Opened, record: &Record) -> bool {
    const EXEC: u32 = 4;
    match record {
        Record::Comm { .. } => event.attr.has(flag::COMM),
        Record::Mmap2 { prot, .. } if prot & EXEC != 0 => event.attr.has(flag::MMAP | flag::MMAP2),
        Record::Mmap2 { .. } => event.attr.has(flag::MMAP_DATA),
        Record::Fork { .. } | Record::Exit { .. } => event.attr.has(TASK),
        Record::Switch { .. } => event.attr.has(flag::CONTEXT_SWITCH),
        Record::CallchainDeferred { .. } => event.attr.has(flag::DEFER_OUTPUT),
        // Of the session's rings.
        Record::Sample(_)
        | Record::Lost { .. }
        | Record::LostSamples { .. }
        | Record::Throttle { .. } => false,
    }
}

/// A switch as a task's event has it, which is not told of the other task.
fn of_task(mut record: Record) -> Record {
    if let Record::Switch { other, .. } = &mut record {
        *other = None;
    }
    record
}

/// Whether a session is told of a task with these events.
fn follows(session: &Session, id: SessionId, events: &Context) -> bool {
    let of = |i: &Instance| i.session_event().is_some_and(|of| of.session == id);
    !session.no_inherit || session.system_wide() || events.instances.iter().any(of)
}

/// An event that gets a record, and its own id there.
type Receiver = (Rc<Opened>, u64);

impl State {
    /// A record goes to the profile of every open session and to the rings of the present task's
    /// and CPU's events.
    pub fn record(&mut self, record: Record) {
        self.record_in_rings(&record);
        let sessions = self.perf.open_sessions(|_| true);
        self.record_in_each(&sessions, record);
    }

    /// The same record in the profiles of several sessions.
    pub fn record_in_each(&mut self, sessions: &[SessionId], record: Record) {
        let Some((&last, others)) = sessions.split_last() else { return };
        for &session in others {
            self.record_in(session, record.clone());
        }
        self.record_in(last, record);
    }

    /// A record of a session goes into the CPU's ring, and from there into the profile. Without a
    /// slow reader there is always room. Whether it was written.
    pub fn record_in(&mut self, session: SessionId, record: Record) -> bool {
        !self.is_not_followed(session, &record) && self.write_in(session, record)
    }

    /// EXIT of a task that lives when the run ends, for the sessions that follow it.
    pub fn record_end_of(&mut self, task: TaskId, exit: &Record) {
        for id in self.perf.open_sessions(|_| true) {
            let profile = self.perf.profile(id);
            let task = self.task_of(task);
            let followed =
                profile.zip(task).is_some_and(|(p, t)| follows(&p.session, id, &t.events));
            if followed {
                self.write_in(id, exit.clone());
            }
        }
    }

    fn write_in(&mut self, session: SessionId, record: Record) -> bool {
        let (now, cpu) = (self.cpu.clock, self.cpu.id);
        let Some(profile) = self.perf.profile_mut(session) else { return false };
        let Profile { rings, encoder, records, .. } = profile;
        let Some(rings) = rings else {
            records.push(record);
            return true;
        };
        let event = record.event();
        let (pid, tid) = (self.task.pid, self.task.tid);
        let mut told = Record::Lost { pid, tid, time: now, cpu, event, lost: 0 };
        let (len, lost_len) = (encoder.len(&record), encoder.len(&told));
        let written = rings.write(cpu, now, len, lost_len, event);
        let Written::Fits { lost: before, wake } = written else { return false };
        if let Record::Lost { lost, .. } = &mut told
            && before > 0
        {
            *lost = before;
            records.push(told);
        }
        records.push(record);
        if wake {
            self.cpu.irq_work.queue_wakeup();
        }
        true
    }

    /// A record that tells of a task or its mappings, written by a task that has not inherited the
    /// session's events: no event is there to get it.
    fn is_not_followed(&self, id: SessionId, record: &Record) -> bool {
        let Some(Profile { session, .. }) = self.perf.profile(id) else { return true };
        let tells = matches!(
            record,
            Record::Comm { .. } | Record::Mmap2 { .. } | Record::Fork { .. } | Record::Exit { .. }
        );
        tells && !follows(session, id, &self.task.events)
    }

    /// A record goes to the rings alone.
    pub fn record_in_rings(&mut self, record: &Record) {
        for (event, stream_id) in self.guest_receivers(|event| wants(event, record)) {
            let body = match record {
                Record::Mmap2 { .. } if !event.attr.has(flag::MMAP2) => Body::of_short_mmap(record),
                Record::Switch { .. } if matches!(event.target, Target::Task(..)) => {
                    Body::of(&of_task(record.clone()))
                }
                _ => Body::of(record),
            };
            if let Some(body) = body {
                self.write_body(&event, &body, stream_id);
            }
        }
    }

    /// A mapping came into being at `start`: `PERF_RECORD_MMAP2`. The session wants those that are
    /// executable, and all others if a tool is to find unwind tables in them.
    pub fn record_mapping(&mut self, start: u64) {
        let Some(area) = self.mm.area(start) else { return };
        let exec = area.prot.exec;
        let sessions = self.perf.open_sessions(|session| exec || session.wants_data_mappings());
        if sessions.is_empty() && self.perf.opened.is_empty() {
            return;
        }
        let (file, path) = self.vfs.identify(area);
        let (addr, pgoff) = (area.start, area.offset_of(area.start));
        if let Some(observer) = self.observer.as_mut().filter(|_| exec) {
            observer.about(self.task.id);
            observer.mapped(&path, addr, pgoff);
        }
        let own = match &area.backing {
            Backing::File { object, .. } => (object.inode(), object.name()),
            _ => (0, path.clone()),
        };
        let of = (self.task.pid, self.task.tid, self.cpu.clock, self.cpu.id);
        let record = mmap2(of, area, file, path);
        self.record_mapping_in_rings(&record, own.0, own.1);
        self.record_in_each(&sessions, record);
    }

    /// A mapping, as the program itself names it, goes to the rings.
    fn record_mapping_in_rings(&mut self, record: &Record, inode: u64, path: String) {
        let receivers = self.guest_receivers(|event| wants(event, record));
        for (event, stream_id) in receivers {
            let mut own = record.clone();
            if let Record::Mmap2 { file, path: name, .. } = &mut own {
                let by_inode = FileId::Inode { ino: inode };
                let anonymous = inode == 0;
                if !anonymous && !event.attr.has(flag::BUILD_ID) {
                    *file = by_inode;
                }
                *name = path.clone();
            }
            let body = match event.attr.has(flag::MMAP2) {
                true => Body::of(&own),
                false => Body::of_short_mmap(&own),
            };
            if let Some(body) = body {
                self.write_body(&event, &body, stream_id);
            }
        }
    }

    /// Events of guests on the task or CPU that want a record.
    fn guest_receivers(&self, wanted: impl Fn(&Opened) -> bool) -> Vec<Receiver> {
        if self.perf.opened.is_empty() {
            return Vec::new();
        }
        let receives = |i: &Instance| {
            let opened = i.opened()?;
            let listed = matches!(opened.target, Target::Task(..)) || opened.attr.has(LISTED);
            (listed && wanted(opened)).then(|| (opened.clone(), i.switch.stream_id))
        };
        self.receivers().filter_map(|(_, _, instance)| receives(instance)).collect()
    }

    /// `PERF_RECORD_THROTTLE` or `PERF_RECORD_UNTHROTTLE` of an event that a guest opened.
    pub fn throttle_in_ring(&mut self, event: &Rc<Opened>, stream_id: u64, throttled: bool) {
        let id = self.own_id(event, stream_id);
        let words = [id.time, id.id, id.stream_id];
        let body = Body::throttle(throttled, words, self.task.pid, self.task.tid);
        self.write_body(event, &body, stream_id);
    }

    fn write_body(&mut self, event: &Rc<Opened>, body: &Body, stream_id: u64) {
        let id = SampleId { pid: body.pid, tid: body.tid, ..self.own_id(event, stream_id) };
        let mut bytes = Vec::new();
        body.push(event.attr.trailer(), &id, &mut bytes);
        self.write_ring(event, &bytes, stream_id, false);
    }

    /// The present task, time and CPU.
    fn own_id(&self, event: &Opened, stream_id: u64) -> SampleId {
        SampleId {
            pid: self.task.pid,
            tid: self.task.tid,
            time: event.time(self.cpu.clock, self.config.boot_time),
            id: event.id,
            stream_id,
            cpu: self.cpu.id,
        }
    }

    /// `perf_output_begin` to `perf_output_end`. An event without a ring writes nothing.
    fn write_ring(&mut self, event: &Rc<Opened>, bytes: &[u8], stream_id: u64, sample: bool) {
        let Some(ring) = event.ring.borrow().clone() else { return };
        let attr = &event.attr;
        let by_events = sample && !attr.has(flag::WATERMARK);
        let how = How {
            backward: attr.has(flag::WRITE_BACKWARD),
            wakeup_events: if by_events { attr.wakeup } else { 0 },
        };
        let id = self.own_id(event, stream_id);
        let lost = |count| {
            let mut bytes = Vec::new();
            Body::lost(event.id, count, id.pid, id.tid).push(attr.trailer(), &id, &mut bytes);
            bytes
        };
        match ring.output(&mut self.arena, bytes, how, lost) {
            ring::Output::Lost => event.lost.set(event.lost.get() + 1),
            ring::Output::Written { wake: false } => {}
            ring::Output::Written { wake: true } => {
                let mut notify = event.notify.borrow_mut();
                if notify.on && notify.pending.is_none() {
                    notify.pending = Some(false);
                }
                drop(notify);
                self.wake_later(event);
            }
        }
    }

    /// A sample of an event that a guest opened goes into its ring; `user` are the task's
    /// registers.
    pub fn sample_in_ring(
        &mut self,
        instance: &Instance,
        sample: &Sample,
        at: &Interrupted,
        user: &Regs,
    ) {
        let Output::Ring(event) = &instance.output else { return };
        let attr = &event.attr;
        let payload = sample.raw.as_ref().map(|raw| payload::payload(raw, sample.tid));
        let values = match attr.samples(bit::READ) {
            true => read::values(self, event),
            false => Vec::new(),
        };
        let is_user = self.task.mm.is_some();
        let regs = (attr.samples(bit::REGS_USER) && is_user)
            .then(|| self.user_values(attr.regs_user, at, user));
        let intr = attr.samples(bit::REGS_INTR).then(|| interrupted(attr.regs_intr, at, self.arch));
        let mut fields = Fields {
            mode: sample.mode,
            ip: sample.ip,
            id: self.own_id(event, instance.switch.stream_id),
            // `perf_bp_event`; the address of a page fault is not kept.
            addr: match instance.event.kind {
                EventKind::Breakpoint(breakpoint) => breakpoint.addr,
                _ => 0,
            },
            period: sample.period,
            read: &values,
            callchain: &sample.callchain,
            raw: payload.as_deref().unwrap_or_default(),
            regs_user: regs.as_deref(),
            stack_user: (&[], 0),
            regs_intr: intr.as_deref(),
        };
        let mut bytes = Vec::new();
        let stack;
        if attr.samples(bit::STACK_USER) && is_user {
            fields.push(attr.sample_type, &mut bytes);
            stack = self.user_stack(user, attr.stack_user, bytes.len() as u64);
            fields.stack_user = (&stack.0, stack.1);
            bytes.clear();
        }
        fields.push(attr.sample_type, &mut bytes);
        self.write_ring(event, &bytes, instance.switch.stream_id, true);
    }
}

/// `PERF_RECORD_MMAP2` of an area, which is of this file: written for this process and thread at
/// this time on this CPU.
pub fn mmap2(
    (pid, tid, time, cpu): (u32, u32, Time, u32),
    area: &Area,
    file: FileId,
    path: String,
) -> Record {
    Record::Mmap2 {
        pid,
        tid,
        time,
        cpu,
        addr: area.start,
        len: area.len(),
        pgoff: area.offset_of(area.start),
        file,
        prot: area.prot.bits(),
        flags: if area.flags.shared { 1 } else { 2 },
        path,
    }
}

/// Interrupted registers by mask: of kernel code only those that the model has.
fn interrupted(mask: u64, at: &Interrupted, arch: Arch) -> Vec<u64> {
    match at {
        Interrupted::User(regs) => perf_regs::values(regs, mask),
        Interrupted::Kernel { at, .. } => {
            let mut regs = Regs::new(arch);
            regs.pc = at.ip;
            regs.set_sp(at.sp);
            regs.gp[arch.fp()] = at.fp;
            perf_regs::values(&regs, mask)
        }
    }
}
