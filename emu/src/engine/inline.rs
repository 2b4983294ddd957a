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
//! Most of a run's time goes into these two calls. Once a block's cost is known, these 39
//! bytes become
//!
//! ```text
//!  0  mov    %rsi, last(%rip)          48 89 35 rel32
//!  7  subl   $cost, left(%rip)         83 2d rel32 imm8
//! 14  js     34                        78 12
//!     decl   visits(%rip)              ff 0d rel32      if visits are counted
//!     js     34                        78 0a
//!     mov    $size, %al                b0 imm8          if the block ends in a transfer
//!     call   hold                      e8 rel32         that is followed, or sets sp
//!     jmp    39                        eb rel8
//! 33  flow                             a byte that nobody executes
//! 34  call   slow                      e8 rel32
//! 39:
//! ```
//!
//! where `last` and `left` are fields of [`Hot`], `visits` is the block's counter (see
//! [`super::schedule`]), `hold` does what [`Hot::begin_flow`] does, and `slow` leads to the
//! hook's slow path, which undoes the subtraction, and from there to the engine's test. Only
//! hooks ask the engine to stop, so a block that takes the fast path need not look.
//!
//! The bytes are compared before they are changed. Where they are not these, as on other
//! hosts, every block goes on calling its hook: slower, with the same counts. A block that
//! is translated again starts anew.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::engine::counting::{BlockHasher, Hot, HotMemory, Left};
use crate::engine::flow::BlockFlow;

/// Bytes before the hook's return address.
const BEFORE: usize = 21;
/// Bytes after it.
const AFTER: usize = 18;
/// All that is replaced.
const SITE: usize = BEFORE + AFTER;
/// Where in it the cost is.
const COST: usize = 13;
/// Where the distance to the visit counter is, from the end of its instruction.
const VISITS: usize = 18;
/// Where the flow's number is.
const FLOW: usize = 33;
/// Where the slow path's call is.
const SLOW: usize = 34;
/// Most instructions of a block: an 8-bit signed immediate.
const MAX_COST: u64 = 127;
/// Blocks that are remembered at most; then all are translated again.
const MAX_SITES: usize = 1 << 20;

/// What the hook gets as its data: [`Hot`]'s address, changed so that it is no address near
/// the translated code. The translator then has to use the long form, which is replaced.
pub(super) const FAR: usize = 1 << 62;

/// What the new code of a block does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Address of the block.
    pub addr: u64,
    /// Bytes of the block.
    pub size: u32,
    /// Its instructions.
    pub cost: u64,
    /// Its flow, if transfers are followed.
    pub flow: BlockFlow,
    /// Address of its visit counter, if visits are counted.
    pub visits: Option<u64>,
}

/// The blocks whose hooks were replaced.
#[derive(Debug)]
pub(super) struct Sites {
    /// Size of the block whose slow path returns to an address.
    sizes: HashMap<u64, u32, BuildHasherDefault<BlockHasher>>,
    /// Size and cost of the newest block at a guest's address. It may run when everything
    /// else that was known of it is forgotten.
    newest: HashMap<u64, (u32, u32), BuildHasherDefault<BlockHasher>>,
    /// The hook's slow path: gets the hook's arguments, but for the size, then its return
    /// address and the host's frame pointer.
    slow_path: u64,
    /// Its own code, once the first block has shown what it has to call.
    stubs: Option<Stubs>,
    supported: bool,
}

/// What [`Sites::inline`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inlined {
    /// The block was changed; it goes on at this address.
    Yes(u64),
    /// This block cannot be, others can.
    NotThis,
    /// The bytes are not those that are known, or too far from `hot`.
    Unknown,
}

/// Code that all blocks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stubs {
    /// The engine and its test for a request to stop, as every block has them.
    engine: u64,
    check_exit: u64,
    slow: u64,
    hold: [u64; BlockFlow::COUNT as usize],
}

/// The new code of a block, by the address behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site(u64);

impl Site {
    /// # Safety
    ///
    /// The slow path of a block that [`Sites::inline`] changed returns to `ra`.
    pub const unsafe fn at(ra: u64) -> Site {
        Site(ra - SITE as u64)
    }

