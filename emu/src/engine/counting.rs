//! How many instructions and branches each translated block holds.
//!
//! The block hook runs for every block, so its path is one probe of a direct-mapped table
//! (`Hot`) and one subtraction from the budget (`Left`). Blocks are identified by
//! (address, size); all are forgotten whenever code changes or another address space is
//! entered, and each is decoded once until then.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};

use arch::Arch;
use arch::decode::{Decoder, InsnClass, Special, branch_target};
use memmap2::{MmapMut, MmapOptions};
use rustix::mm::MprotectFlags;

use crate::engine::EngineError;
use crate::engine::flow::{BlockFlow, Hold};

/// What is known of one block.
#[derive(Debug)]
pub(super) struct Block {
    /// Offset of each instruction.
    pub starts: Box<[u16]>,
    /// Branch instructions (0 or 1: a branch ends a block).
    pub branches: u8,
    /// Offset of the `rep` string instruction that ends the block.
    pub rep: Option<u16>,
    /// Index of the first instruction that must not be executed by the engine, and why.
    pub forbidden: Option<(usize, Special)>,
    /// What it does to the flow of control and to the stack.
    pub flow: BlockFlow,
}

impl Block {
    /// Instructions in the block.
    pub fn len(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Index of the instruction that starts at `offset`; an offset at the block's end is
    /// its length.
    pub fn index_of(&self, offset: u64, size: u32) -> Option<usize> {
        if offset == u64::from(size) {
            return Some(self.starts.len());
        }
        let offset = u16::try_from(offset).ok()?;
        self.starts.binary_search(&offset).ok()
    }
}

/// Instructions and branches in one word, so that the block hook takes both away at once:
///
/// ```text
/// instructions + (branches << 32)
/// ```
pub(super) type Cost = u64;

/// The cost of a block.
pub(super) const fn cost(instructions: u64, branches: u64) -> Cost {
    instructions | branches << 32
}

/// What is left of a budget, in the form of a [`Cost`]. Both halves have their sign:
///
/// ```text
/// low  half = instructions left, 0 ≤ n < 2^30; hidden: n - 2^30
/// high half = branches left - 1: negative when none is left
/// ```
///
/// A block may run if `branches left > 0` and `instructions left ≥ its own`: the branch that
/// uses up the budget retires, and the block after it is stopped. A hidden budget covers no
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct Left {
    // Two words, since translated code writes the low half alone: a load of both would have
    // to wait for it.
    low: u32,
    high: u32,
}

impl Left {
    /// Most instructions and most branches that fit.
    pub const MAX: u64 = (1 << 30) - 1;

    /// What hides a budget, as bits of the low half.
    pub const HIDDEN: u32 = 3 << 30;

    pub const fn new(instructions: u64, branches: u64) -> Left {
        Left { low: instructions as u32, high: (branches as u32).wrapping_sub(1) }
    }

    const fn word(self) -> u64 {
        self.low as u64 | (self.high as u64) << 32
    }

    const fn from_word(word: u64) -> Left {
        Left { low: word as u32, high: (word >> 32) as u32 }
    }

    /// Takes a block away; `None` if it may not run.
    #[inline(always)]
    pub const fn take(self, cost: Cost) -> Option<Left> {
        let rest = self.word().wrapping_sub(cost);
        let covers = self.high as i32 >= 0 && rest & 1 << 31 == 0;
        if covers { Some(Left::from_word(rest)) } else { None }
    }

    /// The same by one test, which also refuses the branch that uses up the budget.
    #[inline(always)]
    pub const fn take_amply(self, cost: Cost) -> Option<Left> {
        let rest = self.word().wrapping_sub(cost);
        if rest & (1 << 63 | 1 << 31) != 0 { None } else { Some(Left::from_word(rest)) }
    }

    /// Takes away instructions where no branches are counted; whether the budget covers them.
    #[inline(always)]
    pub const fn take_instructions(&mut self, n: u32) -> bool {
        let rest = self.low.wrapping_sub(n);
        let covers = rest as i32 >= 0;
        if covers {
            self.low = rest;
        }
        covers
    }

    /// Undoes a subtraction from the low half alone, which may have gone below zero.
    #[inline(always)]
    pub const fn undo(&mut self, instructions: u32) {
        self.low = self.low.wrapping_add(instructions);
    }

    /// The next block, whichever it is, will not be covered.
    #[inline(always)]
    pub fn hide(&mut self) {
        self.set_low(self.low | Left::HIDDEN);
    }

    /// Undoes [`Left::hide`].
    #[inline(always)]
    pub fn show(&mut self) {
        self.set_low(self.low & !Left::HIDDEN);
    }

