//! Performance events: what is counted, when it overflows, what a sample holds.
//!
//! ```text
//!  retired user code ─┐
//!  kernel steps ──────┼─► pmu: counters ─► overflow ─► NMI ─┐
//!  timer ─────────────┼─► cpu-clock ────────────────────────┼─► sample ─► record
//!  faults, switches ──┴─► software events, in place ────────┘      └─ callchain
//! ```
//!
//! * [`event`]: parsing of `-e` and the attributes of an event.
//! * [`breakpoint`]: what a processor can watch. [`toggle`]: interrupts and preemption, off and on.
//! * [`context`]: which events are open on a task or a CPU.
//! * [`attr`], [`opened`], [`ring`]: events that a guest opens: what the kernel takes, what it
//!   keeps of them, the ring buffer that the guest maps.
//! * [`pmu`]: counters, periods, frequency; [`counters`]: who gets one if they are few.
//! * [`callchain`]: walking the emulated kernel stack, then the user stack; [`buffers`]: what it
//!   is walked into, and who has it.
//! * [`merge`]: deferred callchains and the user stacks that belong to them.
//! * [`session`]: events that are open, records on their way to the exporter.
//! * [`reader`]: the session's rings, and a tool that empties them slowly.
//! * [`session_attr`], [`session_encode`]: the attributes of the session's events, and the bytes
//!   of its records.
//! * [`record`]: the records themselves; [`encode`]: their bytes, with the numbers of [`abi`];
//!   [`formats`], [`payload`]: tracepoints, their text formats and the bytes of their samples.
//!
//! **The cycle model.** One retired instruction is one cycle is one nanosecond: the CPU
//! runs at 1 GHz with one instruction a cycle. Modelled kernel steps cost what
//! [`crate::kernel::Point::cost`] says, in the same unit.

pub mod abi;
pub mod attr;
pub mod breakpoint;
pub mod buffers;
pub mod callchain;
pub mod context;
pub mod counters;
pub mod encode;
pub mod event;
pub mod formats;
pub mod merge;
pub mod opened;
pub mod payload;
pub mod pmu;
pub mod reader;
pub mod record;
pub mod ring;
pub mod session;
pub mod session_attr;
pub mod session_encode;
#[cfg(test)]
pub(crate) mod testing;
pub mod toggle;
