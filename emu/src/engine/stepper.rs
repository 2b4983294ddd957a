//! A second CPU that goes through single blocks, instruction by instruction, for somebody who
//! looks at each.
//!
//! ```text
//! block hook ─► due? ─► main CPU stops ─► state ─► stepper: hook at each instruction ─► Sight
//!                            ▲                        │
//!                            └── state, PC ◄──────────┘ the block's end, or where it cannot go on
//! ```
//!
//! The main CPU's translations stay as they are, and the stepper keeps its own, so that
//! looking costs a copy of the state and no translation. It never retires an instruction that
//! needs a hook or an exception: it stops before, and the main CPU executes that one.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use arch::decode::{InsnClass, insn};
use arch::{Arch, Regs};
use unicorn_engine_sys as uc;
use unicorn_engine_sys::HookType;

use crate::engine::arena::{Arena, FRAME_SIZE};
use crate::engine::hooks::on_tlb_fill;
use crate::engine::shared::{Shared, SharedMemory, Stop};
use crate::engine::unicorn::Handle;
use crate::engine::{EngineError, aarch64, x86_64};

/// Who looks at instructions.
pub trait Sight {
    /// The thread is at `regs`: the instruction there is executed next. `sp_was_set`: since
    /// the last transfer of control, as in [`super::flow::Event`], or in this block.
    fn instruction(&mut self, regs: &Regs, sp_was_set: bool, memory: &mut dyn unwinder::Memory);

    /// So many executions of blocks were never to be shown, because there are too many blocks.
    /// Told when [`super::Engine::executions`] is asked.
    fn refused(&mut self, _executions: u64) {}
}

/// The second CPU.
#[derive(Debug)]
pub(super) struct Stepper {
    handle: Handle,
    state: *mut State,
    /// Its translations or its TLB are out of date.
    pub stale: bool,
}

/// What the hook at each instruction needs.
struct State {
    sight: Box<dyn Sight>,
    shared: *mut Shared,
    arch: Arch,
    addr: u64,
    starts: Vec<u16>,
    /// Instructions from the front that may be executed here.
    tame: usize,
    /// The next one.
    index: usize,
    /// The block has retired whole.
    done: bool,
    /// It goes no further here.
    at_wild: bool,
    sp_was_set: bool,
    /// An instruction that was shown and did not retire: it is not shown again.
    shown: Option<u64>,
}

/// How far a block went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// To its end; the PC is that of its successor.
    Whole,
    /// Before the instruction with this index, which was shown: it is the main CPU's.
    Wild(usize),
    /// Before the instruction with this index, which was shown and faulted.
    Fault(usize),
}

/// Guest memory as the page tables have it, during a run.
struct Seen(*mut Shared);

impl unwinder::Memory for Seen {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        // SAFETY: the hook that made this runs, so that the tables are lent and nobody else
        // uses `Shared`.
        let shared = unsafe { &mut *self.0 };
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let page = at & !(FRAME_SIZE - 1);
            let len = rest.len().min((page + (FRAME_SIZE - 1) - at) as usize + 1);
            let (now, later) = rest.split_at_mut(len);
            if !shared.copy_data(at, now) {
                return false;
            }
            let Some(next) = at.checked_add(len as u64) else { return later.is_empty() };
            (at, rest) = (next, later);
        }
        true
    }
}

unsafe extern "C" fn on_instruction(
    raw: *mut uc::uc_engine,
    addr: u64,
    _size: u32,
    data: *mut c_void,
) {
    // SAFETY: it is the stepper's state, which nobody else touches during a run.
    let state = unsafe { &mut *data.cast::<State>() };
    let expected = state.starts.get(state.index).map(|&s| state.addr + u64::from(s));
    if expected != Some(addr) {
        state.done = expected.is_none();
        // SAFETY: asking the running engine to stop is what hooks are for.
        unsafe { uc::uc_emu_stop(raw) };
        return;
    }
    if state.shown.take() != Some(addr) {
        let mut regs = match state.arch {
            Arch::X86_64 => x86_64::regs::read_raw(raw),
            Arch::Aarch64 => aarch64::regs::read_raw(raw),
        };
        regs.pc = addr;
        state.sight.instruction(&regs, state.sp_was_set, &mut Seen(state.shared));
    }
    if state.index >= state.tame {
        state.at_wild = true;
        // SAFETY: the same.
        unsafe { uc::uc_emu_stop(raw) };
        return;
    }
    state.index += 1;
}

