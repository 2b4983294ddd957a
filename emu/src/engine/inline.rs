//! Counting without a call: the block hook's fast path inside the translated code.
//!
//! On an x86_64 host a translated block begins with the hook's call and the engine's test
//! for a request to stop:
//!
//! ```text
//!     mov    $pc, %esi                 (or a longer form)
//!     mov    $size, %edx               ba imm32       ┐
//!     movabs $data, %rcx               48 b9 imm64    │ 21 bytes
//!     call   *hook(%rip)               ff 15 rel32    ┘
//! ra: movabs $engine, %rdi             48 bf imm64    ┐
//!     xor    %esi, %esi                33 f6          │ 18 bytes
//!     call   *check_exit(%rip)         ff 15 rel32    ┘
//! ```
//!
//! Most of a run's time goes into these two calls. Once a block's cost is known, its first
//! 21 bytes become
//!
//! ```text
//!     mov    %rsi, last(%rip)          48 89 35 rel32
//!     subl   $cost, left(%rip)         83 2d rel32 imm8
//!     jns    ra + 18                   79 17
//!     call   slow                      e8 rel32
//! ```
//!
//! where `last` and `left` are fields of [`Hot`] and `slow` leads to the hook's slow path,
//! which undoes the subtraction. Only hooks ask the engine to stop, so a block that takes
//! the fast path need not look.
//!
//! The bytes are compared before they are changed. Where they are not these, as on other
//! hosts, every block goes on calling its hook: slower, with the same counts. A block that
//! is translated again starts anew.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::engine::counting::{BlockHasher, Hot, HotMemory};

/// Bytes before the hook's return address that are replaced.
const BEFORE: usize = 21;
/// Where among them the cost is.
const IMMEDIATE: usize = 13;
/// Bytes after it that the fast path skips.
const AFTER: usize = 18;
/// Most instructions of a block: an 8-bit signed immediate.
const MAX_COST: u64 = 127;
/// Blocks that are remembered at most; then all are translated again.
const MAX_SITES: usize = 1 << 20;

/// What the hook gets as its data: [`Hot`]'s address, changed so that it is no address near
/// the translated code. The translator then has to use the long form, which is replaced.
pub(super) const FAR: usize = 1 << 62;

/// The blocks whose hooks were replaced.
#[derive(Debug)]
pub(super) struct Sites {
    /// Size of the block whose hook returns to an address.
    sizes: HashMap<u64, u32, BuildHasherDefault<BlockHasher>>,
    /// Address of `slow`, near the translated code.
    slow: Option<u64>,
}

impl Sites {
    /// No block yet. `slow_path` gets the hook's arguments, but for the size, and the
    /// hook's return address as fifth.
    pub fn new(hot: &mut HotMemory, slow_path: *const ()) -> Sites {
        let code = stub(hot, slow_path);
        let slow = if cfg!(target_arch = "x86_64") { hot.set_code(&code) } else { None };
        Sites { sizes: HashMap::default(), slow }
    }

    /// Whether blocks can be changed at all.
    pub const fn supported(&self) -> bool {
        self.slow.is_some()
    }

    /// Size of the block whose hook returns to `ra`.
    pub fn size(&self, ra: u64) -> Option<u32> {
        self.sizes.get(&ra).copied()
    }

    /// What the block whose hook returned to `ra` takes away by itself: the immediate in its
    /// code.
    ///
    /// # Safety
    ///
    /// The block was changed by [`Sites::inline`].
    pub unsafe fn cost(ra: u64) -> u32 {
        // SAFETY: see `fast_path` for its place.
        u32::from(unsafe { *(ra as usize as *const u8).sub(BEFORE - IMMEDIATE) })
    }

    /// Whether so many blocks were changed that all should be translated again.
    pub fn is_full(&self) -> bool {
        self.sizes.len() >= MAX_SITES
    }

    /// Every block is translated again.
    pub fn clear(&mut self) {
        self.sizes.clear();
    }

