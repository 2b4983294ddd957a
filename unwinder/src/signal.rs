//! Signal frames, known by the code that their handlers return to.
//!
//! The kernel's signal frame holds every register of the interrupted thread. Where no table
//! says so (musl's restorer, the arm64 vDSO since Linux 5.8, SFrame's signal functions), the
//! bytes at the return address do: they call `rt_sigreturn` and nothing else.

use arch::sigframe::{is_sigreturn_code, saved_pc, saved_register};

use crate::address::InterruptedAddress;
use crate::step::Caller;
use crate::{CodeAddress, End, Memory, Registers};

/// Longest code that is looked at.
const CODE: usize = 9;

/// Whether the frame at `address` is one that only calls `rt_sigreturn`. A handler's return
/// address *is* its first instruction: nothing was called.
pub fn is_trampoline(address: CodeAddress, memory: &mut impl Memory) -> bool {
    let mut code = [0; CODE];
    // Code may end a mapping: the longer pattern first.
    [CODE, CODE - 1, CODE - 2].into_iter().any(|len| {
        memory.read(address.value(), &mut code[..len]) && is_sigreturn_code(&code[..len])
    })
}

/// The interrupted thread, from the kernel's frame above the trampoline's stack pointer.
///
/// # Errors
///
/// [`End::UnknownRegister`], [`End::BadRead`].
pub fn step(registers: &Registers, memory: &mut impl Memory) -> Result<Caller, End> {
    let arch = registers.arch();
    let sp = registers.sp().ok_or(End::UnknownRegister(arch.sp() as u8))?;
    let mut load = |offset: u64| {
        let address = sp.wrapping_add(offset);
        memory.word(address).ok_or(End::BadRead { address })
    };
    let mut caller = Registers::unknown(arch);
    for number in 0..Registers::COUNT {
        if let Some(offset) = saved_register(arch, number) {
            caller.set(number as u8, load(offset)?);
        }
    }
    let pc = load(saved_pc(arch))?;
    Ok(Caller { address: InterruptedAddress(pc).into(), registers: caller, cfa: caller.sp() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::address::ReturnAddress;
    use crate::memory::Copied;
    use arch::Arch;

    #[test]
    fn the_registers_are_those_of_the_frame() {
        for arch in Arch::ALL {
            let mut bytes = vec![0; 1024];
            let mut put = |at: u64, value: u64| {
                bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
            };
            for n in 0..32 {
                if let Some(at) = saved_register(arch, n) {
                    put(at, 0x100 + n as u64);
                }
            }
            put(saved_pc(arch), 0x40_1000);
            let registers = Registers::of_frame(arch, 0x7000, 0);
            let mut memory = Copied { address: 0x7000, bytes };
            let caller = step(&registers, &mut memory).unwrap();
            assert_eq!(caller.address, InterruptedAddress(0x40_1000).into());
            let known = if arch == Arch::X86_64 { 16 } else { 32 };
            for n in 0..32 {
                let expected = (n < known).then_some(0x100 + u64::from(n));
                assert_eq!(caller.registers.get(n), expected);
            }
            memory.bytes.truncate(100);
            assert!(matches!(step(&registers, &mut memory), Err(End::BadRead { .. })));
        }
    }

    #[test]
    fn trampolines() {
        let at = |code: &[u8]| {
            let mut memory = Copied { address: 0x7000, bytes: code.to_vec() };
            is_trampoline(ReturnAddress(0x7000).into(), &mut memory)
        };
        assert!(at(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]));
        assert!(at(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]));
        assert!(at(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]));
        assert!(!at(&[0xb8, 0x0f, 0, 0, 0, 0x0f]));
        assert!(!at(&[]) && !at(&[0x90; 32]));
    }
}
