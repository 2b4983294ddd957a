//! Answers of tables by address, so that they are read once.
//!
//! ```text
//! address, set of modules, table ─► briefs  4096 × 2 × 32 bytes  nearly all answers, or their lack
//!                                ─► rows      64 × 0.6 KB        rows that are not short
//! ```
//!
//! Of fixed size: an answer takes the place of another one. Two briefs share a place, and a cache
//! line. A set of modules does not change ([`crate::Modules::generation`]), so that nothing here
//! grows old.

use crate::LookupAddress;
use crate::brief::Brief;
use crate::dwarf::SectionName;
use crate::row::Row;

/// A table of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Dwarf,
    Sframe,
}

/// What an answer is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    address: u64,
    /// Number of the set of modules, and the table. 0: nothing is here.
    set: u64,
}

impl Key {
    const NONE: Key = Key { address: 0, set: 0 };

    #[inline]
    pub fn new(at: LookupAddress, generation: u64, table: Table) -> Key {
        Key { address: at.value(), set: generation << 1 | table as u64 }
    }

    /// One of `1 << bits` places. Calls are 4 bytes apart at least; the rest is as quick as can
    /// be, because each frame waits for it.
    #[inline]
    const fn place(self, bits: u32) -> usize {
        let mixed = self.address >> 2 ^ self.address >> (bits + 2) ^ (self.set & 1) << (bits - 1);
        (mixed & ((1 << bits) - 1)) as usize
    }
}

const BRIEFS: u32 = 12;
const ROWS: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct BriefEntry {
    key: Key,
    brief: Brief,
}

/// The newer one is the first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Pair([BriefEntry; 2]);

#[derive(Clone, Copy, Debug)]
struct RowEntry {
    key: Key,
    row: Row,
    section: SectionName,
}

#[derive(Debug)]
pub(crate) struct Cache {
    briefs: Box<[Pair; 1 << BRIEFS]>,
    rows: Box<[Option<RowEntry>]>,
}

impl Cache {
    pub fn new() -> Cache {
        let brief = BriefEntry { key: Key::NONE, brief: Brief::Long };
        let briefs = vec![Pair([brief; 2]); 1 << BRIEFS].into_boxed_slice();
        Cache {
            briefs: briefs.try_into().unwrap_or_else(|_| unreachable!("the length is the type's")),
            rows: vec![None; 1 << ROWS].into_boxed_slice(),
        }
    }

    #[inline]
    pub fn brief(&self, key: Key) -> Option<&Brief> {
        let Pair([first, second]) = self.briefs.get(key.place(BRIEFS))?;
        if first.key == key {
            return Some(&first.brief);
        }
        (second.key == key).then_some(&second.brief)
    }

    pub fn keep_brief(&mut self, key: Key, brief: Brief) {
        if let Some(Pair([first, second])) = self.briefs.get_mut(key.place(BRIEFS)) {
            *second = std::mem::replace(first, BriefEntry { key, brief });
        }
    }

    pub fn row(&self, key: Key) -> Option<(&Row, SectionName)> {
        let entry = self.rows.get(key.place(ROWS))?.as_ref()?;
        (entry.key == key).then_some((&entry.row, entry.section))
    }

    pub fn keep_row(&mut self, key: Key, row: Row, section: SectionName) {
        if let Some(entry) = self.rows.get_mut(key.place(ROWS)) {
            *entry = Some(RowEntry { key, row, section });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeAddress, InstructionPointer};

    fn key(address: u64, generation: u64, table: Table) -> Key {
        Key::new(CodeAddress::from(InstructionPointer(address)).lookup(), generation, table)
    }

    #[test]
    fn two_entries_to_a_line() {
        assert_eq!((size_of::<BriefEntry>(), size_of::<Pair>()), (32, 64));
    }

    #[test]
    fn an_answer_is_found_under_its_key_alone() {
        let mut cache = Cache::new();
        let kept = key(0x1000, 7, Table::Dwarf);
        assert_eq!(cache.brief(kept), None);
        cache.keep_brief(kept, Brief::NotCovered);
        assert_eq!(cache.brief(kept), Some(&Brief::NotCovered));
        for other in [
            key(0x1001, 7, Table::Dwarf),
            key(0x1000, 8, Table::Dwarf),
            key(0x1000, 7, Table::Sframe),
        ] {
            assert_eq!(cache.brief(other), None);
        }
        // Nothing is kept for the address 0 from the start.
        assert_eq!(cache.brief(key(0, 1, Table::Dwarf)), None);
    }

    #[test]
    fn an_answer_may_take_the_place_of_another_one() {
        let mut cache = Cache::new();
        let keys: Vec<Key> = (0..10_000).map(|a| key(a * 4, 1, Table::Dwarf)).collect();
        keys.iter().for_each(|&k| cache.keep_brief(k, Brief::Outermost));
        let found = keys.iter().filter(|&&k| cache.brief(k).is_some()).count();
        assert!((4000..=8192).contains(&found), "{found}");
    }
}
