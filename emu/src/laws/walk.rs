//! What the deferred walk finds.

use unwinder::fp::unwind_user::MAX_ENTRIES;

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law, Mode};
use crate::laws::moment::{Moment, UserRegs};
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;

/// See its words.
pub const SOUND: Law = Law {
    number: 21,
    words: "entry 0 is the user's instruction pointer; sp strictly increases; every CFA is a \
            multiple of the word; entries ≤ 510 (cookie: 511, timestamp: 512)",
    levels: ALL_G,
};

/// [`SOUND`]
#[derive(Debug, Default)]
pub struct Sound(ByTask<Option<UserRegs>>);

/// The longest stack of a design.
const fn longest(mode: Mode) -> usize {
    match mode {
        Mode::Timestamp => 512,
        Mode::Cookie => 511,
        _ => MAX_ENTRIES,
    }
}

impl Monitor for Sound {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if m.is(Point::CaptureC5) {
            *self.0.of(m) = m.now.user;
        }
        let Some(capture) = &m.now.capture else { return };
        let entries = &capture.entries;
        let pc = self.0.of(m).map(|user| user.pc);
        if pc.is_some() && entries.first() != pc.as_ref() {
            found.push(Broken::new(format!("entry 0 is {:x?}, not {pc:x?}", entries.first())));
        }
        if entries.len() > longest(m.machine.mode) {
            found.push(Broken::new(format!("{} entries", entries.len())));
        }
        let Some(frames) = &capture.frames else { return };
        let sound = |pair: &[(u64, u64)]| pair[0].1 < pair[1].1;
        let aligned = frames.iter().skip(1).all(|(_, sp)| sp % 8 == 0);
        // What a walk finds that keeps the rules, as far as both go.
        let same = frames.iter().map(|f| f.0).zip(entries).all(|(a, b)| a == *b);
        if !frames.windows(2).all(sound) || !aligned || !same || entries.len() > frames.len() {
            let rules: Vec<u64> = frames.iter().map(|f| f.0).collect();
            found.push(Broken::new(format!("entries {entries:x?}, by the rules {rules:x?}")));
        }
    }
}

/// See its words.
pub const LIKE_IMMEDIATE: Law = Law {
    number: 22,
    words: "of a well-formed stack the deferred walk = the immediate walk, up to the smaller budget",
    levels: ALL_G,
};

/// [`LIKE_IMMEDIATE`]
#[derive(Debug, Default)]
pub struct LikeImmediate;

impl Monitor for LikeImmediate {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(capture) = m.now.capture.as_ref().filter(|c| c.well_formed) else { return };
        let (deferred, immediate) = (&capture.entries, &capture.immediate);
        let both = MAX_ENTRIES.min(immediate.len());
        if deferred.get(..both) != Some(&immediate[..both])
            || deferred.len() != both && immediate.len() < MAX_ENTRIES
        {
            let seen = format!("deferred {deferred:x?}, immediate {immediate:x?}");
            found.push(Broken::new(seen));
        }
    }
}
