//! The machine of a scenario with scripted tasks.
//!
//! ```text
//! Setup ─► Workshop::machine ─► State: each task in user mode, on its CPU or in its queue
//! ```
//!
//! A search makes thousands of machines a second: the workshop keeps what they have in common,
//! and takes a machine's memory back.

use std::cell::RefCell;
use std::rc::Rc;

use arch::{Arch, Regs};

use crate::engine::{Arena, EngineError};
use crate::kernel::boot::{FIRST, FIRST_MM, PID, Parts, Stacks};
use crate::kernel::kstack::KernelStack;
use crate::kernel::process::Process;
use crate::kernel::state::{Config, SplitMix64, UserCpu};
use crate::kernel::task::{Place, Task, TaskId};
use crate::kernel::unwind::{Clock, Design, Unwind};
use crate::kernel::vfs::{FdTable, Tree, Vfs};
use crate::kernel::{Kernel, State, tracer};
use crate::mem::mm::MmLayout;
use crate::mem::{AreaFlags, Backing, Mm, PAGE, Prot, ops};
use crate::perf::context::Context;
use crate::perf::record::{Event, EventKind, Rate, Session, UserStack};
use crate::perf::session::{Perf, SessionId};
use crate::scenario::code::{self, Code, FunctionId};
use crate::scenario::cpu::ScriptCpu;
use crate::scenario::host::NoHost;

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlan {
    /// Its name.
    pub name: String,
    /// The CPU that it is on, alone or in the queue.
    pub cpu: u32,
    /// What it does.
    pub main: FunctionId,
}

/// A tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracerPlan {
    /// Its name.
    pub name: String,
    /// It is registered before the run.
    pub registered: bool,
}

/// The session of perf: one event of the PMU, whose interrupts come where the scenario says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlan {
    /// The event is the CPUs', not the tasks'.
    pub wide: bool,
    /// Its user stacks are deferred.
    pub defer: bool,
}

/// What a machine is to be.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Architecture.
    pub arch: Arch,
    /// CPUs.
    pub cpus: u32,
    /// Design of the deferred unwinder.
    pub design: Rc<dyn Design>,
    /// Its clock, where stacks are named by one.
    pub clock: Clock,
    /// What the tasks do.
    pub code: Rc<Code>,
    /// The tasks, the first of which is on CPU 0; all are threads of one process.
    pub tasks: Vec<TaskPlan>,
    /// Tracers beside perf.
    pub tracers: Vec<TracerPlan>,
    /// Perf.
    pub session: SessionPlan,
    /// So many allocations of a cache page fail.
    pub failing_pages: u64,
    /// How the PMU interrupts, and the limits of the kernel.
    pub config: Config,
}

impl Setup {
    /// The same under this design.
    pub fn under(&self, design: &Rc<dyn Design>) -> Setup {
        Setup { design: design.clone(), ..self.clone() }
    }
}

/// Top of the first task's user stack; those of the others follow below.
const STACK_TOP: u64 = 0x7fff_0000_0000;
/// Bytes of a user stack.
const STACK: u64 = 4 * PAGE;
/// From one stack to the next.
const STACK_ROOM: u64 = 0x10_0000;
/// A period that never ends by counting.
const NEVER: u64 = 1 << 60;
/// Memory of a machine.
const MEMORY: u64 = 16 << 20;

/// Makes machines.
#[derive(Debug)]
pub struct Workshop {
    setup: Setup,
    session: Session,
    arena: Option<Arena>,
}

/// Why there is no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The host has no memory for it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The machine's own memory does not suffice.
    #[error("the scenario's {tasks} tasks do not fit into the machine's memory of {} MiB", MEMORY >> 20)]
    Memory {
        /// How many.
        tasks: usize,
    },
    /// A tracer that is registered before the run was refused.
    #[error("tracer {name:?} cannot be registered before the run: the design has no bit for it")]
    Refused {
        /// Which.
        name: String,
    },
}

impl Workshop {
    /// One for machines like this.
    pub fn new(setup: Setup) -> Workshop {
        let session = session(&setup);
        Workshop { setup, session, arena: None }
    }

    /// What its machines are.
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// A machine.
    ///
    /// # Errors
    ///
    /// [`SetupError`]
    pub fn machine(&mut self) -> Result<Kernel, SetupError> {
        let tasks = self.setup.tasks.len();
        let arena = match self.arena.take() {
            Some(arena) => arena,
            None => Arena::with_len(MEMORY)?,
        };
        let state = self.build(arena).ok_or(SetupError::Memory { tasks })?;
        let k = Kernel::new(state);
        for (index, tracer) in self.setup.tracers.iter().enumerate() {
            k.with(State::add_tracer);
            let registered = || k.before_the_run(tracer::register(&k, index)).flatten();
            if tracer.registered && registered().is_none() {
                return Err(SetupError::Refused { name: tracer.name.clone() });
            }
        }
        k.with(|s| s.perf.main.records.clear());
        Ok(k)
    }

