//! What unicorn calls while guest code runs.
//!
//! All hooks get one [`Shared`], whose address never changes. While the CPU runs, only
//! the hooks touch it; [`super::run`] touches it only between runs. Hooks never unwind
//! and never run guest code: they record why to stop and ask for the stop.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use arch::Arch;
use unicorn_engine_sys as uc;
use unicorn_engine_sys::HookType;

use crate::engine::arena::{FRAME_SIZE, FrameUse};
use crate::engine::counting::{Counts, Hot, HotMemory, Left, cost};
use crate::engine::flow::{BlockFlow, Flow, Hold};
use crate::engine::inline::{FAR, Sites};
use crate::engine::{Access, Arena, Engine, EngineError, Frame, Mmu, Perms};

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
    /// A block that ends in one runs.
    pub hold: Option<Hold>,
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
        let mut hot = HotMemory::new()?;
        Ok(Shared {
            sites: Sites::new(&mut hot, on_inlined_block as *const ()),
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
            hold: None,
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
        let newest = self.counts.newest(addr);
        newest.map_or(NO_BLOCK, |(size, b)| LastBlock { addr, size, counted: b.len() as u32 })
    }

    fn set_last(&mut self, last: LastBlock) {
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

    fn translate(&mut self, page: u64) -> Option<(Frame, Perms)> {
        if self.window_open && page >= DROP_WINDOW && page - DROP_WINDOW < self.arena_len {
            let frame = Frame(((page - DROP_WINDOW) / FRAME_SIZE) as u32);
            return Some((frame, Perms { read: false, write: false, exec: true }));
        }
        // SAFETY: see `lend`.
        self.mmu.and_then(|mmu| unsafe { (*mmu).translate(page) })
    }

    fn usage(&mut self, frame: Frame) -> &mut FrameUse {
        // SAFETY: `uses` has an element for every frame that was ever handed out, and
        // page tables hold no other frames.
        unsafe { &mut *self.uses.add(frame.0 as usize) }
    }

    /// Answers a TLB fill: the page's permissions, narrowed so that no frame is writable
    /// and executable at once.
    fn fill(&mut self, page: u64, access: Access) -> Result<(Frame, Perms), Stop> {
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
    fn copy_code(&mut self, addr: u64, size: u32, out: &mut Vec<u8>) {
        let (mut at, end) = (addr, addr.wrapping_add(u64::from(size)));
        while at < end {
            let page = at & !(FRAME_SIZE - 1);
            let Some((frame, _)) = self.translate(page) else { return };
            let len = (page + FRAME_SIZE).min(end) - at;
            let from = frame.addr() + (at - page);
            // SAFETY: the range lies inside one frame of the arena; nothing writes it
            // while the hook runs.
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.memory.add(from as usize), len as usize)
            });
            at += len;
        }
    }

    /// Copies the code from `addr` to the end of its page.
    pub fn copy_code_to_page_end(&mut self, addr: u64, out: &mut Vec<u8>) {
        self.copy_code(addr, (FRAME_SIZE - addr % FRAME_SIZE) as u32, out);
    }

    /// Copies at most `len` bytes of code from `addr`.
    pub fn copy_code_span(&mut self, addr: u64, len: u32, out: &mut Vec<u8>) {
        self.copy_code(addr, len, out);
    }

    /// Decodes a block unless it is known, without counting it.
    pub fn ensure_block(&mut self, addr: u64, size: u32) {
        if self.counts.get(addr, size).is_none() {
            let mut bytes = Vec::new();
            self.copy_code(addr, size, &mut bytes);
            self.counts.get_or_decode(&mut self.hot, addr, size, |out| out.append(&mut bytes));
        }
    }

    /// Whether the block at `addr` goes on with the `rep` that ended the last block.
    fn continues_rep(&self, addr: u64) -> bool {
        let last = self.last();
        self.counts
            .get(last.addr, last.size)
            .and_then(|b| b.rep)
            .is_some_and(|rep| last.addr + u64::from(rep) == addr)
    }

    /// The slow path of the block hook. Returns whether the block may run.
    fn count_slowly(&mut self, addr: u64, size: u32) -> bool {
        let continues = self.continues_rep(addr);
        self.ensure_block(addr, size);
        let mut bytes = Vec::new();
        let (counts, hot) = (&mut self.counts, &mut self.hot);
        let block = counts.get_or_decode(hot, addr, size, |out| out.append(&mut bytes));
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
        match rest {
            Some(rest) if !stepped_out && !stop_before => {
                *left = rest;
                let flow = block.flow;
                self.set_last(LastBlock { addr, size, counted: insns as u32 });
                if flow != BlockFlow::NONE && insns > 0 {
                    self.begin_flow(addr, size, flow);
                }
                true
            }
            _ => {
                self.stop = Stop::Block { addr, size };
                false
            }
        }
    }

    /// A block starts that ends in a transfer or sets the stack pointer.
    fn begin_flow(&mut self, addr: u64, size: u32, block: BlockFlow) {
        let Some(flow) = &mut self.flow else { return };
        if block.sets_sp() {
            flow.sp_is_set();
        }
        if let Some(kind) = block.transfer() {
            let block = (addr, addr.wrapping_add(u64::from(size)));
            // No block fits an empty budget: the next one asks.
            let left = std::mem::replace(&mut self.hot.left, Left::new(0, 1));
            self.hold = Some(Hold { left, kind, block });
        }
    }

    /// The block after one that ends in a transfer starts, at `to`.
    fn end_flow(&mut self, raw: *mut uc::uc_engine, to: u64) {
        let Some(hold) = self.hold.take() else { return };
        self.hot.left = hold.left;
        let register = match self.arch {
            Arch::X86_64 => uc::RegisterX86::RSP as c_int,
            Arch::Aarch64 => uc::RegisterARM64::SP as c_int,
        };
        let mut sp = 0u64;
        // SAFETY: registers may be read inside a block hook and between runs.
        unsafe { uc::uc_reg_read(raw, register, (&raw mut sp).cast()) };
        if let Some(flow) = &mut self.flow {
            flow.push(&hold, to, sp);
        }
    }

    /// The CPU stopped at `pc` while a block ran that ends in a transfer, which has retired
    /// unless the PC is in the block.
    pub fn stop_flow(&mut self, raw: *mut uc::uc_engine, pc: u64) {
        let Some(hold) = self.hold else { return };
        if (hold.block.0..hold.block.1).contains(&pc) {
            self.hot.left = hold.left;
            self.hold = None;
        } else {
            self.end_flow(raw, pc);
        }
    }

    /// The counter instructions' answer for the instruction at `pc`.
    fn counter(&self, pc: u64) -> u64 {
        let last = self.last();
        let within = pc.wrapping_sub(last.addr);
        let index = self
            .counts
            .get(last.addr, last.size)
            .and_then(|b| b.index_of(within, last.size))
            .unwrap_or(0) as u64;
        // Retired when the block began, plus those before this one in the block.
        let left = self.hold.map_or(self.hot.left, |hold| hold.left);
        let begun = self.budget - left.instructions() - u64::from(last.counted);
        self.clock.wrapping_add(begun + index)
    }
}

