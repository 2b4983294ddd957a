//! x86_64: bringing the CPU to user level, and its exceptions.

pub(super) mod regs;

use std::ffi::c_int;

use unicorn_engine_sys::RegisterX86 as R;

use crate::engine::counting::Left;
use crate::engine::shared::{DROP_WINDOW, SharedMemory};
use crate::engine::unicorn::Handle;
use crate::engine::{Arena, EngineError, Exception, Exit, Frame, Mmu, Perms};

/// Page tables without a page.
struct NoPages;

impl Mmu for NoPages {
    fn translate(&mut self, _va: u64) -> Option<(Frame, Perms)> {
        None
    }
}

const MSR_EFER: u32 = 0xc000_0080;
const MSR_STAR: u32 = 0xc000_0081;
/// `EFER`: long mode active and enabled, system-call extensions.
const EFER: u64 = 1 << 10 | 1 << 8 | 1;
/// `STAR[63:48]`: `sysretq` loads CS = this + 16 | 3 = 0x33 and SS = this + 8 | 3 = 0x2b.
const STAR: u64 = 0x23 << 48 | 0x10 << 32;

/// `CR0.NE`: x87 exceptions as #MF.
const CR0_NE: u64 = 1 << 5;
/// `CR4`: FXSAVE and SSE, SIMD exceptions as #XM.
const CR4: u64 = 1 << 9 | 1 << 10;

/// unicorn starts at CPL 0. One `sysretq` enters CPL 3 with Linux's selectors, for good.
pub(super) fn setup(
    handle: &mut Handle,
    shared: &mut SharedMemory,
    arena: &mut Arena,
) -> Result<(), EngineError> {
    handle.set_msr(MSR_STAR, STAR);
    handle.set_msr(MSR_EFER, EFER);
    let Some(frame) = arena.alloc() else {
        return Err(EngineError::Arena { wanted: 4096, reason: "no frame".to_owned() });
    };
    arena.bytes_mut(frame)[..3].copy_from_slice(b"\x48\x0f\x07");
    let code = DROP_WINDOW + frame.addr();
    let landing = code + 16;
    handle.set(R::RCX as c_int, landing);
    handle.set(R::R11 as c_int, 0x202);
    shared.hot.left = Left::new(1000, 1000);
    shared.lend(arena, &mut NoPages);
    shared.window_open = true;
    let error = handle.start(code, landing);
    shared.window_open = false;
    shared.take_back();
    let segment = handle.get(R::CS as c_int) & 0xffff;
    arena.free(frame);
    shared.forget_last_block();
    if regs::pc(handle) != landing || segment != 0x33 {
        let detail = format!("sysret: {error}, CS {segment:#x}");
        return Err(EngineError::Stray { pc: regs::pc(handle), detail });
    }
    enable_sse(handle);
    handle.set(R::CR0 as c_int, handle.get(R::CR0 as c_int) | CR0_NE);
    // Linux: FPU as after FNINIT, MXCSR with all exceptions masked.
    handle.set(R::MXCSR as c_int, 0x1f80);
    handle.set(R::FPCW as c_int, 0x37f);
    handle.set(R::FPTAG as c_int, 0xffff);
    regs::write(handle, None, &arch::Regs::new(arch::Arch::X86_64));
    Ok(())
}

/// Lets SSE instructions execute.
pub(super) fn enable_sse(handle: &mut Handle) {
    handle.set(R::CR4 as c_int, handle.get(R::CR4 as c_int) | CR4);
}

/// Sorts exceptions by vector (Intel SDM volume 3, table 6-1).
pub(super) fn classify(vector: u32) -> Exit {
    Exit::Exception(match vector {
        0 => Exception::Divide,
        1 => Exception::Debug,
        3 => Exception::Breakpoint,
        4 | 5 => Exception::Overflow,
        6 => Exception::InvalidOpcode,
        8 | 10..=13 => Exception::Protection { vector: vector as u8 },
        16 => Exception::FloatingPoint { simd: false },
        17 => Exception::Alignment,
        19 => Exception::FloatingPoint { simd: true },
        _ => Exception::SoftwareInterrupt { vector: vector as u8 },
    })
}

/// Whether a hook answers the instruction: `rdtsc`, with whatever prefixes.
pub(super) fn is_hooked(code: &[u8]) -> bool {
    let prefix = |b: &u8| {
        matches!(
            b,
            0x40..=0x4f | 0x66 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x67
        )
    };
    let rest = code.iter().position(|b| !prefix(b)).map_or(&[][..], |at| &code[at..]);
    rest.starts_with(&[0x0f, 0x31])
}
