//! Which executions of a block are looked at.
//!
//! With `n` the number of times that a block was executed:
//!
//! ```text
//! n ≤ 8, or n a power of two        looked at, instruction by instruction
//! else                              not: the block runs at full speed
//! ```
//!
//! A counter for each block says how often it may still run before that; translated code
//! counts it down itself.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::engine::counting::{BlockHasher, HotMemory};

/// Executions that are looked at first.
const FIRST: u64 = 8;

/// Blocks that can be looked at.
pub const MAX_BLOCKS: usize = HotMemory::MAX_COUNTERS;

/// How often a block is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visits {
    /// The first 8 times, then at every power of two.
    Sparse,
    /// Every time.
    Every,
}

/// One block's past.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// Executions up to the one that was looked at last.
    executed: u64,
    /// What its counter was set to then.
    free: i32,
}

/// The blocks that were executed.
#[derive(Debug)]
pub(super) struct Schedule {
    visits: Visits,
    blocks: HashMap<(u64, u32), usize, BuildHasherDefault<BlockHasher>>,
    past: Vec<Past>,
    /// Counters that there may be.
    limit: usize,
    /// Executions of blocks that have no counter: there were too many blocks before.
    refused: u64,
    /// What the next block is, if it starts here and is not one of its own.
    pub next: Option<(u64, Next)>,
}

/// A block that is the rest of another one, which was counted whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It begins with an instruction that was shown, which only the main CPU executes.
    Wild,
    /// It begins with an instruction that was shown and faults: what comes then is the
    /// [`Next::Rest`].
    Shown,
    /// The head was looked at, and so is the rest.
    Rest,
    /// The head ran at full speed and faulted here.
    Unseen,
}

/// Whether a block that starts is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It is, and counted then.
    Yes,
    /// It is, as the rest of one that is counted.
    Rest,
    /// It is not.
    No,
    /// It is not, nor is it counted.
    Uncounted,
}

impl Schedule {
    /// Nothing was executed yet.
    pub fn new(visits: Visits) -> Schedule {
        Schedule {
            visits,
            blocks: HashMap::default(),
            past: Vec::new(),
            limit: MAX_BLOCKS,
            refused: 0,
            next: None,
        }
    }

    /// Executions that were not looked at, nor counted, because their blocks came when there
    /// were no more counters.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The number of a block's counter; `None` when there are no more counters.
    pub fn index(&mut self, addr: u64, size: u32) -> Option<usize> {
        if let Some(&index) = self.blocks.get(&(addr, size)) {
            return Some(index);
        }
        let index = self.past.len();
        if index >= self.limit {
            return None;
        }
        self.blocks.insert((addr, size), index);
        self.past.push(Past { executed: 0, free: 0 });
        Some(index)
    }

    /// The block is about to run: whether it is to be looked at. If so, its counter stays
    /// below zero until [`Schedule::looked_at`].
    pub fn is_due(&mut self, hot: &mut HotMemory, addr: u64, size: u32) -> Due {
        match self.next.take() {
            Some((at, Next::Shown)) if at == addr => {
                self.next = Some((addr, Next::Rest));
                return Due::Uncounted;
            }
            Some((at, Next::Rest)) if at == addr => return Due::Rest,
            Some((at, Next::Wild | Next::Unseen)) if at == addr => return Due::Uncounted,
            _ => {}
        }
        let Some(counter) = self.index(addr, size).and_then(|i| hot.counter(i)) else {
            self.refused += 1;
            return Due::No;
        };
        if *counter >= 0 {
            *counter -= 1;
        }
        if *counter < 0 { Due::Yes } else { Due::No }
    }

    /// The block ran and was looked at.
    pub fn looked_at(&mut self, hot: &mut HotMemory, addr: u64, size: u32) {
        let Some(index) = self.index(addr, size) else { return };
        let past = &mut self.past[index]; // `index` gives no other
        past.executed += past.free as u64 + 1;
        past.free = match self.visits {
            Visits::Every => 0,
            Visits::Sparse => free_runs(past.executed),
        };
        if let Some(counter) = hot.counter(index) {
            *counter = past.free;
        }
    }

    /// Every block, its size and how often it was executed.
    pub fn executions(&self, hot: &mut HotMemory) -> Vec<(u64, u32, u64)> {
        let count = |(&(addr, size), &index): (&(u64, u32), &usize)| {
            let past = self.past[index];
            let left = hot.counter(index).map_or(0, |c| (*c).max(0));
            (addr, size, past.executed + (past.free - left) as u64)
        };
        let mut all: Vec<_> = self.blocks.iter().map(count).collect();
        all.sort_unstable();
        all
    }
}

/// Executions after the `n`th that are not looked at, see the module.
fn free_runs(n: u64) -> i32 {
    let next = if n < FIRST { n + 1 } else { (n + 1).next_power_of_two() };
    i32::try_from(next - n - 1).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_first_eight_and_powers_of_two() {
        let mut hot = HotMemory::new().unwrap();
        let mut schedule = Schedule::new(Visits::Sparse);
        let mut looked = Vec::new();
        for n in 1..=300u64 {
            if schedule.is_due(&mut hot, 0x1000, 12) == Due::Yes {
                schedule.looked_at(&mut hot, 0x1000, 12);
                looked.push(n);
            }
            assert_eq!(schedule.executions(&mut hot), [(0x1000, 12, n)]);
        }
        assert_eq!(looked, [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn blocks_without_a_counter_are_counted_together() {
        let mut hot = HotMemory::new().unwrap();
        let mut schedule = Schedule { limit: 2, ..Schedule::new(Visits::Every) };
        for n in 0..5 {
            let mut due = |addr| {
                let due = schedule.is_due(&mut hot, addr, 4);
                schedule.looked_at(&mut hot, addr, 4);
                due
            };
            assert_eq!([0x1000, 0x2000].map(&mut due), [Due::Yes; 2]);
            assert_eq!([0x3000, 0x4000].map(&mut due), [Due::No; 2]);
            assert_eq!(schedule.refused(), 2 * (n + 1));
        }
        let counted: Vec<u64> = schedule.executions(&mut hot).iter().map(|e| e.2).collect();
        assert_eq!(counted, [5, 5]);
    }

    #[test]
    fn rests_are_not_counted() {
        let mut hot = HotMemory::new().unwrap();
        let mut schedule = Schedule::new(Visits::Every);
        let mut due = |next| {
            if let Some(next) = next {
                schedule.next = Some((0x1004, next));
            }
            schedule.is_due(&mut hot, 0x1004, 8)
        };
        assert_eq!(due(Some(Next::Shown)), Due::Uncounted);
        assert_eq!(due(None), Due::Rest, "it faulted");
        assert_eq!(due(Some(Next::Unseen)), Due::Uncounted);
        assert_eq!(due(None), Due::Yes);
        assert_eq!(due(None), Due::Yes, "until it was looked at");
        schedule.looked_at(&mut hot, 0x1004, 8);
        assert_eq!(schedule.executions(&mut hot), [(0x1004, 8, 1)]);
        schedule.next = Some((0x1004, Next::Rest));
        assert_eq!(schedule.is_due(&mut hot, 0x2000, 8), Due::Yes, "another one");
    }
}
