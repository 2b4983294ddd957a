//! The machine as monitors see it.

use std::collections::BTreeMap;
use std::rc::Rc;

use unwinder::Memory;
use unwinder::fp::{perf, unwind_user};

use arch::{Arch, Regs};

use crate::kernel::state::Cpu;
use crate::kernel::task::Task;
use crate::kernel::{Point, State};
use crate::laws::moment::{
    Capture, CpuView, Machine, Now, RingId, RingView, SessionView, TaskView, UserRegs, What,
};
use crate::perf::abi::flag;
use crate::perf::record::Time;
use crate::perf::session::{Phase, Profile, SessionId, Written};

impl Machine {
    /// What never changes in the run that `state` is about to begin.
    pub fn of(state: &State) -> Machine {
        Machine {
            arch: state.arch,
            mode: state.unwind.design.mode(),
            cpus: state.perf.main.session.cpus,
            clock: state.unwind.clock,
            most_samples: state.most_samples(),
        }
    }
}

impl CpuView {
    /// As it is now.
    pub const fn of(cpu: &Cpu) -> CpuView {
        CpuView {
            id: cpu.id,
            irqs_on: cpu.irqs_on,
            preempt_count: cpu.preempt_count,
            level: cpu.level(),
            in_kernel: cpu.kernel.is_some(),
            irq_work: cpu.irq_work.is_raised(),
            resched_ipi: cpu.resched_ipi,
            counter: cpu.unwind_ctx_ctr,
            ticks: cpu.tick.count,
            stalled: cpu.tick.is_stalled(),
        }
    }
}

impl TaskView {
    /// As it is now.
    pub fn of(task: &Task) -> TaskView {
        let unwind = &task.unwind;
        TaskView {
            tid: task.tid,
            exiting: task.exiting,
            has_mm: task.mm.is_some(),
            ended: task.ending.is_some(),
            work: task.work,
            works: task.works.clone(),
            mask: unwind.mask,
            id: unwind.id,
            pending: unwind.pending,
            cache: unwind.cache.as_ref().map(|c| (c.entries.len(), c.completed)),
        }
    }
}

/// Readers inside the SRCU section, or owners of the mutex.
fn traversals(state: &State) -> u32 {
    state.unwind.srcu.readers() as u32 + u32::from(state.unwind.mutex.owner.is_some())
}

/// The rings that there are.
fn rings(state: &State) -> Vec<RingView> {
    let sessions = state.perf.profiles().flat_map(|(session, profile)| {
        let rings = profile.rings.iter().flat_map(|rings| rings.written().enumerate());
        rings.map(move |(cpu, (written, losses))| {
            let id = RingId::Cpu(session, cpu as u32);
            RingView { id, written, losses }
        })
    });
    let guests = state.perf.opened.iter().filter_map(|event| {
        let ring = event.ring.borrow().clone()?;
        let id = RingId::Event { id: event.id, place: Rc::as_ptr(&ring).addr() };
        let backward = event.attr.has(flag::WRITE_BACKWARD);
        let at = ring.position();
        let written = if backward { at.wrapping_neg() } else { at };
        Some(RingView { id, written, losses: ring.losses() })
    });
    sessions.chain(guests).collect()
}

/// Records of the sessions that were dropped so far.
fn dropped(state: &State) -> u64 {
    let rings = state.perf.profiles().filter_map(|(_, profile)| profile.rings.as_ref());
    rings.flat_map(|rings| rings.lost()).sum()
}

/// Whether an event that nothing may stop stands still.
fn software_throttled(state: &State) -> bool {
    let throttles = state.most_samples().is_some() || state.cpu.tick.is_stalled();
    throttles
        && state.instances().any(|(_, event, instance)| {
            // Its group may have been stopped as a whole, by a leader that may be.
            let alone = instance.opened().is_none();
            alone && instance.interrupts.throttled && !event.kind.interrupts()
        })
}

/// Which records are not new.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    records: Written,
    dropped: u64,
    /// User registers are in the slot: after N1.
    saved: u64,
    /// By thread id: walks that are not in the cache yet, and the same walked again, before
    /// anything could page the stack out.
    walked: BTreeMap<u32, Capture>,
}

