//! The laws of perf's own parts: buffers, rings, throttling.

use super::script::{Script, TID, mask};
use crate::kernel::Point;
use crate::laws::law::Mode;
use crate::laws::moment::{RingId, RingView};
use crate::perf::record::{EventKind, Record};
use crate::perf::ring::Losses;
use crate::perf::session::SessionId;

#[test]
fn law_26_recursion_slots() {
    let slots = |slots, most| {
        move |s: &mut Script| {
            (s.callchains.slots, s.callchains.most) = (slots, most);
        }
    };
    mask(26).then(Point::NmiSample, slots([0, 0, 0, 1], 1)).is_kept();
    mask(26).then(Point::NmiSample, slots([2, 0, 0, 0], 1)).is_broken();
    mask(26).then(Point::NmiSample, slots([0; 4], 2)).is_broken();
    mask(26).then(Point::Leave, slots([1, 0, 0, 0], 1)).is_broken();
    mask(26).then(Point::Leave, slots([0; 4], 1)).is_kept();
}

#[test]
fn law_28_buffers_and_their_users() {
    let users = |users, allocated| {
        move |s: &mut Script| {
            (s.callchains.users, s.callchains.allocated) = (users, allocated);
        }
    };
    let write = |s: &mut Script| s.callchains.limits.max_stack += 1;
    mask(28).then(Point::Body, users(2, true)).then(Point::Body, users(0, false)).is_kept();
    mask(28).then(Point::Body, users(1, false)).is_broken();
    mask(28).then(Point::Body, users(0, true)).is_broken();
    mask(28).then(Point::Body, write).then(Point::Body, users(1, true)).is_kept();
    mask(28).then(Point::Body, users(1, true)).then(Point::Body, write).is_broken();
}

/// A ring of CPU 0 after so many bytes, with so many losses that no record tells of.
fn ring(written: u64, untold: u64) -> RingView {
    RingView {
        id: RingId::Cpu(SessionId::MAIN, 0),
        written,
        losses: Losses { untold, ..Losses::default() },
    }
}

#[test]
fn law_44_heads_and_losses() {
    let at = |written, untold, dropped| {
        move |s: &mut Script| {
            (s.rings, s.dropped) = (vec![ring(written, untold)], dropped);
        }
    };
    let told = |lost| {
        move |s: &mut Script| {
            let (pid, tid, time) = (TID, TID, s.time);
            s.records.push(Record::Lost { pid, tid, time, cpu: 0, event: 0, lost });
            at(200, 0, 3)(s);
        }
    };
    let lossy = || mask(44).then(Point::Body, at(100, 0, 0)).then(Point::Body, at(100, 3, 3));
    lossy().then(Point::Body, told(3)).is_kept();
    lossy().then(Point::Body, told(2)).is_broken();
    lossy().then(Point::Body, at(200, 0, 3)).is_broken();
    lossy().then(Point::Body, at(96, 3, 3)).is_broken();
    let guests = |dropped, told| {
        move |s: &mut Script| {
            let id = RingId::Event { id: 1, place: 8 };
            s.rings =
                vec![RingView { id, written: 8, losses: Losses { dropped, told, untold: 1 } }];
        }
    };
    mask(44).then(Point::Body, guests(3, 2)).is_kept();
    mask(44).then(Point::Body, guests(3, 1)).is_broken();
}

/// THROTTLE or UNTHROTTLE of event 0.
fn says(s: &mut Script, throttled: bool) {
    let (pid, tid, time) = (TID, TID, s.time);
    s.records.push(Record::Throttle { pid, tid, time, cpu: 0, event: 0, throttled });
}

/// The machine's limit is two samples a tick.
#[test]
fn law_45_samples_of_a_tick() {
    let one = || mask(45).sample(&[]);
    let throttled = || one().also(|s| says(s, true)).sample(&[]);
    throttled().is_kept();
    throttled().sample(&[]).is_broken();
    one().sample(&[]).is_broken();
    one().also(|s| says(s, true)).also(|s| says(s, true)).sample(&[]).is_broken();
    one().then(Point::Body, |s| s.cpu.ticks = 1).sample(&[]).is_kept();
    throttled().then(Point::Body, |s| says(s, false)).sample(&[]).is_kept();
    // The THROTTLE may be what was dropped.
    one().also(|s| s.drops = true).sample(&[]).is_kept();
}

/// Without a limit: where user code does not get ahead the next sample is the last.
#[test]
fn law_45_without_a_limit() {
    let unlimited = || {
        let script = Script::limited(Mode::Mask, 45, None);
        (0..5).fold(script, |script, _| script.sample(&[]))
    };
    unlimited().is_kept();
    let stalled = || unlimited().also(|s| s.cpu.stalled = true);
    stalled().sample(&[]).is_broken();
    let throttled = || stalled().also(|s| says(s, true)).sample(&[]);
    throttled().is_kept();
    throttled().sample(&[]).is_broken();
    let goes_on = |s: &mut Script| {
        s.cpu.stalled = false;
        says(s, false);
    };
    throttled().then(Point::Body, goes_on).sample(&[]).is_kept();
    // The sample of a throttled event, also once user code goes on.
    throttled().also(|s| s.cpu.stalled = false).sample(&[]).is_broken();
}

#[test]
fn law_45_software_events_go_on() {
    let mut software = mask(45);
    software.events[0].kind = EventKind::PageFaults;
    let many = software.sample(&[]).sample(&[]).sample(&[]);
    many.is_kept();
    many.then(Point::Body, |s| says(s, true)).is_broken();
    mask(45).then(Point::Body, |s| s.software_throttled = true).is_broken();
}
