//! The user's registers and stack as a sample takes them along, for a tool that unwinds later
//! (`PERF_SAMPLE_REGS_USER`, `PERF_SAMPLE_STACK_USER`).
//!
//! ```text
//! registers: the interrupted ones, or the slot's ─► by mask
//! stack:     from the stack pointer up ─► what is present; behind the first absent page nothing
//! ```
//!
//! In the window between the entry and the saving of the registers the slot has those of the
//! entry before (hazard E-2), and so has the sample. The kernel's guard, which looks for a stack
//! pointer inside the slot, never bites here: the model saves all registers in one step.

use arch::{Arch, Regs, perf_regs};

use crate::kernel::State;
use crate::kernel::sampling::Interrupted;
use crate::mem::PAGE;
use crate::perf::encode::{Fields, SampleId};
use crate::perf::record::{Sample, UserDump};
use crate::perf::session::SessionId;

/// Longest record: its size has 16 bits.
const LONGEST: u64 = 65535;

impl State {
    /// The dump of a sample of a session with `size` bytes of stack. The sample has all else.
    pub fn user_dump(
        &self,
        session: SessionId,
        sample: &Sample,
        at: &Interrupted,
        user: &Regs,
        size: u16,
    ) -> Box<UserDump> {
        if self.task.mm.is_none() {
            return Box::default();
        }
        let regs = self.user_values(self.arch.perf_regs_mask(), at, user);
        let profile = self.perf.profile(session);
        let attr = profile.and_then(|p| p.encoder.attrs().get(sample.event));
        let Some(attr) = attr else { return Box::default() };
        let payload = sample.raw.as_ref().map(|raw| crate::perf::payload::payload(raw, sample.tid));
        let fields = Fields {
            mode: sample.mode,
            ip: sample.ip,
            id: SampleId::default(),
            addr: 0,
            period: sample.period,
            read: &[],
            callchain: &sample.callchain,
            raw: payload.as_deref().unwrap_or_default(),
            regs_user: Some(&regs),
            stack_user: (&[], 0),
            regs_intr: None,
        };
        let mut bytes = Vec::new();
        fields.push(attr.sample_type, &mut bytes);
        let (stack, read) = self.user_stack(user, u32::from(size), bytes.len() as u64);
        Box::new(UserDump { regs: Some(regs), stack, read })
    }

    /// User registers by mask. An NMI of x86 that hits the kernel does not know those that the
    /// called functions keep.
    pub fn user_values(&self, mask: u64, at: &Interrupted, user: &Regs) -> Vec<u64> {
        const KEPT: [usize; 5] = {
            use arch::x86_64::regs::{R12, R13, R14, R15, RBX};
            [RBX, R12, R13, R14, R15]
        };
        let mut regs = *user;
        let in_kernel = matches!(at, Interrupted::Kernel { .. });
        if self.arch == Arch::X86_64 && in_kernel && self.cpu.level() == 3 {
            KEPT.iter().for_each(|&kept| regs.gp[kept] = u64::MAX);
        }
        perf_regs::values(&regs, mask)
    }

    /// The user stack from its pointer up: so many bytes as fit into the record, of which `used`
    /// are written, and how many of them are present.
    pub fn user_stack(&self, user: &Regs, wanted: u32, used: u64) -> (Vec<u8>, u64) {
        let sp = user.sp();
        let below = self.arch.task_size().saturating_sub(sp);
        // The length before the bytes is in the record already; the one behind them is not.
        let room = LONGEST.saturating_sub(used + 8);
        let len = u64::from(wanted).min(below).min(room) & !7;
        let mut bytes = vec![0; len as usize];
        let mut read = 0;
        while read < len {
            let at = sp + read;
            let piece = (PAGE - at % PAGE).min(len - read);
            let place = read as usize..(read + piece) as usize;
            if !self.mm.peek(&self.arena, at, &mut bytes[place]) {
                break;
            }
            read += piece;
        }
        (bytes, read)
    }
}
