//! What the hooks and the run loop share.
//!
//! All hooks get one [`Shared`], whose address never changes. While the CPU runs, only the
//! hooks touch it; [`super::run`] touches it only between runs.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use arch::Arch;
use unicorn_engine_sys as uc;

use crate::engine::arena::{FRAME_SIZE, FrameUse};
use crate::engine::counting::{Counts, Hot, HotMemory, Left, cost};
use crate::engine::env::{Env, EnvRegisters, asked_registers};
use crate::engine::flow::{BlockFlow, CalleeSaved, Event, Flow, Hold};
use crate::engine::hooks::on_inlined_block;
use crate::engine::inline::{Inlined, Plan, Site, Sites};
use crate::engine::schedule::{Due, Next, Schedule};
use crate::engine::{Access, Arena, EngineError, Frame, Mmu, Perms};

/// Virtual addresses at and above this one name physical memory while blocks are
/// dropped: `address = DROP_WINDOW + physical address`.
pub(super) const DROP_WINDOW: u64 = 0xffff_9000_0000_0000;

/// Why a hook stopped the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// No hook did.
    None,
    /// The block at `addr` would exceed the budget, or must not be run whole.
    Block { addr: u64, size: u32 },
    /// The block at `addr` is due to be looked at; `rest`: as the rest of another one.
    Due { addr: u64, size: u32, rest: bool },
    /// A system call retired.
    Syscall,
    /// A translation was refused.
    Miss { page: u64, access: Access },
    /// A frame must change between code and data first.
    Flip { frame: Frame, to_code: bool },
    /// An exception with the engine's number.
    Interrupt(u32),
    /// An instruction that does not decode.
    Invalid,
}

/// The last block whose hook ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastBlock {
    pub addr: u64,
    pub size: u32,
    /// Instructions that were counted when it started.
    pub counted: u32,
}

/// A step of one instruction. The budget that the fast path sees is empty meanwhile, so that
/// every block takes the slow path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stepping {
    /// The real budget.
    pub left: Left,
    /// Address and size of the instruction's block, once it has started. It may start again,
    /// for the next iteration of a `rep` or because the store dropped it; any other block is
    /// stopped.
    pub block: Option<(u64, u32)>,
}

const NO_BLOCK: LastBlock = LastBlock { addr: 0, size: 0, counted: 0 };

/// What the hooks share with the run loop.
#[derive(Debug)]
pub(super) struct Shared {
    /// What the block hook needs of it.
    pub hot: HotMemory,
    /// Blocks with the fast path in their own code.
    pub sites: Sites,
    /// The block that the slow path counted last, see [`Shared::last`].
    last_slow: LastBlock,
    pub counts: Counts,
    pub stop: Stop,
    /// Instructions of the run's budget, to tell how many are gone.
    pub budget: u64,
    /// What the counter instructions answer when the run starts.
    pub clock: u64,
    pub tlb_stale: bool,
    /// Frame that may be written and executed at once, for a store into its own block.
    pub both: Option<Frame>,
    /// One instruction is being stepped.
    pub stepping: Option<Stepping>,
    /// [`DROP_WINDOW`] names physical memory now.
    pub window_open: bool,
    /// Where transfers of control are told.
    pub flow: Option<Flow>,
    /// Whether registers are where [`EnvRegisters`] has them.
    env: Env,
    /// Which blocks are looked at, if any.
    pub schedule: Option<Schedule>,
    /// The block that runs is not counted by the schedule.
    uncounted: bool,
    /// A part of a block runs, to an exact instruction: the schedule has seen the block.
    pub exact: bool,
    pub arch: Arch,
    pub arena_len: u64,
    memory: *const u8,
    uses: *mut FrameUse,
    mmu: Option<*mut dyn Mmu>,
}

/// Where [`Shared`] is. The hooks change it while the CPU runs, so whoever starts the CPU
/// must not hold a reference to it, which would let the compiler take it for unchanged:
/// every use goes through this pointer.
#[derive(Debug)]
pub(super) struct SharedMemory(NonNull<Shared>);

