//! A walk over a process's stack with the kernel's list of its sections, as the series that
//! adds SFrame to the deferred unwinder proposes it.
//!
//! ```text
//! each frame:  lookup(ip) ─┬─ row ─► applied ─┬─ caller
//!                          │                  └─ bad CFA, unreadable stack, outermost: end
//!                          └─ none, or refused ─► frame record (F2 to F7) ─┬─ caller
//!                                                                         └─ end
//! ```
//!
//! The kernel knows the stack and the frame pointer of a frame below the topmost; a row that
//! needs another register there is refused.

use arch::Regs;

use super::registry::LookupError;
use super::{ErrorKind, Found, Registry};
use crate::fp::unwind_user::{self, MAX_ENTRIES};
use crate::step::{Caller, apply};
use crate::unwind::kernel_row;
use crate::{CodeAddress, End, InstructionPointer, Memory, Registers};

/// Walks from a thread's registers: at most `max` (itself at most [`MAX_ENTRIES`]) addresses
/// for `store`, the topmost first. Returns why the walk ended; [`End::Limit`] if it was full.
pub fn walk(
    registry: &mut Registry,
    regs: &Regs,
    max: usize,
    memory: &mut impl Memory,
    store: &mut impl FnMut(u64),
) -> End {
    walk_by(regs, max, memory, store, |address, registers, memory| {
        step(registry, address, registers, memory)
    })
}

/// The same in a context that may not bring pages in: memory that is absent ends the walk, also if
/// it is a section's, and no section is removed.
pub fn walk_present(
    registry: &Registry,
    regs: &Regs,
    max: usize,
    memory: &mut impl Memory,
    store: &mut impl FnMut(u64),
) -> End {
    walk_by(regs, max, memory, store, |address, registers, memory| {
        let found = match registry.find(address.lookup(), memory) {
            Err(LookupError::Fault(error)) if error.kind == ErrorKind::Unreadable => {
                return Err(End::Table(error.into()));
            }
            found => found.ok(),
        };
        apply_or_frame_record(found, address, registers, memory)
    })
}

fn walk_by<M: Memory>(
    regs: &Regs,
    max: usize,
    memory: &mut M,
    store: &mut impl FnMut(u64),
    mut step: impl FnMut(CodeAddress, &Registers, &mut M) -> Result<Caller, End>,
) -> End {
    let mut address: CodeAddress = InstructionPointer(regs.pc).into();
    let mut registers = Registers::of_thread(regs);
    for _ in 0..max.min(MAX_ENTRIES) {
        store(address.value());
        match step(address, &registers, memory) {
            Ok(caller) => (address, registers) = (caller.address, kernel_registers(&caller)),
            Err(end) => return end,
        }
    }
    End::Limit
}

/// One step.
///
/// # Errors
///
/// [`End`]: why there is no caller.
pub fn step(
    registry: &mut Registry,
    address: CodeAddress,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Caller, End> {
    let found = registry.lookup(address.lookup(), memory).ok();
    apply_or_frame_record(found, address, registers, memory)
}

/// By the row, or by frame record if there is none or the kernel refuses it.
fn apply_or_frame_record(
    found: Option<Found>,
    address: CodeAddress,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Caller, End> {
    match found.and_then(|found| kernel_row(found, address, registers)) {
        Some(row) => apply(&row, address, registers, &[], memory),
        None => unwind_user::step(registers, memory),
    }
}

/// What the kernel keeps of a caller's registers.
fn kernel_registers(caller: &Caller) -> Registers {
    let mut registers = caller.registers;
    let arch = registers.arch();
    registers.keep(1 << arch.sp() | 1 << arch.fp());
    registers
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