    /// Writes the low half in one piece. Of an `and` or `or` the compiler makes one of the byte
    /// that it changes, and the next load of the whole half would have to wait for it.
    #[inline(always)]
    fn set_low(&mut self, low: u32) {
        // SAFETY: a reference to an aligned word.
        unsafe { (&raw mut self.low).write_volatile(low) };
    }

    /// Gives back what did not retire.
    pub const fn give_back(&mut self, instructions: u64, branches: u64) {
        self.low = self.low.wrapping_add(instructions as u32);
        self.high = self.high.wrapping_add(branches as u32);
    }

    pub const fn instructions(self) -> u64 {
        (self.low & !Left::HIDDEN) as u64
    }

    pub const fn branches(self) -> u64 {
        (self.high as i32 as i64 + 1) as u64
    }
}

/// What the block hook touches, in one piece of memory.
///
/// A direct-mapped table says what blocks cost. It is indexed by the low bits of their
/// addresses, so that neighbours do not meet.
#[repr(C)]
pub(super) struct Hot {
    /// What is left of the budget.
    pub left: Left,
    /// Address of the block that runs now if the fast path counted it, else
    /// [`Hot::COUNTED_SLOWLY`].
    pub last: u64,
    /// The block that runs now, if it ends in a transfer that is followed.
    pub hold: Hold,
    /// 1 if the stack pointer was set since the last transfer.
    pub sp_was_set: u8,
    /// For the slow path: the hooks' shared state.
    pub shared: *mut c_void,
    /// Blocks get the fast path inside their own code (see [`super::inline`]).
    pub inlines: bool,
    /// Transfers of control are followed.
    pub follows: bool,
    /// Some executions of blocks are looked at: no block is counted by the table.
    pub scheduled: bool,
    slots: [Slot; SLOTS],
    /// What the blocks of the slots do, if transfers are followed.
    flows: [BlockFlow; SLOTS],
}

/// A block's [`tag`] and cost; no block has tag 0.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Slot {
    tag: u64,
    cost: Cost,
}

const SLOTS: usize = 1 << 16;

/// Address and size of a block in one word: user addresses have 48 bits, a block has one
/// byte at least and less than 2^16.
#[inline(always)]
const fn tag(addr: u64, size: u32) -> u64 {
    addr ^ (size as u64) << 48
}

impl Hot {
    /// See [`Hot::last`].
    pub const COUNTED_SLOWLY: u64 = u64::MAX;

    #[inline(always)]
    const fn index(arch: Arch, addr: u64) -> usize {
        // Instructions of aarch64 are words.
        let shift = match arch {
            Arch::X86_64 => 0,
            Arch::Aarch64 => 2,
        };
        (addr >> shift) as usize % SLOTS
    }

    /// A block starts that ends in a transfer or sets the stack pointer.
    #[inline]
    pub fn begin_flow(&mut self, addr: u64, size: u32, flow: BlockFlow) {
        if flow.sets_sp() {
            self.sp_was_set = 1;
        }
        if flow.transfer().is_some() {
            self.hold = Hold { addr, size, flow: flow.number() as u32 };
            self.left.hide();
        }
    }

    /// What the block does that was counted last.
    #[inline(always)]
    pub const fn flow(&self, arch: Arch, addr: u64) -> BlockFlow {
        self.flows[Hot::index(arch, addr)]
    }

    /// Counts a block, if its slot holds it and the budget covers it; returns its cost.
    #[inline(always)]
    pub fn count(&mut self, arch: Arch, addr: u64, size: u32) -> Option<Cost> {
        let slot = self.slots[Hot::index(arch, addr)];
        if slot.tag != tag(addr, size) {
            return None;
        }
        self.left = self.left.take_amply(slot.cost)?;
        self.last = addr;
        Some(slot.cost)
    }

    /// Lets the fast path count a block from now on.
    fn remember(&mut self, arch: Arch, addr: u64, size: u32, cost: Cost, flow: BlockFlow) {
        let index = Hot::index(arch, addr);
        self.slots[index] = Slot { tag: tag(addr, size), cost };
        if self.follows {
            self.flows[index] = flow;
        }
    }

    /// Forgets every block.
    fn clear(&mut self) {
        self.slots.fill(Slot { tag: 0, cost: 0 });
    }
}

/// A [`Hot`] in a mapping of its own, resident only where blocks are, and room for code
/// behind it.
///
/// Translated code refers to both by 32-bit distances. The mapping is as long as the
/// engine's code buffer, so that the system puts them next to each other.
pub(super) struct HotMemory(MmapMut);