    fn byte(self, offset: usize) -> u8 {
        // SAFETY: see `at`.
        unsafe { *((self.0 as usize + offset) as *const u8) }
    }

    /// What the block takes away by itself.
    pub fn cost(self) -> u32 {
        u32::from(self.byte(COST))
    }

    /// What it does to the flow of control.
    pub fn flow(self) -> BlockFlow {
        BlockFlow::from_number(self.byte(FLOW))
    }

    /// Its size, if it ends in a transfer.
    pub fn size(self, counts_visits: bool) -> u32 {
        u32::from(self.byte(if counts_visits { 25 } else { 17 }))
    }

    /// Its visit counter, if visits are counted.
    pub fn visits(self) -> *mut i32 {
        let distance = i32::from_le_bytes([0, 1, 2, 3].map(|i| self.byte(VISITS + i)));
        let next = self.0 + VISITS as u64 + 4;
        next.wrapping_add_signed(i64::from(distance)) as usize as *mut i32
    }
}

impl Sites {
    /// No block yet. The arguments of `slow_path` are told at [`Sites::slow_path`].
    pub fn new(slow_path: *const ()) -> Sites {
        let supported = cfg!(target_arch = "x86_64");
        Sites {
            sizes: HashMap::default(),
            newest: HashMap::default(),
            slow_path: slow_path as u64,
            stubs: None,
            supported,
        }
    }

    /// Whether blocks can be changed at all.
    pub const fn supported(&self) -> bool {
        self.supported
    }

    /// Whether one was, so that this is known to be the code generator that we know.
    pub const fn known(&self) -> bool {
        self.stubs.is_some()
    }

    /// Size of the block whose slow path returned to `ra`.
    pub fn size(&self, ra: u64) -> Option<u32> {
        self.sizes.get(&ra).copied()
    }

    /// Size and cost of the block at `addr`.
    pub fn newest(&self, addr: u64) -> Option<(u32, u32)> {
        self.newest.get(&addr).copied()
    }

    /// Whether so many blocks were changed that all should be translated again.
    pub fn is_full(&self) -> bool {
        self.sizes.len() >= MAX_SITES
    }

    /// Every block is translated again.
    pub fn clear(&mut self) {
        self.sizes.clear();
        self.newest.clear();
    }

    /// Replaces the call of the block's hook that returns to `ra`, and the test behind it:
    /// the hook now has to return to [`Inlined::Yes`]'s address, behind both.
    ///
    /// # Safety
    ///
    /// `ra` is the hook's return address in translated code, which this process may write,
    /// and the block is not being executed beyond its hook.
    pub unsafe fn inline(&mut self, hot: &mut HotMemory, ra: u64, plan: &Plan) -> Inlined {
        let size_fits = plan.flow.transfer().is_none() || plan.size <= 0xff;
        if plan.cost == 0 || plan.cost > MAX_COST || !size_fits {
            return Inlined::NotThis;
        }
        let site = ra as usize as *mut u8;
        let mut found = [0; SITE];
        // SAFETY: the translator wrote a call before `ra` and more code after it.
        unsafe { site.sub(BEFORE).copy_to_nonoverlapping(found.as_mut_ptr(), SITE) };
        if !is_call(&found, hot, plan.size) {
            return Inlined::Unknown;
        }
        let word = |at: usize| <[u8; 8]>::try_from(&found[at..at + 8]).map(u64::from_le_bytes);
        let slot = <[u8; 4]>::try_from(&found[BEFORE + 14..]).map(i32::from_le_bytes);
        let (Ok(engine), Ok(slot)) = (word(BEFORE + 2), slot) else { return Inlined::Unknown };
        let slot = (ra + AFTER as u64).wrapping_add_signed(i64::from(slot));
        // SAFETY: the translated code reads the same place.
        let check_exit = unsafe { (slot as usize as *const u64).read_unaligned() };
        let Some(stubs) = self.stubs_for(hot, engine, check_exit) else { return Inlined::Unknown };
        let Some(code) = fast_path(hot, ra - BEFORE as u64, plan, &stubs) else {
            return Inlined::Unknown;
        };
        // SAFETY: the same place; this thread is inside the hook, so none of it is running.
        unsafe { site.sub(BEFORE).copy_from_nonoverlapping(code.as_ptr(), SITE) };
        self.sizes.insert(ra + AFTER as u64, plan.size);
        self.newest.insert(plan.addr, (plan.size, plan.cost as u32));
        Inlined::Yes(ra + AFTER as u64)
    }

