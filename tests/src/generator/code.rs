//! Code in the making: labels, and what the program's list says at each place.

use super::layout::CODE;

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// How the list in memory relates to the true stack at an instruction that has not run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// It is the true stack.
    Exact,
    /// The last frames are not live yet, or not any more.
    Without(usize),
    /// Its last entry is a tail call that has not happened.
    WithoutTail,
    /// It ends where the register that holds the running function's own end says.
    ToLevel,
    /// It is another list: that which ends where [`super::layout::SAVED`] says.
    Saved,
}

/// How a label's address gets into an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixup {
    /// Four bytes: distance from behind them.
    Relative32,
    /// Four bytes: the address.
    Absolute32,
    /// A64: distance in words, that many bits from bit `at` on.
    Words {
        /// The field's lowest bit.
        at: u32,
        /// Its width.
        bits: u32,
    },
    /// A64: `adr`.
    Adr,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Code {
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    fixups: Vec<(usize, Label, Fixup)>,
    lists: Vec<(usize, List)>,
}

impl Code {
    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends an instruction of A64.
    pub fn word(&mut self, word: u32) {
        self.put(&word.to_le_bytes());
    }

    /// The four bytes that come next are completed by the address of `label`.
    pub fn fix(&mut self, label: Label, fixup: Fixup) {
        self.fixups.push((self.bytes.len(), label, fixup));
    }

    /// A label of no place yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts `label` here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.bytes.len());
    }

    /// From the next instruction on, the list is this.
    pub fn list(&mut self, list: List) {
        self.lists.push((self.bytes.len(), list));
    }

    /// What the list is at the instruction at `pc`; `None` outside the code.
    pub fn list_at(&self, pc: u64) -> Option<List> {
        let at = pc.checked_sub(CODE)? as usize;
        if at >= self.bytes.len() {
            return None;
        }
        // The last of several marks at one place counts.
        let marks = self.lists.partition_point(|&(from, _)| from <= at);
        Some(marks.checked_sub(1).map_or(List::Exact, |last| self.lists[last].1))
    }

    /// Where `label` is.
    ///
    /// # Panics
    ///
    /// If it was never bound.
    pub fn address(&self, label: Label) -> u64 {
        CODE + self.labels[label.0].unwrap_or_else(|| panic!("{label:?} has no place")) as u64
    }

    /// Completes the instructions that name labels.
    ///
    /// # Panics
    ///
    /// If a label has no place or is out of reach.
    pub fn finish(&mut self) {
        for (at, label, fixup) in std::mem::take(&mut self.fixups) {
            let (target, here) = (self.address(label) as i64, CODE as i64 + at as i64);
            let field: &mut [u8; 4] = (&mut self.bytes[at..at + 4]).try_into().unwrap();
            let word = u32::from_le_bytes(*field);
            let distance = target - here;
            *field = match fixup {
                Fixup::Relative32 => ((distance - 4) as i32).to_le_bytes(),
                Fixup::Absolute32 => (target as u32).to_le_bytes(),
                Fixup::Words { at, bits } => {
                    let words = distance >> 2;
                    assert!(words.abs() < 1 << (bits - 1), "{label:?} is too far away");
                    (word | (words as u32 & ((1 << bits) - 1)) << at).to_le_bytes()
                }
                Fixup::Adr => {
                    assert!(distance.abs() < 1 << 20, "{label:?} is too far away");
                    let d = distance as u32;
                    (word | (d & 3) << 29 | (d >> 2 & 0x7_ffff) << 5).to_le_bytes()
                }
            };
        }
    }

    /// The code.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
