//! aarch64 registers, in and out of the engine.

use std::ffi::c_int;

use arch::{Arch, FpState, Regs};
use unicorn_engine_sys::RegisterARM64 as R;
use unicorn_engine_sys::uc_engine;

use crate::engine::unicorn::{Handle, get_many};

/// Engine registers in DWARF order (`x0`..`x30`, `sp`), then PC, PSTATE, TPIDR_EL0.
const IDS: [c_int; 35] = {
    let mut ids = [0; 35];
    let mut i = 0;
    while i < 29 {
        ids[i] = R::X0 as c_int + i as c_int;
        i += 1;
    }
    ids[29] = R::X29 as c_int;
    ids[30] = R::X30 as c_int;
    ids[31] = R::SP as c_int;
    ids[32] = R::PC as c_int;
    ids[33] = R::PSTATE as c_int;
    ids[34] = R::TPIDR_EL0 as c_int;
    ids
};

/// NZCV; the rest of PSTATE is the engine's and constant at EL0.
const NZCV: u64 = 0xf000_0000;

pub(in crate::engine) fn pc(handle: &Handle) -> u64 {
    handle.get(R::PC as c_int)
}

pub(in crate::engine) fn read(handle: &Handle) -> Regs {
    read_raw(handle.raw())
}

/// Also inside a hook.
pub(in crate::engine) fn read_raw(raw: *mut uc_engine) -> Regs {
    let values = get_many(raw, &IDS);
    let mut regs = Regs::new(Arch::Aarch64);
    regs.gp.copy_from_slice(&values[..32]);
    regs.pc = values[32];
    regs.flags = values[33] & NZCV;
    regs.tls = values[34];
    regs
}

/// Writes those that are not as in `known`.
pub(in crate::engine) fn write(handle: &mut Handle, known: Option<&Regs>, regs: &Regs) {
    handle.set_changed(&IDS, known.map(values).as_ref(), &values(regs));
}

/// In the order of [`IDS`].
fn values(regs: &Regs) -> [u64; 35] {
    let mut values = [0; 35];
    values[..32].copy_from_slice(&regs.gp);
    values[32..].copy_from_slice(&[regs.pc, regs.flags & NZCV, regs.tls]);
    values
}

pub(in crate::engine) fn read_fp(handle: &Handle) -> FpState {
    let mut v = Box::new([0u128; 32]);
    for (i, value) in v.iter_mut().enumerate() {
        *value = u128::from_le_bytes(handle.get_wide(R::V0 as c_int + i as c_int));
    }
    let fpsr = handle.get(R::FPSR as c_int) as u32;
    let fpcr = handle.get(R::FPCR as c_int) as u32;
    FpState::Aarch64 { v, fpsr, fpcr }
}

pub(in crate::engine) fn write_fp(handle: &mut Handle, v: &[u128; 32], fpsr: u32, fpcr: u32) {
    for (i, value) in v.iter().enumerate() {
        handle.set_wide(R::V0 as c_int + i as c_int, &value.to_le_bytes());
    }
    handle.set(R::FPSR as c_int, u64::from(fpsr));
    handle.set(R::FPCR as c_int, u64::from(fpcr));
}
