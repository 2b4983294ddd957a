//! The memory of the stack with marks: what is where.

use std::collections::{BTreeMap, BTreeSet};

use unwinder::Memory;

use crate::explain::{Explained, Slot, Source};

/// What a word of the stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The stack pointer points to it.
    Sp,
    /// The frame pointer points to it.
    Fp,
    /// It is at the CFA of this true frame, above its part of the stack.
    Cfa(usize),
    /// It holds the address of this true frame: where the one below returns to, or where a
    /// signal came.
    ReturnAddress(usize),
    /// It held that, and was overwritten.
    Overwritten(usize),
    /// A true frame saved its caller's frame pointer there.
    SavedFp,
    /// A method read there where a frame goes on.
    Method {
        /// Its place among the replays.
        replay: usize,
        /// Which of its frames that is.
        frame: usize,
        /// There is such a true frame.
        right: bool,
    },
}

/// A line of the picture of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// A register that holds the return address of the innermost frame.
    Register {
        /// By its DWARF number.
        number: u8,
        /// What it holds.
        value: u64,
        /// What it is.
        marks: Vec<Mark>,
    },
    /// A word.
    Word {
        /// Where.
        address: u64,
        /// What it holds, if that was recorded.
        value: Option<u64>,
        /// What it is.
        marks: Vec<Mark>,
    },
    /// Words without a mark.
    Skipped(u64),
    /// Another stack, or memory that was not recorded.
    Gap,
}

/// The stack of a sample from its stack pointer on, then other memory that methods read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack(pub Vec<Row>);

/// Unmarked words in a row that are shown.
const SHOWN: u64 = 2;

type Marks = BTreeMap<u64, BTreeSet<Mark>>;

impl Stack {
    /// Marks the memory of a sample.
    pub fn new(e: &Explained) -> Stack {
        let mut marks = Marks::new();
        let mut mark = |address: u64, mark: Mark| {
            marks.entry(address).or_default().insert(mark);
        };
        let regs = e.sample().regs(e.arch());
        mark(regs.sp(), Mark::Sp);
        let mut memory = e.memory();
        if memory.word(regs.fp()).is_some() {
            mark(regs.fp(), Mark::Fp);
        }
        for (index, frame) in e.sample().frames.iter().enumerate() {
            if let Some(cfa) = frame.cfa {
                mark(cfa.0, Mark::Cfa(index));
            }
            if let Some(Slot { at: Source::Memory(slot), holds }) = e.slot(index) {
                let caller = index + 1;
                let held = Mark::Overwritten(caller);
                mark(slot, if holds { Mark::ReturnAddress(caller) } else { held });
            }
        }
        e.saved_fps().iter().for_each(|saved| mark(*saved, Mark::SavedFp));
        let mut link = vec![Mark::ReturnAddress(1)];
        for (number, replay) in e.replays.iter().enumerate() {
            for (n, told) in replay.frames.iter().enumerate() {
                let Some(next) = replay.frames.get(n + 1) else { continue };
                let right = next.truth.is_some();
                let read = Mark::Method { replay: number, frame: n + 1, right };
                match told.source {
                    Some(Source::Memory(slot)) => mark(slot, read),
                    Some(Source::Register(_)) if n == 0 => link.push(read),
                    _ => {}
                }
            }
        }
        let register = e.link().map(|(number, value)| Row::Register { number, value, marks: link });
        Stack(register.into_iter().chain(rows(e, &marks)).collect())
    }

    /// The same in fewer rows: words that are nothing but a CFA are left out with those that
    /// are nothing.
    pub fn brief(self) -> Stack {
        let mut rows = Vec::new();
        for row in self.0 {
            let plain = match &row {
                Row::Word { marks, .. } if marks.iter().all(|m| matches!(m, Mark::Cfa(_))) => 1,
                Row::Skipped(n) => *n,
                _ => 0,
            };
            match rows.last_mut() {
                Some(Row::Skipped(n)) if plain > 0 => *n += plain,
                _ if plain > 0 => rows.push(Row::Skipped(plain)),
                _ => rows.push(row),
            }
        }
        Stack(rows)
    }
}

fn rows(e: &Explained, marks: &Marks) -> Vec<Row> {
    let sp = e.sample().regs(e.arch()).sp();
    let mut words: BTreeSet<u64> = marks.keys().copied().collect();
    for piece in &e.sample().memory {
        let start = piece.address.0;
        let end = start.saturating_add(piece.bytes.0.len() as u64);
        let first = if (start..end).contains(&sp) { sp } else { start.saturating_add(7) & !7 };
        // Words below the stack pointer are nobody's.
        let inside = marks.range(first..end).next().is_some();
        if inside {
            words.extend((first..end.saturating_sub(7)).step_by(8));
        }
    }
    let above: Vec<u64> = words.range(sp..).copied().collect();
    let below: Vec<u64> = words.range(..sp).copied().collect();
    let mut rows = stretch(e, marks, &above);
    if !below.is_empty() {
        rows.push(Row::Gap);
        rows.extend(stretch(e, marks, &below));
    }
    rows
}

/// The rows of ascending addresses.
fn stretch(e: &Explained, marks: &Marks, words: &[u64]) -> Vec<Row> {
    let (mut rows, mut plain) = (Vec::new(), Vec::new());
    let mut memory = e.memory();
    let mut word =
        |address: u64, marks: Vec<Mark>| Row::Word { address, value: memory.word(address), marks };
    let mut expected = words.first().copied();
    for &address in words {
        let gap = expected != Some(address);
        let here = marks.get(&address);
        if gap || here.is_some() {
            // A single word in place of many takes the same room.
            match plain.len() as u64 {
                n if n > SHOWN => rows.push(Row::Skipped(n)),
                _ => rows.extend(plain.iter().map(|a| word(*a, Vec::new()))),
            }
            plain.clear();
        }
        if gap {
            rows.push(Row::Gap);
        }
        match here {
            Some(marks) => rows.push(word(address, marks.iter().copied().collect())),
            None => plain.push(address),
        }
        expected = address.checked_add(8);
    }
    if !plain.is_empty() {
        rows.push(Row::Skipped(plain.len() as u64));
    }
    rows
}
