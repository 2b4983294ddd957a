//! Pages that leave memory, as under memory pressure: their content is kept, the next access
//! brings them in.

use crate::engine::Perms;
use crate::mem::Mm;

impl Mm {
    /// The present pages of `start..end` are absent from now on; returns how many.
    ///
    /// A page of a file, or of zeros, is dropped: its content is elsewhere. A page of its own
    /// keeps its frame, which stands for its place in the swap, and may not be accessed until a
    /// fault brings it back.
    pub fn page_out(&mut self, start: u64, end: u64) -> u64 {
        let mut gone = 0;
        for va in self.table.present_in(start, end) {
            match self.table.get_mut(va) {
                Some(pte) if pte.owned && pte.perms == Perms::default() => continue,
                Some(pte) if pte.owned => pte.perms = Perms::default(),
                _ => drop(self.table.remove(va)),
            }
            gone += 1;
        }
        self.stale |= gone > 0;
        gone
    }
}
