//! All state of the modelled machine.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use arch::{Arch, FpState, Regs};

use crate::engine::flow::FlowSink;
use crate::engine::schedule::Visits;
use crate::engine::stepper::Sight;
use crate::engine::{Arena, Budget, Engine, EngineError, Mmu, Run};
use crate::kernel::irq_work::IrqWork;
use crate::kernel::kstack::{KernelContext, KernelStack};
use crate::kernel::machine::Others;
use crate::kernel::observer::Observer;
use crate::kernel::page_out::PageOut;
use crate::kernel::process::Shared;
use crate::kernel::sampling::Overflow;
use crate::kernel::schedule::Schedule;
use crate::kernel::scripted::Act;
use crate::kernel::symbols::Function;
use crate::kernel::task::{Ending, Task, TaskId};
use crate::kernel::timeline::Timeline;
use crate::kernel::timers::Timers;
use crate::kernel::tracer::Attached;
use crate::kernel::unwind::Unwind;
use crate::kernel::vfs::Vfs;
use crate::kernel::{Point, aarch64, x86_64};
use crate::loader::vdso::Vdso;
use crate::mem::Mm;
use crate::mem::mm::MmId;
use crate::perf::callchain::{FrameRecord, Limits};
use crate::perf::context::Context;
use crate::perf::opened::Opened;
use crate::perf::record::{EventKind, Record, Time};
use crate::perf::session::Perf;

/// The CPU as the kernel sees it: it runs user code and has user registers.
pub trait UserCpu: fmt::Debug {
    /// Runs user code; see [`Engine::run`].
    fn run(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        budget: Budget,
    ) -> Result<Run, EngineError>;
    /// Integer registers.
    fn regs(&self) -> Regs;
    /// Sets the integer registers.
    fn set_regs(&mut self, regs: &Regs);
    /// Floating-point registers.
    fn fp(&self) -> FpState;
    /// Sets the floating-point registers.
    fn set_fp(&mut self, fp: &FpState);
    /// Forgets cached translations.
    fn flush_tlb(&mut self);
    /// Sets what counter instructions answer.
    fn set_clock(&mut self, clock: u64);
    /// Tells of calls, returns and indirect jumps; see [`Engine::follow`].
    fn follow(&mut self, sink: Box<dyn FlowSink>) -> Result<(), EngineError>;
    /// See [`Engine::sp_was_set`].
    fn sp_was_set(&self) -> bool;
    /// Shows instructions; see [`Engine::look`].
    fn look(
        &mut self,
        arena: &Arena,
        sight: Box<dyn Sight>,
        visits: Visits,
    ) -> Result<(), EngineError>;
    /// Executions of each block; see [`Engine::executions`].
    fn executions(&mut self) -> Vec<(u64, u32, u64)>;
}

impl UserCpu for Engine {
    fn run(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        budget: Budget,
    ) -> Result<Run, EngineError> {
        Engine::run(self, arena, mmu, budget)
    }
    fn regs(&self) -> Regs {
        Engine::regs(self)
    }
    fn set_regs(&mut self, regs: &Regs) {
        Engine::set_regs(self, regs);
    }
    fn fp(&self) -> FpState {
        Engine::fp(self)
    }
    fn set_fp(&mut self, fp: &FpState) {
        Engine::set_fp(self, fp);
    }
    fn flush_tlb(&mut self) {
        Engine::flush_tlb(self);
    }
    fn follow(&mut self, sink: Box<dyn FlowSink>) -> Result<(), EngineError> {
        Engine::follow(self, sink)
    }
    fn look(
        &mut self,
        arena: &Arena,
        sight: Box<dyn Sight>,
        visits: Visits,
    ) -> Result<(), EngineError> {
        Engine::look(self, arena, sight, visits)
    }
    fn executions(&mut self) -> Vec<(u64, u32, u64)> {
        Engine::executions(self)
    }
    fn sp_was_set(&self) -> bool {
        Engine::sp_was_set(self)
    }
    fn set_clock(&mut self, clock: u64) {
        Engine::set_clock(self, clock);
    }
}

/// How the PMU interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PmuIrq {
    /// As an NMI (x86_64) or pseudo-NMI (aarch64): anywhere.
    Nmi,
    /// As an NMI of x86_64 behind whose handler the counters count again, before it returns: one
    /// that overflows there is latched (E-11).
    NmiLatched,
    /// As an ordinary interrupt: where interrupts are on.
    Irq,
}

