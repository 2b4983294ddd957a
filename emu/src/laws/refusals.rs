//! Requests that must be refused.

use arch::Errno;

use crate::kernel::unwind::Requested;
use crate::laws::law::{ALL_G, Law, NO_NMI_G};
use crate::laws::moment::{Moment, What};
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;

/// See its words.
pub const NO_USER: Law = Law {
    number: 17,
    words: "a request for a task that is ending or has no user registers: -EINVAL, cookie 0, \
            nothing changes",
    levels: ALL_G,
};

/// [`NO_USER`]
#[derive(Debug, Default)]
pub struct NoUser;

impl Monitor for NoUser {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if m.story.answered.as_ref().is_some_and(|r| r.of_no_user) {
            refused(m, found);
        }
    }
}

/// See its words.
pub const NO_NMI: Law = Law {
    number: 18,
    words: "a request in NMI: -EINVAL, cookie 0, nothing changes",
    levels: NO_NMI_G,
};

/// [`NO_NMI`]
#[derive(Debug, Default)]
pub struct NoNmi;

impl Monitor for NoNmi {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if m.story.answered.as_ref().is_some_and(|r| r.level == 3) {
            refused(m, found);
        }
    }
}

fn refused(m: &Moment<'_>, found: &mut Vec<Broken>) {
    let (What::Answer(_, answer), Some(request)) = (m.now.what, &m.story.answered) else {
        return;
    };
    let (before, now) = (request.unwind, m.now.task.unwind());
    if answer != Requested::refused(Errno::EINVAL) || before != now {
        found.push(Broken::new(format!("{answer:x?}; {before:x?} becomes {now:x?}")));
    }
}
