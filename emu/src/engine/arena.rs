//! Guest physical memory: one host mapping, reserved once and never unmapped.
//!
//! Frames are handed out by number in a fixed order, so a run's physical addresses are
//! the same on every host. All access goes through functions that copy or through plain
//! slices; a write through them to a frame that holds translated code puts the frame on
//! a list that the engine reads before it runs again (blocks are keyed by physical page).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use memmap2::{MmapMut, MmapOptions};

use crate::engine::EngineError;

/// Bytes in a frame and in a page.
pub const FRAME_SIZE: u64 = 4096;

/// Bytes of the machine's memory: the same on every host, so that a guest runs out of
/// it at the same instruction everywhere.
pub const MEMORY: u64 = 4 << 30;

/// A physical frame number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame(pub u32);

impl Frame {
    /// Physical address of the frame's first byte.
    pub const fn addr(self) -> u64 {
        self.0 as u64 * FRAME_SIZE
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:#x})", self.addr())
    }
}

/// What the CPU may have cached about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct FrameUse {
    /// A store permission was handed out since the last flip to code.
    pub writable: bool,
    /// Code of this frame may have been translated.
    pub code: bool,
}

/// The host mapping; shared with the engine that has it mapped as RAM.
pub(super) struct Mapping(pub(super) MmapMut);

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} bytes)", self.0.len())
    }
}

/// Frames given back by owners that cannot reach the arena when they go.
#[derive(Clone, Debug, Default)]
pub struct Bin(Rc<RefCell<Vec<Frame>>>);

impl Bin {
    /// Gives `frame` back; nothing may use it from now on.
    pub fn put(&self, frame: Frame) {
        self.0.borrow_mut().push(frame);
    }
}

/// Guest physical memory.
#[derive(Debug)]
pub struct Arena {
    bin: Bin,
    mapping: Rc<std::cell::UnsafeCell<Mapping>>,
    frames: u32,
    next: u32,
    free: Vec<Frame>,
    /// Owners of a frame beyond the first.
    shares: BTreeMap<Frame, u32>,
    pub(super) uses: Vec<FrameUse>,
    pub(super) stale_code: Vec<Frame>,
}

impl Arena {
    /// Reserves [`MEMORY`]: address space of the host, not memory.
    ///
    /// # Errors
    ///
    /// [`EngineError::Arena`] if the host does not grant it.
    pub fn new() -> Result<Arena, EngineError> {
        Arena::with_len(MEMORY)
    }

    /// A machine with `len` bytes of memory, a multiple of the frame size.
    ///
    /// # Errors
    ///
    /// [`EngineError::Arena`] if the host does not grant it.
    pub fn with_len(len: u64) -> Result<Arena, EngineError> {
        match MmapOptions::new().len(len as usize).no_reserve_swap().map_anon() {
            Ok(map) => Ok(Arena::with_mapping(map)),
            Err(e) => Err(EngineError::Arena { wanted: len, reason: e.to_string() }),
        }
    }