impl HotMemory {
    const LEN: usize = 64 << 20;
    /// Where the room for code begins.
    const CODE: usize = size_of::<Hot>().next_multiple_of(4096);
    /// Where the visit counters begin, see [`super::schedule`].
    const COUNTERS: usize = Self::CODE + 4096;
    /// How many there are.
    pub const MAX_COUNTERS: usize = 1 << 22;

    /// An empty table.
    pub fn new() -> Result<HotMemory, EngineError> {
        let map = MmapOptions::new().len(Self::LEN).no_reserve_swap().map_anon();
        map.map(HotMemory)
            .map_err(|e| EngineError::Arena { wanted: Self::LEN as u64, reason: e.to_string() })
    }

    /// Where [`HotMemory::set_code`] puts code.
    pub fn code_address(&self) -> u64 {
        self.0.as_ptr() as u64 + Self::CODE as u64
    }

    /// Puts `code`, at most a page, behind the table and makes it executable; returns its
    /// address.
    pub fn set_code(&mut self, code: &[u8]) -> Option<u64> {
        let page = self.0.get_mut(Self::CODE..Self::CODE + 4096)?;
        page.get_mut(..code.len())?.copy_from_slice(code);
        let flags = MprotectFlags::READ | MprotectFlags::EXEC;
        let start = page.as_mut_ptr().cast();
        // SAFETY: the page belongs to this mapping and nothing but `code` is on it.
        unsafe { rustix::mm::mprotect(start, page.len(), flags) }.ok()?;
        Some(start as u64)
    }

    /// Where counter `index` is, below [`HotMemory::MAX_COUNTERS`].
    pub fn counter(&mut self, index: usize) -> Option<&mut i32> {
        let at = Self::COUNTERS + 4 * index;
        let bytes = self.0.get_mut(at..at + 4)?;
        // SAFETY: the place is aligned, since the mapping is, and any bytes are an `i32`.
        Some(unsafe { &mut *bytes.as_mut_ptr().cast::<i32>() })
    }
}

const _: () = assert!(HotMemory::COUNTERS + 4 * HotMemory::MAX_COUNTERS <= HotMemory::LEN);

impl std::ops::Deref for HotMemory {
    type Target = Hot;

    fn deref(&self) -> &Hot {
        // SAFETY: the mapping is page-aligned and as long as a `Hot`, for which all-zero
        // bytes are a value.
        unsafe { &*self.0.as_ptr().cast::<Hot>() }
    }
}

impl std::ops::DerefMut for HotMemory {
    fn deref_mut(&mut self) -> &mut Hot {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { &mut *self.0.as_mut_ptr().cast::<Hot>() }
    }
}

impl std::fmt::Debug for HotMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl std::fmt::Debug for Hot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hot").field("left", &self.left).field("last", &self.last).finish()
    }
}

/// (address, size) hashed by one multiplication; SipHash doubles a run's time.
#[derive(Default)]
pub(super) struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
}

/// The counts of all blocks seen since the last code change.
#[derive(Debug)]
pub(super) struct Counts {
    decoder: Decoder,
    arch: Arch,
    blocks: HashMap<(u64, u32), Block, BuildHasherDefault<BlockHasher>>,
    /// Size of the newest block at an address.
    sizes: HashMap<u64, u32, BuildHasherDefault<BlockHasher>>,
}

impl std::fmt::Debug for BlockHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockHasher")
    }
}

impl Counts {
    pub fn new(arch: Arch) -> Counts {
        Counts {
            decoder: Decoder::new(arch),
            arch,
            blocks: HashMap::default(),
            sizes: HashMap::default(),
        }
    }

    /// Forgets every block.
    pub fn clear(&mut self, hot: &mut Hot) {
        hot.clear();
        self.blocks.clear();
        self.sizes.clear();
    }

    /// The newest block at an address.
    pub fn newest(&self, addr: u64) -> Option<(u32, &Block)> {
        let size = *self.sizes.get(&addr)?;
        Some((size, self.get(addr, size)?))
    }

    /// A block already decoded.
    pub fn get(&self, addr: u64, size: u32) -> Option<&Block> {
        self.blocks.get(&(addr, size))
    }

