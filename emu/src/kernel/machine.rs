//! The whole machine as one CPU sees it.
//!
//! [`State::cpu`], [`State::task`] and [`State::mm`] are those of the CPU that takes the present
//! step: `this_cpu`, `current` and its address space. What belongs to the other CPUs, and every
//! task that does not run, is in [`Others`]. So a path says what the kernel says, and which CPU it
//! is on changes between two steps at most.
//!
//! ```text
//!                 State { cpu, task, mm }
//!  activate(CPU 1)   │        ▲
//!                    ▼        │
//!         Others { cpus, tasks, mms }
//! ```
//!
//! The engine is one CPU that all emulated CPUs use in turn: it holds the user registers of one
//! task ([`State::engine_task`]), those of the others are in [`Task::hw`].

use std::collections::BTreeMap;

use arch::{FpState, Regs};

use crate::kernel::State;
use crate::kernel::state::Cpu;
use crate::kernel::task::{Task, TaskId};
use crate::mem::Mm;
use crate::mem::mm::MmId;
use crate::perf::record::Time;

/// What the present CPU does not use.
#[derive(Debug, Default)]
pub struct Others {
    /// CPUs by number.
    pub cpus: BTreeMap<u32, Box<Cpu>>,
    /// Tasks: those that run on the other CPUs, and those that do not run.
    pub tasks: BTreeMap<TaskId, Box<Task>>,
    /// Their address spaces.
    pub mms: BTreeMap<MmId, Box<Mm>>,
    /// Tasks that wait, in the order in which they began.
    pub sleepers: Vec<TaskId>,
    /// Tasks that were made since the executor looked last.
    pub born: Vec<TaskId>,
    /// Tasks that have run their last step and are not reaped yet.
    pub dead: Vec<TaskId>,
    /// Tasks that were reaped since the executor looked last.
    pub gone: Vec<TaskId>,
    /// Ids given out.
    pub last_task: u32,
    /// Address spaces made.
    pub last_mm: u32,
    /// The last process or thread id given out.
    pub last_pid: u32,
}

/// User registers of a task that the engine does not hold.
#[derive(Clone, Debug)]
pub struct UserHw {
    /// Integer registers.
    pub regs: Regs,
    /// Floating-point registers.
    pub fp: FpState,
}

/// The CPU that takes the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elected {
    /// Its number.
    pub cpu: u32,
    /// When it has something to do.
    pub at: Time,
    /// When the first of the other CPUs has.
    pub horizon: Time,
}

impl State {
    /// A task, wherever it is.
    pub fn task_of(&self, id: TaskId) -> Option<&Task> {
        if self.task.id == id { Some(&self.task) } else { self.others.tasks.get(&id).map(|t| &**t) }
    }

