//! The guest's registers at a transfer of control: in the engine's own memory, where they
//! are read without a call, or as the engine gives them.

#![allow(unsafe_code)]

use std::ffi::c_int;

use arch::Arch;
use unicorn_engine_sys as uc;

use crate::engine::flow::CalleeSaved;

/// Whether the guest's registers are where they are thought to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Env {
    /// So many comparisons were right.
    Unproved(u8),
    Proved,
    Wrong,
}

impl Env {
    pub const fn compared(self, same: bool) -> Env {
        match self {
            Env::Unproved(_) | Env::Proved if !same => Env::Wrong,
            Env::Unproved(n) if n < 64 => Env::Unproved(n + 1),
            Env::Unproved(_) => Env::Proved,
            other => other,
        }
    }
}

/// The registers in the engine's memory while translated code runs.
#[derive(Clone, Copy)]
pub(super) struct EnvRegisters {
    arch: Arch,
    base: *const u64,
}

impl EnvRegisters {
    /// # Safety
    ///
    /// `env` points to the engine's CPU structure: on x86_64 it begins with the general
    /// registers, on aarch64 they are at offset 64, the stack pointer as the 31st.
    pub const unsafe fn at(arch: Arch, env: u64) -> EnvRegisters {
        let offset = match arch {
            Arch::X86_64 => 0,
            Arch::Aarch64 => 64,
        };
        EnvRegisters { arch, base: (env + offset) as usize as *const u64 }
    }

    #[inline(always)]
    fn register(self, i: usize) -> u64 {
        // SAFETY: see `at`; `i` is a register's number.
        unsafe { *self.base.add(i) }
    }

    #[inline(always)]
    pub fn sp(self) -> u64 {
        self.register(if self.arch == Arch::X86_64 { 4 } else { 31 })
    }

    /// Loads alone: they go straight to where the array is wanted.
    #[inline(always)]
    pub fn saved(self) -> CalleeSaved {
        let r = |i: usize| self.register(i);
        match self.arch {
            // rbx, rbp, r12 to r15; the engine has them in the order of their encoding.
            Arch::X86_64 => [r(3), r(5), r(12), r(13), r(14), r(15), 0, 0, 0, 0, 0],
            Arch::Aarch64 => std::array::from_fn(|i| r(19 + i)),
        }
    }
}

/// The registers as the engine gives them.
pub(super) fn asked_registers(arch: Arch, raw: *mut uc::uc_engine) -> (u64, CalleeSaved) {
    use uc::{RegisterARM64 as A, RegisterX86 as X};
    let read = |register: c_int| {
        let mut value = 0u64;
        // SAFETY: registers may be read inside a block hook and between runs.
        unsafe { uc::uc_reg_read(raw, register, (&raw mut value).cast()) };
        value
    };
    let mut saved = CalleeSaved::default();
    let sp = match arch {
        Arch::X86_64 => {
            let ids = [X::RBX, X::RBP, X::R12, X::R13, X::R14, X::R15];
            saved.iter_mut().zip(ids).for_each(|(place, id)| *place = read(id as c_int));
            read(X::RSP as c_int)
        }
        Arch::Aarch64 => {
            for (place, i) in saved.iter_mut().zip(19..=29) {
                let id = if i == 29 { A::X29 as c_int } else { A::X0 as c_int + i };
                *place = read(id);
            }
            read(A::SP as c_int)
        }
    };
    (sp, saved)
}
