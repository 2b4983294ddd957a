//! Overflows become samples: software events in place, `perf_event_overflow`, the callchain.
//!
//! ```text
//!  count ─► overflow ─► [request of a deferred unwind] ─► chain ─► record
//! ```
//!
//! A request has steps of its own. So the overflow of a software event, which happens inside
//! another path's step, waits in [`crate::kernel::state::Cpu::overflows`] until that step is over, and is taken in
//! the same context; without a request it is taken on the spot.

use std::rc::Rc;

use arch::{Arch, Regs};

use crate::kernel::kstack::KernelContext;
use crate::kernel::step::Path;
use crate::kernel::unwind::PERF;
use crate::kernel::user::Present;
use crate::kernel::{Kernel, Point, State};
use crate::perf::callchain::{self, Chain};
use crate::perf::context::{Instance, Output, Slot};
use crate::perf::opened::Opened;
use crate::perf::record::{CpuMode, Event, EventKind, Raw, Record, Sample, UserStack, context};
use crate::perf::session::SessionId;

/// The context that a sample describes.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a value for one sample, on the stack")]
pub enum Interrupted {
    /// User code with these registers.
    User(Regs),
    /// Kernel code there; `software` says that the registers were made up by a
    /// tracepoint or software event, not by hardware.
    Kernel {
        /// Where.
        at: KernelContext,
        /// See above.
        software: bool,
    },
}

impl Interrupted {
    /// Whether it is in a mode that the event leaves out.
    pub const fn is_excluded(&self, event: &Event) -> bool {
        match self {
            Interrupted::User(_) => event.exclude_user,
            Interrupted::Kernel { .. } => event.exclude_kernel,
        }
    }
}

/// A software event that overflowed.
#[derive(Clone, Debug)]
pub struct Overflow {
    /// Which.
    pub slot: Slot,
    /// What it hit.
    pub at: Interrupted,
    /// A tracepoint's payload.
    pub raw: Option<Raw>,
}

/// What `perf_callchain` got from the deferred unwinder before the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserPart {
    /// The user stack is walked now.
    Immediate,
    /// This cookie stands for it.
    Deferred(u64),
}

/// `perf_callchain`: asks for a deferred unwind if the event wants it. A request that is
/// refused, or answered with cookie 0, leaves the immediate walk.
pub async fn request(k: &Kernel, slot: Slot) -> UserPart {
    let wanted = k.constant(|s| s.wants_deferred(slot));
    if !wanted || !k.step(Point::CallchainUser, |s| s.task.mm.is_some()).await {
        return UserPart::Immediate;
    }
    let design = k.design();
    let answer = design.request(k, PERF).await;
    k.answered(PERF, answer);
    match answer.ret >= 0 && answer.cookie != 0 {
        true => UserPart::Deferred(answer.cookie),
        false => UserPart::Immediate,
    }
}

/// Takes the overflow of a software event. Boxed: it happens inside any step.
pub fn overflow(k: Kernel, o: Overflow) -> Path<'static, ()> {
    Box::pin(async move {
        let user = request(&k, o.slot).await;
        k.step(Point::SoftwareSample, |s| {
            if s.is_there(o.slot) {
                s.sample(o.slot, o.at, o.raw, user);
            }
        })
        .await;
    })
}

impl State {
    /// Whether samples of the event ask for a deferred unwind if the task has user memory.
    fn defers(&self, slot: Slot) -> bool {
        self.wants_deferred(slot) && self.task.mm.is_some()
    }

    /// Whether the event's user callchains are wanted, deferred, and an unwinder is built.
    fn wants_deferred(&self, slot: Slot) -> bool {
        if !self.is_there(slot) {
            return false;
        }
        let event: &Event = self.event(slot);
        event.callchain
            && event.defer
            && !event.exclude_callchain_user
            && self.unwind.available(self.arch)
    }

    /// An event that is sampled in place happened. `at` is the user context, or `None`
    /// for the kernel code that runs now.
    pub fn software_event(&mut self, kind: EventKind, at: Option<&Regs>) {
        self.event_with_raw(kind, at, None);
    }

