//! `perf_event_open`.

use arch::Sysno;

use super::SysResult;
use crate::kernel::State;
use crate::kernel::perf_event::open;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    (sysno == Sysno::PerfEventOpen).then(|| open::open(s, a))
}
