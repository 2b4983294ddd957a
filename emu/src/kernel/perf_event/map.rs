//! `mmap` of an event: the ring (`perf_mmap`).

use std::rc::Rc;

use arch::Errno;

use crate::kernel::State;
use crate::kernel::task::rlimit;
use crate::mem::{Backing, PAGE};
use crate::perf::abi::flag;
use crate::perf::opened::Opened;
use crate::perf::ring::Ring;

/// Name of the mapping in `/proc/self/maps`.
pub const NAME: &str = "anon_inode:[perf_event]";
/// `sysctl kernel.perf_event_mlock_kb`, in pages for each CPU: 512 KiB and a page.
const FREE_PAGES: u64 = 129;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes, whole pages.
    pub len: u64,
    /// Offset in the file.
    pub offset: u64,
    /// `MAP_SHARED`
    pub shared: bool,
    /// `PROT_WRITE`: there is a reader that says how far it is.
    pub writable: bool,
}

/// The ring of an event, made if there is none, as memory to be mapped.
///
/// # Errors
///
/// `EINVAL`: not a page and 2^n pages, private, of an inherited event of all CPUs, another size
/// than the ring has; `EPERM` beyond the memory that may be locked; `ENOMEM`.
pub fn ring(s: &mut State, event: &Rc<Opened>, wanted: Wanted) -> Result<Backing, Errno> {
    let inherited = event.target.cpu().is_none() && event.attr.has(flag::INHERIT);
    let data = (wanted.len / PAGE).checked_sub(1).ok_or(Errno::EINVAL)?;
    let bad = data != 0 && !data.is_power_of_two();
    if inherited || !wanted.shared || wanted.offset != 0 || bad {
        return Err(Errno::EINVAL);
    }
    let present = event.ring.borrow().clone();
    let ring = match present {
        Some(ring) if ring.data_pages() != data => return Err(Errno::EINVAL),
        Some(ring) => ring,
        None => {
            s.may_lock(data + 1)?;
            let watermark = match event.attr.has(flag::WATERMARK) {
                true => u64::from(event.attr.wakeup),
                false => 0,
            };
            let ring = Ring::new(&mut s.arena, data, !wanted.writable, watermark);
            Rc::new(ring.ok_or(Errno::ENOMEM)?)
        }
    };
    Ok(Backing::Special { frames: ring.pages(), first: 0 }).inspect(|_| {
        *event.ring.borrow_mut() = Some(ring);
        event.mapped.set(true);
        s.tell_page(event);
    })
}

impl State {
    /// Pages of rings are locked: so many for each CPU are free, the others count against
    /// `RLIMIT_MEMLOCK`.
    fn may_lock(&self, pages: u64) -> Result<(), Errno> {
        let rights = self.perf_rights();
        let mut rings: Vec<Rc<Ring>> = Vec::new();
        for ring in self.perf.opened.iter().filter_map(|o| o.ring.borrow().clone()) {
            if !rings.iter().any(|r| Rc::ptr_eq(r, &ring)) {
                rings.push(ring);
            }
        }
        let used: u64 = rings.iter().map(|ring| ring.data_pages() + 1).sum();
        let free = FREE_PAGES * u64::from(self.config.cpus);
        let extra = (used + pages).saturating_sub(free);
        let limit = self.task.limits[rlimit::MEMLOCK].0 / PAGE;
        let unlimited = rights.capable || rights.paranoid < 0;
        if extra > limit && !unlimited { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// The control page of an event's ring says what it has counted.
    pub fn tell_page(&mut self, event: &Rc<Opened>) {
        let Some(ring) = event.ring.borrow().clone() else { return };
        let totals = self.event_totals(event);
        ring.tell(&mut self.arena, [totals.count, totals.enabled, totals.running]);
    }
}