    /// Replaces the call of the block's hook that returns to `ra`. `false`: the bytes there
    /// are not those that are known, or too far from `hot`.
    ///
    /// # Safety
    ///
    /// `ra` is the hook's return address in translated code, which this process may write,
    /// and the block is not being executed beyond its hook.
    pub unsafe fn inline(&mut self, hot: &Hot, ra: u64, size: u32, cost: u64) -> bool {
        if cost == 0 || cost > MAX_COST {
            return true; // this block stays as it is, others need not
        }
        let Some(slow) = self.slow else { return false };
        let site = ra as usize as *mut u8;
        let mut found = [0; BEFORE + AFTER];
        // SAFETY: the translator wrote a call before `ra` and more code after it.
        unsafe { site.sub(BEFORE).copy_to_nonoverlapping(found.as_mut_ptr(), found.len()) };
        if !is_call(&found, hot, size) {
            return false;
        }
        let Some(code) = fast_path(hot, ra, cost, slow) else { return false };
        // SAFETY: the same place; this thread is inside the hook, so none of it is running.
        unsafe { site.sub(BEFORE).copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        self.sizes.insert(ra, size);
        true
    }
}

/// Whether a hook's call with these arguments and the test for a stop are here.
fn is_call(found: &[u8; BEFORE + AFTER], hot: &Hot, size: u32) -> bool {
    let data = std::ptr::from_ref(hot) as usize ^ FAR;
    let (call, test) = found.split_at(BEFORE);
    call[0] == 0xba
        && call[1..5] == size.to_le_bytes()
        && call[5..7] == [0x48, 0xb9]
        && call[7..15] == (data as u64).to_le_bytes()
        && call[15..17] == [0xff, 0x15]
        && test[..2] == [0x48, 0xbf]
        && test[10..14] == [0x33, 0xf6, 0xff, 0x15]
}

/// The code that replaces the call; `None` if something is further than 2 GiB away.
fn fast_path(hot: &Hot, ra: u64, cost: u64, slow: u64) -> Option<[u8; BEFORE]> {
    let start = ra - BEFORE as u64;
    let relative = |to: u64, next: u64| {
        let distance = to.wrapping_sub(start + next) as i64;
        i32::try_from(distance).ok().map(i32::to_le_bytes)
    };
    let mut code = [0; BEFORE];
    code[..3].copy_from_slice(&[0x48, 0x89, 0x35]);
    code[3..7].copy_from_slice(&relative(&raw const hot.last as u64, 7)?);
    code[7..9].copy_from_slice(&[0x83, 0x2d]);
    code[9..13].copy_from_slice(&relative(&raw const hot.left as u64, 14)?);
    code[IMMEDIATE] = cost as u8;
    // From behind this instruction, 5 bytes before `ra`, to behind the test.
    code[14..17].copy_from_slice(&[0x79, 5 + AFTER as u8, 0xe8]);
    code[17..].copy_from_slice(&relative(slow, BEFORE as u64)?);
    Some(code)
}

/// `slow`: the slow path with `hot` and the return address.
fn stub(hot: &Hot, slow_path: *const ()) -> Vec<u8> {
    let mut code = vec![0x48, 0xb9]; // movabs $hot, %rcx
    code.extend((std::ptr::from_ref(hot) as u64).to_le_bytes());
    code.extend([0x4c, 0x8b, 0x04, 0x24]); // mov (%rsp), %r8
    code.extend([0x48, 0xb8]); // movabs $slow_path, %rax
    code.extend((slow_path as u64).to_le_bytes());
    code.extend([0xff, 0xe0]); // jmp *%rax
    code
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// A call as the translator writes it.
    fn call(hot: &Hot, size: u32) -> [u8; BEFORE + AFTER] {
        let mut code = vec![0xba];
        code.extend(size.to_le_bytes());
        code.extend([0x48, 0xb9]);
        code.extend((std::ptr::from_ref(hot) as usize ^ FAR).to_le_bytes());
        code.extend([0xff, 0x15, 1, 2, 3, 4, 0x48, 0xbf, 1, 2, 3, 4, 5, 6, 7, 8]);
        code.extend([0x33, 0xf6, 0xff, 0x15, 1, 2, 3, 4]);
        code.try_into().unwrap()
    }

    #[test]
    fn only_known_bytes_are_taken_for_a_call() {
        let hot = HotMemory::new().unwrap();
        let code = call(&hot, 77);
        assert!(is_call(&code, &hot, 77) && !is_call(&code, &hot, 78));
        for at in (0..17).chain(21..23).chain(31..35) {
            let mut other = code;
            other[at] ^= 1;
            assert!(!is_call(&other, &hot, 77), "byte {at}");
        }
    }

    #[test]
    fn the_fast_path_points_where_it_should() {
        let hot = HotMemory::new().unwrap();
        let ra = (&raw const hot.last as u64) + 0x1000;
        let code = fast_path(&hot, ra, 5, ra + 0x2000).unwrap();
        let target = |at: usize, next: usize| {
            let distance = i32::from_le_bytes(code[at..at + 4].try_into().unwrap());
            (ra - BEFORE as u64 + next as u64).wrapping_add_signed(i64::from(distance))
        };
        assert_eq!(target(3, 7), &raw const hot.last as u64);
        assert_eq!(target(9, 14), &raw const hot.left as u64);
        assert_eq!(target(17, 21), ra + 0x2000);
        assert_eq!((code[13], code[14], code[15]), (5, 0x79, 23));
        assert_eq!(fast_path(&hot, ra + (1 << 32), 5, ra), None);
    }
}
