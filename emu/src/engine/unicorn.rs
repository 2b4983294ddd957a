//! The raw unicorn handle: calls across the C ABI and nothing else.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use arch::Arch;
use unicorn_engine_sys as uc;
use unicorn_engine_sys::{ControlType, HookType, uc_error};

use crate::engine::arena::Mapping;
use crate::engine::{Arena, EngineError};

/// Translation buffer in bytes.
const CODE_BUFFER: u32 = 64 << 20;

/// An open unicorn engine in virtual-TLB mode.
#[derive(Debug)]
pub(super) struct Handle {
    raw: *mut uc::uc_engine,
    /// State saved after set-up: restoring it ends an exception, which unicorn never does.
    pristine: *mut uc::uc_context,
    /// Room for a state on its way from another engine.
    passing: *mut uc::uc_context,
    /// Keeps the memory that the engine has mapped.
    memory: Option<Rc<UnsafeCell<Mapping>>>,
}

fn check(call: &'static str, error: uc_error) -> Result<(), EngineError> {
    if error == uc_error::OK {
        Ok(())
    } else {
        Err(EngineError::Call { call, reason: error.to_string() })
    }
}

/// Reads many 64-bit registers, also inside a hook.
pub(super) fn get_many<const N: usize>(
    raw: *mut uc::uc_engine,
    registers: &[c_int; N],
) -> [u64; N] {
    let mut values = [0u64; N];
    let mut places: [*mut c_void; N] = [ptr::null_mut(); N];
    for (place, value) in places.iter_mut().zip(values.iter_mut()) {
        *place = (&raw mut *value).cast();
    }
    // SAFETY: N registers, N places of 64 bits each.
    unsafe { uc::uc_reg_read_batch(raw, registers.as_ptr(), places.as_mut_ptr(), N as c_int) };
    values
}

fn write_control(control: ControlType) -> ControlType {
    ControlType(control.0 | ControlType::IO_WRITE.0)
}

impl Handle {
    /// An engine that translates addresses by the TLB-fill hook.
    pub fn open(arch: Arch) -> Result<Handle, EngineError> {
        Handle::open_with(arch, true)
    }

    /// An engine with the virtual TLB or with unicorn's default one.
    pub fn open_with(arch: Arch, virtual_tlb: bool) -> Result<Handle, EngineError> {
        let (uc_arch, mode) = match arch {
            Arch::X86_64 => (uc::Arch::X86, uc::Mode::MODE_64),
            Arch::Aarch64 => (uc::Arch::ARM64, uc::Mode::ARM),
        };
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for the new handle.
        check("uc_open", unsafe { uc::uc_open(uc_arch, mode, &mut raw) })?;
        let handle =
            Handle { raw, pristine: ptr::null_mut(), passing: ptr::null_mut(), memory: None };
        if arch == Arch::Aarch64 {
            handle.control("page size", ControlType::UC_PAGE_SIZE, 4096)?;
        }
        let model = match arch {
            // Westmere: x86-64-v2, no VEX, no RDRAND, so that CPUID and behaviour agree.
            Arch::X86_64 => 16,
            // `max`: PAC and LSE.
            Arch::Aarch64 => 3,
        };
        handle.control("CPU model", ControlType::CPU_MODEL, model)?;
        handle.control("code buffer size", ControlType::TCG_BUFFER_SIZE, CODE_BUFFER)?;
        if virtual_tlb {
            let kind = uc::TlbType::VIRTUAL as u32;
            handle.control("virtual TLB", ControlType::TLB_TYPE, kind)?;
        }
        Ok(handle)
    }

    fn control(
        &self,
        name: &'static str,
        what: ControlType,
        value: u32,
    ) -> Result<(), EngineError> {
        // SAFETY: each of these controls takes exactly one 32-bit integer.
        check(name, unsafe { uc::uc_ctl(self.raw, write_control(what), value) })
    }

    pub fn map_arena(&mut self, arena: &Arena) -> Result<(), EngineError> {
        self.memory = Some(arena.mapping());
        let pointer = arena.host_pointer().cast::<c_void>();
        // SAFETY: the mapping is `arena.len()` bytes long and lives in `self.memory`.
        check("uc_mem_map_ptr", unsafe {
            uc::uc_mem_map_ptr(self.raw, 0, arena.len(), uc::Prot::ALL.0, pointer)
        })
    }

