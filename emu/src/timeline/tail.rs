//! The last lines of a story that nobody reads unless something goes wrong.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;

use arch::Arch;

use crate::kernel::timeline::Timeline;
use crate::kernel::unwind::{Requested, WorkId};
use crate::kernel::{Point, State};
use crate::perf::record::Time;
use crate::timeline::range::Range;
use crate::timeline::teller::Teller;
use crate::timeline::{Format, Names, Settings};

/// See the module.
#[derive(Debug)]
pub struct Tail {
    teller: Teller,
    lines: Rc<RefCell<Lines>>,
}

/// The last lines of a text, without their ends.
#[derive(Debug)]
struct Lines {
    most: usize,
    whole: VecDeque<Vec<u8>>,
    /// What has no line end yet.
    begun: Vec<u8>,
}

/// Writes to [`Lines`].
struct Into(Rc<RefCell<Lines>>);

impl Write for Into {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = &mut *self.0.borrow_mut();
        for part in bytes.split_inclusive(|&b| b == b'\n') {
            lines.begun.extend_from_slice(part);
            if lines.begun.pop_if(|b| *b == b'\n').is_some() {
                lines.end();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The line that was begun is whole.
    fn end(&mut self) {
        let mut free = Vec::new();
        if self.whole.len() >= self.most {
            free = self.whole.pop_front().unwrap_or_default();
            free.clear();
        }
        self.whole.push_back(std::mem::replace(&mut self.begun, free));
    }
}

impl Tail {
    /// Keeps the last `most` lines of a machine that has not run yet. With 0 the events are only
    /// counted.
    pub fn new(arch: Arch, names: Names, most: usize) -> Tail {
        let empty = Lines { most, whole: VecDeque::new(), begun: Vec::new() };
        let lines = Rc::new(RefCell::new(empty));
        let range = if most == 0 { Range { from: u64::MAX, to: 0 } } else { Range::ALL };
        let settings = Settings { format: Format::Text, range, calls: false };
        let teller = Teller::new(arch, settings, names, Box::new(Into(lines.clone())));
        Tail { teller, lines }
    }

    /// Number of the last event.
    pub const fn events(&self) -> u64 {
        self.teller.events()
    }

    /// The last lines, the oldest first.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.borrow();
        lines.whole.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }
}

impl Timeline for Tail {
    fn step(&mut self, state: &State, point: Point, began: Time) {
        self.teller.step(state, point, began);
    }

    fn user(&mut self, state: &State, began: Time, retired: u64) {
        self.teller.user(state, began, retired);
    }

    fn answered(&mut self, state: &State, work: WorkId, answer: Requested) {
        self.teller.answered(state, work, answer);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let empty = Lines { most: 2, whole: VecDeque::new(), begun: Vec::new() };
        let lines = Rc::new(RefCell::new(empty));
        let mut into = Into(lines.clone());
        for part in ["a", "b\nc\n", "\nd", "e", "\nf"] {
            into.write_all(part.as_bytes()).unwrap();
        }
        assert_eq!(lines.borrow().whole, [b"".to_vec(), b"de".to_vec()]);
        assert_eq!(lines.borrow().begun, b"f");
    }
}
