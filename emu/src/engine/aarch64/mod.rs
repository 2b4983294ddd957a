//! aarch64: bringing the CPU to user level, and its exceptions.

pub(super) mod regs;

use std::ffi::c_int;

use unicorn_engine_sys::RegisterARM64 as R;

use crate::engine::unicorn::{Handle, SystemRegister};
use crate::engine::{EngineError, Exception, Exit};

const SCR_EL3: SystemRegister = SystemRegister(3, 6, 1, 1, 0);
const HCR_EL2: SystemRegister = SystemRegister(3, 4, 1, 1, 0);
const SCTLR_EL1: SystemRegister = SystemRegister(3, 0, 1, 0, 0);
const TCR_EL1: SystemRegister = SystemRegister(3, 0, 2, 0, 2);
const CPACR_EL1: SystemRegister = SystemRegister(3, 0, 1, 0, 2);
/// `APIAKeyLo_EL1`, the first of the ten halves of the pointer-authentication keys.
const KEYS: [SystemRegister; 10] = [
    SystemRegister(3, 0, 2, 1, 0),
    SystemRegister(3, 0, 2, 1, 1),
    SystemRegister(3, 0, 2, 1, 2),
    SystemRegister(3, 0, 2, 1, 3),
    SystemRegister(3, 0, 2, 2, 0),
    SystemRegister(3, 0, 2, 2, 1),
    SystemRegister(3, 0, 2, 2, 2),
    SystemRegister(3, 0, 2, 2, 3),
    SystemRegister(3, 0, 2, 3, 0),
    SystemRegister(3, 0, 2, 3, 1),
];

/// NS, RW, APK, API: without APK and API every PAC instruction is undefined once
/// `SCTLR_EL1.EnIA` is set.
const SCR: u64 = 1 | 1 << 10 | 1 << 16 | 1 << 17;
/// RW, APK, API.
const HCR: u64 = 1 << 31 | 1 << 40 | 1 << 41;
/// As Linux sets them for EL0: EnIA, EnIB, EnDA, EnDB, UCI, UCT, DZE, nTWI, nTWE.
const SCTLR: u64 =
    1 << 31 | 1 << 30 | 1 << 27 | 1 << 13 | 1 << 26 | 1 << 15 | 1 << 14 | 1 << 16 | 1 << 18;
/// 48-bit halves, top byte ignored for user addresses.
const TCR: u64 = 16 | 16 << 16 | 1 << 37;

/// Sets the CPU up for EL0 as Linux does. `CPACR_EL1` is last: its write refreshes the
/// engine's translation flags.
pub(super) fn setup(handle: &mut Handle) -> Result<(), EngineError> {
    handle.set_system_register(SCR_EL3, handle.system_register(SCR_EL3) | SCR);
    handle.set_system_register(HCR_EL2, HCR);
    handle.set_system_register(SCTLR_EL1, handle.system_register(SCTLR_EL1) | SCTLR);
    handle.set_system_register(TCR_EL1, TCR);
    for (i, key) in KEYS.into_iter().enumerate() {
        // Fixed keys: signed pointers are the same in every run.
        let value = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i as u64 + 1);
        handle.set_system_register(key, value);
    }
    handle.set(R::PSTATE as c_int, 0);
    handle.set_system_register(CPACR_EL1, 3 << 20);
    Ok(())
}

/// Sorts exceptions by the engine's numbers (QEMU's `EXCP_*`).
pub(super) fn classify(number: u32) -> Exit {
    match number {
        2 => Exit::Syscall,
        7 => Exit::Exception(Exception::Breakpoint),
        3 | 4 => Exit::Exception(Exception::Alignment),
        _ => Exit::Exception(Exception::InvalidOpcode),
    }
}

/// Whether a hook answers the instruction: `mrs`, of whatever register.
pub(super) fn is_hooked(code: &[u8]) -> bool {
    let word = code.first_chunk().map(|w| u32::from_le_bytes(*w));
    word.is_some_and(|w| w & 0xfff0_0000 == 0xd530_0000)
}