impl SharedMemory {
    pub fn new(shared: Shared) -> SharedMemory {
        SharedMemory(NonNull::from(Box::leak(Box::new(shared))))
    }

    pub const fn as_ptr(&self) -> *mut Shared {
        self.0.as_ptr()
    }
}

impl std::ops::Deref for SharedMemory {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        // SAFETY: the box lives as long as `self`; the CPU does not run during the borrow.
        unsafe { self.0.as_ref() }
    }
}

impl std::ops::DerefMut for SharedMemory {
    fn deref_mut(&mut self) -> &mut Shared {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: it was leaked by `new`, and the engine's handle, dropped before, has
        // forgotten it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Shared {
    pub fn new(arch: Arch, arena: &Arena) -> Result<Shared, EngineError> {
        let hot = HotMemory::new()?;
        Ok(Shared {
            sites: Sites::new(on_inlined_block as *const ()),
            hot,
            last_slow: NO_BLOCK,
            counts: Counts::new(arch),
            stop: Stop::None,
            budget: 0,
            clock: 0,
            tlb_stale: false,
            both: None,
            stepping: None,
            window_open: false,
            flow: None,
            env: Env::Unproved(0),
            schedule: None,
            uncounted: false,
            exact: false,
            arch,
            arena_len: arena.len(),
            memory: arena.host_pointer(),
            uses: std::ptr::null_mut(),
            mmu: None,
        })
    }

    /// Makes the next block a fresh one: no `rep` goes on, nothing can be taken back.
    pub fn forget_last_block(&mut self) {
        self.set_last(NO_BLOCK);
    }

    /// The block that runs now.
    pub fn last(&self) -> LastBlock {
        let addr = self.hot.last;
        if addr == Hot::COUNTED_SLOWLY {
            return self.last_slow;
        }
        let decoded = self.counts.newest(addr).map(|(size, b)| (size, b.len() as u32));
        // A block that counts itself goes on when what was decoded is forgotten.
        let newest = decoded.or_else(|| self.sites.newest(addr));
        newest.map_or(NO_BLOCK, |(size, counted)| LastBlock { addr, size, counted })
    }

    pub(super) fn set_last(&mut self, last: LastBlock) {
        self.last_slow = last;
        self.hot.last = Hot::COUNTED_SLOWLY;
    }

    /// Forgets what is known of all blocks.
    pub fn forget_blocks(&mut self) {
        // Not before the last one was looked up.
        self.set_last(self.last());
        self.counts.clear(&mut self.hot);
    }

    /// Lends the arena's bookkeeping and the page tables to the hooks.
    pub fn lend(&mut self, arena: &mut Arena, mmu: &mut (dyn Mmu + '_)) {
        self.uses = arena.uses.as_mut_ptr();
        let mmu: *mut (dyn Mmu + '_) = mmu;
        // SAFETY: only the lifetime changes; `take_back` removes the pointer before the
        // borrow ends, and hooks run only in between.
        self.mmu = Some(unsafe { std::mem::transmute::<*mut (dyn Mmu + '_), *mut dyn Mmu>(mmu) });
    }

    /// Ends `lend`.
    pub fn take_back(&mut self) {
        self.uses = std::ptr::null_mut();
        self.mmu = None;
    }

    pub(super) fn translate(&mut self, page: u64) -> Option<(Frame, Perms)> {
        if self.window_open && page >= DROP_WINDOW && page - DROP_WINDOW < self.arena_len {
            let frame = Frame(((page - DROP_WINDOW) / FRAME_SIZE) as u32);
            return Some((frame, Perms { read: false, write: false, exec: true }));
        }
        // SAFETY: see `lend`.
        self.mmu.and_then(|mmu| unsafe { (*mmu).translate(page) })
    }

    pub(super) fn usage(&mut self, frame: Frame) -> &mut FrameUse {
        // SAFETY: `uses` has an element for every frame that was ever handed out, and
        // page tables hold no other frames.
        unsafe { &mut *self.uses.add(frame.0 as usize) }
    }

    /// Answers a TLB fill: the page's permissions, narrowed so that no frame is writable
    /// and executable at once.
    pub(super) fn fill(&mut self, page: u64, access: Access) -> Result<(Frame, Perms), Stop> {
        let miss = Stop::Miss { page, access };
        let (frame, mut perms) = self.translate(page).ok_or(miss)?;
        if !perms.allow(access) {
            return Err(miss);
        }
        if page >= DROP_WINDOW && self.window_open || self.both == Some(frame) {
            return Ok((frame, perms));
        }
        let usage = self.usage(frame);
        match access {
            Access::Fetch if usage.writable => return Err(Stop::Flip { frame, to_code: true }),
            Access::Write if usage.code => return Err(Stop::Flip { frame, to_code: false }),
            Access::Fetch => {
                usage.code = true;
                perms.write = false;
            }
            Access::Write => {
                usage.writable = true;
                perms.exec = false;
            }
            Access::Read if usage.code => perms.write = false,
            Access::Read => {
                usage.writable |= perms.write;
                perms.exec = false;
            }
        }
        Ok((frame, perms))
    }

    /// Copies guest code for decoding, through the page tables.
    pub(super) fn copy_code(&mut self, addr: u64, size: u32, out: &mut Vec<u8>) {
        let (mut at, end) = (addr, addr.wrapping_add(u64::from(size)));
        while at < end {
            let page = at & !(FRAME_SIZE - 1);
            let Some((frame, _)) = self.translate(page) else { return };
            let len = (page + FRAME_SIZE).min(end) - at;
            let from = frame.addr() + (at - page);
            // SAFETY: the range lies inside one frame of the arena; nothing writes it
            // while a hook runs, or between runs.
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.memory.add(from as usize), len as usize)
            });
            at += len;
        }
    }

    /// Copies data that lies in one page; `false` if that is absent or not readable.
    pub fn copy_data(&mut self, addr: u64, out: &mut [u8]) -> bool {
        let page = addr & !(FRAME_SIZE - 1);
        let Some((frame, perms)) = self.translate(page) else { return false };
        if !perms.read || addr - page + out.len() as u64 > FRAME_SIZE {
            return false;
        }
        let from = frame.addr() + (addr - page);
        // SAFETY: the range lies inside one frame of the arena; nothing writes it while a
        // hook runs, or between runs.
        unsafe {
            self.memory.add(from as usize).copy_to_nonoverlapping(out.as_mut_ptr(), out.len())
        };
        true
    }

    /// Copies the code from `addr` to the end of its page.
    pub fn copy_code_to_page_end(&mut self, addr: u64, out: &mut Vec<u8>) {
        self.copy_code(addr, (FRAME_SIZE - addr % FRAME_SIZE) as u32, out);
    }

    /// Decodes a block unless it is known, without counting it.
    pub fn ensure_block(&mut self, addr: u64, size: u32) {
        if self.counts.get(addr, size).is_none() {
            let mut bytes = Vec::new();
            self.copy_code(addr, size, &mut bytes);
            let (flow, hot) = (&self.flow, &mut self.hot);
            let enters = |target| flow.as_ref().is_some_and(|f| f.enters_function(target));
            self.counts.get_or_decode(hot, addr, size, |out| out.append(&mut bytes), enters);
        }
    }

    /// Whether the block at `addr` goes on with the `rep` that ended the last block.
    pub(super) fn continues_rep(&self, addr: u64) -> bool {
        let last = self.last();
        self.counts
            .get(last.addr, last.size)
            .and_then(|b| b.rep)
            .is_some_and(|rep| last.addr + u64::from(rep) == addr)
    }

    /// The slow path of the block hook. Returns whether the block may run.
    pub(super) fn count_slowly(&mut self, addr: u64, size: u32) -> bool {
        let continues = self.continues_rep(addr);
        self.ensure_block(addr, size);
        let (counts, hot) = (&mut self.counts, &mut self.hot);
        let block = counts.get_or_decode(hot, addr, size, |_| {}, |_| false);
        let insns = block.len() - u64::from(continues);
        let branches = u64::from(block.branches);
        let stop_before = block.forbidden.is_some();
        let (left, stepped_out) = match &mut self.stepping {
            Some(s) if s.block == Some((addr, size)) => return true,
            Some(s) => (&mut s.left, s.block.replace((addr, size)).is_some()),
            None => (&mut hot.left, false),
        };
        let rest = match insns {
            // A `rep` that goes on costs nothing, so nothing stops it.
            0 => Some(*left),
            _ => left.take(cost(insns, branches)),
        };
        let Some(rest) = rest.filter(|_| !stepped_out) else {
            self.stop = Stop::Block { addr, size };
            return false;
        };
        self.uncounted = self.exact;
        if insns > 0 && self.stepping.is_none() && !self.exact {
            let due = self.is_due(addr, size);
            self.uncounted = due == Due::Uncounted;
            if matches!(due, Due::Yes | Due::Rest) {
                self.stop = Stop::Due { addr, size, rest: due == Due::Rest };
                return false;
            }
        }
        if stop_before {
            self.stop = Stop::Block { addr, size };
            return false;
        }
        self.take_block(addr, size, insns, rest);
        true
    }

    /// Counts a block that may run.
    fn take_block(&mut self, addr: u64, size: u32, insns: u64, rest: Left) {
        match &mut self.stepping {
            Some(stepping) => stepping.left = rest,
            None => self.hot.left = rest,
        }
        self.set_last(LastBlock { addr, size, counted: insns as u32 });
        let flow = self.counts.get(addr, size).map_or(BlockFlow::NONE, |b| b.flow);
        if self.flow.is_some() && insns > 0 {
            self.hot.begin_flow(addr, size, flow);
        }
    }

    fn is_due(&mut self, addr: u64, size: u32) -> Due {
        let hot = &mut self.hot;
        self.schedule.as_mut().map_or(Due::No, |s| s.is_due(hot, addr, size))
    }

    /// A block ran under the stepper.
    pub fn looked_at(&mut self, addr: u64, size: u32) {
        if let Some(schedule) = &mut self.schedule {
            schedule.looked_at(&mut self.hot, addr, size);
        }
    }

    /// What is next is a rest, if it starts at `pc`.
    pub fn goes_on(&mut self, pc: u64, next: Next) {
        if let Some(schedule) = &mut self.schedule {
            schedule.next = Some((pc, next));
        }
    }

    /// The block at `addr` counts itself: whether it may simply run.
    pub(super) fn goes_on_inlined(&mut self, site: Site, addr: u64, own: u32) -> bool {
        let scheduled = self.schedule.is_some();
        if scheduled {
            // SAFETY: its code was made with a counter, which is in `hot`'s memory.
            let counter = unsafe { &mut *site.visits() };
            if *counter <= 0 {
                return false;
            }
            if !self.hot.left.take_instructions(own) {
                return false;
            }
            *counter -= 1;
        } else if !self.hot.left.take_instructions(own) {
            return false;
        }
        if site.flow() != BlockFlow::NONE {
            self.hot.begin_flow(addr, site.size(scheduled), site.flow());
        }
        true
    }

    /// Lets a block that was looked at count itself.
    pub(super) fn inline_scheduled(&mut self, ra: u64, addr: u64, size: u32) -> u64 {
        let Some(block) = self.counts.get(addr, size) else { return ra };
        // A rest that is not counted must not count itself.
        if block.rep.is_some() || block.forbidden.is_some() || self.uncounted {
            return ra;
        }
        let (insns, flow) = (block.len(), block.flow);
        self.inline(ra, addr, size, insns, flow)
    }

    /// Puts the fast path into the code of a block; returns where the block goes on.
    pub(super) fn inline(
        &mut self,
        ra: u64,
        addr: u64,
        size: u32,
        cost: u64,
        flow: BlockFlow,
    ) -> u64 {
        let mut visits = None;
        if let Some(schedule) = &mut self.schedule {
            let counter = schedule.index(addr, size).and_then(|i| self.hot.counter(i));
            let Some(counter) = counter else { return ra };
            visits = Some(std::ptr::from_mut(counter) as u64);
        }
        let flow = if self.hot.follows { flow } else { BlockFlow::NONE };
        let plan = Plan { addr, size, cost, flow, visits };
        // SAFETY: the hook that returns to `ra` runs.
        match unsafe { self.sites.inline(&mut self.hot, ra, &plan) } {
            Inlined::Yes(behind) => behind,
            Inlined::NotThis => ra,
            Inlined::Unknown => {
                self.hot.inlines = false;
                ra
            }
        }
    }

    /// The block after one that ends in a transfer starts, at `to`; `env` as the block hook
    /// has it, or 0.
    #[inline(always)]
    pub(super) fn end_flow(&mut self, raw: *mut uc::uc_engine, env: u64, to: u64) {
        // Each field by itself, as translated code wrote it: a wider load would have to wait.
        let (number, next) = (self.hot.hold.flow, self.hot.hold.end());
        self.hot.left.show();
        self.hot.hold.flow = 0;
        let kind = BlockFlow::from_number(number as u8).transfer();
        let sp_was_set = self.hot.sp_was_set != 0;
        self.hot.sp_was_set = 0;
        let Some(kind) = kind else { return };
        let event = Event { kind, next, to, sp: 0, sp_was_set };
        if self.env != Env::Proved || env == 0 {
            return self.ask_and_push(raw, env, event);
        }
        let arch = self.arch;
        if let Some(flow) = &mut self.flow {
            // SAFETY: in translated code `env` points to the guest's registers, as was
            // compared often enough.
            let at = unsafe { EnvRegisters::at(arch, env) };
            flow.push(Event { sp: at.sp(), ..event }, || at.saved());
        }
    }

    /// The same where it is not known yet, or never, where the registers are.
    #[cold]
    #[inline(never)]
    fn ask_and_push(&mut self, raw: *mut uc::uc_engine, env: u64, event: Event) {
        let (sp, saved) = self.ask(raw, env);
        if let Some(flow) = &mut self.flow {
            flow.push(Event { sp, ..event }, || saved);
        }
    }

    /// The CPU stopped at `pc` while a block ran that ends in a transfer, which has retired
    /// unless the PC is in the block.
    pub fn stop_flow(&mut self, raw: *mut uc::uc_engine, pc: u64) {
        let hold = self.hot.hold;
        if !hold.is_some() {
            return;
        }
        if (hold.addr..hold.end()).contains(&pc) {
            self.hot.left.show();
            self.hot.hold = Hold::NONE;
        } else {
            self.end_flow(raw, 0, pc);
        }
    }

    /// Stack pointer and callee-saved registers as the engine gives them; if `env` is not 0
    /// they are compared with what is there.
    #[cold]
    fn ask(&mut self, raw: *mut uc::uc_engine, env: u64) -> (u64, CalleeSaved) {
        let asked = asked_registers(self.arch, raw);
        if env != 0 && self.sites.known() && self.env != Env::Wrong {
            // SAFETY: the code generator that was recognised keeps a pointer to the guest's
            // registers, in a larger structure, there.
            let at = unsafe { EnvRegisters::at(self.arch, env) };
            self.env = self.env.compared((at.sp(), at.saved()) == asked);
        }
        asked
    }

    /// The counter instructions' answer for the instruction at `pc`.
    pub(super) fn counter(&mut self, pc: u64) -> u64 {
        let last = self.last();
        if last.counted > 0 {
            self.ensure_block(last.addr, last.size);
        }
        let within = pc.wrapping_sub(last.addr);
        let index = self
            .counts
            .get(last.addr, last.size)
            .and_then(|b| b.index_of(within, last.size))
            .unwrap_or(0) as u64;
        // Retired when the block began, plus those before this one in the block.
        let left = self.hot.left.instructions();
        let begun = self.budget - left - u64::from(last.counted);
        self.clock.wrapping_add(begun + index)
    }
}