impl Seen {
    /// What happened, and what is new with it.
    pub fn look<'a>(&mut self, state: &'a State, event: u64, what: What, began: Time) -> Now<'a> {
        match what {
            What::Step(Point::EntryRaw) => self.saved &= !(1 << state.cpu.id),
            What::Step(Point::EntryN1) => self.saved |= 1 << state.cpu.id,
            _ => {}
        }
        let calls = &state.unwind.calls;
        let dropped = dropped(state);
        let now = Now {
            event,
            what,
            began,
            ended: state.cpu.clock,
            cpu: CpuView::of(&state.cpu),
            task: TaskView::of(&state.task),
            works: &state.unwind.works,
            list: &state.unwind.list,
            traversals: traversals(state),
            exit_stores: state.unwind.exit_stores,
            closed: state.task.exiting && state.task.events.instances.is_empty(),
            sessions: state.perf.profiles().map(|(id, p)| self.session(id, p)).collect(),
            callchains: state.perf.callchains.view(state.cpu.id, state.config.callchains),
            rings: rings(state),
            dropped,
            drops: dropped != std::mem::replace(&mut self.dropped, dropped),
            software_throttled: software_throttled(state),
            calls: match what {
                What::Step(Point::CallbackLog) => calls.last().map_or(&[], std::slice::from_ref),
                _ => &[],
            },
            cache: state.task.unwind.cache.as_ref().map_or(&[], |c| &c.entries),
            user: self.user(state, what),
            capture: self.capture(state, what),
        };
        self.records = state.perf.written();
        now
    }

    /// A session with what is new.
    fn session<'a>(&self, id: SessionId, profile: &'a Profile) -> SessionView<'a> {
        SessionView {
            open: profile.phase == Phase::Open,
            wide: profile.session.wide,
            events: &profile.session.events,
            records: profile.since(self.records.of(id)),
        }
    }

    /// A walk that comes into the cache.
    fn capture(&mut self, state: &State, what: What) -> Option<Capture> {
        let tid = state.task.tid;
        if what == What::Step(Point::CaptureC5) {
            self.walked.insert(tid, walk_again(state));
        }
        if what != What::Step(Point::CaptureC6) {
            return None;
        }
        let entries = state.task.unwind.cache.as_ref().map_or_else(Vec::new, |c| c.entries.clone());
        Some(Capture { entries, ..self.walked.remove(&tid).unwrap_or_default() })
    }

    /// The user registers at requests, at captures, and where they can have changed.
    fn user(&self, state: &State, what: What) -> Option<UserRegs> {
        let asked = state.task.unwind.id != 0;
        let wanted = match what {
            What::Answer(..) => true,
            What::Step(Point::CaptureC4 | Point::CaptureC5) => true,
            What::Step(Point::ExitSignal | Point::Body | Point::EntryN5) => asked,
            _ => false,
        };
        // Before N1 the slot has those of the entry before (E-2).
        let regs = || {
            if self.saved >> state.cpu.id & 1 != 0 { state.user_regs() } else { state.hw_regs() }
        };
        wanted.then(|| UserRegs::of(&regs()))
    }
}

impl UserRegs {
    fn of(regs: &Regs) -> UserRegs {
        UserRegs { pc: regs.pc, sp: regs.sp(), fp: regs.fp() }
    }
}

/// The present stack, walked as the design and as a sample walk it; its entries are to come.
fn walk_again(state: &State) -> Capture {
    if state.arch != Arch::X86_64 || state.unwind.sframe {
        return Capture::default();
    }
    let regs = state.user_regs();
    let (frames, well_formed) = walk(UserRegs::of(&regs), &mut state.present());
    let mut immediate = Vec::new();
    perf::walk(&regs, false, &mut state.present(), &mut |ip| {
        immediate.push(ip);
        immediate.len() < unwind_user::MAX_ENTRIES
    });
    Capture { entries: Vec::new(), frames: Some(frames), well_formed, immediate }
}

/// F1 to F7 of the specification, step by step; whether the chain ended at a 0.
fn walk(regs: UserRegs, memory: &mut impl Memory) -> (Vec<(u64, u64)>, bool) {
    let UserRegs { pc, mut sp, mut fp } = regs;
    let mut frames = vec![(pc, sp)];
    while frames.len() < LONGEST {
        let Some(cfa) = fp.checked_add(16).filter(|cfa| fp >= sp && *cfa > sp) else {
            return (frames, fp == 0);
        };
        let mut record = [0; 16];
        if cfa % 8 != 0 || !memory.read(fp, &mut record) {
            break;
        }
        let word =
            |at: usize| record[at..at + 8].iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
        (sp, fp) = (cfa, word(0));
        frames.push((word(8), sp));
    }
    (frames, false)
}

/// The longest stack of any design.
const LONGEST: usize = 512;

/// The name of what happened, as the timeline has it.
pub const fn name(what: What) -> &'static str {
    match what {
        What::Step(point) => point.name(),
        What::User(_) => "user code",
        What::Answer(..) => "unwind.answer",
    }
}
