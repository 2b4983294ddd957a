//! Callchains: the kernel part walked from the emulated kernel stack, then the user part
//! by the kernel's immediate frame-pointer walk.
//!
//! Budgets as in `kernel/events/callchain.c`: addresses share one budget (`max_stack`),
//! context markers have their own.

use arch::Regs;
use unwinder::sframe::{Registry, process};
use unwinder::{Memory, fp};

use crate::perf::record::context;

/// `sysctl kernel.perf_event_max_stack`, as Linux has it.
pub const MAX_STACK: u16 = 127;

/// What a callchain may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// `sysctl kernel.perf_event_max_stack`: addresses, of events that do not say.
    pub max_stack: u32,
    /// `sysctl kernel.perf_event_max_contexts_per_stack`: context markers, cookies among them.
    pub max_contexts: u32,
}

impl Default for Limits {
    /// As Linux has them.
    fn default() -> Limits {
        Limits { max_stack: u32::from(MAX_STACK), max_contexts: 8 }
    }
}

impl Limits {
    /// Most addresses of an event with this `sample_max_stack`.
    pub const fn addresses(self, sample_max_stack: u16) -> u32 {
        if sample_max_stack == 0 { self.max_stack } else { sample_max_stack as u32 }
    }
}

/// A callchain entry being filled (`struct perf_callchain_entry_ctx`).
#[derive(Debug)]
pub struct Chain {
    ips: Vec<u64>,
    max_stack: u32,
    max_contexts: u32,
    nr: u32,
    contexts: u32,
    contexts_maxed: bool,
}

/// The store was refused: the walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Chain {
    /// An empty chain for at most `sample_max_stack` addresses, 0 for as many as may be.
    pub fn new(sample_max_stack: u16, limits: Limits) -> Chain {
        let (max_stack, max_contexts) = (limits.addresses(sample_max_stack), limits.max_contexts);
        let ips = Vec::new();
        Chain { ips, max_stack, max_contexts, nr: 0, contexts: 0, contexts_maxed: false }
    }

    /// Stores an address.
    pub fn store(&mut self, ip: u64) -> Result<(), Full> {
        if self.nr >= self.max_stack || self.contexts_maxed {
            return Err(Full);
        }
        self.ips.push(ip);
        self.nr += 1;
        Ok(())
    }

    /// Stores a context marker.
    pub fn store_context(&mut self, marker: u64) {
        if self.contexts < self.max_contexts {
            self.ips.push(marker);
            self.contexts += 1;
        } else {
            self.contexts_maxed = true;
        }
    }

    /// How many words there are, markers included.
    #[allow(clippy::len_without_is_empty, reason = "an index into the words")]
    pub const fn len(&self) -> usize {
        self.ips.len()
    }

    /// The words, markers included.
    pub fn into_words(self) -> Vec<u64> {
        self.ips
    }
}

/// A frame record on a kernel stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameRecord {
    /// The stack that it is on, in the order in which a walk goes through them.
    pub stack: u8,
    /// The caller's frame pointer.
    pub fp: u64,
    /// The return address.
    pub address: u64,
}

/// Walks the kernel's stacks from `ip`, `fp`. `record` loads the frame record at an address on
/// one of them. `twice` stores `ip` twice, as arm64 does for software events.
///
/// ```text
/// store ip;  while fp != 0:  (fp', ra) = [fp];  (0, 0) ends;  store ra;  fp = fp'
/// ```
///
/// As the kernel's own unwinders, it trusts no record: each is above the one before it, or on a
/// later stack; else the walk ends. So it ends whatever is on the stacks.
pub fn walk_kernel(
    chain: &mut Chain,
    ip: u64,
    mut fp: u64,
    record: impl Fn(u64) -> Option<FrameRecord>,
    twice: bool,
) {
    chain.store_context(context::KERNEL);
    if chain.store(ip).is_err() || twice && chain.store(ip).is_err() {
        return;
    }
    let mut last = None;
    while fp != 0 {
        let Some(found) = record(fp) else { return };
        let place = Some((found.stack, fp));
        if place <= last || (found.fp, found.address) == (0, 0) {
            return;
        }
        if chain.store(found.address).is_err() {
            return;
        }
        (last, fp) = (place, found.fp);
    }
}

/// Walks a user stack: `perf_callchain_user` of the architecture. `at_entry`: a probe on a
/// function's first instruction is being handled.
pub fn walk_user(chain: &mut Chain, regs: &Regs, at_entry: bool, memory: &mut impl Memory) {
    chain.store_context(context::USER);
    fp::perf::walk(regs, at_entry, memory, &mut |address| chain.store(address).is_ok());
}