    /// A block, decoded from `code()` if it is new; `enters_function` says of the target of a
    /// direct jump at its end whether a function starts there. The fast path counts it from now on
    /// if it can.
    pub fn get_or_decode(
        &mut self,
        hot: &mut Hot,
        addr: u64,
        size: u32,
        code: impl FnOnce(&mut Vec<u8>),
        enters_function: impl FnOnce(u64) -> bool,
    ) -> &Block {
        let (decoder, arch) = (&self.decoder, self.arch);
        let block = self.blocks.entry((addr, size)).or_insert_with(|| {
            let mut bytes = Vec::with_capacity(size as usize);
            code(&mut bytes);
            decode(decoder, &bytes, addr, enters_function)
        });
        self.sizes.insert(addr, size);
        let slow = block.rep.is_some() || block.forbidden.is_some() || hot.scheduled;
        if !slow && (1..1 << 16).contains(&size) {
            let cost = cost(block.len(), u64::from(block.branches));
            hot.remember(arch, addr, size, cost, block.flow);
        }
        block
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

fn decode(
    decoder: &Decoder,
    bytes: &[u8],
    addr: u64,
    enters_function: impl FnOnce(u64) -> bool,
) -> Block {
    let decoded = decoder.decode_block(bytes);
    let last = decoded.starts.last().copied().unwrap_or(0);
    let forbidden = decoded
        .specials
        .first()
        .and_then(|&(at, why)| Some((decoded.starts.binary_search(&at).ok()?, why)));
    let enters = match decoded.last {
        InsnClass::Branch { indirect: false, .. } => {
            let insn = bytes.get(usize::from(last)..).unwrap_or_default();
            let pc = addr.wrapping_add(u64::from(last));
            branch_target(decoder.arch(), insn, pc).is_some_and(enters_function)
        }
        _ => false,
    };
    Block {
        branches: u8::from(decoded.last.is_branch()),
        rep: matches!(decoded.last, InsnClass::Rep).then_some(last),
        forbidden,
        flow: BlockFlow::new(decoded.last, decoded.sets_sp, enters),
        starts: decoded.starts.into_boxed_slice(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packed budget says what two plain counters say.
    #[test]
    fn a_packed_budget_is_two_counters() {
        for instructions in [0, 1, 5, Left::MAX] {
            for branches in [0, 1, 2, Left::MAX] {
                let left = Left::new(instructions, branches);
                assert_eq!((left.instructions(), left.branches()), (instructions, branches));
                for (i, b) in [(0, 0), (1, 0), (1, 1), (5, 1), (6, 0), (512, 1)] {
                    let may_run = branches > 0 && i <= instructions;
                    let rest = left.take(cost(i, b));
                    assert_eq!(rest.is_some(), may_run, "{instructions} {branches} {i} {b}");
                    if let Some(mut rest) = rest {
                        assert_eq!(rest.instructions(), instructions - i);
                        assert_eq!(rest.branches(), branches - b);
                        rest.give_back(i, b);
                        assert_eq!(rest, left);
                        let amply = left.take_amply(cost(i, b));
                        assert_eq!(amply.is_some(), branches > b || branches > 1);
                    }
                }
            }
        }
    }

    #[test]
    fn a_subtraction_below_zero_is_undone() {
        for branches in [1, 5, Left::MAX] {
            let left = Left::new(3, branches);
            let mut under = Left { low: left.low.wrapping_sub(100), ..left };
            under.undo(100);
            assert_eq!(under, left);
        }
    }

    #[test]
    fn a_hidden_budget_covers_no_block() {
        for instructions in [0, 1, 127, Left::MAX] {
            let left = Left::new(instructions, 5);
            let mut hidden = left;
            hidden.hide();
            assert_eq!(hidden.instructions(), instructions);
            assert!(hidden.take(cost(1, 0)).or(hidden.take_amply(cost(127, 1))).is_none());
            let mut taken = hidden;
            assert!(!taken.take_instructions(127));
            taken.show();
            assert_eq!(taken, left);
        }
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "a failed test may panic")]
    fn a_slot_holds_one_block() {
        for arch in Arch::ALL {
            let mut hot = HotMemory::new().unwrap();
            hot.left = Left::new(10, 10);
            let (addr, size) = (0x7fff_f7f0_1234, 20);
            assert_eq!(hot.count(arch, addr, size), None);
            hot.remember(arch, addr, size, cost(4, 1), BlockFlow::NONE);
            // Another size, and another address with the same slot.
            assert_eq!(hot.count(arch, addr, 16), None);
            assert_eq!(hot.count(arch, addr + (4 << 16), size), None);
            assert_eq!(hot.count(arch, addr, size), Some(cost(4, 1)));
            assert_eq!(hot.count(arch, addr, size), Some(cost(4, 1)));
            assert_eq!((hot.left.instructions(), hot.left.branches(), hot.last), (2, 8, addr));
            assert_eq!(hot.count(arch, addr, size), None, "the budget does not cover it");
            hot.clear();
            hot.left = Left::new(10, 10);
            assert_eq!(hot.count(arch, addr, size), None);
        }
    }
}
