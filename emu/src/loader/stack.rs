//! The initial stack, byte for byte as Linux lays it out.
//!
//! `copy_strings` (fs/exec.c) writes the strings from the top down, then
//! `create_elf_tables` (fs/binfmt_elf.c) the platform, the random bytes and the
//! vectors:
//!
//! ```text
//! stack_top   ┌─────────────────────────────┐
//!             │ 8 zero bytes                │
//!             │ path given to execve, NUL   │ ◄─ AT_EXECFN
//!             │ envp[n-1] … envp[0] strings │ ◄─ env_start: envp[0]
//!             │ argv[n-1] … argv[0] strings │ ◄─ arg_start: argv[0]
//!             │ 0 to 15 bytes, and the skew │    16-byte alignment
//!             │ platform name, NUL          │ ◄─ AT_PLATFORM
//!             │ 16 random bytes             │ ◄─ AT_RANDOM
//!             │ padding                     │
//!             │ auxv pairs, AT_NULL         │
//!             │ envp pointers, NULL         │
//!             │ argv pointers, NULL         │
//!             │ argc                        │ ◄─ sp, 16-byte aligned
//!             └─────────────────────────────┘
//! ```

use arch::Arch;

use super::auxv::{Aux, at};

/// Longest argument or environment string in bytes, with its NUL (`MAX_ARG_STRLEN`).
pub const MAX_ARG_STRLEN: usize = 131_072;

/// What the strings and pointers may always use, in bytes (`ARG_MAX`).
pub const ARG_MAX: u64 = 131_072;

/// `_STK_LIM / 4 * 3`: what the strings and pointers may use at most, in bytes.
pub const ARGS_LIMIT: u64 = super::layout::STACK_LIMIT / 4 * 3;

/// Why no stack can be built; Linux's `execve` returns `E2BIG` for each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// One string exceeds [`MAX_ARG_STRLEN`].
    #[error("{what} has {len} bytes, one string may have 131071: argument list too long (E2BIG)")]
    StringTooLong {
        /// Which string: `argv[3]`, `envp[0]`, `the path`.
        what: String,
        /// Its size in bytes without the NUL.
        len: usize,
    },
    /// All strings and pointers together exceed a quarter of the stack's limit.
    #[error(
        "arguments and environment need {needed} bytes, the limit is {limit}: argument list too long (E2BIG)"
    )]
    TooBig {
        /// Bytes of all strings and of the pointers to them.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A string has a NUL inside.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// Which string.
        what: String,
    },
}

/// What the stack is built from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Chooses the platform's name.
    pub arch: Arch,
    /// One past the highest byte of the stack; page-aligned.
    pub top: u64,
    /// Lowers everything below the strings, in bytes ([`super::Layout::stack_skew`]).
    pub skew: u64,
    /// Soft `RLIMIT_STACK` in bytes.
    pub stack_limit: u64,
    /// The arguments. An empty list becomes one empty string (Linux 5.18).
    pub argv: &'a [Vec<u8>],
    /// The environment, `NAME=value`.
    pub envp: &'a [Vec<u8>],
    /// The path given to `execve`.
    pub execfn: &'a [u8],
    /// `AT_RANDOM`: seeds the stack protector and pointer mangling of the C library.
    pub random: [u8; 16],
    /// The rest of the auxiliary vector.
    pub aux: Aux,
}

/// A stack ready to be written at `sp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The initial stack pointer, where `argc` is; 16-byte aligned.
    pub sp: u64,
    /// Everything from `sp` to the top of the stack.
    pub bytes: Vec<u8>,
    /// `arg_start` and `arg_end`: the argument strings (`/proc/PID/cmdline`).
    pub args: (u64, u64),
    /// `env_start` and `env_end`: the environment strings (`/proc/PID/environ`).
    pub env: (u64, u64),
    /// The auxiliary vector with its `AT_NULL`, as `/proc/PID/auxv` shows it.
    pub auxv: Vec<(u64, u64)>,
}