    /// The shared code, made when it is first needed.
    fn stubs_for(&mut self, hot: &mut HotMemory, engine: u64, check_exit: u64) -> Option<Stubs> {
        if self.stubs.is_none() {
            self.stubs = Stubs::new(hot, self.slow_path, engine, check_exit);
        }
        self.stubs.filter(|s| s.engine == engine && s.check_exit == check_exit)
    }
}

/// Whether a hook's call with these arguments and the test for a stop are here.
fn is_call(found: &[u8; SITE], hot: &Hot, size: u32) -> bool {
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

/// Machine code at a known address.
struct Code {
    start: u64,
    bytes: Vec<u8>,
}

impl Code {
    const fn new(start: u64) -> Code {
        Code { start, bytes: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Code {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn here(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The distance to `to` from behind it and `rest` more bytes; `None` beyond 2 GiB.
    fn distance(&mut self, to: u64, rest: u64) -> Option<&mut Code> {
        let distance = to.wrapping_sub(self.here() + 4 + rest) as i64;
        let distance = i32::try_from(distance).ok()?;
        Some(self.put(&distance.to_le_bytes()))
    }
}

/// The code that replaces the call at `start`.
fn fast_path(hot: &Hot, start: u64, plan: &Plan, stubs: &Stubs) -> Option<[u8; SITE]> {
    let flow = usize::from(plan.flow.number());
    let mut code = Code::new(start);
    let to_slow = |code: &Code| (SLOW - code.bytes.len() - 2) as u8;
    code.put(&[0x48, 0x89, 0x35]).distance(&raw const hot.last as u64, 0)?;
    code.put(&[0x83, 0x2d]).distance(&raw const hot.left as u64, 1)?;
    code.put(&[plan.cost as u8]);
    code.put(&[0x78, to_slow(&code)]);
    if let Some(counter) = plan.visits {
        code.put(&[0xff, 0x0d]).distance(counter, 0)?;
        code.put(&[0x78, to_slow(&code)]);
    }
    if plan.flow != BlockFlow::NONE {
        code.put(&[0xb0, plan.size as u8, 0xe8]).distance(stubs.hold[flow], 0)?;
    }
    code.put(&[0xeb, (SITE - code.bytes.len() - 2) as u8]);
    code.bytes.resize(FLOW, 0x90);
    code.put(&[plan.flow.number(), 0xe8]).distance(stubs.slow, 0)?;
    code.bytes.try_into().ok()
}

impl Stubs {
    fn new(hot: &mut HotMemory, slow_path: u64, engine: u64, check_exit: u64) -> Option<Stubs> {
        let mut code = Code::new(hot.code_address());
        let slow = code.here();
        slow_stub(&mut code, hot, slow_path, engine, check_exit);
        let mut hold = [0; BlockFlow::COUNT as usize];
        for (number, place) in hold.iter_mut().enumerate() {
            *place = code.here();
            hold_stub(&mut code, hot, BlockFlow::from_number(number as u8))?;
        }
        hot.set_code(&code.bytes)?;
        Some(Stubs { engine, check_exit, slow, hold })
    }
}

/// `slow`: the slow path with `hot`, the return address and the host's frame pointer; if it
/// asked the engine to stop, the engine's test, which finds the block by the same return
/// address.
fn slow_stub(code: &mut Code, hot: &Hot, slow_path: u64, engine: u64, check_exit: u64) {
    let hot = std::ptr::from_ref(hot) as u64;
    code.put(&[0x48, 0xb9]).put(&hot.to_le_bytes()); // movabs $hot, %rcx
    code.put(&[0x4c, 0x8b, 0x04, 0x24]); // mov (%rsp), %r8
    code.put(&[0x49, 0x89, 0xe9]); // mov %rbp, %r9
    code.put(&[0x48, 0x83, 0xec, 8]); // sub $8, %rsp
    code.put(&[0x48, 0xb8]).put(&slow_path.to_le_bytes()); // movabs $slow_path, %rax
    code.put(&[0xff, 0xd0]); // call *%rax
    code.put(&[0x48, 0x83, 0xc4, 8]); // add $8, %rsp
    code.put(&[0x85, 0xc0, 0x75, 1, 0xc3]); // test %eax, %eax; jnz over the ret; ret
    code.put(&[0x48, 0xbf]).put(&engine.to_le_bytes()); // movabs $engine, %rdi
    code.put(&[0x31, 0xf6]); // xor %esi, %esi
    code.put(&[0x48, 0xb8]).put(&check_exit.to_le_bytes()); // movabs $check_exit, %rax
    code.put(&[0xff, 0xe0]); // jmp *%rax
}

/// `hold` for one kind of block: [`Hot::begin_flow`] with the address in `%rsi` and the size
/// in `%al`.
fn hold_stub(code: &mut Code, hot: &Hot, flow: BlockFlow) -> Option<()> {
    let left = &raw const hot.left as u64;
    if flow.sets_sp() {
        code.put(&[0xc6, 0x05]).distance(&raw const hot.sp_was_set as u64, 1)?.put(&[1]);
    }
    if flow.transfer().is_some() {
        code.put(&[0x48, 0x89, 0x35]).distance(&raw const hot.hold.addr as u64, 0)?;
        code.put(&[0x0f, 0xb6, 0xc0]); // movzbl %al, %eax
        code.put(&[0x89, 0x05]).distance(&raw const hot.hold.size as u64, 0)?;
        code.put(&[0xc7, 0x05]).distance(&raw const hot.hold.flow as u64, 4)?;
        code.put(&u32::from(flow.number()).to_le_bytes());
        code.put(&[0x81, 0x0d]).distance(left, 4)?; // orl $HIDDEN, left
        code.put(&Left::HIDDEN.to_le_bytes());
    }
    code.put(&[0xc3]);
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// A call as the translator writes it.
    fn call(hot: &Hot, size: u32) -> [u8; SITE] {
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
        let mut hot = HotMemory::new().unwrap();
        let stubs = Stubs::new(&mut hot, 0x1000, 0x2000, 0x3000).unwrap();
        let start = hot.code_address() + 0x800;
        let counter = std::ptr::from_ref(hot.counter(5).unwrap()) as u64;
        for flow in (0..BlockFlow::COUNT).map(BlockFlow::from_number) {
            for visits in [None, Some(counter)] {
                let plan = Plan { addr: 0x40_1000, size: 200, cost: 5, flow, visits };
                let code = fast_path(&hot, start, &plan, &stubs).unwrap();
                let target = |at: usize, next: usize| {
                    let distance = i32::from_le_bytes(code[at..at + 4].try_into().unwrap());
                    (start + next as u64).wrapping_add_signed(i64::from(distance))
                };
                assert_eq!(target(3, 7), &raw const hot.last as u64);
                assert_eq!(target(9, 14), &raw const hot.left as u64);
                assert_eq!(target(35, SITE), stubs.slow);
                assert_eq!(16 + usize::from(code[15]), SLOW);
                let jump = code.iter().rposition(|&b| b == 0xeb).unwrap();
                assert_eq!(jump + 2 + usize::from(code[jump + 1]), SITE);
                // SAFETY: it reads the code that it is given.
                let site = unsafe { Site::at(code.as_ptr() as u64 + SITE as u64) };
                assert_eq!((site.cost(), site.flow()), (5, flow));
                if visits.is_some() {
                    assert_eq!((target(18, 22), 24 + usize::from(code[23])), (counter, SLOW));
                }
                if flow != BlockFlow::NONE {
                    assert_eq!(site.size(visits.is_some()), 200);
                }
            }
        }
    }
}
