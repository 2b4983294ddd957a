//! The modelled kernel.
//!
//! Every kernel path is an `async fn` made of **steps**: [`step::Kernel::step`] runs one
//! closure on the [`state::State`], charges its cost, and then lets whatever is due happen
//! (an NMI, a timer interrupt) before it returns. No state is touched outside a closure
//! and no borrow crosses an await, so a path can be interrupted at every step and nowhere
//! else.
//!
//! ```text
//!  run: user code ─► exit of the CPU
//!        ├─ system call ─► entry N0..N4 ─► syscalls::dispatch (N5) ─► N6, N7 ─┐
//!        ├─ fault ───────► fault: page brought in, or a signal ───────────────┤
//!        └─ interrupt ───► interrupt: NMI (PMU), timer ───────────────────────┤
//!                                   exit: X1..X6, signals delivered ◄─────────┘
//! ```
//!
//! * [`point`]: the named step points and their costs; [`symbols`]: modelled functions.
//! * [`kstack`]: kernel stacks in emulated memory, frame records, saved registers.
//! * [`state`]: all state; [`task`]: one task; [`step`]: the executor.
//! * [`run`]: the task's life; [`entry`], [`exit`], [`fault`], [`interrupt`], [`signal`].
//! * [`sampling`]: overflows become samples; [`tracepoints`]; [`task_work`], [`irq_work`]: what is
//!   left for later; [`unwind`]: the deferred unwinder as its users see it; [`do_exit`]: a task's
//!   end.
//! * [`probe`]: user and kernel probes; [`uprobe`]: breakpoints; [`uretprobe`]: returns.
//! * [`hw_breakpoint`]: loads, stores and instructions that the processor watches.
//! * [`preemptirq`]: tracepoints of interrupts and preemption that go off and on.
//! * [`page_out`]: memory pressure at samples.
//! * [`boot`]: a machine is put together. [`schedule`]: who decides what happens next, if the clocks
//!   do not; [`scripted`]: system calls that are a script.
//! * [`tracer`]: others than perf that ask for deferred stacks.
//! * [`sessions`]: sessions of perf beside the main one.
//! * [`perf_event`]: performance events that a guest opens itself.
//! * [`sframe`]: a process's sections, for the deferred unwinder and `--call-graph sframe`.
//! * [`user_dump`]: registers and stack that a sample takes along. [`throttle`], [`multiplex`]:
//!   events that stand still for a while.
//! * [`observer`], [`timeline`]: who looks over its shoulder.
//! * [`syscalls`]: one file a family; [`vfs`]: files.
//! * [`paths`]: which functions a path goes through, and where its steps are.
//! * `x86_64`, `aarch64`: the order of saved registers and the call paths.
//!
//! Rule numbers (`N1`, `X5`, …) are those of the kernel's own order of events at entry
//! and exit.

pub mod boot;
pub mod do_exit;
pub mod entry;
pub mod events;
pub mod exec;
pub mod execve;
pub mod exit;
pub mod fault;
pub mod fork;
pub mod hw_breakpoint;
pub mod idle;
pub mod image;
pub mod interrupt;
pub mod irq_work;
pub mod kstack;
pub mod lock;
pub mod machine;
pub mod multiplex;
pub mod observer;
pub mod page_out;
pub mod paths;
pub mod perf_event;
pub mod point;
pub mod preemptirq;
pub mod probe;
pub mod process;
pub mod run;
pub mod sampling;
pub mod schedule;
pub mod scheduler;
pub mod scripted;
pub mod sessions;
pub mod sframe;
pub mod signal;
pub mod state;
pub mod step;
pub mod symbols;
pub mod syscalls;
pub mod task;
pub mod task_work;
pub mod throttle;
pub mod timeline;
pub mod timers;
pub mod tracepoints;
pub mod tracer;
pub mod unwind;
pub mod uprobe;
pub mod uretprobe;
pub mod user;
pub mod user_dump;
pub mod user_mode;
pub mod vfs;
pub mod wait;

mod aarch64;
mod x86_64;

pub use point::Point;
pub use state::State;
pub use step::Kernel;