/// Runs for every block that does not count itself, so it makes no call unless it must.
/// `ra` is where it returns to.
unsafe extern "C" fn on_block<const AARCH64: bool>(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut c_void,
    ra: u64,
) {
    let arch = if AARCH64 { Arch::Aarch64 } else { Arch::X86_64 };
    let data = (data as usize ^ FAR) as *mut Hot;
    // SAFETY: it is the engine's `Hot`, which nobody else touches during a run.
    let hot = unsafe { &mut *data };
    match hot.count(arch, addr, size) {
        // SAFETY: the same arguments.
        Some(_) if hot.follows && hot.flow(arch, addr) != BlockFlow::NONE => unsafe {
            begin_flow(data, addr, size, hot.flow(arch, addr));
        },
        // SAFETY: the same arguments.
        Some(cost) if hot.inlines => unsafe { inline(data, ra, size, cost) },
        Some(_) => {}
        // SAFETY: the same arguments.
        None => unsafe { on_other_block(raw, addr, size, data) },
    }
}

/// [`on_block`] with its return address. Other hosts than x86_64 have no use for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter<const AARCH64: bool>(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut c_void,
) {
    // The stack is as the caller of `on_block` would leave it; r8 is the fifth argument.
    core::arch::naked_asm!("mov r8, [rsp]", "jmp {}", sym on_block::<AARCH64>)
}

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn enter<const AARCH64: bool>(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut c_void,
) {
    // SAFETY: the same arguments.
    unsafe { on_block::<AARCH64>(raw, addr, size, data, 0) }
}