impl PmuIrq {
    /// Whether it interrupts anywhere.
    pub const fn is_nmi(self) -> bool {
        matches!(self, PmuIrq::Nmi | PmuIrq::NmiLatched)
    }
}

/// One unit in the hardirq field of the preempt count (Linux 7.3 layout: bits 24..27).
pub const HARDIRQ: u32 = 1 << 24;
/// One unit in the NMI field (bits 28..31).
pub const NMI: u32 = 1 << 28;

/// Per-CPU state.
#[derive(Debug)]
pub struct Cpu {
    /// CPU number.
    pub id: u32,
    /// Hardware interrupts are enabled.
    pub irqs_on: bool,
    /// Neither interrupts nor NMIs arrive. On x86_64 from an NMI's delivery to its return.
    /// On aarch64, where it is `DAIF`, from every entry until it is restored (N3) and from
    /// X4 to the return: a pseudo-NMI cannot see the register slot half written.
    pub nmi_masked: bool,
    /// Nesting of preemption, softirq, hardirq and NMI.
    pub preempt_count: u32,
    /// Nanoseconds since boot.
    pub clock: Time,
    /// Where the CPU is in kernel code; `None` in user mode.
    pub kernel: Option<KernelContext>,
    /// The kernel was entered from user mode and has not saved the registers yet: the slot has
    /// those of an earlier entry (hazard E-2).
    pub slot_is_stale: bool,
    /// Modelled functions on the current path, innermost last.
    pub functions: Vec<Function>,
    /// Stack of the NMI handler.
    pub nmi_stack: KernelStack,
    /// Work raised in contexts that cannot do it.
    pub irq_work: IrqWork,
    /// Unwind cookies given out so far (`unwind_ctx_ctr`).
    pub unwind_ctx_ctr: u32,
    /// The task that runs.
    pub current: TaskId,
    /// Tasks that wait for their turn, the next one first.
    pub queue: VecDeque<TaskId>,
    /// The task that runs when no other can.
    pub idle: TaskId,
    /// It waits for an interrupt.
    pub halted: bool,
    /// Another CPU asked it to look at its queue: an interrupt is on its way.
    pub resched_ipi: bool,
    /// When the current task began to run.
    pub since: Time,
    /// When it was last accounted for.
    pub accounted: Time,
    /// Process and thread that it ran before the present task.
    pub before: (u32, u32),
    /// The timer of the time slice runs.
    pub slice: Option<crate::kernel::timers::TimerId>,
    /// The kernel's timers.
    pub timers: Timers,
    /// The tick, and how interrupts keep user code from going on.
    pub tick: crate::kernel::throttle::Ticking,
    /// When the timer of each of [`State::tracers`] fires here; `Time::MAX`: never.
    pub tracer_timers: Vec<Time>,
    /// Those whose programs the next interrupt of the PMU runs.
    pub tracer_nmis: Vec<usize>,
    /// The task whose floating-point registers it has (`fpu_fpregs_owner_ctx`).
    pub fpu_owner: Option<TaskId>,
    /// Performance events that are open on the CPU.
    pub events: Context,
    /// Interrupts were off when they were last traced (`tracing_irq_cpu`).
    pub irqs_traced_off: bool,
    /// The PMU counts: not from its interrupt on, until the return to what it hit, or, of user
    /// code, until the handler is over and no NMI is masked; see [`PmuIrq::NmiLatched`].
    pub counting: bool,
    /// Kernel instructions since the last modelled branch.
    pub since_branch: u64,
    /// Events of guests whose readers irq_work is to wake.
    pub wakeups: Vec<Rc<Opened>>,
    /// Overflows of software events whose samples ask for a deferred unwind: they are taken
    /// when the step that they happened in is over.
    pub overflows: VecDeque<Overflow>,
}