    /// The handle itself, for hooks that need it.
    pub fn raw(&self) -> *mut uc::uc_engine {
        self.raw
    }

    /// Maps a part of the arena as unicorn's own memory.
    pub fn map_part(
        &mut self,
        arena: &Arena,
        addr: u64,
        physical: u64,
        len: u64,
        perms: u32,
    ) -> Result<(), EngineError> {
        if physical.checked_add(len).is_none_or(|end| end > arena.len()) {
            return Err(EngineError::Arena { wanted: len, reason: "too small".to_owned() });
        }
        self.memory = Some(arena.mapping());
        // SAFETY: the part lies inside the mapping, which lives in `self.memory`.
        check("uc_mem_map_ptr", unsafe {
            let pointer = arena.host_pointer().add(physical as usize).cast::<c_void>();
            uc::uc_mem_map_ptr(self.raw, addr, len, perms, pointer)
        })
    }

    /// Adds a hook for all addresses. `callback` must have the C signature that belongs
    /// to `kind`, and `data` must outlive the handle.
    pub unsafe fn hook(
        &mut self,
        kind: HookType,
        callback: *mut c_void,
        data: *mut c_void,
        instruction: Option<c_int>,
    ) -> Result<(), EngineError> {
        let mut hook: uc::uc_hook = 0;
        let kind = kind.0 as c_int;
        // SAFETY: begin 1 > end 0 means "everywhere"; an instruction hook takes one more int.
        let error = unsafe {
            match instruction {
                None => uc::uc_hook_add(self.raw, &mut hook, kind, callback, data, 1, 0),
                Some(id) => uc::uc_hook_add(self.raw, &mut hook, kind, callback, data, 1, 0, id),
            }
        };
        check("uc_hook_add", error)
    }

    /// Runs from `pc` until a hook stops it, a fault, or `until` (0: no such address).
    pub fn start(&mut self, pc: u64, until: u64) -> uc_error {
        // SAFETY: no borrow of the arena or of the hooks' data is alive; see `run`.
        unsafe { uc::uc_emu_start(self.raw, pc, until, 0, 0) }
    }

    pub fn flush_tlb(&mut self) -> Result<(), EngineError> {
        // SAFETY: takes no argument.
        check("TLB flush", unsafe { uc::uc_ctl(self.raw, write_control(ControlType::TLB_FLUSH)) })
    }

    /// Drops all blocks.
    pub fn flush_blocks(&mut self) -> Result<(), EngineError> {
        // SAFETY: takes no argument.
        check("block flush", unsafe { uc::uc_ctl(self.raw, write_control(ControlType::TB_FLUSH)) })
    }

    /// Drops the blocks that overlap `start..end` (virtual addresses). The TLB hook must
    /// answer a fetch of `start`.
    pub fn drop_blocks(&mut self, start: u64, end: u64) -> Result<(), EngineError> {
        // SAFETY: takes two 64-bit addresses.
        check("block drop", unsafe {
            uc::uc_ctl(self.raw, write_control(ControlType::TB_REMOVE_CACHE), start, end)
        })
    }

    pub fn save_pristine(&mut self) -> Result<(), EngineError> {
        // SAFETY: the context is allocated by the engine it is used with, once.
        unsafe {
            check("uc_context_alloc", uc::uc_context_alloc(self.raw, &mut self.pristine))?;
            check("uc_context_save", uc::uc_context_save(self.raw, self.pristine))
        }
    }

    pub fn restore_pristine(&mut self) -> Result<(), EngineError> {
        // SAFETY: `pristine` was filled by `save_pristine`.
        check("uc_context_restore", unsafe { uc::uc_context_restore(self.raw, self.pristine) })
    }

    /// Takes the whole state of another engine of the same kind.
    pub fn take_state(&mut self, other: &Handle) -> Result<(), EngineError> {
        // SAFETY: both engines are open and do not run, and a context's size is that of the
        // kind of CPU. The pointers in it (breakpoints, watchpoints, interrupt controllers)
        // are null: user code cannot set any, and we set none.
        unsafe {
            if self.passing.is_null() {
                check("uc_context_alloc", uc::uc_context_alloc(self.raw, &mut self.passing))?;
            }
            check("uc_context_save", uc::uc_context_save(other.raw, self.passing))?;
            check("uc_context_restore", uc::uc_context_restore(self.raw, self.passing))
        }
    }

