//! A step in words: what it did this time, where its rule leaves that open; else the rule.

use arch::syscalls::Sysno;

use crate::kernel::symbols::{Function, Named, SIZE, text_base};
use crate::kernel::unwind::{Mode, PERF, Requested, Tracer, WorkId};
use crate::kernel::{Point, State};
use crate::perf::record::{Record, Sample, context};
use crate::perf::session::SessionId;
use crate::timeline::facts::{Facts, bits, counted, names};
use crate::timeline::{Cookie, Names};

/// A step that is over.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// The machine after it.
    pub state: &'a State,
    /// Which.
    pub point: Point,
    /// Before it.
    pub old: &'a Facts,
    /// After it.
    pub new: &'a Facts,
    /// Of user code addresses.
    pub names: &'a Names,
}

impl Told<'_> {
    /// What happened.
    pub fn words(&self) -> String {
        self.special().unwrap_or_else(|| self.point.rule().to_owned())
    }

    fn special(&self) -> Option<String> {
        let entry = self.entry();
        entry.or_else(|| self.interrupt()).or_else(|| self.way_out()).or_else(|| self.deferred())
    }

    fn entry(&self) -> Option<String> {
        let state = self.state;
        Some(match self.point {
            Point::EntryRaw => format!("the kernel is entered at {}", self.function(0)?),
            Point::EntryN1 => match self.syscall() {
                Some(call) => format!("user registers saved: system call {call}"),
                None => format!("user registers saved: user code is at {}", self.user_pc()),
            },
            Point::EntryN3 => "interrupts may come again".to_owned(),
            Point::EntryN5 if self.syscall().is_some() => {
                let result = state.user_regs().ret() as i64;
                format!("system call {} returns {result}", self.syscall()?)
            }
            Point::EntryN6 => "one-time exit work".to_owned(),
            Point::EntryN7 => "the way out begins".to_owned(),
            Point::Body => format!("work of {}", self.function(0)?),
            Point::Call => format!("call of {}", self.function(0)?),
            Point::Return => format!("back in {}", self.function(0)?),
            _ => return None,
        })
    }

    fn interrupt(&self) -> Option<String> {
        Some(match self.point {
            Point::IrqDeliver => {
                let (handler, hit) = (self.function(0)?, self.function(1)?);
                format!("{handler} interrupts {hit}")
            }
            Point::IrqReturn => format!("{} goes on", self.function(0)?),
            Point::NmiEnter | Point::IrqEnter => "the interrupt is counted in".to_owned(),
            Point::NmiExit | Point::IrqExit => "the interrupt is counted out".to_owned(),
            Point::IrqWorkRun => {
                "raised work is done: nothing but this interrupt was wanted".to_owned()
            }
            Point::NmiSample | Point::SoftwareSample | Point::IrqHandler => {
                let samples: Vec<String> =
                    self.samples().map(|(session, s)| self.sample(session, s)).collect();
                match samples.is_empty() {
                    true => return None,
                    false => samples.join("; "),
                }
            }
            _ => return None,
        })
    }

    fn way_out(&self) -> Option<String> {
        Some(match self.point {
            Point::ExitX1 | Point::ExitX3 => {
                let set = names(self.new.task.work).into_iter().filter(|w| w.1).map(|w| w.0);
                let set: Vec<&str> = set.collect();
                match set.is_empty() {
                    true => "work bits read: none".to_owned(),
                    false => format!("work bits read: {}", set.join(", ")),
                }
            }
            Point::ExitX2 => "the exit loop begins a pass".to_owned(),
            Point::ExitSignal => self.signal()?,
            Point::ExitResume => "resume work".to_owned(),
            Point::ExitX5 => self.reset().to_owned(),
            Point::Leave => format!("back to user mode, at {}", self.user_pc()),
            Point::TaskWorkTake => match self.old.task.works {
                Some(0) | None => "nothing left".to_owned(),
                Some(n) => format!("{} taken, the newest first", counted(n as u64, "item")),
            },
            Point::UnwindFlush => match self.is_flushed() {
                false => "nothing is pending".to_owned(),
                true => "a stack is pending: captured while there is memory".to_owned(),
            },
            _ => return None,
        })
    }

    /// What the way out does with the unwinder's state: each design has its own first step.
    fn reset(&self) -> &'static str {
        let (old, new) = (&self.old.task, &self.new.task);
        let emptied = matches!(old.cache, Some((n, _)) if n > 0);
        match self.state.unwind.design.mode() {
            Mode::Mask if new.mask == 0 => "unwind state reset: R1, the mask is 0: nothing to do",
            Mode::Mask => "unwind state reset: R1, the mask is not 0",
            Mode::Timestamp if old.id == 0 => {
                "unwind state reset: the timestamp is stored as 0, as always (it was 0)"
            }
            Mode::Timestamp => "unwind state reset: the timestamp is stored as 0, as always",
            Mode::PerWork if new.id != 0 => {
                "unwind state reset: the id is kept, as task work is queued"
            }
            Mode::Cookie | Mode::PerWork if old.id != 0 => "unwind state reset: the id is cleared",
            Mode::Cookie | Mode::PerWork if emptied => {
                "unwind state reset: no id to clear, the cache is emptied"
            }
            Mode::Cookie | Mode::PerWork => "unwind state reset: nothing to do",
            Mode::NotBuilt => "no unwinder: nothing to reset",
        }
    }

    /// [`Point::UnwindFlush`] has found something to do: by the mask, or an item of task work
    /// that it has taken.
    fn is_flushed(&self) -> bool {
        match self.state.unwind.design.mode() {
            Mode::PerWork => self.old.task.works != self.new.task.works,
            _ => self.old.task.mask & 1 != 0,
        }
    }

    /// A signal is taken, then its frame is built.
    fn signal(&self) -> Option<String> {
        let task = &self.state.task;
        Some(match (&task.caught, &task.ending) {
            (Some(info), _) => format!("{} is taken: it has a handler", info.signal),
            (None, Some(_)) => "the signal has no handler: the task dies of it".to_owned(),
            (None, None)
                if self.function(0)? == Function::from(Named::GetSignal).name(self.state.arch) =>
            {
                "no signal has a handler".to_owned()
            }
            (None, None) => {
                format!("its frame is on the user stack; user code will be at {}", self.user_pc())
            }
        })
    }

    /// The deferred unwinder, from a request to what is made of it.
    fn deferred(&self) -> Option<String> {
        let asked = self.refusal().or_else(|| self.request()).or_else(|| self.naming());
        let served = || self.capture().or_else(|| self.processing()).or_else(|| self.clearing());
        asked.or_else(served).or_else(|| self.delivery())
    }

    /// Whether a request is let in: for whose stack, and from which context.
    fn refusal(&self) -> Option<String> {
        let level = self.new.cpu.level;
        let user = self.state.task.is_user();
        Some(match self.point {
            Point::RequestQ2
            | Point::TimestampRequest3
            | Point::CookieRequest3
            | Point::WorkRequest1 => match user {
                true if self.point == Point::WorkRequest1 && level == 3 => {
                    "refused in NMI".to_owned()
                }
                true => "asked for the stack of a user task".to_owned(),
                false => "refused: no user task, or it is ending".to_owned(),
            },
            Point::RequestQ3 if level == 3 => "in NMI: task work with a nudge".to_owned(),
            Point::RequestQ3 => "not in NMI: task work without a nudge".to_owned(),
            Point::TimestampRequest2 | Point::CookieRequest2 => match level {
                3 => "refused in NMI".to_owned(),
                _ => "not in NMI".to_owned(),
            },
            _ => return None,
        })
    }

    /// A request that was let in.
    fn request(&self) -> Option<String> {
        let task = &self.new.task;
        Some(match self.point {
            Point::TimestampRequest5 if self.old.task.id == task.id => {
                "the task has a timestamp".to_owned()
            }
            Point::TimestampRequest5 => "the clock's value is the timestamp".to_owned(),
            Point::TimestampRequest6 | Point::CookieRequest6 => match task.pending {
                true => "pending already".to_owned(),
                false => "not pending yet".to_owned(),
            },
            Point::WorkRequest3 if self.old.task.works == task.works => "queued already".to_owned(),
            Point::WorkRequest3 => "the work's item goes on the task's list".to_owned(),
            Point::RequestQ4 => "the bit of the tracer that asks is read".to_owned(),
            Point::RequestQ8 => format!("mask read: {}", bits(task.mask)),
            Point::RequestQ9 => "PENDING and the bit into the mask".to_owned(),
            Point::TimestampRequest8 | Point::CookieRequest8 => "interrupts as before".to_owned(),
            _ => return None,
        })
    }

    /// The stack's cookie.
    fn naming(&self) -> Option<String> {
        let (task, cpu) = (&self.new.task, &self.new.cpu);
        Some(match self.point {
            Point::CookieG1 if task.id as u32 != 0 => "the task has a cookie".to_owned(),
            Point::CookieG1 => "the task has no cookie yet".to_owned(),
            Point::CookieG2 => {
                let next = cpu.count.wrapping_add(2) | 1;
                format!("the CPU's count is {}, the next one is {next}", cpu.count)
            }
            Point::CookieG3 if self.old.task.id != task.id => {
                "the task's id gets the count".to_owned()
            }
            Point::CookieG3 => "the id has a count already: that one it is".to_owned(),
            Point::CookieG4 => "the CPU has given that count away".to_owned(),
            Point::CookieG5 => {
                "the id gets the CPU's number plus one, and is the cookie".to_owned()
            }
            _ => return None,
        })
    }

    /// The walk, or the cache that stands for it.
    fn capture(&self) -> Option<String> {
        let task = &self.new.task;
        Some(match self.point {
            Point::CaptureC1 => match self.state.task.mm.is_some() {
                true => "the task has memory".to_owned(),
                false => "refused: the task has no memory any more".to_owned(),
            },
            Point::CaptureC2 if task.cache.is_some() => "the task has a cache page".to_owned(),
            Point::CaptureC2 => "the task has no cache page yet".to_owned(),
            Point::CaptureAllocate if task.cache.is_some() => {
                "a cache page is allocated".to_owned()
            }
            Point::CaptureAllocate => "no memory for a cache page: no stack".to_owned(),
            Point::CaptureC4 => match task.cache {
                Some((n, _)) if n > 0 => "the cache has this stack: no walk".to_owned(),
                _ => "nothing cached: a walk".to_owned(),
            },
            Point::CaptureC6 => "the walk's addresses are in the cache".to_owned(),
            _ => return None,
        })
    }

    /// Who is to be called with the stack.
    fn processing(&self) -> Option<String> {
        let task = &self.new.task;
        Some(match self.point {
            Point::ProcessP1 if task.mask & 1 != 0 => "a stack is pending".to_owned(),
            Point::ProcessP1 => "nothing is pending".to_owned(),
            Point::ProcessP8 => "the next tracer: did it ask?".to_owned(),
            Point::ProcessP8Load => "who was served so far".to_owned(),
            Point::ProcessP8Completed if task.cache.is_none() => {
                "it asked and was called: there is no cache to note that in".to_owned()
            }
            Point::ProcessP8Completed => "it asked and was called: noted".to_owned(),
            _ => return None,
        })
    }

    /// The reset of the unwinder's state, step by step.
    fn clearing(&self) -> Option<String> {
        let task = &self.new.task;
        Some(match self.point {
            Point::ResetR2 if task.mask & 1 != 0 => "pending: all is kept".to_owned(),
            Point::ResetR2 => "nothing is pending".to_owned(),
            Point::ResetR3 if task.mask != 0 => "the mask has changed: again".to_owned(),
            Point::ResetR3 => "the mask is cleared".to_owned(),
            Point::ResetR4 if task.mask & 1 != 0 => {
                "the id is cleared although a stack is pending: it loses its cookie".to_owned()
            }
            Point::ResetR4 => "the id is cleared".to_owned(),
            Point::ResetR6 => "nobody was served".to_owned(),
            _ => return None,
        })
    }

    /// Who was called, and what it did with the stack.
    fn delivery(&self) -> Option<String> {
        Some(match self.point {
            Point::CallbackLog => {
                let call = self.state.unwind.calls.last()?;
                let (who, stack) = (tracer(self.state, call.work), stack(&call.trace));
                format!("{who} is called: cookie {:#x}, {stack}", call.cookie)
            }
            Point::DeferredOutput => self.record().map_or_else(
                || "perf is called, and no event wants the stack".to_owned(),
                |(cookie, ips)| {
                    format!("perf writes the record: cookie {cookie:#x}, {}", stack(ips))
                },
            ),
            _ => return None,
        })
    }

    /// The cookie that it gave a stack for.
    pub fn cookie(&self) -> Option<Cookie> {
        match self.point {
            Point::DeferredOutput => self.record().map(|(cookie, _)| Cookie::Given(cookie)),
            Point::CallbackLog => {
                self.state.unwind.calls.last().map(|call| Cookie::Given(call.cookie))
            }
            _ => None,
        }
    }

    /// The function on the stack, from the innermost on.
    fn function(&self, nth: usize) -> Option<String> {
        let functions = &self.state.cpu.functions;
        let function: &Function = functions.get(functions.len().checked_sub(nth + 1)?)?;
        Some(function.name(self.state.arch))
    }

    /// The system call that the task is in.
    fn syscall(&self) -> Option<String> {
        match self.state.task.orig_nr {
            u64::MAX => None,
            nr => Some(match Sysno::from_nr(self.state.arch, nr) {
                Some(call) => call.name().to_owned(),
                None => format!("number {nr}"),
            }),
        }
    }

    fn user_pc(&self) -> String {
        (self.names)(self.state.user_regs().pc)
    }

    /// Records of the step.
    fn records(&self) -> impl Iterator<Item = (SessionId, &Record)> {
        self.state.perf.since(self.old.records)
    }

    fn samples(&self) -> impl Iterator<Item = (SessionId, &Sample)> {
        self.records().filter_map(|(session, r)| match r {
            Record::Sample(sample) => Some((session, sample)),
            _ => None,
        })
    }

    fn record(&self) -> Option<(u64, &[u64])> {
        self.records().find_map(|(_, r)| match r {
            Record::CallchainDeferred { cookie, ips, .. } => Some((*cookie, &ips[..])),
            _ => None,
        })
    }

    fn sample(&self, session: SessionId, sample: &Sample) -> String {
        let profile = self.state.perf.profile(session);
        let event = profile.and_then(|p| p.session.events.get(sample.event));
        let event = event.map_or("an event", |event| event.name.as_str());
        let place = match self.kernel(sample.ip) {
            Some(place) => place,
            None => (self.names)(sample.ip),
        };
        let of = match session {
            SessionId::MAIN => String::new(),
            SessionId(n) => format!(" of session {}", n + 1),
        };
        let mut text = format!("sample of {event}{of} at {place}");
        // Each part of the chain begins with its marker.
        for part in sample.callchain.chunk_by(|_, next| *next < context::MAX) {
            let n = part.len() as u64 - 1;
            text += &match (part[0], part.get(1)) {
                (context::KERNEL, _) => format!("; kernel: {}", counted(n, "address")),
                (context::USER, _) => format!("; user: {}", counted(n, "address")),
                (context::USER_DEFERRED, Some(cookie)) => format!("; user: cookie {cookie:#x}"),
                _ => String::new(),
            };
        }
        text
    }

    /// A kernel address.
    fn kernel(&self, ip: u64) -> Option<String> {
        let symbols = &self.state.perf.main.session.kernel_symbols;
        ip.checked_sub(text_base(self.state.arch))?;
        let at = symbols.partition_point(|s| s.addr <= ip).checked_sub(1)?;
        let symbol = &symbols[at];
        (ip - symbol.addr < SIZE).then(|| format!("{}+{:#x}", symbol.name, ip - symbol.addr))
    }
}

/// The answer to a request in words.
pub fn answer(state: &State, work: WorkId, answer: Requested) -> String {
    let who = tracer(state, work);
    let Requested { ret, cookie } = answer;
    match ret {
        0 => format!("{who} is answered 0, it will be called; cookie {cookie:#x}"),
        1.. => format!("{who} is answered {ret}, it had asked already; cookie {cookie:#x}"),
        _ => {
            let errno = arch::Errno(ret.unsigned_abs() as u16);
            format!("{who} is answered -{errno:?}, refused")
        }
    }
}

fn tracer(state: &State, work: WorkId) -> String {
    match state.unwind.works.get(work.0 as usize).and_then(|w| w.tracer) {
        Some(Tracer::Perf) => "perf".to_owned(),
        _ if work == PERF => "perf".to_owned(),
        _ => format!("tracer {}", work.0),
    }
}

fn stack(ips: &[u64]) -> String {
    counted(ips.len() as u64, "address")
}
