//! Futexes: waiting for a word of user memory to change.
//!
//! ```text
//! key = (address space, address)            FUTEX_PRIVATE_FLAG, and memory that nobody shares
//!       (0, physical address)               memory that address spaces share
//! ```

use arch::{Errno, Sysno};

use super::SysResult;
use crate::kernel::State;
use crate::kernel::wait::{Block, Wait};
use crate::mem::PAGE;

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const PRIVATE: u64 = 128;
const CLOCK_REALTIME: u64 = 256;

/// `FUTEX_OWNER_DIED`, `FUTEX_WAITERS`, and the bits of the owner.
const OWNER_DIED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;
const TID: u32 = 0x3fff_ffff;
/// `ROBUST_LIST_LIMIT`
const ROBUST_LIMIT: usize = 2048;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    match sysno {
        Sysno::Futex => Some(futex(s, a)),
        _ => None,
    }
}

fn futex(s: &mut State, a: [u64; 6]) -> SysResult {
    let private = a[1] & PRIVATE != 0;
    match a[1] & 0x7f {
        WAIT_BITSET | WAKE_BITSET if a[5] as u32 == 0 => Err(Errno::EINVAL),
        WAIT | WAIT_BITSET | WAKE | WAKE_BITSET | REQUEUE | CMP_REQUEUE | WAKE_OP
            if !a[0].is_multiple_of(4) =>
        {
            Err(Errno::EINVAL)
        }
        WAKE | WAKE_BITSET => {
            let on = s.futex_key(a[0], private)?;
            Ok(s.wake(on, a[2] as u32 as usize) as u64)
        }
        WAIT | WAIT_BITSET => wait(s, a, private),
        op @ (REQUEUE | CMP_REQUEUE) => {
            let (from, to) = (s.futex_key(a[0], private)?, s.futex_key(a[4], private)?);
            if op == CMP_REQUEUE && s.read_u32(a[0])? != a[5] as u32 {
                return Err(Errno::EAGAIN);
            }
            let woken = s.wake(from, a[2] as u32 as usize);
            let moved: Vec<_> = s.waiters(from).into_iter().take(a[3] as u32 as usize).collect();
            moved.iter().for_each(|&id| s.requeue(id, to));
            Ok((woken + moved.len()) as u64)
        }
        WAKE_OP => wake_op(s, a, private),
        op => {
            s.note_unsupported(&format!("futex operation {op}"));
            Err(Errno::ENOSYS)
        }
    }
}

fn wait(s: &mut State, a: [u64; 6], private: bool) -> SysResult {
    let timeout = match a[3] {
        0 => None,
        at => Some(s.read_timespec(at)?),
    };
    let on = s.futex_key(a[0], private)?;
    if s.read_u32(a[0])? != a[2] as u32 {
        return Err(Errno::EAGAIN);
    }
    let until = timeout.map(|timeout| {
        // FUTEX_WAIT gives a span, FUTEX_WAIT_BITSET a time of one of two clocks.
        let base = match (a[1] & 0x7f, a[1] & CLOCK_REALTIME != 0) {
            (WAIT, _) => s.cpu.clock,
            (_, true) => 0u64.wrapping_sub(s.config.boot_time),
            (_, false) => 0,
        };
        (timeout.wrapping_add(base) as i64).max(0) as u64
    });
    s.wait_for(Block { again: false, ..Block::on(on).until(until, Errno::ETIMEDOUT) });
    Ok(0)
}

/// `futex_wake_op`: changes the second word, wakes waiters of the first, and those of the second if
/// its old value compares.
fn wake_op(s: &mut State, a: [u64; 6], private: bool) -> SysResult {
    let (first, second) = (s.futex_key(a[0], private)?, s.futex_key(a[4], private)?);
    let encoded = a[5] as u32;
    let sign = |value: u32| ((value << 20) as i32) >> 20;
    let (mut operand, compared) = (sign(encoded >> 12 & 0xfff), sign(encoded & 0xfff));
    if encoded >> 28 & 8 != 0 {
        operand = 1i32.wrapping_shl(operand as u32);
    }
    let old = s.read_u32(a[4])? as i32;
    let new = match encoded >> 28 & 7 {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        4 => old ^ operand,
        _ => return Err(Errno::ENOSYS),
    };
    s.write_user(a[4], &new.to_le_bytes())?;
    let holds = match encoded >> 24 & 15 {
        0 => old == compared,
        1 => old != compared,
        2 => old < compared,
        3 => old <= compared,
        4 => old > compared,
        5 => old >= compared,
        _ => return Err(Errno::ENOSYS),
    };
    let mut woken = s.wake(first, a[2] as u32 as usize);
    if holds {
        woken += s.wake(second, a[3] as u32 as usize);
    }
    Ok(woken as u64)
}

impl State {
    /// What waiters of the word at `addr` wait for.
    fn futex_key(&mut self, addr: u64, private: bool) -> Result<Wait, Errno> {
        self.check_range(addr, 4)?;
        let shared = self.mm.area(addr).is_some_and(|area| area.flags.shared);
        if private || !shared {
            if !private {
                self.read_u32(addr)?;
            }
            return Ok(Wait::Futex(self.mm.id.0 + 1, addr));
        }
        self.read_u32(addr)?;
        let frame = self.mm.table.get(addr).ok_or(Errno::EFAULT)?.frame;
        Ok(Wait::Futex(0, frame.addr() + addr % PAGE))
    }

    /// Wakes one who waits for a word of the present address space.
    pub fn wake_futex(&mut self, addr: u64) {
        if let Ok(on) = self.futex_key(addr, true) {
            self.wake(on, 1);
        }
    }

    /// `exit_robust_list`: the locks that the task holds are given up, and their words say that
    /// their owner died.
    pub fn release_robust_list(&mut self) {
        let (head, len) = std::mem::take(&mut self.task.robust_list);
        if len == 0 {
            return;
        }
        let (Ok(first), Ok(offset), Ok(pending)) =
            (self.read_u64(head), self.read_u64(head + 8), self.read_u64(head + 16))
        else {
            return;
        };
        let mut entry = first & !1;
        for _ in 0..ROBUST_LIMIT {
            if entry == head {
                break;
            }
            let next = self.read_u64(entry);
            if entry != pending & !1 {
                self.owner_died(entry.wrapping_add(offset));
            }
            let Ok(next) = next else { break };
            entry = next & !1;
        }
        if pending & !1 != 0 {
            self.owner_died((pending & !1).wrapping_add(offset));
        }
    }

    fn owner_died(&mut self, addr: u64) {
        let Ok(word) = self.read_u32(addr) else { return };
        if word & TID != self.task.tid || !addr.is_multiple_of(4) {
            return;
        }
        if self.write_user(addr, &(word & WAITERS | OWNER_DIED).to_le_bytes()).is_ok()
            && word & WAITERS != 0
        {
            self.wake_futex(addr);
        }
    }
}
