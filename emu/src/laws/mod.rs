//! Laws: what holds at every moment of a run, watched while it runs.
//!
//! ```text
//!  kernel ─► Watch ─► Now ─► story: nesting, requests, callbacks, hazards of each task
//!   steps     │                │
//!             │                └─► a monitor for each law ─► break ─► told, and the run ends
//!             └─► the timeline's last lines ────────────────────┘     unless a hazard explains it
//! ```
//!
//! A monitor sees every step with the small state before and after it ([`moment`]), user code,
//! the answers to requests, and the records that were written. It is told of nothing that the
//! kernel does not do, and changes nothing: whether somebody watches makes no difference.
//!
//! Each law has its number and words beside its code, and a level in each design: `G` may never
//! be broken; `X` may be broken where a hazard that the design is known to have has happened
//! ([`hazard`]: recognised from what happened, by cookie and tracer). Any other break is a fault
//! of the model and ends the run.
//!
//! ```text
//!  1, 2   contexts     interrupts nest, and nothing is left on at the return to user mode
//!  3      exit_loop    the order of a pass
//!  4, 5   task_work    where it runs, newest first
//!  6, 20  capture      once, and with the sample's registers
//!  7, 8, 16  mask      whose bits are set (Linux 7.3 alone)
//!  9 to 11, 19, 25  callbacks  whom, how often, under which name
//! 12 to 14, 23  cookies   names of stacks
//! 15, 24  user_mode    what is left there, and what it costs
//! 17, 18  refusals     requests that must fail
//! 21, 22  walk         what the deferred walk finds
//! 26, 28  buffers      what callchains are walked into
//! 27, 34  chains       the shape of callchains
//! 35 to 37  records    a record for each cookie, and later than its sample
//! 44     rings         no record is lost without a word
//! 45     throttling    events that sample too often
//! 46     task_end      the order in which a task ends
//! 47     merging       what the merger makes of it
//! ```
//!
//! Levels: `G` are 1 to 6, 21, 22, 26 to 28, 34, 35, 44 to 47 in every design; 17 too; 8 in `mask`;
//! 13, 14 where stacks are named by counts; 18 where an NMI is refused (all but `mask`); 19 but in
//! `per-work`, where it is `X`; 23 in `timestamp`; 24; 25 in `timestamp` and `cookie`. `X` are 7, 9
//! to 12, 15, 16 in `mask`, and 20, 36, 37.
//!
//! Not watched yet, because the model has not the part:
//!
//! * 19: that a work on the list has the bit that its tracer's mask has, in `mask` (X: H10, H17).
//! * 26: slots that are taken over several steps: a chain is walked in one, so that a slot is seen
//!   taken only by what the most ever was.
//! * 45: the samples of a guest's own events, whose rings it reads itself; of these only that a
//!   software event is never throttled.
//! * What the hazards H12, H13 and H21 would break: `docs/hazards.md` says of each hazard where it
//!   is modelled, what provokes it and what it explains.
//! * 36 and 37 of more than 1,024 stacks of a task in one entry, which only a kernel that is held
//!   up by its own samples has.
//! * 35 of the file's bytes and 47 of the written profile: tests read them back.
//!
//! * [`law`], [`hazard`], [`report`]: what is said. * [`moment`], [`view`], [`story`]: what is
//!   seen. * [`monitor`]: what a monitor is.

pub mod hazard;
pub mod law;
pub mod moment;
pub mod monitor;
pub mod report;
pub mod story;
pub mod view;

mod buffers;
mod callbacks;
mod capture;
mod chains;
mod contexts;
mod cookies;
mod exit_loop;
mod mask;
mod merging;
mod records;
mod refusals;
mod rings;
mod task_end;
mod task_work;
mod throttling;
mod user_mode;
mod walk;
mod watch;

pub use watch::{Handle, Laws, Settings};

use crate::laws::law::Law;
use crate::laws::monitor::Monitor;

/// Makes a monitor.
type Make = fn() -> Box<dyn Monitor>;

fn new<M: Monitor + Default + 'static>() -> Box<dyn Monitor> {
    Box::new(M::default())
}

/// All laws with their monitors, by number.
const ALL: [(Law, Make); 36] = [
    (contexts::LEVELS, new::<contexts::Levels>),
    (contexts::QUIET_EXIT, new::<contexts::QuietExit>),
    (exit_loop::ORDER, new::<exit_loop::Order>),
    (task_work::PLACE, new::<task_work::Place>),
    (task_work::LIFO, new::<task_work::Lifo>),
    (capture::ONCE, new::<capture::Once>),
    (mask::ASKED, new::<mask::BitsAsked>),
    (mask::PENDING, new::<mask::PendingItem>),
    (callbacks::AT_MOST_ONE, new::<callbacks::AtMostOne>),
    (callbacks::AT_LEAST_ONE, new::<callbacks::AtLeastOne>),
    (callbacks::SAME_COOKIE, new::<callbacks::SameCookie>),
    (cookies::DISTINCT, new::<cookies::Distinct>),
    (cookies::FORM, new::<cookies::Form>),
    (cookies::COUNTER, new::<cookies::Counter>),
    (user_mode::CLEAN, new::<user_mode::Clean>),
    (mask::COMPLETED, new::<mask::Completed>),
    (refusals::NO_USER, new::<refusals::NoUser>),
    (refusals::NO_NMI, new::<refusals::NoNmi>),
    (callbacks::GONE, new::<callbacks::Gone>),
    (capture::SAME_REGISTERS, new::<capture::SameRegisters>),
    (walk::SOUND, new::<walk::Sound>),
    (walk::LIKE_IMMEDIATE, new::<walk::LikeImmediate>),
    (cookies::TICK, new::<cookies::Tick>),
    (user_mode::STORES, new::<user_mode::Stores>),
    (callbacks::ONE_AT_A_TIME, new::<callbacks::OneAtATime>),
    (buffers::SLOTS, new::<buffers::Slots>),
    (chains::BUDGETS, new::<chains::Budgets>),
    (buffers::EXIST, new::<buffers::Exist>),
    (chains::ONE_USER_PART, new::<chains::OneUserPart>),
    (records::CONTENT, new::<records::Content>),
    (records::ONE_RECORD, new::<records::OneRecord>),
    (records::RECORD_LATER, new::<records::RecordLater>),
    (rings::LOST, new::<rings::Lost>),
    (throttling::LIMIT, new::<throttling::Limit>),
    (task_end::ORDER, new::<task_end::Order>),
    (merging::LENGTH, new::<merging::Length>),
];

/// The laws that are watched, by number.
pub fn all() -> impl Iterator<Item = Law> {
    ALL.iter().map(|(law, _)| *law)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
