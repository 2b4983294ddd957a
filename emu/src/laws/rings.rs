//! Ring buffers: positions that only go on, and no record lost without a word.

use std::collections::BTreeMap;

use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::{Moment, RingId};
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::perf::record::Record;

/// See its words.
pub const LOST: Law = Law {
    number: 44,
    words: "a ring's head never decreases; records that LOST records told of + those still untold \
            = records that were dropped",
    levels: ALL_G,
};

/// [`LOST`]
#[derive(Debug, Default)]
pub struct Lost {
    /// Bytes written to each ring that there is.
    written: BTreeMap<RingId, u64>,
    /// Lost records that the profiles tell of.
    told: u64,
}

impl Monitor for Lost {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        for record in m.now.records() {
            if let Record::Lost { lost, .. } = record {
                self.told += lost;
            }
        }
        let rings = &m.now.rings;
        if rings.is_empty() {
            return self.written.clear();
        }
        self.written.retain(|id, _| rings.iter().any(|ring| ring.id == *id));
        let mut untold = 0;
        for ring in rings {
            let before = self.written.insert(ring.id, ring.written).unwrap_or(0);
            // A position may go around.
            if (ring.written.wrapping_sub(before) as i64) < 0 {
                let (id, now) = (ring.id, ring.written);
                found.push(Broken::new(format!("{id:?} went from {before} back to {now}")));
            }
            let losses = ring.losses;
            match ring.id {
                RingId::Cpu(..) => untold += losses.untold,
                RingId::Event { .. } if losses.told + losses.untold == losses.dropped => {}
                RingId::Event { .. } => {
                    found.push(Broken::new(format!("{:?}: {losses:?}", ring.id)));
                }
            }
        }
        if self.told + untold != m.now.dropped {
            let (told, dropped) = (self.told, m.now.dropped);
            found.push(Broken::new(format!("{told} told, {untold} untold, {dropped} dropped")));
        }
    }
}