impl Cpu {
    /// CPU number `id` at the boot, with its idle task.
    pub fn new(id: u32, nmi_stack: KernelStack, idle: TaskId) -> Cpu {
        Cpu {
            id,
            irqs_on: true,
            nmi_masked: false,
            preempt_count: 0,
            clock: 0,
            kernel: None,
            functions: Vec::new(),
            nmi_stack,
            irq_work: IrqWork::default(),
            unwind_ctx_ctr: 0,
            current: idle,
            queue: VecDeque::new(),
            idle,
            halted: false,
            resched_ipi: false,
            since: 0,
            accounted: 0,
            before: (0, 0),
            slice: None,
            timers: Timers::default(),
            tick: crate::kernel::throttle::Ticking::default(),
            tracer_timers: Vec::new(),
            tracer_nmis: Vec::new(),
            fpu_owner: None,
            events: Context::default(),
            irqs_traced_off: false,
            counting: true,
            since_branch: 0,
            slot_is_stale: false,
            wakeups: Vec::new(),
            overflows: VecDeque::new(),
        }
    }

    /// When it has something to do. One that is halted waits for a timer: of the kernel, or of an
    /// event that is open on the CPU; the idle task has no events.
    pub fn ready_at(&self) -> Time {
        if self.halted && !self.resched_ipi && self.queue.is_empty() {
            self.events.next_deadline().min(self.timers.next()).max(self.clock)
        } else {
            self.clock
        }
    }

    /// Interrupts other than NMIs wait.
    pub const fn masks_irqs(&self) -> bool {
        !self.irqs_on || self.level() >= 2
    }

    /// The PMU's wait, which come as `pmu_irq` says.
    pub const fn masks_pmu(&self, pmu_irq: PmuIrq) -> bool {
        let masked = if pmu_irq.is_nmi() { self.level() == 3 } else { self.masks_irqs() };
        self.nmi_masked || masked
    }

    /// The recursion level of the current context: 0 task, 1 softirq, 2 hardirq, 3 NMI.
    pub const fn level(&self) -> u8 {
        let nmi = self.preempt_count >> 28 != 0;
        let hardirq = self.preempt_count >> 24 & 15 != 0;
        let softirq = self.preempt_count >> 8 & 1 != 0;
        nmi as u8 + (nmi || hardirq) as u8 + (nmi || hardirq || softirq) as u8
    }
}

/// Fixed facts of the run.
#[derive(Clone, Debug)]
pub struct Config {
    /// How the PMU interrupts.
    pub pmu_irq: PmuIrq,
    /// Unsupported calls end the run.
    pub strict: bool,
    /// System calls are printed to standard error.
    pub strace: bool,
    /// `CLOCK_REALTIME` at boot, nanoseconds since the epoch.
    pub boot_time: u64,
    /// The program's vDSO.
    pub vdso: Vdso,
    /// Run at most so many user instructions.
    pub max_instructions: u64,
    /// Emulated CPUs.
    pub cpus: u32,
    /// Addresses vary with this seed.
    pub aslr: Option<u64>,
    /// `sysctl kernel.perf_event_paranoid`
    pub perf_event_paranoid: i32,
    /// What the callchains of the session and of guests may hold.
    pub callchains: Limits,
    /// `sysctl kernel.perf_event_max_sample_rate`; `None`: no event is throttled.
    pub max_sample_rate: Option<u64>,
    /// Counters of the PMU; `None`: as many as there are events.
    pub pmu_counters: Option<u32>,
    /// What is absent from memory at samples.
    pub page_out: PageOut,
}

impl Default for Config {
    /// NMIs, a boot at the epoch, no limit.
    fn default() -> Config {
        Config {
            pmu_irq: PmuIrq::Nmi,
            strict: false,
            strace: false,
            boot_time: 0,
            vdso: Vdso::default(),
            max_instructions: u64::MAX,
            cpus: 1,
            aslr: None,
            perf_event_paranoid: 2,
            callchains: Limits::default(),
            max_sample_rate: None,
            pmu_counters: None,
            page_out: PageOut::default(),
        }
    }
}