/// A block of interest starts.
unsafe fn begin_flow(data: *mut Hot, addr: u64, size: u32, flow: BlockFlow) {
    // SAFETY: as in `on_block`.
    let shared = unsafe { &mut *(*data).shared.cast::<Shared>() };
    shared.begin_flow(addr, size, flow);
}

/// Puts the fast path into a block's own code.
#[cold]
#[inline(never)]
unsafe fn inline(data: *mut Hot, ra: u64, size: u32, cost: u64) {
    // SAFETY: as in `on_block`; `ra` is in the code of the block that called the hook.
    unsafe {
        let hot = &mut *data;
        let shared = &mut *hot.shared.cast::<Shared>();
        // The low half: the instructions.
        if !shared.sites.inline(hot, ra, size, cost & 0xffff_ffff) {
            hot.inlines = false;
        }
    }
}

/// The slow path of a block that counts itself: the budget does not cover it.
unsafe extern "C" fn on_inlined_block(
    raw: *mut uc::uc_engine,
    addr: u64,
    _size: u32,
    data: *mut Hot,
    ra: u64,
) {
    // SAFETY: as in `on_block`.
    let shared = unsafe { &mut *(*data).shared.cast::<Shared>() };
    // What the block's own code did so far.
    let size = shared.sites.size(ra).unwrap_or_default();
    shared.ensure_block(addr, size);
    let insns = shared.counts.get(addr, size).map_or(0, |b| b.len() as u32);
    shared.hot.left.undo(insns);
    shared.forget_last_block();
    // SAFETY: the same arguments.
    unsafe { on_other_block(raw, addr, size, data) };
}

/// A block that is new, ends a `rep`, must not run whole or does not fit the budget.
#[cold]
#[inline(never)]
unsafe extern "C" fn on_other_block(raw: *mut uc::uc_engine, addr: u64, size: u32, data: *mut Hot) {
    // SAFETY: as in `on_block`; `Hot::shared` is set when the hook is installed.
    let shared = unsafe { &mut *(*data).shared.cast::<Shared>() };
    shared.end_flow(raw, addr);
    if !shared.count_slowly(addr, size) {
        // SAFETY: asking the running engine to stop is what hooks are for.
        unsafe { uc::uc_emu_stop(raw) };
    }
}

unsafe extern "C" fn on_tlb_fill(
    _raw: *mut uc::uc_engine,
    va: u64,
    kind: uc::MemType,
    out: *mut uc::TlbEntry,
    data: *mut c_void,
) -> bool {
    // SAFETY: as in `on_block`.
    let shared = unsafe { &mut *data.cast::<Shared>() };
    let access = match kind {
        uc::MemType::WRITE => Access::Write,
        uc::MemType::FETCH => Access::Fetch,
        _ => Access::Read,
    };
    // Top-byte ignore: the engine passes the tag on, page tables do not have it.
    let page = match shared.arch {
        Arch::Aarch64 if va >> 55 & 1 == 0 => va & 0x00ff_ffff_ffff_ffff,
        _ => va,
    };
    match shared.fill(page, access) {
        Ok((frame, perms)) => {
            let bits =
                u32::from(perms.read) | u32::from(perms.write) << 1 | u32::from(perms.exec) << 2;
            // SAFETY: `out` is the engine's place for the answer.
            unsafe { *out = uc::TlbEntry { paddr: frame.addr(), perms: uc::Prot(bits) } };
            true
        }
        Err(stop) => {
            shared.stop = stop;
            false
        }
    }
}

unsafe extern "C" fn on_syscall(raw: *mut uc::uc_engine, data: *mut c_void) {
    // SAFETY: as in `on_block`.
    unsafe {
        (*data.cast::<Shared>()).stop = Stop::Syscall;
        uc::uc_emu_stop(raw);
    }
}

unsafe extern "C" fn on_interrupt(raw: *mut uc::uc_engine, number: u32, data: *mut c_void) {
    // SAFETY: as in `on_block`.
    unsafe {
        (*data.cast::<Shared>()).stop = Stop::Interrupt(number);
        uc::uc_emu_stop(raw);
    }
}

