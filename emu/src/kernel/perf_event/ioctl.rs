//! `PERF_EVENT_IOC_*` (`perf_ioctl`).

use std::rc::Rc;

use arch::Errno;

use crate::kernel::State;
use crate::kernel::perf_event::open::event_of;
use crate::kernel::syscalls::SysResult;
use crate::perf::abi::flag;
use crate::perf::attr::AttrError;
use crate::perf::opened::{Opened, Totals};
use crate::perf::record::{Event, Rate};

/// Numbers of `ioctl`.
mod ioc {
    pub const ENABLE: u64 = 0x2400;
    pub const DISABLE: u64 = 0x2401;
    pub const REFRESH: u64 = 0x2402;
    pub const RESET: u64 = 0x2403;
    pub const PERIOD: u64 = 0x4008_2404;
    pub const SET_OUTPUT: u64 = 0x2405;
    pub const SET_FILTER: u64 = 0x4008_2406;
    pub const ID: u64 = 0x8008_2407;
    pub const SET_BPF: u64 = 0x4004_2408;
    pub const PAUSE_OUTPUT: u64 = 0x4004_2409;
    pub const QUERY_BPF: u64 = 0xc008_240a;
    pub const MODIFY_ATTRIBUTES: u64 = 0x4008_240b;
}

/// `PERF_IOC_FLAG_GROUP`
const GROUP: u64 = 1;

/// Executes `ioctl` of an event's descriptor.
///
/// # Errors
///
/// As Linux 7.3; filters, BPF programs and new attributes are refused.
pub fn ioctl(s: &mut State, event: &Rc<Opened>, command: u64, argument: u64) -> SysResult {
    match command {
        ioc::ENABLE => for_each(s, event, argument, State::enable_event),
        ioc::DISABLE => for_each(s, event, argument, State::disable_event),
        ioc::RESET => for_each(s, event, argument, State::reset_event),
        ioc::REFRESH => refresh(s, event, argument)?,
        ioc::PERIOD => period(s, event, argument)?,
        ioc::SET_OUTPUT => {
            let output = match argument as i32 {
                -1 => None,
                fd => Some(event_of(s, fd)?),
            };
            s.set_output(event, output.as_ref())?;
        }
        ioc::ID => s.write_user(argument, &event.id.to_le_bytes())?,
        ioc::PAUSE_OUTPUT => {
            let ring = event.ring.borrow().clone();
            let ring = ring.filter(|r| r.data_pages() > 0).ok_or(Errno::EINVAL)?;
            ring.paused.set(argument as u32 != 0);
        }
        ioc::SET_FILTER | ioc::SET_BPF => return Err(Errno::EINVAL),
        ioc::QUERY_BPF => return Err(Errno::EPERM),
        ioc::MODIFY_ATTRIBUTES => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}

/// The event alone, or its whole group.
fn for_each(
    s: &mut State,
    event: &Rc<Opened>,
    flags: u64,
    change: impl Fn(&mut State, &Rc<Opened>),
) {
    match flags & GROUP != 0 {
        true => event.group_leader().group().iter().for_each(|event| change(s, event)),
        false => change(s, event),
    }
}

fn refresh(s: &mut State, event: &Rc<Opened>, more: u64) -> Result<(), Errno> {
    if event.attr.has(flag::INHERIT) || !event.attr.is_sampling() {
        return Err(Errno::EINVAL);
    }
    event.limit.set(event.limit.get().saturating_add(more & 0xffff_ffff));
    s.enable_event(event);
    Ok(())
}

fn period(s: &mut State, event: &Rc<Opened>, at: u64) -> Result<(), Errno> {
    let period = s.read_u64(at)?;
    event.attr.check_period(period, s.perf_rights()).map_err(AttrError::errno)?;
    let rate = match event.attr.has(flag::FREQ) {
        true => Rate::Frequency(period),
        false => Rate::Period(period),
    };
    let new = Rc::new(Event { rate, ..(*event.event).clone() });
    s.each_instance(event, |instance, now| {
        if instance.switch.own {
            instance.set_period(new.clone(), now);
        }
    });
    Ok(())
}

impl State {
    /// `perf_event_enable`, of children too.
    pub fn enable_event(&mut self, event: &Rc<Opened>) {
        event.failed.set(false);
        self.each_instance(event, |instance, _| instance.switch.on = true);
        self.tell_page(event);
    }

    /// `perf_event_disable`
    pub fn disable_event(&mut self, event: &Rc<Opened>) {
        self.each_instance(event, |instance, _| instance.switch.on = false);
        self.tell_page(event);
    }

    /// `perf_event_reset`: the count is 0; that of children that are gone stays.
    fn reset_event(&mut self, event: &Rc<Opened>) {
        event.own.set(Totals { count: 0, ..event.own.get() });
        self.each_instance(event, |instance, now| instance.reset(now));
        self.tell_page(event);
    }

    /// `perf_event_set_output`: `event` writes into the ring of `output`, or nowhere.
    ///
    /// # Errors
    ///
    /// `EINVAL` where that would mix what cannot be told apart.
    pub fn set_output(
        &mut self,
        event: &Rc<Opened>,
        output: Option<&Rc<Opened>>,
    ) -> Result<(), Errno> {
        let bad = |output: &Rc<Opened>| {
            Rc::ptr_eq(event, output)
                || output.target.cpu() != event.target.cpu()
                || output.target.cpu().is_none() && output.target != event.target
                || output.clock != event.clock
                || output.attr.has(flag::WRITE_BACKWARD) != event.attr.has(flag::WRITE_BACKWARD)
        };
        if output.is_some_and(bad) || event.mapped.get() {
            return Err(Errno::EINVAL);
        }
        let ring = match output {
            None => None,
            Some(output) => {
                let ring = output.ring.borrow().clone();
                Some(ring.filter(|r| r.is_mapped()).ok_or(Errno::EINVAL)?)
            }
        };
        *event.ring.borrow_mut() = ring;
        Ok(())
    }
}