    /// A tracepoint was hit.
    pub fn tracepoint(&mut self, kind: EventKind, raw: Raw) {
        self.event_with_raw(kind, None, Some(raw));
    }

    fn event_with_raw(&mut self, kind: EventKind, at: Option<&Regs>, raw: Option<Raw>) {
        for (slot, _) in self.active(|k| k == kind) {
            self.hit(slot, at, raw.clone());
        }
    }

    /// An event happened once, in user mode with the registers `at`, or in the kernel
    /// code that runs now.
    pub fn hit(&mut self, slot: Slot, at: Option<&Regs>, raw: Option<Raw>) {
        // What a kernel copy meets has the registers of the copy.
        let kind = self.event(slot).kind;
        let software = !matches!(kind, EventKind::PageFaults | EventKind::Breakpoint(_));
        let at = match (at, self.cpu.kernel) {
            (Some(regs), _) => Interrupted::User(*regs),
            (None, Some(at)) => Interrupted::Kernel { at, software },
            (None, None) => return,
        };
        self.hit_at(slot, at, raw);
    }

    /// An event happened once, with the registers of `at`.
    pub fn hit_at(&mut self, slot: Slot, at: Interrupted, raw: Option<Raw>) {
        if at.is_excluded(self.event(slot)) || !self.instance_mut(slot).counter.count(1) {
            return;
        }
        if self.defers(slot) {
            self.cpu.overflows.push_back(Overflow { slot, at, raw });
        } else {
            self.sample(slot, at, raw, UserPart::Immediate);
        }
    }

    /// Writes a sample of an event whose counter has overflowed.
    pub fn sample(&mut self, slot: Slot, at: Interrupted, raw: Option<Raw>, part: UserPart) {
        self.page_out_at_sample();
        let now = self.cpu.clock;
        let period = self.instance_mut(slot).counter.take(now);
        self.account_interrupt(slot);
        let instance = self.instance(slot).clone();
        let user = match &at {
            Interrupted::User(regs) => *regs,
            Interrupted::Kernel { .. } => self.user_regs(),
        };
        let sample = Sample { raw, period, ..self.sample_of(&instance, &at, &user, part) };
        match &instance.output {
            Output::Ring(opened) => {
                let last = self.limit_is_reached(opened);
                self.sample_in_ring(&instance, &sample, &at, &user);
                self.note_overflow(opened, last);
            }
            Output::Session(of) => {
                let session = of.session;
                self.sample_in_session(session, &instance.event, sample, &at, &user);
            }
        }
    }

    /// What a sample of `instance` holds of where it is: `at`, above the user code that `user`
    /// are the registers of. Period, payload and dump are not of the place.
    fn sample_of(
        &mut self,
        instance: &Instance,
        at: &Interrupted,
        user: &Regs,
        part: UserPart,
    ) -> Sample {
        let (mode, ip) = match at {
            Interrupted::User(regs) => (CpuMode::User, regs.pc),
            Interrupted::Kernel { at, .. } => (CpuMode::Kernel, at.ip),
        };
        let event = &*instance.event;
        let callchain = match event.callchain {
            true => self.callchain_in_buffer(event, at, part),
            false => Vec::new(),
        };
        let walks_fp = event.user_stack == UserStack::FramePointer;
        let wants_lr = self.arch == Arch::Aarch64 && event.callchain && walks_fp;
        Sample {
            event: match &instance.output {
                Output::Session(of) => of.event,
                Output::Ring(_) => usize::MAX,
            },
            mode,
            ip,
            pid: self.task.pid,
            tid: self.task.tid,
            time: self.cpu.clock,
            cpu: self.cpu.id,
            period: 0,
            callchain,
            dump: None,
            user_lr: wants_lr.then_some(user.gp[arch::aarch64::regs::LR]),
            raw: None,
        }
    }

    /// Writes a sample of a session's event, with the dump of the user stack if one is asked for.
    fn sample_in_session(
        &mut self,
        session: SessionId,
        event: &Event,
        mut sample: Sample,
        at: &Interrupted,
        user: &Regs,
    ) {
        if let (UserStack::Dump(size), true) = (event.user_stack, event.callchain) {
            sample.dump = Some(self.user_dump(session, &sample, at, user, size));
        }
        let written = self.record_in(session, Record::Sample(sample));
        // The main session's samples are those that are graded.
        if written && session == SessionId::MAIN {
            self.show_sample(at, user);
        }
    }

