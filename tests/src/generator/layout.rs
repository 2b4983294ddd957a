//! Where a generated program keeps what.
//!
//! ```text
//! CODE ───► start, runtime, functions, coroutines
//! DATA ───► words: TOP, SAVED, JUMPS, FUEL, RANDOM, …   one of each
//! LISTS ──► a list of live frames for each stack        TOP points behind the last entry
//! BUFFERS ► a stack of jump buffers for each stack      JUMPS points to the innermost
//! STACKS ─► alternate signal stack, coroutines' stacks, neighbours without a gap
//! ```

/// First byte of the code.
pub const CODE: u64 = 0x40_0000 + crate::elf::HEADERS;
/// First byte of the writable data.
pub const DATA: u64 = 0x60_0000;

/// End of the list of the stack in use: the address behind its last entry; 0 before the
/// first.
pub const TOP: u64 = DATA;
/// The end of the list of the stack that is about to be left.
pub const SAVED: u64 = DATA + 8;
/// The innermost jump buffer of the stack in use.
pub const JUMPS: u64 = DATA + 16;
/// Functions that may still do something.
pub const FUEL: u64 = DATA + 24;
/// The program's own random numbers.
pub const RANDOM: u64 = DATA + 32;
/// Handlers that run on the alternate stack: no coroutine may be switched to.
pub const ON_ALTERNATE: u64 = DATA + 40;
/// The coroutine that runs: an address from [`coroutine`].
pub const CURRENT: u64 = DATA + 48;
/// Its own process number.
pub const PID: u64 = DATA + 56;
/// A word that stays 0: an empty signal mask.
pub const ZERO: u64 = DATA + 64;
/// A `struct sigaction`.
pub const ACTION: u64 = DATA + 96;
/// A `stack_t`.
pub const ALTERNATE: u64 = DATA + 160;

/// Stacks: the thread's own and two of coroutines.
pub const STACKS: u64 = 3;

/// A coroutine's words: its stack pointer, the end of its list, its innermost jump buffer.
pub const fn coroutine(index: u64) -> u64 {
    DATA + 256 + 32 * index
}

/// Bytes of a list entry.
///
/// ```text
/// 0  where the caller goes on; the interrupted address; the address of the jump
/// 8  CFA; 0 if the program does not know it yet
/// 16 kind: one of CALL, SIGNAL, TAIL
/// ```
pub const ENTRY: u64 = 32;
/// A call, or the call of a handler by the kernel.
pub const CALL: u64 = 1;
/// An interrupted function.
pub const SIGNAL: u64 = 2;
/// A function that has tail-called another one, which has the frame of the last `CALL` entry.
pub const TAIL: u64 = 3;

/// Where the list of a stack begins: 4096-byte aligned, so that bits of [`TOP`] tell its
/// length.
pub const fn list(stack: u64) -> u64 {
    DATA + 0x1000 + 0x2000 * stack
}

/// Bytes of a jump buffer.
pub const BUFFER: u64 = 128;
/// The stack of jump buffers is aligned to this many bits: it is empty if those of
/// [`JUMPS`] are 0.
pub const BUFFER_BITS: u32 = 14;

/// Where the jump buffers of a stack begin.
pub const fn buffers(stack: u64) -> u64 {
    DATA + 0x8000 + (stack << BUFFER_BITS)
}

/// Size of a coroutine's stack.
pub const STACK_SIZE: u64 = 0x1_8000;
/// Size of the alternate signal stack.
pub const ALTERNATE_SIZE: u64 = 0x1_8000;

/// The lowest byte of the alternate signal stack and of the coroutines' stacks 1 and 2, in an
/// order of the program's choice.
pub const fn stack(place: u64) -> u64 {
    DATA + 0x2_0000 + place * STACK_SIZE
}

/// Bytes of the data.
pub const DATA_SIZE: u64 = 0x2_0000 + 3 * STACK_SIZE;