    /// Ends the engine: no hook is called any more, and nothing else may be.
    pub fn close(&mut self) {
        // SAFETY: all were created by this handle, and what was freed is null.
        unsafe {
            for context in [&mut self.pristine, &mut self.passing] {
                if !context.is_null() {
                    uc::uc_context_free(*context);
                    *context = ptr::null_mut();
                }
            }
            if !self.raw.is_null() {
                uc::uc_close(self.raw);
                self.raw = ptr::null_mut();
            }
        }
    }

    /// Reads a register of at most 64 bits.
    pub fn get(&self, register: c_int) -> u64 {
        let mut value = 0u64;
        // SAFETY: no register read through here is wider than 64 bits.
        unsafe { uc::uc_reg_read(self.raw, register, (&raw mut value).cast()) };
        value
    }

    /// Writes a register of at most 64 bits.
    pub fn set(&mut self, register: c_int, value: u64) {
        // SAFETY: as for `get`.
        unsafe { uc::uc_reg_write(self.raw, register, (&raw const value).cast()) };
    }

    /// Writes those 64-bit registers that do not have the value `known`, or all.
    pub fn set_changed<const N: usize>(
        &mut self,
        registers: &[c_int; N],
        known: Option<&[u64; N]>,
        values: &[u64; N],
    ) {
        for (i, (register, value)) in registers.iter().zip(values).enumerate() {
            if known.is_none_or(|known| known[i] != *value) {
                self.set(*register, *value);
            }
        }
    }

    /// Reads a register of up to 16 bytes (vector, x87, structured system registers).
    pub fn get_wide(&self, register: c_int) -> [u8; 16] {
        let mut value = [0u64; 2];
        // SAFETY: XMM and Q registers are 16 bytes, x87 registers 10.
        unsafe { uc::uc_reg_read(self.raw, register, value.as_mut_ptr().cast()) };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value[0].to_le_bytes());
        bytes[8..].copy_from_slice(&value[1].to_le_bytes());
        bytes
    }

    /// Writes a register of up to 16 bytes.
    pub fn set_wide(&mut self, register: c_int, bytes: &[u8; 16]) {
        // SAFETY: as for `get_wide`.
        unsafe { uc::uc_reg_write(self.raw, register, bytes.as_ptr().cast()) };
    }

    /// Writes an x86 model-specific register.
    pub fn set_msr(&mut self, number: u32, value: u64) {
        let msr = uc::uc_x86_msr { rid: number, value };
        let register = uc::RegisterX86::MSR as c_int;
        // SAFETY: the MSR pseudo-register takes this structure.
        unsafe { uc::uc_reg_write(self.raw, register, (&raw const msr).cast()) };
    }

    /// Reads an aarch64 system register.
    pub fn system_register(&self, encoding: SystemRegister) -> u64 {
        let mut cp = encoding.to_raw(0);
        let register = uc::RegisterARM64::CP_REG as c_int;
        // SAFETY: the CP_REG pseudo-register takes this structure.
        unsafe { uc::uc_reg_read(self.raw, register, (&raw mut cp).cast()) };
        cp.val
    }

    /// Writes an aarch64 system register.
    pub fn set_system_register(&mut self, encoding: SystemRegister, value: u64) {
        let cp = encoding.to_raw(value);
        let register = uc::RegisterARM64::CP_REG as c_int;
        // SAFETY: as for `system_register`.
        unsafe { uc::uc_reg_write(self.raw, register, (&raw const cp).cast()) };
    }
}

/// An aarch64 system register by its encoding (op0, op1, CRn, CRm, op2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SystemRegister(pub u32, pub u32, pub u32, pub u32, pub u32);

impl SystemRegister {
    fn to_raw(self, val: u64) -> uc::RegisterARM64CP {
        let SystemRegister(op0, op1, crn, crm, op2) = self;
        uc::RegisterARM64CP { crn, crm, op0, op1, op2, val }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}
