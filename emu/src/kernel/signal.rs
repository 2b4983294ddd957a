//! temporary
use arch::signal::{Signal, code};
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SigInfo {
    pub signo: Signal,
    pub code: i32,
    pub addr: u64,
}
impl SigInfo {
    pub fn kernel(s: Signal) -> SigInfo {
        SigInfo { signo: s, code: code::SI_KERNEL, addr: 0 }
    }
    pub fn fault(s: Signal, c: i32, a: u64) -> SigInfo {
        SigInfo { signo: s, code: c, addr: a }
    }
}
use crate::kernel::fault::TrapInfo;
use crate::kernel::task::Ending;
use crate::kernel::{Kernel, Point};
#[derive(Debug, Default)]
pub struct Signals {
    pub blocked: u64,
    pub trap: TrapInfo,
    pub forced: Option<SigInfo>,
}
impl Signals {
    pub fn force(&mut self, i: SigInfo) {
        self.forced = Some(i);
    }
}
pub async fn deliver(k: &Kernel) {
    k.step(Point::ExitSignal, |s| {
        if let Some(f) = s.task.signals.forced {
            s.task.ending = Some(Ending::Signalled(f.signo.number()));
        }
        s.task.work.signal_pending = false;
    })
    .await;
}
