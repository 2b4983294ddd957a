//! What unicorn calls while guest code runs.
//!
//! Hooks never unwind and never run guest code: they record in [`Shared`] why to stop and ask
//! for the stop.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use arch::Arch;
use unicorn_engine_sys as uc;
use unicorn_engine_sys::HookType;

use crate::engine::counting::{Cost, Hot};
use crate::engine::flow::BlockFlow;
use crate::engine::inline::{FAR, Site};
use crate::engine::shared::{Shared, Stop};
use crate::engine::{Access, Engine, EngineError};

/// Runs for every block that does not count itself, so it makes no call unless it must.
/// `ra` is where it returns to, `env` what the host's frame pointer holds: in translated code
/// of x86_64 hosts, the guest's registers. Returns where to go on in the block's code.
unsafe extern "C" fn on_block<const AARCH64: bool>(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut c_void,
    ra: u64,
    env: u64,
) -> u64 {
    let arch = if AARCH64 { Arch::Aarch64 } else { Arch::X86_64 };
    let data = (data as usize ^ FAR) as *mut Hot;
    // SAFETY: it is the engine's `Hot`, which nobody else touches during a run.
    let hot = unsafe { &mut *data };
    match hot.count(arch, addr, size) {
        Some(cost) => {
            let flow = if hot.follows { hot.flow(arch, addr) } else { BlockFlow::NONE };
            if flow != BlockFlow::NONE {
                hot.begin_flow(addr, size, flow);
            }
            // SAFETY: the same arguments. The low half of the cost: the instructions.
            if hot.inlines { unsafe { inline(data, ra, addr, size, cost, flow) } } else { ra }
        }
        // SAFETY: the same arguments.
        None => unsafe { on_other_block(raw, addr, size, data, ra, env) },
    }
}

/// [`on_block`] with its return address, and back to where it says. Other hosts than x86_64
/// have no use for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter<const AARCH64: bool>(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut c_void,
) {
    // r8 and r9 are the fifth and the sixth argument.
    core::arch::naked_asm!(
        "mov r8, [rsp]",
        "mov r9, rbp",
        "sub rsp, 8",
        "call {on_block}",
        "add rsp, 8",
        "mov [rsp], rax",
        "ret",
        on_block = sym on_block::<AARCH64>,
    )
}

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn enter<const AARCH64: bool>(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut c_void,
) {
    // SAFETY: the same arguments.
    let _ = unsafe { on_block::<AARCH64>(raw, addr, size, data, 0, 0) };
}

/// Puts the fast path into a block's own code; returns where the block goes on.
#[cold]
#[inline(never)]
unsafe fn inline(
    data: *mut Hot,
    ra: u64,
    addr: u64,
    size: u32,
    cost: Cost,
    flow: BlockFlow,
) -> u64 {
    // SAFETY: as in `on_block`; `ra` is in the code of the block that called the hook.
    unsafe {
        let shared = &mut *(*data).shared.cast::<Shared>();
        shared.inline(ra, addr, size, cost & 0xffff_ffff, flow)
    }
}

/// The slow path of a block that counts itself: the budget does not cover it, it comes after
/// a transfer, or it is due to be looked at. `ra` is behind its own code. Returns whether the
/// engine was asked to stop.
pub(super) unsafe extern "C" fn on_inlined_block(
    raw: *mut uc::uc_engine,
    addr: u64,
    _size: u32,
    data: *mut Hot,
    ra: u64,
    env: u64,
) -> u32 {
    // SAFETY: as in `on_block`.
    let shared = unsafe { &mut *(*data).shared.cast::<Shared>() };
    // SAFETY: the block that returns to `ra` counts itself.
    let site = unsafe { Site::at(ra) };
    let own = site.cost();
    shared.hot.left.undo(own);
    if shared.hot.hold.is_some() {
        shared.end_flow(raw, env, addr);
    }
    if shared.goes_on_inlined(site, addr, own) {
        return 0;
    }
    // Its own code has made it the last one already.
    shared.forget_last_block();
    let size = shared.sites.size(ra).unwrap_or_default();
    if shared.count_slowly(addr, size) {
        return 0;
    }
    // SAFETY: asking the running engine to stop is what hooks are for.
    unsafe { uc::uc_emu_stop(raw) };
    1
}

/// A block that is new, ends a `rep`, must not run whole, does not fit the budget, or comes
/// after a transfer. Returns where the block goes on.
#[cold]
#[inline(never)]
unsafe extern "C" fn on_other_block(
    raw: *mut uc::uc_engine,
    addr: u64,
    size: u32,
    data: *mut Hot,
    ra: u64,
    env: u64,
) -> u64 {
    // SAFETY: as in `on_block`; `Hot::shared` is set when the hook is installed.
    let shared = unsafe { &mut *(*data).shared.cast::<Shared>() };
    if shared.hot.hold.is_some() {
        shared.end_flow(raw, env, addr);
        let arch = shared.arch;
        if let Some(cost) = shared.hot.count(arch, addr, size) {
            let flow = shared.hot.flow(arch, addr);
            if flow != BlockFlow::NONE {
                shared.hot.begin_flow(addr, size, flow);
            }
            if shared.hot.inlines {
                return shared.inline(ra, addr, size, cost & 0xffff_ffff, flow);
            }
            return ra;
        }
    }
    if !shared.count_slowly(addr, size) {
        // SAFETY: asking the running engine to stop is what hooks are for.
        unsafe { uc::uc_emu_stop(raw) };
    } else if shared.schedule.is_some() && shared.hot.inlines {
        return shared.inline_scheduled(ra, addr, size);
    }
    ra
}

pub(super) unsafe extern "C" fn on_tlb_fill(
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