unsafe extern "C" fn on_invalid(_raw: *mut uc::uc_engine, data: *mut c_void) -> bool {
    // SAFETY: as in `on_block`. `false` ends the run.
    unsafe { (*data.cast::<Shared>()).stop = Stop::Invalid };
    false
}

/// `rdtsc`; the result says "handled". (Westmere's model has no `rdtscp`.)
unsafe extern "C" fn on_rdtsc(raw: *mut uc::uc_engine, data: *mut c_void) -> c_int {
    // SAFETY: as in `on_block`; registers may be accessed inside an instruction hook.
    unsafe {
        let shared = &mut *data.cast::<Shared>();
        let mut pc = 0u64;
        uc::uc_reg_read(raw, uc::RegisterX86::RIP as c_int, (&raw mut pc).cast());
        let value = shared.counter(pc);
        let (low, high) = (value & 0xffff_ffff, value >> 32);
        uc::uc_reg_write(raw, uc::RegisterX86::RAX as c_int, (&raw const low).cast());
        uc::uc_reg_write(raw, uc::RegisterX86::RDX as c_int, (&raw const high).cast());
    }
    1
}

/// `mrs` at EL0. Only registers that EL0 may read are answered; skipping others would
/// loop for ever, since the engine raises an exception for them after the hook.
unsafe extern "C" fn on_mrs(
    raw: *mut uc::uc_engine,
    target: uc::RegisterARM64,
    register: *const uc::RegisterARM64CP,
    data: *mut c_void,
) -> u32 {
    // SAFETY: as in `on_rdtsc`; `register` describes the instruction.
    unsafe {
        let r = &*register;
        let shared = &mut *data.cast::<Shared>();
        let value = match (r.op0, r.op1, r.crn, r.crm, r.op2) {
            // CNTFRQ_EL0: the counter runs at 1 GHz.
            (3, 3, 14, 0, 0) => 1_000_000_000,
            // CNTPCT_EL0, CNTVCT_EL0 and their self-synchronised forms.
            (3, 3, 14, 0, 1 | 2 | 5 | 6) => {
                let mut pc = 0u64;
                uc::uc_reg_read(raw, uc::RegisterARM64::PC as c_int, (&raw mut pc).cast());
                shared.counter(pc)
            }
            // CTR_EL0: 64-byte lines.
            (3, 3, 0, 0, 1) => 0x8444_c004,
            _ => return 0,
        };
        uc::uc_reg_write(raw, target as c_int, (&raw const value).cast());
    }
    1
}

impl Engine {
    pub(super) fn install_hooks(&mut self) -> Result<(), EngineError> {
        let data = self.shared.as_ptr().cast::<c_void>();
        self.shared.hot.shared = data;
        self.shared.hot.inlines = self.shared.sites.supported();
        let hot = ((&raw mut *self.shared.hot) as usize ^ FAR) as *mut c_void;
        let on_block = match self.arch {
            Arch::X86_64 => enter::<false> as *mut c_void,
            Arch::Aarch64 => enter::<true> as *mut c_void,
        };
        // SAFETY: the signature is the kind's; `hot` does not move and is dropped after the
        // handle (field order), as `shared` is.
        unsafe { self.handle.hook(HookType::BLOCK, on_block, hot, None) }?;
        let mut add = |kind, callback: *mut c_void, instruction: Option<c_int>| {
            // SAFETY: the same.
            unsafe { self.handle.hook(kind, callback, data, instruction) }
        };
        add(HookType::TLB_FILL, on_tlb_fill as *mut c_void, None)?;
        add(HookType::INTR, on_interrupt as *mut c_void, None)?;
        add(HookType::INSN_INVALID, on_invalid as *mut c_void, None)?;
        match self.arch {
            Arch::X86_64 => {
                let id = |i: uc::X86Insn| Some(i as c_int);
                add(HookType::INSN, on_syscall as *mut c_void, id(uc::X86Insn::SYSCALL))?;
                add(HookType::INSN, on_rdtsc as *mut c_void, id(uc::X86Insn::RDTSC))?;
            }
            Arch::Aarch64 => {
                let mrs = uc::Arm64Insn::UC_ARM64_INS_MRS as c_int;
                add(HookType::INSN, on_mrs as *mut c_void, Some(mrs))?;
            }
        }
        Ok(())
    }
}