    /// Shows the observer a sample that was written.
    fn show_sample(&mut self, at: &Interrupted, user: &Regs) {
        let in_kernel = matches!(at, Interrupted::Kernel { .. });
        let unsaved = self.cpu.slot_is_stale && in_kernel || self.task.mm.is_none();
        let kernel = match self.observer.is_some() && !unsaved {
            true => self.kernel_part(at),
            false => Vec::new(),
        };
        if let Some(observer) = &mut self.observer {
            observer.about(self.task.id);
            if unsaved {
                return observer.sampled_unsaved(user);
            }
            let sp_was_set = self.task.hw.is_none() && self.core.sp_was_set();
            let memory = Present { mm: &self.mm, arena: &self.arena };
            observer.sampled(user, &kernel, sp_was_set, memory);
        }
    }

    /// Addresses on the kernel's stack, innermost first, whatever the event asks for.
    fn kernel_part(&self, at: &Interrupted) -> Vec<u64> {
        let Interrupted::Kernel { at, .. } = at else { return Vec::new() };
        let mut chain = Chain::new(0, callchain::Limits::default());
        callchain::walk_kernel(&mut chain, at.ip, at.fp, |fp| self.frame_record(fp), false);
        // Behind the marker of the kernel's part.
        chain.into_words().split_off(1)
    }

    /// `event_limit`: whether this overflow is the last one, with which the event is disabled.
    fn limit_is_reached(&mut self, opened: &Rc<Opened>) -> bool {
        let left = opened.limit.get();
        opened.limit.set(left.saturating_sub(1));
        if left == 1 {
            self.disable_event(opened);
        }
        left == 1
    }

    /// A callchain by way of the CPU's buffer of this level; where that is in use, an empty one.
    fn callchain_in_buffer(&mut self, event: &Event, at: &Interrupted, part: UserPart) -> Vec<u64> {
        let (cpu, level) = (self.cpu.id, self.cpu.level());
        if !self.perf.callchains.acquire(cpu, level) {
            return Vec::new();
        }
        let chain = self.callchain(event, at, part);
        self.perf.callchains.release(cpu, level);
        chain
    }

    /// `get_perf_callchain`: kernel part, then user part. The cookie goes through the budget
    /// of context markers, as its marker does. A part that the event excludes has no marker.
    fn callchain(&self, event: &Event, at: &Interrupted, part: UserPart) -> Vec<u64> {
        let mut chain = Chain::new(event.max_stack, self.config.callchains);
        let user = match at {
            Interrupted::User(regs) => *regs,
            Interrupted::Kernel { .. } if event.exclude_callchain_kernel => self.user_regs(),
            Interrupted::Kernel { at, software } => {
                // arm64's software samples show the first address twice (measured).
                let twice = *software && self.arch == Arch::Aarch64;
                callchain::walk_kernel(&mut chain, at.ip, at.fp, |fp| self.frame_record(fp), twice);
                self.user_regs()
            }
        };
        let kernel = chain.len();
        match part {
            UserPart::Deferred(cookie) => {
                chain.store_context(context::USER_DEFERRED);
                chain.store_context(cookie);
            }
            UserPart::Immediate if self.task.mm.is_some() && !event.exclude_callchain_user => {
                match (event.user_stack, &self.mm.sframe) {
                    (UserStack::Sframe, Some(registry)) => {
                        callchain::walk_user_sframe(
                            &mut chain,
                            &user,
                            registry,
                            &mut self.present(),
                        );
                    }
                    _ => callchain::walk_user(
                        &mut chain,
                        &user,
                        self.task.at_entry,
                        &mut self.present(),
                    ),
                }
            }
            UserPart::Immediate => {}
        }
        let mut words = chain.into_words();
        if part == UserPart::Immediate {
            self.fix_up(&mut words[kernel..]);
        }
        words
    }
}
