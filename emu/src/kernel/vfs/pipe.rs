//! Pipes: a bounded queue of bytes between two ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes that a pipe holds (16 pages).
pub const CAPACITY: usize = 65536;
/// A write of so many bytes is not mixed with others (`PIPE_BUF`).
pub const ATOMIC: usize = 4096;

/// What both ends share.
#[derive(Debug, Default)]
pub struct Pipe {
    /// Its number, for `stat`.
    pub inode: u64,
    bytes: RefCell<VecDeque<u8>>,
    readers: Cell<u32>,
    writers: Cell<u32>,
}

impl Pipe {
    /// The ends of a new pipe: to read from, to write to.
    pub fn ends(inode: u64) -> (PipeEnd, PipeEnd) {
        let pipe = Rc::new(Pipe { inode, ..Pipe::default() });
        (PipeEnd::new(pipe.clone(), false), PipeEnd::new(pipe, true))
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it has room for.
    pub fn room(&self) -> usize {
        CAPACITY - self.len()
    }

    /// Whether somebody could still read.
    pub fn has_readers(&self) -> bool {
        self.readers.get() > 0
    }

    /// Whether somebody could still write.
    pub fn has_writers(&self) -> bool {
        self.writers.get() > 0
    }

    /// Takes as many bytes as there are.
    pub fn read(&self, buf: &mut [u8]) -> usize {
        let mut bytes = self.bytes.borrow_mut();
        let n = bytes.len().min(buf.len());
        for (to, byte) in buf.iter_mut().zip(bytes.drain(..n)) {
            *to = byte;
        }
        n
    }

    /// Puts in as many bytes as there is room for.
    pub fn write(&self, buf: &[u8]) -> usize {
        let n = self.room().min(buf.len());
        self.bytes.borrow_mut().extend(&buf[..n]);
        n
    }
}

/// One end, which counts as long as it is open.
#[derive(Debug)]
pub struct PipeEnd {
    /// The pipe.
    pub pipe: Rc<Pipe>,
    /// It is the end that is written to.
    pub writes: bool,
}

impl PipeEnd {
    fn new(pipe: Rc<Pipe>, writes: bool) -> PipeEnd {
        let end = PipeEnd { pipe, writes };
        end.count().set(end.count().get() + 1);
        end
    }

    fn count(&self) -> &Cell<u32> {
        if self.writes { &self.pipe.writers } else { &self.pipe.readers }
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.count().set(self.count().get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (read, write) = Pipe::ends(1);
        let pipe = read.pipe.clone();
        assert_eq!(pipe.write(&[7; CAPACITY + 1]), CAPACITY);
        assert_eq!((pipe.write(&[1]), pipe.room()), (0, 0));
        let mut buf = [0; 10];
        assert_eq!((pipe.read(&mut buf), buf), (10, [7; 10]));
        assert!(pipe.has_readers() && pipe.has_writers());
        drop(write);
        assert!(pipe.has_readers() && !pipe.has_writers());
        drop(read);
        assert!(!pipe.has_readers() && pipe.len() == CAPACITY - 10);
    }
}
