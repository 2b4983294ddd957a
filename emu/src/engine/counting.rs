//! How many instructions and branches each translated block holds.
//!
//! The block hook runs for every block, so its path is one probe of a direct-mapped
//! table. Blocks are identified by (address, size); the table is emptied whenever code
//! changes or another address space is entered, and each block is decoded once until then.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use arch::Arch;
use arch::decode::{Decoder, InsnClass};

/// What is known of one block.
#[derive(Debug)]
pub(super) struct Block {
    /// Offset of each instruction.
    pub starts: Box<[u16]>,
    /// Branch instructions (0 or 1: a branch ends a block).
    pub branches: u8,
    /// Offset of the `rep` string instruction that ends the block.
    pub rep: Option<u16>,
    /// Index of the first instruction that must not be executed by the engine.
    pub forbidden: Option<usize>,
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

/// One slot of the table that the block hook probes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(super) struct Slot {
    pub addr: u64,
    /// Instructions; `SLOW` for a block that the slow path must see each time.
    pub insns: u32,
    pub size: u16,
    pub branches: u16,
}

/// An instruction count that no budget covers, so that the block takes the slow path.
pub(super) const SLOW: u32 = u32::MAX;

const SLOT_BITS: u32 = 15;
const EMPTY: Slot = Slot { addr: u64::MAX, insns: SLOW, size: 0, branches: 0 };

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
    slots: Box<[Slot]>,
    blocks: HashMap<(u64, u32), Block, BuildHasherDefault<BlockHasher>>,
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
            slots: vec![EMPTY; 1 << SLOT_BITS].into_boxed_slice(),
            blocks: HashMap::default(),
        }
    }

    /// Where a block's slot is.
    #[inline(always)]
    fn slot_index(addr: u64) -> usize {
        ((addr >> 1 ^ addr >> (SLOT_BITS + 1)) & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// The slot of a block, whatever block it holds now.
    #[inline(always)]
    pub fn slot(&self, addr: u64) -> Slot {
        self.slots[Self::slot_index(addr)]
    }

    /// Forgets every block.
    pub fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.blocks.clear();
    }

    /// A block already decoded.
    pub fn get(&self, addr: u64, size: u32) -> Option<&Block> {
        self.blocks.get(&(addr, size))
    }

    /// A block, decoded from `code()` if it is new.
    pub fn get_or_decode(
        &mut self,
        addr: u64,
        size: u32,
        code: impl FnOnce(&mut Vec<u8>),
    ) -> &Block {
        let index = Self::slot_index(addr);
        let (decoder, slots) = (&self.decoder, &mut self.slots);
        let block = self.blocks.entry((addr, size)).or_insert_with(|| {
            let mut bytes = Vec::with_capacity(size as usize);
            code(&mut bytes);
            decode(decoder, &bytes)
        });
        let slow = block.rep.is_some() || block.forbidden.is_some();
        slots[index] = Slot {
            addr,
            insns: if slow { SLOW } else { block.starts.len() as u32 },
            size: size.min(u32::from(u16::MAX)) as u16,
            branches: u16::from(block.branches),
        };
        block
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

fn decode(decoder: &Decoder, bytes: &[u8]) -> Block {
    let decoded = decoder.decode_block(bytes);
    let last = decoded.starts.last().copied().unwrap_or(0);
    let forbidden =
        decoded.specials.first().and_then(|(at, _)| decoded.starts.binary_search(at).ok());
    Block {
        branches: u8::from(decoded.last.is_branch()),
        rep: matches!(decoded.last, InsnClass::Rep).then_some(last),
        forbidden,
        starts: decoded.starts.into_boxed_slice(),
    }
}