/// The whole machine.
#[derive(Debug)]
pub struct State {
    /// Architecture.
    pub arch: Arch,
    /// Guest physical memory.
    pub arena: Arena,
    /// The CPU core.
    pub core: Box<dyn UserCpu>,
    /// The CPU that takes the present step.
    pub cpu: Box<Cpu>,
    /// The address space that it uses.
    pub mm: Box<Mm>,
    /// The task that runs on it.
    pub task: Box<Task>,
    /// The other CPUs, tasks and address spaces.
    pub others: Others,
    /// When the first of the other CPUs has something to do: the present one may not be ahead.
    pub horizon: Time,
    /// The path that runs gives way at its next step, so that the run can be looked at; always,
    /// with a schedule.
    pub gives_way: bool,
    /// Who decides what happens next, if the clocks do not.
    pub schedule: Option<Box<dyn Schedule>>,
    /// What scripted system calls do, by number.
    pub scripts: Vec<Rc<[Act]>>,
    /// The task whose user registers the engine holds.
    pub engine_task: TaskId,
    /// The address space whose translations it has.
    pub engine_mm: MmId,
    /// The first process: the run ends with it.
    pub first: u32,
    /// How the run ended.
    pub ending: Option<Ending>,
    /// The engine failed.
    pub failure: Option<EngineError>,
    /// Processes that have ended and that nobody has waited for.
    pub zombies: BTreeMap<u32, Shared>,
    /// Pipes made.
    pub pipes: u64,
    /// Files.
    pub vfs: Vfs,
    /// Performance events.
    pub perf: Perf,
    /// Deferred user unwinding.
    pub unwind: Unwind,
    /// Tracers beside perf; which they are never changes in a run.
    pub tracers: Vec<Attached>,
    /// Options.
    pub config: Config,
    /// The seeded generator behind `getrandom`, `AT_RANDOM` and `/dev/urandom`.
    pub random: SplitMix64,
    /// Unsupported things by name: how often, and the PC of the first.
    pub unsupported: BTreeMap<String, (u64, u64)>,
    /// Counts for the summary.
    pub stats: Stats,
    /// Who looks over the kernel's shoulder.
    pub observer: Option<Box<dyn Observer>>,
    /// Who is told of every step.
    pub timeline: Option<Box<dyn Timeline>>,
}

/// What happened, for the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// User instructions retired.
    pub instructions: u64,
    /// Branch instructions among them, if an event counts branches in user mode.
    pub branches: u64,
    /// System calls.
    pub syscalls: u64,
    /// Page faults, user and kernel.
    pub page_faults: u64,
    /// Signals delivered to handlers.
    pub signals: u64,
    /// Pages that were made absent at samples.
    pub paged_out: u64,
}

/// A small seeded generator (Steele, Lea, Flood 2014).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fills `buf`.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

impl State {
    /// Says where the CPU is. An interrupt's delivery happens where the interrupted step
    /// left it.
    pub fn begin_step(&mut self, point: Point) {
        let arch = self.arch;
        if point == Point::IrqDeliver {
            return;
        }
        if let (Some(kernel), Some(function)) = (&mut self.cpu.kernel, self.cpu.functions.last()) {
            kernel.ip = function.step_address(arch, point);
        }
    }

    /// Charges the cost of a step, and samples the page faults of its copies.
    pub fn end_step(&mut self, point: Point) {
        let faults = std::mem::take(&mut self.mm.kernel_faults);
        for _ in &faults {
            self.stats.page_faults += 1;
            self.software_event(EventKind::PageFaults, None);
        }
        self.spend(point.cost());
    }

    /// Kernel time passes.
    pub fn spend(&mut self, cost: u64) {
        self.cpu.clock += cost;
        self.count_kernel(cost);
    }

    /// The registers in the slot at the top of the task's kernel stack.
    pub fn user_regs(&self) -> Regs {
        let mut regs = match self.arch {
            Arch::X86_64 => x86_64::pt_regs::restore(&self.slot_words()),
            Arch::Aarch64 => aarch64::pt_regs::restore(&self.slot_words()),
        };
        regs.tls = self.task.tls;
        regs.gs_base = self.task.gs_base;
        regs
    }

    fn slot_words<const N: usize>(&self) -> [u64; N] {
        self.task.stack.load_words(&self.arena, self.slot())
    }