    /// A machine is not needed any more.
    pub fn take_back(&mut self, k: Kernel) {
        self.arena = k.into_state().map(|state| {
            let State { mut arena, .. } = state;
            arena.clear();
            arena
        });
    }

    fn build(&self, mut arena: Arena) -> Option<State> {
        let Setup { arch, cpus, ref design, ref code, ref tasks, .. } = self.setup;
        let stacks = Stacks::new(arch, cpus, &mut arena)?;
        let mut mm = address_space(arch, tasks.len(), &mut arena)?;
        mm.users = tasks.len() as u32;
        let process = Rc::new(RefCell::new(Process {
            pid: PID,
            parent: 1,
            group: PID,
            live: tasks.len() as u32,
            ..Process::default()
        }));
        let make = |index: usize, id: TaskId, stack: KernelStack, place: Place| {
            let mut events = Context::default();
            if !self.session.system_wide() {
                events.open(SessionId::MAIN, &self.session.events, 0);
            }
            Task {
                process: process.clone(),
                events,
                mm: Some(FIRST_MM),
                fds: FdTable::default(),
                pid: PID,
                tid: PID + index as u32,
                ppid: 1,
                ..Task::empty(id, tasks[index].name.clone().into_bytes(), stack, place)
            }
        };
        let host = Rc::new(NoHost);
        let tree = Tree::new(host.clone(), None, "/".into(), "/scenario".into());
        let mut cpu = ScriptCpu::new(arch, code.clone());
        cpu.set_regs(&self.regs(0));
        let parts = Parts {
            arch,
            arena,
            core: Box::new(cpu),
            task: make(0, FIRST, stacks.first.clone(), Place::Running(0)),
            stacks,
            mm,
            vfs: Vfs::new(host, tree),
            perf: Perf::new(self.session.clone()),
            config: Config { cpus, ..self.setup.config.clone() },
            random: SplitMix64(0),
        };
        let mut state = parts.assemble();
        for (index, plan) in tasks.iter().enumerate().skip(1) {
            let make = |id, stack, place| make(index, id, stack, place);
            state.add_task(plan.cpu, &self.regs(index), make)?;
        }
        state.unwind = Unwind::new(design.clone());
        state.unwind.clock = self.setup.clock;
        state.unwind.sframe = arch != Arch::X86_64;
        state.unwind.failing_pages = self.setup.failing_pages;
        state.scripts.clone_from(&code.scripts);
        Some(state)
    }

    /// The user registers of a task at its beginning.
    fn regs(&self, index: usize) -> Regs {
        let mut regs = Regs::new(self.setup.arch);
        regs.pc = code::entry(self.setup.tasks[index].main);
        regs.set_sp(STACK_TOP - STACK_ROOM * index as u64 - 16);
        regs
    }
}

fn address_space(arch: Arch, tasks: usize, arena: &mut Arena) -> Option<Mm> {
    let layout = MmLayout {
        mmap_base: STACK_TOP - (1 << 40),
        brk_start: 0x1000_0000,
        stack_top: STACK_TOP,
        stack_limit: 8 << 20,
        data_limit: u64::MAX,
        address_limit: u64::MAX,
    };
    let mut mm = Mm::new(FIRST_MM, arch, layout, arena)?;
    for index in 0..tasks as u64 {
        let top = STACK_TOP - STACK_ROOM * index;
        let prot = Prot { read: true, write: true, exec: false };
        let place = ops::Place::Fixed(top - STACK);
        mm.map(arena, place, STACK, prot, AreaFlags::default(), Backing::Anonymous).ok()?;
        // The outermost frame's page is there.
        mm.write(arena, top - PAGE, &[0; 8]).ok()?;
    }
    mm.kernel_faults.clear();
    Some(mm)
}

fn session(setup: &Setup) -> Session {
    let event = Event {
        kind: EventKind::Cycles,
        name: "cycles".into(),
        rate: Rate::Period(NEVER),
        exclude_user: false,
        exclude_kernel: false,
        callchain: true,
        exclude_callchain_user: false,
        exclude_callchain_kernel: false,
        defer: setup.session.defer,
        user_stack: UserStack::default(),
        max_stack: 0,
    };
    Session {
        arch: setup.arch,
        events: vec![event],
        cpus: setup.cpus,
        wide: if setup.session.wide { u64::MAX } else { 0 },
        switches: false,
        no_inherit: false,
        cmdline: Vec::new(),
        kernel_symbols: Vec::new(),
    }
}
