//! Who waits for an event is told: `poll`, `SIGIO` (`perf_pending_irq`, `perf_poll`).

use std::rc::Rc;

use arch::siginfo::{SigFields, SigInfo};
use arch::{Errno, Signal};

use crate::kernel::State;
use crate::kernel::signal::{self, Target as For};
use crate::kernel::syscalls::SysResult;
use crate::kernel::wait::Wait;
use crate::perf::opened::{Notify, Opened};

/// `O_ASYNC`
pub const ASYNC: u32 = 0o20000;
const POLLIN: u16 = 0x001;
const POLLHUP: u16 = 0x010;
const POLLRDNORM: u16 = 0x040;

/// What `poll` says, which is then forgotten.
pub fn poll(s: &State, event: &Rc<Opened>, wanted: u16) -> u16 {
    let ring = event.ring.borrow();
    match &*ring {
        _ if event.exited.get() && !s.is_counting(event) => POLLHUP,
        None => POLLHUP,
        Some(ring) if ring.ready.take() => wanted & (POLLIN | POLLRDNORM),
        Some(_) => 0,
    }
}

/// `fcntl` of what an event's file alone knows; `None` for other commands.
pub fn fcntl(
    s: &mut State,
    event: &Opened,
    fd: i32,
    command: u64,
    argument: u64,
) -> Option<SysResult> {
    const SETOWN: u64 = 8;
    const GETOWN: u64 = 9;
    const SETSIG: u64 = 10;
    const GETSIG: u64 = 11;
    const SETOWN_EX: u64 = 15;
    let change = |f: &mut dyn FnMut(&mut Notify)| {
        let mut notify = event.notify.borrow_mut();
        notify.fd = fd;
        f(&mut notify);
        Ok(0)
    };
    Some(match command {
        // A process; threads have positive numbers here.
        SETOWN => change(&mut |n| n.owner = (argument as i32).wrapping_neg()),
        GETOWN => Ok(event.notify.borrow().owner.unsigned_abs().into()),
        SETSIG if argument > 64 => Err(Errno::EINVAL),
        SETSIG => change(&mut |n| n.signal = argument as u8),
        GETSIG => Ok(event.notify.borrow().signal.into()),
        SETOWN_EX => set_owner(s, event, fd, argument),
        _ => return None,
    })
}

/// `struct f_owner_ex`: type (0 thread, 1 process), id. Groups of processes are not modelled.
fn set_owner(s: &mut State, event: &Opened, fd: i32, at: u64) -> SysResult {
    let bytes = s.read_array::<8>(at)?;
    let word = |i: usize| i32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    let owner = match word(0) {
        0 => word(4),
        1 => word(4).wrapping_neg(),
        _ => return Err(Errno::EINVAL),
    };
    if owner != 0 && s.find_tid(owner.unsigned_abs()).is_none() {
        return Err(Errno::ESRCH);
    }
    let mut notify = event.notify.borrow_mut();
    (notify.owner, notify.fd) = (owner, fd);
    Ok(0)
}

impl State {
    /// The reader is to be told: not from here, which may be an NMI, but by irq_work.
    pub fn wake_later(&mut self, event: &Rc<Opened>) {
        let pending = &mut self.cpu.wakeups;
        if !pending.iter().any(|other| Rc::ptr_eq(other, event)) {
            pending.push(event.clone());
        }
        self.cpu.irq_work.queue_wakeup();
    }

    /// An overflow of an event whose owner wants a signal; `last`: it is disabled now.
    pub fn note_overflow(&mut self, event: &Rc<Opened>, last: bool) {
        let wants = event.notify.borrow().on;
        if wants {
            event.notify.borrow_mut().pending = Some(last);
            self.wake_later(event);
        }
    }

    /// `perf_event_wakeup`, in irq_work.
    pub fn run_wakeups(&mut self) {
        let (id, now) = (self.cpu.id, self.cpu.clock);
        for (_, profile) in self.perf.profiles_mut() {
            if let Some(rings) = &mut profile.rings {
                rings.wake(id, now);
            }
        }
        let events = std::mem::take(&mut self.cpu.wakeups);
        if events.is_empty() {
            return;
        }
        self.wake(Wait::Files, usize::MAX);
        for event in events {
            let mut notify = event.notify.borrow_mut();
            let pending = notify.pending.take();
            let notify = *notify;
            if let (true, Some(last)) = (notify.on, pending) {
                self.send_io(notify, last);
            }
        }
    }

    /// `kill_fasync`: `SIGIO`, or the signal that was chosen, which says what happened.
    fn send_io(&mut self, notify: Notify, last: bool) {
        const POLL_IN: i32 = 1;
        const POLL_HUP: i32 = 6;
        const BAND_IN: i64 = 0x41;
        const BAND_HUP: i64 = 0x18;
        let Some(task) = self.find_tid(notify.owner.unsigned_abs()) else { return };
        let target = if notify.owner > 0 { For::Thread } else { For::Process };
        let info = match Signal::new(u64::from(notify.signal)) {
            None => SigInfo::kernel(Signal::SIGIO),
            Some(signal) => {
                let (code, band) = if last { (POLL_HUP, BAND_HUP) } else { (POLL_IN, BAND_IN) };
                let fields = SigFields::Poll { band, fd: notify.fd };
                SigInfo { signal, errno: 0, code, fields }
            }
        };
        signal::send_to(self, task, info, target);
    }
}