    fn with_mapping(map: MmapMut) -> Arena {
        let frames = (map.len() as u64 / FRAME_SIZE) as u32;
        Arena {
            bin: Bin::default(),
            mapping: Rc::new(std::cell::UnsafeCell::new(Mapping(map))),
            frames,
            next: 0,
            free: Vec::new(),
            shares: BTreeMap::new(),
            uses: Vec::new(),
            stale_code: Vec::new(),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        u64::from(self.frames) * FRAME_SIZE
    }

    /// Whether no frame is in use.
    pub fn is_empty(&self) -> bool {
        self.used() == 0
    }

    /// Number of frames in use.
    pub fn used(&self) -> u64 {
        u64::from(self.next) - (self.free.len() + self.bin.0.borrow().len()) as u64
    }

    /// Takes a zeroed frame, or `None` when guest memory is exhausted.
    pub fn alloc(&mut self) -> Option<Frame> {
        let returned = std::mem::take(&mut *self.bin.0.borrow_mut());
        for frame in returned {
            self.free(frame);
        }
        if let Some(frame) = self.free.pop() {
            self.bytes_mut(frame).fill(0);
            return Some(frame);
        }
        if self.next == self.frames {
            return None;
        }
        let frame = Frame(self.next);
        self.next += 1;
        self.uses.push(FrameUse::default());
        Some(frame)
    }

    /// A frame gets one more owner, each of whom gives it back.
    pub fn share(&mut self, frame: Frame) {
        *self.shares.entry(frame).or_default() += 1;
    }

    /// Whether it has several owners.
    pub fn is_shared(&self, frame: Frame) -> bool {
        self.shares.contains_key(&frame)
    }

    /// Gives a frame back; with its last owner it is free. Its translated code is dropped before
    /// the next run.
    pub fn free(&mut self, frame: Frame) {
        if let Some(others) = self.shares.get_mut(&frame) {
            *others -= 1;
            if *others == 0 {
                self.shares.remove(&frame);
            }
            return;
        }
        self.touch_code(frame);
        self.free.push(frame);
    }

    /// Gives all frames back, whoever has them: the machine is gone.
    pub fn clear(&mut self) {
        self.bin.0.borrow_mut().clear();
        self.shares.clear();
        self.free.clear();
        for frame in (0..self.next).rev().map(Frame) {
            self.touch_code(frame);
            self.free.push(frame);
        }
    }

    /// Where frames can be given back without the arena.
    pub fn bin(&self) -> Bin {
        self.bin.clone()
    }

    /// A frame's bytes.
    pub fn bytes(&self, frame: Frame) -> &[u8] {
        let at = frame.addr() as usize;
        &self.slice()[at..at + FRAME_SIZE as usize]
    }

    /// A frame's bytes, to be changed by the kernel: code translated from it is dropped.
    pub fn bytes_mut(&mut self, frame: Frame) -> &mut [u8] {
        self.touch_code(frame);
        let at = frame.addr() as usize;
        &mut self.slice_mut()[at..at + FRAME_SIZE as usize]
    }

    /// Reads a 64-bit little-endian word inside a frame; `offset` is taken modulo the
    /// frame size and rounded down to 8.
    pub fn word(&self, frame: Frame, offset: u64) -> u64 {
        let at = ((offset % FRAME_SIZE) & !7) as usize;
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes(frame)[at..at + 8]);
        u64::from_le_bytes(word)
    }

    /// Copies bytes to a physical address, for set-ups that do not hand out frames.
    pub(super) fn poke(&mut self, physical: u64, bytes: &[u8]) {
        let at = physical as usize;
        self.slice_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn touch_code(&mut self, frame: Frame) {
        let uses = &mut self.uses[frame.0 as usize];
        if uses.code {
            uses.code = false;
            self.stale_code.push(frame);
        }
    }

    fn slice(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self` and is never resized. Guest code
        // writes to it only inside `Engine::run`, which holds `&mut Arena`, so no
        // shared slice can be alive then.
        #[allow(unsafe_code)]
        unsafe {
            &(&*self.mapping.get()).0
        }
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `slice`; `&mut self` excludes every other slice, and the
        // engine's copy of the pointer is used only inside `Engine::run`.
        #[allow(unsafe_code)]
        unsafe {
            &mut (&mut *self.mapping.get()).0
        }
    }

    pub(super) fn mapping(&self) -> Rc<std::cell::UnsafeCell<Mapping>> {
        Rc::clone(&self.mapping)
    }

    pub(super) fn host_pointer(&self) -> *mut u8 {
        // SAFETY: only the pointer is taken, no reference outlives this line.
        #[allow(unsafe_code)]
        unsafe {
            (&mut *self.mapping.get()).0.as_mut_ptr()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_order_and_zeroed() {
        let mut arena = Arena::new().unwrap();
        let a = arena.alloc().unwrap();
        let b = arena.alloc().unwrap();
        assert_eq!((a, b), (Frame(0), Frame(1)));
        arena.bytes_mut(a)[7] = 9;
        arena.free(a);
        let c = arena.alloc().unwrap();
        assert_eq!(c, a);
        assert!(arena.bytes(c).iter().all(|&x| x == 0));
        assert_eq!(arena.used(), 2);
        arena.bin().put(b);
        assert_eq!(arena.used(), 1);
        assert_eq!((arena.alloc(), arena.alloc()), (Some(b), Some(Frame(2))));
    }

    #[test]
    fn what_is_cleared_is_given_out_in_the_same_order() {
        let mut arena = Arena::with_len(4 * FRAME_SIZE).unwrap();
        let frames = [arena.alloc(), arena.alloc()];
        arena.bytes_mut(Frame(0))[0] = 1;
        arena.share(Frame(1));
        arena.clear();
        assert!(arena.is_empty() && !arena.is_shared(Frame(1)));
        assert_eq!([arena.alloc(), arena.alloc()], frames);
        assert_eq!(arena.bytes(Frame(0))[0], 0);
    }

    #[test]
    fn memory_has_an_end() {
        let mut arena = Arena::with_len(2 * FRAME_SIZE).unwrap();
        assert_eq!(arena.len(), 2 * FRAME_SIZE);
        assert!(arena.alloc().is_some() && arena.alloc().is_some());
        assert_eq!(arena.alloc(), None);
    }
}