/// Whether the main CPU has to execute an instruction: what stops a run, and what a hook
/// answers.
fn is_wild(arch: Arch, code: &[u8]) -> bool {
    let Some(insn) = insn(arch, code) else { return true };
    let ends = matches!(insn.class, InsnClass::Syscall | InsnClass::Rep | InsnClass::Trap);
    let hooked = match arch {
        Arch::X86_64 => x86_64::is_hooked(code),
        Arch::Aarch64 => aarch64::is_hooked(code),
    };
    ends || hooked || insn.special.is_some() || !insn.known
}

impl Stepper {
    /// Passes on how many executions there were of blocks that have no counter.
    pub fn refused(&mut self, executions: u64) {
        // SAFETY: the state is ours until we are dropped, and no hook runs now.
        unsafe { &mut *self.state }.sight.refused(executions);
    }

    /// A CPU like the main one, at user level once it gets that one's state.
    pub fn new(
        arch: Arch,
        arena: &Arena,
        shared: &SharedMemory,
        sight: Box<dyn Sight>,
    ) -> Result<Stepper, EngineError> {
        let handle = Handle::open(arch)?;
        let state = Box::into_raw(Box::new(State {
            sight,
            shared: shared.as_ptr(),
            arch,
            addr: 0,
            starts: Vec::new(),
            tame: 0,
            index: 0,
            done: false,
            at_wild: false,
            sp_was_set: false,
            shown: None,
        }));
        // From here on `state` is freed by `drop`.
        let mut stepper = Stepper { handle, state, stale: true };
        stepper.handle.map_arena(arena)?;
        let data = shared.as_ptr().cast::<c_void>();
        // SAFETY: the signatures are the kinds'; `shared` outlives the stepper (field order
        // of the engine), as `state` does the handle (see `drop`).
        unsafe {
            stepper.handle.hook(HookType::TLB_FILL, on_tlb_fill as *mut c_void, data, None)?;
            let hook = on_instruction as *mut c_void;
            stepper.handle.hook(HookType::CODE, hook, state.cast(), None)?;
        }
        Ok(stepper)
    }

    /// Goes through the block of `main`'s PC, whose instructions start at `starts` in
    /// `code`. The page tables must be lent. The state of `main` is that at the end.
    pub fn step(
        &mut self,
        main: &mut Handle,
        addr: u64,
        starts: &[u16],
        code: &[u8],
        sp_was_set: bool,
    ) -> Result<Stepped, EngineError> {
        if self.stale {
            self.handle.flush_tlb()?;
            self.handle.flush_blocks()?;
            self.stale = false;
        }
        // SAFETY: the stepper does not run.
        let state = unsafe { &mut *self.state };
        state.addr = addr;
        state.starts.clear();
        state.starts.extend_from_slice(starts);
        let rest = |&start: &u16| code.get(usize::from(start)..).unwrap_or_default();
        let wild = starts.iter().position(|start| is_wild(state.arch, rest(start)));
        state.tame = wild.unwrap_or(starts.len());
        (state.index, state.done, state.at_wild) = (0, false, false);
        state.sp_was_set = sp_was_set;
        let shared = state.shared;
        self.handle.take_state(main)?;
        let error = self.handle.start(addr, 0);
        // SAFETY: as above; the hooks have returned.
        let (state, shared) = unsafe { (&mut *self.state, &mut *shared) };
        shared.stop = Stop::None;
        main.take_state(&self.handle)?;
        let pc = match state.arch {
            Arch::X86_64 => x86_64::regs::pc(&self.handle),
            Arch::Aarch64 => aarch64::regs::pc(&self.handle),
        };
        let offset = pc.wrapping_sub(addr);
        let inside = state.starts.iter().position(|&start| u64::from(start) == offset);
        // The one that faulted comes again.
        state.shown = inside.filter(|_| !state.done && !state.at_wild).map(|_| pc);
        match inside {
            _ if state.done => Ok(Stepped::Whole),
            Some(index) if state.at_wild => Ok(Stepped::Wild(index)),
            Some(index) => Ok(Stepped::Fault(index)),
            // A branch retired and its target cannot be fetched.
            None if state.index == state.starts.len() => Ok(Stepped::Whole),
            None => {
                let detail = format!("while stepping: {error}");
                Err(EngineError::Stray { pc, detail })
            }
        }
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.handle.close();
        // SAFETY: made by `new`; the handle that used it is closed.
        drop(unsafe { Box::from_raw(std::mem::replace(&mut self.state, ptr::null_mut())) });
    }
}