    /// The same, to be changed.
    pub fn task_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        if self.task.id == id {
            return Some(&mut self.task);
        }
        self.others.tasks.get_mut(&id).map(|t| &mut **t)
    }

    /// The task that is not dead and has this thread id.
    pub fn find_tid(&self, tid: u32) -> Option<TaskId> {
        self.tasks().find(|t| t.tid == tid && t.kernel_thread.is_none() && !t.dead).map(|t| t.id)
    }

    /// All tasks, in the order in which they were made.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let own = &*self.task;
        let before = self.others.tasks.range(..own.id).map(|(_, t)| &**t);
        let after = self.others.tasks.range(own.id..).map(|(_, t)| &**t);
        before.chain(std::iter::once(own)).chain(after)
    }

    /// The tasks of a process that are not dead.
    pub fn threads(&self, pid: u32) -> Vec<TaskId> {
        let own = |t: &&Task| t.pid == pid && !t.dead && t.kernel_thread.is_none();
        self.tasks().filter(own).map(|t| t.id).collect()
    }

    /// A CPU.
    pub fn cpu_of(&self, id: u32) -> Option<&Cpu> {
        if self.cpu.id == id { Some(&self.cpu) } else { self.others.cpus.get(&id).map(|c| &**c) }
    }

    /// The same, to be changed.
    pub fn cpu_mut(&mut self, id: u32) -> Option<&mut Cpu> {
        if self.cpu.id == id {
            return Some(&mut self.cpu);
        }
        self.others.cpus.get_mut(&id).map(|c| &mut **c)
    }

    /// All CPUs, by number.
    pub fn cpus(&self) -> impl Iterator<Item = &Cpu> {
        let own = &*self.cpu;
        let before = self.others.cpus.range(..own.id).map(|(_, c)| &**c);
        let after = self.others.cpus.range(own.id..).map(|(_, c)| &**c);
        before.chain(std::iter::once(own)).chain(after)
    }

    /// An address space.
    pub fn mm_of(&self, id: MmId) -> Option<&Mm> {
        if self.mm.id == id { Some(&self.mm) } else { self.others.mms.get(&id).map(|m| &**m) }
    }

    /// The present step's CPU is now this one.
    pub fn activate(&mut self, id: u32) {
        if self.cpu.id != id
            && let Some(cpu) = self.others.cpus.remove(&id)
        {
            let before = std::mem::replace(&mut self.cpu, cpu);
            self.others.cpus.insert(before.id, before);
            self.load_current();
        }
    }

    /// [`State::task`] becomes what the CPU says is its current task.
    pub fn load_current(&mut self) {
        let id = self.cpu.current;
        if let Some(task) = self.others.tasks.remove(&id) {
            let before = std::mem::replace(&mut self.task, task);
            self.others.tasks.insert(before.id, before);
        }
        // A task without an address space borrows the one that is there.
        if let Some(id) = self.task.mm
            && let Some(mm) = self.others.mms.remove(&id)
        {
            let before = std::mem::replace(&mut self.mm, mm);
            if before.users > 0 {
                self.others.mms.insert(before.id, before);
            }
        }
    }

    /// The CPU that takes the next step: the one that is behind, of several the lowest. `None`
    /// when all are idle and no timer runs.
    pub fn elect(&self) -> Option<Elected> {
        let (mut first, mut second) = ((self.cpu.ready_at(), self.cpu.id), Time::MAX);
        for cpu in self.others.cpus.values() {
            let ready = (cpu.ready_at(), cpu.id);
            if ready < first {
                second = first.0;
                first = ready;
            } else {
                second = second.min(ready.0);
            }
        }
        let (at, cpu) = first;
        (at != Time::MAX).then_some(Elected { cpu, at, horizon: second })
    }

    /// User registers of the present task, while it is in user mode or has just entered the
    /// kernel.
    pub fn hw_regs(&self) -> Regs {
        match &self.task.hw {
            Some(hw) => hw.regs,
            None => self.core.regs(),
        }
    }

    /// Its floating-point registers.
    pub fn hw_fp(&self) -> FpState {
        match &self.task.hw {
            Some(hw) => hw.fp.clone(),
            None => self.core.fp(),
        }
    }

    /// Changes them.
    pub fn set_hw_regs(&mut self, regs: &Regs) {
        match &mut self.task.hw {
            Some(hw) => hw.regs = *regs,
            None => self.core.set_regs(regs),
        }
    }

    /// Changes them.
    pub fn set_hw_fp(&mut self, fp: &FpState) {
        match &mut self.task.hw {
            Some(hw) => hw.fp = fp.clone(),
            None => self.core.set_fp(fp),
        }
    }

    /// The engine gets the present task's user registers and address space.
    pub fn load_engine(&mut self) {
        if let Some(hw) = self.task.hw.take() {
            let before = self.engine_task;
            let (regs, fp) = (self.core.regs(), self.core.fp());
            if let Some(task) = self.task_mut(before) {
                task.hw = Some(Box::new(UserHw { regs, fp }));
            }
            self.core.set_regs(&hw.regs);
            self.core.set_fp(&hw.fp);
            self.engine_task = self.task.id;
        }
        // The engine tells of calls and returns of this task.
        if let Some(observer) = &mut self.observer {
            observer.about(self.task.id);
        }
        if self.engine_mm != self.mm.id || self.mm.stale {
            self.engine_mm = self.mm.id;
            self.mm.stale = false;
            self.core.flush_tlb();
        }
    }
}
