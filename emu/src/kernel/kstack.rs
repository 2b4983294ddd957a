//! Kernel stacks in emulated memory.
//!
//! ```text
//!   top ─► ┌──────────────────┐
//!          │ saved user regs  │  pt_regs, order of the architecture
//!          ├──────────────────┤
//!          │ return address   │ ┐ frame record of the outermost function
//!    fp ─► │ caller's fp (0)  │ ┘
//!          │ locals           │
//!          ├──────────────────┤
//!          │ …                │
//! ```
//!
//! A frame record is `[fp] = caller's fp`, `[fp + 8] = return address` on both
//! architectures (on x86_64 after `push rbp`; on aarch64 by AAPCS64).

use crate::engine::{Arena, Frame};
use crate::mem::PAGE;

/// Pages of a kernel stack (`THREAD_SIZE` 16 KiB).
const PAGES: usize = 4;
/// Bytes of a kernel stack.
pub const SIZE: u64 = PAGES as u64 * PAGE;
/// Bytes that a modelled function uses besides its frame record.
const LOCALS: u64 = 32;

/// One kernel stack.
#[derive(Clone, Debug)]
pub struct KernelStack {
    base: u64,
    frames: [Frame; PAGES],
}

impl KernelStack {
    /// A zeroed stack at kernel address `base`.
    pub fn new(base: u64, arena: &mut Arena) -> Option<KernelStack> {
        let mut frames = [Frame(0); PAGES];
        for frame in &mut frames {
            *frame = arena.alloc()?;
        }
        Some(KernelStack { base, frames })
    }

    /// Gives its memory back.
    pub fn free(&self, arena: &mut Arena) {
        self.frames.iter().for_each(|&frame| arena.free(frame));
    }

    /// One past the highest address.
    pub const fn top(&self) -> u64 {
        self.base + SIZE
    }

    /// Whether the 16-byte record at `addr` lies on this stack.
    pub const fn holds(&self, addr: u64) -> bool {
        addr >= self.base && addr <= self.base + SIZE - 16
    }

    /// The word at `addr`, which is on this stack and 8-aligned.
    pub fn load(&self, arena: &Arena, addr: u64) -> u64 {
        match self.frame_of(addr) {
            Some(frame) => arena.word(frame, addr % PAGE),
            None => 0,
        }
    }

    /// Stores a word.
    pub fn store(&self, arena: &mut Arena, addr: u64, value: u64) {
        if let Some(frame) = self.frame_of(addr) {
            let at = ((addr % PAGE) & !7) as usize;
            arena.bytes_mut(frame)[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// The words from `addr` on, which lie in one page of this stack.
    pub fn load_words<const N: usize>(&self, arena: &Arena, addr: u64) -> [u64; N] {
        let Some(frame) = self.frame_of(addr) else { return [0; N] };
        let words = &arena.bytes(frame)[(addr % PAGE) as usize..][..8 * N];
        let (words, _) = words.as_chunks::<8>();
        std::array::from_fn(|i| u64::from_le_bytes(words[i]))
    }

    /// Stores words from `addr` on, in one page of this stack.
    pub fn store_words(&self, arena: &mut Arena, addr: u64, values: &[u64]) {
        let Some(frame) = self.frame_of(addr) else { return };
        let bytes = &mut arena.bytes_mut(frame)[(addr % PAGE) as usize..][..8 * values.len()];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (word, value) in words.iter_mut().zip(values) {
            *word = value.to_le_bytes();
        }
    }

    fn frame_of(&self, addr: u64) -> Option<Frame> {
        let page = addr.checked_sub(self.base)? / PAGE;
        self.frames.get(page as usize).copied()
    }
}

/// Where a CPU is in kernel code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct KernelContext {
    /// Address of the current step.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer: address of the innermost frame record, 0 at the outermost.
    pub fp: u64,
}

impl KernelContext {
    /// Pushes a frame record.
    pub fn push(&mut self, stack: &KernelStack, arena: &mut Arena, return_address: u64) {
        self.sp -= 16;
        stack.store(arena, self.sp, self.fp);
        stack.store(arena, self.sp + 8, return_address);
        self.fp = self.sp;
        self.sp -= LOCALS;
    }

    /// Pops the innermost frame record and goes on at its return address.
    pub fn pop(&mut self, stack: &KernelStack, arena: &Arena) {
        self.ip = stack.load(arena, self.fp + 8);
        self.sp = self.fp + 16;
        self.fp = stack.load(arena, self.fp);
    }
}