/// `AT_PLATFORM` (`ELF_PLATFORM`).
fn platform(arch: Arch) -> &'static str {
    arch.name()
}

/// Builds the initial stack.
///
/// # Errors
///
/// [`StackError`] when the strings exceed the kernel's limits; nothing larger than
/// those limits is allocated.
pub fn build(input: &Input<'_>) -> Result<Stack, StackError> {
    let empty = [Vec::new()];
    let argv = if input.argv.is_empty() { &empty[..] } else { input.argv };
    check(input, argv)?;

    let mut down = Down { at: input.top, bytes: Vec::new() };
    down.push(&[0; 8]);
    let execfn = down.string(input.execfn);
    let env_end = down.at;
    let envp = down.strings(input.envp);
    let env_start = down.at;
    let args = down.strings(argv);
    let arg_start = down.at;
    down.lower_to((down.at - input.skew) & !15);
    let platform = down.string(platform(input.arch).as_bytes());
    let random = down.push(&input.random);

    let mut auxv = input.aux.entries(random, execfn, platform);
    auxv.push((at::NULL, 0));
    let mut words = vec![args.len() as u64];
    words.extend(args.iter().rev().chain([&0]));
    words.extend(envp.iter().rev().chain([&0]));
    words.extend(auxv.iter().flat_map(|&(kind, value)| [kind, value]));
    // Linux rounds the end of the vectors down (`STACK_ROUND`), so the padding is above them.
    down.lower_to((down.at - 8 * words.len() as u64) & !15);
    let sp = down.at;
    let mut bytes = down.finish();
    for (place, word) in bytes.chunks_exact_mut(8).zip(&words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(Stack { sp, bytes, args: (arg_start, env_start), env: (env_start, env_end), auxv })
}

/// The kernel's limits (`bprm_set_stack_limit`, `copy_strings`): each string, and all
/// strings with the pointers to them.
fn check(input: &Input<'_>, argv: &[Vec<u8>]) -> Result<(), StackError> {
    let limit = ARGS_LIMIT.min(input.stack_limit / 4).max(ARG_MAX);
    let mut needed = 8 * (argv.len() + input.envp.len()) as u64;
    let named =
        |name: &'static str, i: usize, s: &[u8]| (format!("{name}[{i}]"), s.len(), s.contains(&0));
    let strings =
        std::iter::once(("the path".to_owned(), input.execfn.len(), input.execfn.contains(&0)))
            .chain(argv.iter().enumerate().map(|(i, s)| named("argv", i, s)))
            .chain(input.envp.iter().enumerate().map(|(i, s)| named("envp", i, s)));
    for (what, len, nul) in strings {
        if len >= MAX_ARG_STRLEN {
            return Err(StackError::StringTooLong { what, len });
        }
        if nul {
            return Err(StackError::Nul { what });
        }
        needed += len as u64 + 1;
    }
    if needed > limit {
        return Err(StackError::TooBig { needed, limit });
    }
    Ok(())
}

/// Bytes written downwards from an address, kept in reverse until the end.
struct Down {
    at: u64,
    bytes: Vec<u8>,
}

impl Down {
    /// Writes `bytes` below what is there; returns their address.
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.extend(bytes.iter().rev());
        self.at -= bytes.len() as u64;
        self.at
    }

    /// Writes a string and its NUL; returns its address.
    fn string(&mut self, bytes: &[u8]) -> u64 {
        self.push(&[0]);
        self.push(bytes)
    }

    /// Writes strings, the last one highest; returns the addresses from last to first.
    fn strings(&mut self, strings: &[Vec<u8>]) -> Vec<u64> {
        strings.iter().rev().map(|s| self.string(s)).collect()
    }

    /// Fills with zeros down to `address`.
    fn lower_to(&mut self, address: u64) {
        self.bytes.resize(self.bytes.len() + (self.at - address) as usize, 0);
        self.at = address;
    }

    /// All bytes, lowest address first.
    fn finish(mut self) -> Vec<u8> {
        self.bytes.reverse();
        self.bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "stack_tests.rs"]
mod tests;