    fn slot_len(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => x86_64::pt_regs::WORDS as u64,
            Arch::Aarch64 => aarch64::pt_regs::WORDS as u64,
        }
    }

    /// Address of the register slot.
    pub fn slot(&self) -> u64 {
        self.task.stack.top() - 8 * self.slot_len()
    }

    /// Writes the register slot; `orig` is the system-call number or -1.
    pub fn save_user_regs(&mut self, regs: &Regs, orig: u64) {
        let slot = self.slot();
        match self.arch {
            Arch::X86_64 => self.store_slot(slot, &x86_64::pt_regs::save(regs, orig)),
            Arch::Aarch64 => self.store_slot(slot, &aarch64::pt_regs::save(regs, orig)),
        }
        self.task.tls = regs.tls;
        self.task.gs_base = regs.gs_base;
        self.task.orig_nr = orig;
        self.cpu.slot_is_stale = false;
    }

    fn store_slot(&mut self, slot: u64, words: &[u64]) {
        self.task.stack.store_words(&mut self.arena, slot, words);
    }

    /// Changes the registers that the task will have in user mode.
    pub fn set_user_regs(&mut self, regs: &Regs) {
        let orig = self.task.orig_nr;
        self.save_user_regs(regs, orig);
    }

    /// The processor enters kernel mode in `function`, at the bottom of the task's stack:
    /// nothing called it, so it has no frame record. `nmi` says that an NMI arrived.
    pub fn enter_kernel(&mut self, function: Function, nmi: bool) {
        let fp = self.outermost_fp();
        let ip = function.step_address(self.arch, Point::EntryRaw);
        self.cpu.kernel = Some(KernelContext { ip, sp: self.slot(), fp });
        self.cpu.slot_is_stale = true;
        self.cpu.irqs_on = false;
        self.cpu.nmi_masked = nmi || self.arch == Arch::Aarch64;
        self.cpu.functions.push(function);
    }

    /// The frame pointer of the outermost function on a kernel stack.
    pub fn outermost_fp(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => 0,
            Arch::Aarch64 => self.slot() + 8 * aarch64::pt_regs::METADATA as u64,
        }
    }

    /// The return instruction to user mode: the slot's registers become the CPU's.
    pub fn leave_kernel(&mut self) {
        self.cpu.functions.clear();
        self.cpu.kernel = None;
        self.cpu.irqs_on = true;
        self.cpu.nmi_masked = false;
        self.cpu.counting = true;
        if self.task.dead {
            return;
        }
        let regs = self.user_regs();
        self.set_hw_regs(&regs);
    }

    /// The modelled function `callee` is called: a frame record goes on the stack.
    pub fn push_function(&mut self, callee: Function) {
        if let (Some(kernel), Some(&caller)) = (&mut self.cpu.kernel, self.cpu.functions.last()) {
            let address = caller.return_address(self.arch, callee);
            let stack = stack_of(&self.task, &self.cpu.nmi_stack, kernel.sp);
            let fp = kernel.fp;
            kernel.push(stack, &mut self.arena, address);
            kernel.ip = callee.addr(self.arch);
            if self.perf.kprobes {
                self.hit_kprobe(callee, fp);
            }
        }
        self.cpu.functions.push(callee);
    }

    /// The innermost modelled function returns to its caller.
    pub fn pop_function(&mut self) {
        self.cpu.functions.pop();
        if let Some(kernel) = &mut self.cpu.kernel {
            let stack = stack_of(&self.task, &self.cpu.nmi_stack, kernel.fp);
            kernel.pop(stack, &self.arena);
        }
    }

    /// The frame record at `addr`, which is aligned, on one of the kernel stacks. An NMI's comes
    /// before the task's, which it may have interrupted.
    pub fn frame_record(&self, addr: u64) -> Option<FrameRecord> {
        if !addr.is_multiple_of(8) {
            return None;
        }
        let stacks = [&self.cpu.nmi_stack, &self.task.stack];
        let (n, stack) = stacks.into_iter().enumerate().find(|(_, s)| s.holds(addr))?;
        let [fp, address] = [addr, addr + 8].map(|at| stack.load(&self.arena, at));
        Some(FrameRecord { stack: n as u8, fp, address })
    }

    /// The task gets a new name: `PERF_RECORD_COMM`.
    pub fn rename_task(&mut self, comm: Vec<u8>) {
        self.task.comm = comm;
        let comm = self.task.name();
        let (pid, tid) = (self.task.pid, self.task.tid);
        let (time, cpu) = (self.cpu.clock, self.cpu.id);
        self.record(Record::Comm { pid, tid, time, cpu, comm, exec: false });
    }
}

/// The stack that holds `addr`.
fn stack_of<'a>(task: &'a Task, nmi: &'a KernelStack, addr: u64) -> &'a KernelStack {
    if nmi.holds(addr.saturating_sub(16)) || nmi.holds(addr) { nmi } else { &task.stack }
}