/// The same with the process's SFrame sections, as `unwind_user` walks, but of what is present:
/// an absent page of the stack or of a section ends the walk.
pub fn walk_user_sframe(
    chain: &mut Chain,
    regs: &Regs,
    registry: &Registry,
    memory: &mut impl Memory,
) {
    chain.store_context(context::USER);
    let room = if chain.contexts_maxed { 0 } else { chain.max_stack - chain.nr };
    let mut store = |address| {
        // No more than there is room for.
        let _ = chain.store(address);
    };
    process::walk_present(registry, regs, room as usize, memory, &mut store);
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::Arch;

    /// Words by address.
    struct Words<'a>(&'a [(u64, u64)]);

    impl Memory for Words<'_> {
        fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
            let word = self.0.iter().find(|(a, _)| *a == address);
            word.is_some_and(|(_, value)| {
                bytes.copy_from_slice(&value.to_le_bytes());
                true
            })
        }
    }

    fn chain(arch: Arch, pc: u64, fp: u64, max: u16, words: &[(u64, u64)]) -> Vec<u64> {
        let mut regs = Regs::new(arch);
        regs.pc = pc;
        regs.gp[arch.fp()] = fp;
        let mut chain = Chain::new(max, Limits::default());
        walk_user(&mut chain, &regs, false, &mut Words(words));
        chain.into_words()
    }

    #[test]
    fn x86_repeats_a_frame_that_points_to_itself() {
        let words = [(0x1000, 0x1000), (0x1008, 0x444444)];
        let expected = [context::USER, 1, 0x444444, 0x444444, 0x444444];
        assert_eq!(chain(Arch::X86_64, 1, 0x1000, 4, &words), expected);
    }

    #[test]
    fn aarch64_goes_up_only_and_strips() {
        let words = [
            (0x1000, 0x2000),
            (0x1008, 0x0034_0000_0040_0100),
            (0x2000, 0x1000),
            (0x2008, 0x400200),
        ];
        let expected = [context::USER, 1, 0x400100, 0x400200];
        assert_eq!(chain(Arch::Aarch64, 1, 0x1000, 0, &words), expected);
        assert_eq!(chain(Arch::Aarch64, 1, 0x1001, 0, &words), [context::USER, 1]);
    }

    #[test]
    fn aarch64_terminal_record_gives_a_zero() {
        let words = [(0x1000, 0), (0x1008, 0)];
        assert_eq!(chain(Arch::Aarch64, 1, 0x1000, 0, &words), [context::USER, 1, 0]);
    }

    /// With room for two of them the cookie is dropped, though its stack was asked for (P-1).
    #[test]
    fn a_cookie_needs_room_among_the_markers() {
        for (max_contexts, words) in [(0, &[][..]), (1, &[1]), (2, &[1, 2]), (3, &[1, 2, 3])] {
            let mut chain = Chain::new(0, Limits { max_contexts, ..Limits::default() });
            (1..4).for_each(|marker| chain.store_context(marker));
            assert_eq!(chain.store(4).is_ok(), max_contexts == 3);
            assert!(chain.into_words().starts_with(words), "{max_contexts}");
        }
    }

    #[test]
    fn markers_do_not_use_the_address_budget() {
        let mut chain = Chain::new(2, Limits::default());
        let record = |fp| {
            let (fp, address) = if fp == 100 { (200, 11) } else { (0, 12) };
            Some(FrameRecord { stack: 0, fp, address })
        };
        walk_kernel(&mut chain, 10, 100, record, false);
        assert_eq!(chain.into_words(), [context::KERNEL, 10, 11]);
    }

    /// Records are (stack, address, caller's fp); the return address is the record's plus 1.
    #[test]
    fn a_kernel_walk_goes_forward_only() {
        let walk = |records: &[(u8, u64, u64)]| {
            let mut chain = Chain::new(0, Limits::default());
            let record = |at| {
                let &(stack, _, fp) = records.iter().find(|r| r.1 == at)?;
                Some(FrameRecord { stack, fp, address: at + 1 })
            };
            walk_kernel(&mut chain, 10, records[0].1, record, false);
            let words = chain.into_words();
            assert_eq!(words[..2], [context::KERNEL, 10]);
            words[2..].to_vec()
        };
        assert_eq!(walk(&[(0, 100, 200), (0, 200, 0)]), [101, 201]);
        // To itself, down, and round in a circle.
        assert_eq!(walk(&[(0, 100, 100)]), [101]);
        assert_eq!(walk(&[(0, 200, 100), (0, 100, 0)]), [201]);
        assert_eq!(walk(&[(0, 100, 200), (0, 200, 300), (0, 300, 100)]), [101, 201, 301]);
        // To the next stack, which may be below; never back to one that was left.
        assert_eq!(walk(&[(0, 300, 100), (1, 100, 0)]), [301, 101]);
        assert_eq!(walk(&[(0, 300, 100), (1, 100, 400), (0, 400, 0)]), [301, 101]);
    }
}
