//! x86_64 registers, in and out of the engine.

use std::ffi::c_int;

use arch::{Arch, Regs};
use unicorn_engine_sys::RegisterX86 as R;
use unicorn_engine_sys::uc_engine;

use crate::engine::unicorn::{Handle, get_many};

/// Engine registers in DWARF order, then RIP, RFLAGS, FS.base, GS.base.
const IDS: [c_int; 20] = [
    R::RAX as c_int,
    R::RDX as c_int,
    R::RCX as c_int,
    R::RBX as c_int,
    R::RSI as c_int,
    R::RDI as c_int,
    R::RBP as c_int,
    R::RSP as c_int,
    R::R8 as c_int,
    R::R9 as c_int,
    R::R10 as c_int,
    R::R11 as c_int,
    R::R12 as c_int,
    R::R13 as c_int,
    R::R14 as c_int,
    R::R15 as c_int,
    R::RIP as c_int,
    R::RFLAGS as c_int,
    R::FS_BASE as c_int,
    R::GS_BASE as c_int,
];

pub(in crate::engine) fn pc(handle: &Handle) -> u64 {
    handle.get(R::RIP as c_int)
}

pub(in crate::engine) fn read(handle: &Handle) -> Regs {
    read_raw(handle.raw())
}

/// Also inside a hook.
pub(in crate::engine) fn read_raw(raw: *mut uc_engine) -> Regs {
    let values = get_many(raw, &IDS);
    let mut regs = Regs::new(Arch::X86_64);
    regs.gp[..16].copy_from_slice(&values[..16]);
    [regs.pc, regs.flags, regs.tls, regs.gs_base] =
        [values[16], values[17], values[18], values[19]];
    regs
}

/// Writes those that are not as in `known`.
pub(in crate::engine) fn write(handle: &mut Handle, known: Option<&Regs>, regs: &Regs) {
    handle.set_changed(&IDS, known.map(values).as_ref(), &values(regs));
}

/// In the order of [`IDS`].
fn values(regs: &Regs) -> [u64; 20] {
    let mut values = [0; 20];
    values[..16].copy_from_slice(&regs.gp[..16]);
    values[16..].copy_from_slice(&[regs.pc, regs.flags, regs.tls, regs.gs_base]);
    values
}

/// Offsets in the FXSAVE64 image (Intel SDM volume 1, table 10-2).
mod fxsave {
    pub const FCW: usize = 0;
    pub const FSW: usize = 2;
    pub const FTW: usize = 4;
    pub const MXCSR: usize = 24;
    pub const MXCSR_MASK: usize = 28;
    pub const ST: usize = 32;
    pub const XMM: usize = 160;
}

pub(in crate::engine) fn read_fp(handle: &Handle) -> arch::FpState {
    let mut image = Box::new([0u8; 512]);
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let status = handle.get(R::FPSW as c_int) as u16;
    put(fxsave::FCW, &(handle.get(R::FPCW as c_int) as u16).to_le_bytes());
    put(fxsave::FSW, &status.to_le_bytes());
    put(fxsave::FTW, &[abridge(handle.get(R::FPTAG as c_int) as u16)]);
    put(fxsave::MXCSR, &(handle.get(R::MXCSR as c_int) as u32).to_le_bytes());
    put(fxsave::MXCSR_MASK, &0xffffu32.to_le_bytes());
    let top = usize::from(status >> 11 & 7);
    for i in 0..8 {
        // The engine numbers physical registers; the image is by stack position.
        let physical = R::FP0 as c_int + ((top + i) % 8) as c_int;
        put(fxsave::ST + 16 * i, &handle.get_wide(physical)[..10]);
    }
    for i in 0..16 {
        put(fxsave::XMM + 16 * i, &handle.get_wide(R::XMM0 as c_int + i as c_int));
    }
    arch::FpState::X86_64(image)
}

pub(in crate::engine) fn write_fp(handle: &mut Handle, image: &[u8; 512]) {
    let half = |at: usize| u16::from_le_bytes([image[at], image[at + 1]]);
    let wide = |at: usize, len: usize| {
        let mut bytes = [0; 16];
        bytes[..len].copy_from_slice(&image[at..at + len]);
        bytes
    };
    let mut mxcsr = [0; 4];
    mxcsr.copy_from_slice(&image[fxsave::MXCSR..fxsave::MXCSR + 4]);
    let status = half(fxsave::FSW);
    let top = usize::from(status >> 11 & 7);
    handle.set(R::FPCW as c_int, u64::from(half(fxsave::FCW)));
    handle.set(R::FPSW as c_int, u64::from(status));
    for i in 0..8 {
        let physical = R::FP0 as c_int + ((top + i) % 8) as c_int;
        handle.set_wide(physical, &wide(fxsave::ST + 16 * i, 10));
    }
    handle.set(R::FPTAG as c_int, u64::from(expand(image[fxsave::FTW])));
    handle.set(R::MXCSR as c_int, u64::from(u32::from_le_bytes(mxcsr)));
    for i in 0..16 {
        let register = R::XMM0 as c_int + i as c_int;
        handle.set_wide(register, &wide(fxsave::XMM + 16 * i, 16));
    }
}

/// Full tag word (two bits a register, 3 = empty) to FXSAVE's one bit (1 = valid).
fn abridge(tags: u16) -> u8 {
    (0..8).filter(|i| tags >> (2 * i) & 3 != 3).fold(0, |bits, i| bits | 1 << i)
}

/// The inverse of [`abridge`]; the engine keeps "empty" only.
fn expand(bits: u8) -> u16 {
    (0..8).filter(|i| bits >> i & 1 == 0).fold(0, |tags, i| tags | 3 << (2 * i))
}
