//! Performance events that a guest opens for itself, a child, a CPU.
//!
//! ```text
//! perf_event_open ─► Opened, an Instance on the task or CPU ─► as the session's: count, overflow
//!     ├─ ioctl, read, poll, fcntl                                             │
//!     └─ mmap ─► Ring ◄───────────────────────────────── output: samples, records
//!                  └─ wake-up by irq_work ─► poll, SIGIO
//! ```
//!
//! * [`open`]: the call itself; [`ioctl`]; [`read`]: counts; [`map`]: the ring; [`notify`]:
//!   wake-ups and signals; [`output`]: what goes into a ring; [`contexts`]: changes of instances,
//!   wherever they are; the end of events that nobody can reach.
//!
//! Not modelled, and refused: raw and cache events of the PMU, breakpoints in kernel memory,
//! software events but those that a session has and the dummy, events of a control group, AUX
//! areas, branch stacks, signals by `sigtrap`, filters and BPF programs. A program may store into
//! the pages of records, which Linux answers with SIGBUS. Of interrupted kernel code only pc, sp
//! and frame pointer are known: `PERF_SAMPLE_REGS_INTR` has zeros for the rest. `PERF_SAMPLE_READ`
//! of an inherited event has the count of all its tasks, where Linux has that of the one that is
//! sampled. Events are not multiplexed. `poll` of a ring is level-triggered by wake-ups, as in
//! Linux: it tells each of them once.

pub mod contexts;
pub mod ioctl;
pub mod map;
pub mod notify;
pub mod open;
pub mod output;
pub mod read;

use crate::kernel::State;
use crate::perf::attr::Rights;

impl State {
    /// What the present task may measure.
    pub fn perf_rights(&self) -> Rights {
        Rights {
            paranoid: self.config.perf_event_paranoid,
            capable: self.task.uid == 0,
            max_stack: self.config.callchains.max_stack,
            max_rate: self.config.max_sample_rate.unwrap_or(Rights::USER.max_rate),
        }
    }
}
