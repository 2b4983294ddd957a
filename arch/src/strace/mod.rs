//! System calls as text, in the style of strace:
//! `openat(AT_FDCWD, "/etc/x", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)`.
//!
//! [`signature`] says what the arguments mean; [`format_call`] prints them
//! with memory that a callback reads. A pointer whose memory cannot be read
//! prints as a number. Structures that no kind covers print as pointers.

pub mod flags;
pub mod signatures;
mod table;

pub use signatures::{ArgKind, RetKind, Signature, signature};
pub use table::FlagTable;

use crate::{Arch, Errno, SigSet, Signal, Sysno};

/// Data is cut after this many bytes, as `strace -s` does by default.
pub const MAX_DATA: usize = 32;

/// Longest path that is read (`PATH_MAX`).
const MAX_PATH: usize = 4096;

/// Strings of an `argv` that are shown.
const MAX_STRINGS: usize = 32;

/// Parts of an `iovec` array that are shown.
const MAX_IOV: u64 = 32;

/// Reads up to `max` bytes of guest memory from an address: all that are
/// readable up to the first that is not; `None` if the first is not.
pub type Reader<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// Prints one call. `ret` is the raw result register after the call, or
/// `None` while it has not returned: then output arguments print as pointers
/// and the result as `?`.
pub fn format_call(
    arch: Arch,
    sysno: Sysno,
    args: &[u64; 6],
    reader: Reader<'_>,
    ret: Option<u64>,
) -> String {
    let signature = signature(sysno);
    let call = Call { arch, sysno, args, reader, ret };
    let shown = signature.args.iter().enumerate().take(call.used_args(&signature));
    let text: Vec<String> = shown.map(|(i, (_, kind))| call.arg(i, *kind)).collect();
    format!("{}({}) = {}", sysno.name(), text.join(", "), result(signature.ret, ret))
}

/// Prints a call whose number has no name on the architecture.
pub fn format_unknown(nr: u64, args: &[u64; 6], ret: Option<u64>) -> String {
    let text: Vec<String> = args.iter().map(|a| format!("{a:#x}")).collect();
    format!("syscall_{nr:#x}({}) = {}", text.join(", "), result(RetKind::Int, ret))
}

/// Prints a result.
fn result(kind: RetKind, ret: Option<u64>) -> String {
    let Some(value) = ret.filter(|_| kind != RetKind::Never) else { return "?".to_owned() };
    match (Errno::from_ret(value), kind) {
        // Restart codes are the kernel's own: the program sees EINTR or a restart.
        (Some(errno), _) if errno >= Errno::ERESTARTSYS => format!("? {errno}"),
        (Some(errno), _) => format!("-1 {errno}"),
        (None, RetKind::Hex) => format!("{value:#x}"),
        (None, _) => (value as i64).to_string(),
    }
}

/// Escapes bytes as strace does: C escapes, then the shortest octal that the
/// next byte does not continue.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for (i, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            0x0b => text.push_str("\\v"),
            0x0c => text.push_str("\\f"),
            b'\r' => text.push_str("\\r"),
            0x20..=0x7e => text.push(char::from(byte)),
            _ if bytes.get(i + 1).is_some_and(u8::is_ascii_digit) => {
                text.push_str(&format!("\\{byte:03o}"));
            }
            _ => text.push_str(&format!("\\{byte:o}")),
        }
    }
    text
}

/// One call with all that its arguments need.
struct Call<'a> {
    arch: Arch,
    sysno: Sysno,
    args: &'a [u64; 6],
    reader: Reader<'a>,
    ret: Option<u64>,
}

impl Call<'_> {
    /// Number of arguments that mean something: the mode of `open` only when
    /// it creates, those of `fcntl` and `futex` by operation.
    fn used_args(&self, signature: &Signature) -> usize {
        const CREATES: u64 = 0o100 | 0o20000000;
        let all = signature.args.len();
        match self.sysno {
            Sysno::Open if self.args[1] & CREATES == 0 => 2,
            Sysno::Openat if self.args[2] & CREATES == 0 => 3,
            // F_GETFD, F_GETFL, F_GETOWN, F_GETSIG take no argument.
            Sysno::Fcntl if matches!(self.args[1], 1 | 3 | 9 | 11) => 2,
            Sysno::Futex => match self.args[1] & 0x7f {
                1 | 10 => 3, // wake
                0 | 6 => 4,  // wait, lock
                7 | 8 => 2,  // unlock
                _ => all,
            },
            Sysno::Mremap if self.args[3] & 2 == 0 => 4,
            _ => all,
        }
    }

    /// Whether the call has returned without an error.
    fn succeeded(&self) -> bool {
        self.ret.is_some_and(|r| Errno::from_ret(r).is_none())
    }

    /// Prints argument `i`.
    fn arg(&self, i: usize, kind: ArgKind) -> String {
        let value = self.args[i];
        match kind {
            ArgKind::Int | ArgKind::Fd => (value as i32).to_string(),
            ArgKind::Uint => (value as u32).to_string(),
            ArgKind::Long | ArgKind::Off => (value as i64).to_string(),
            ArgKind::Size => value.to_string(),
            ArgKind::Hex if value == 0 => "0".to_owned(),
            ArgKind::Hex => format!("{value:#x}"),
            ArgKind::DirFd if value as i32 == -100 => "AT_FDCWD".to_owned(),
            ArgKind::DirFd => (value as i32).to_string(),
            ArgKind::Mode if value == 0 => "000".to_owned(),
            ArgKind::Mode => format!("0{:o}", value as u32),
            ArgKind::Signal => match Signal::new(value) {
                Some(signal) => signal.to_string(),
                None => value.to_string(),
            },
            ArgKind::Flags(table) => table.format(self.arch, u64::from(value as u32)),
            ArgKind::LongFlags(table) => table.format(self.arch, value),
            ArgKind::CloneFlags => self.clone_flags(value),
            _ if value == 0 => "NULL".to_owned(),
            _ => self.pointer(value, kind).unwrap_or_else(|| format!("{value:#x}")),
        }
    }

    /// Prints what a pointer points to, if its kind and memory allow it.
    fn pointer(&self, addr: u64, kind: ArgKind) -> Option<String> {
        match kind {
            ArgKind::Path => self.c_string(addr, MAX_PATH),
            ArgKind::Str => self.c_string(addr, MAX_DATA),
            ArgKind::StrVec => self.string_vector(addr),
            ArgKind::In(len) => self.data(addr, self.args[len]),
            ArgKind::Iov(count) => self.iovec(addr, self.args[count]),
            ArgKind::Timespec => self.pair(addr, "tv_sec", "tv_nsec"),
            ArgKind::SigSet => self.sig_set(addr),
            ArgKind::SigAction => self.sig_action(addr),
            ArgKind::Rlimit => self.rlimit(addr),
            _ if !self.succeeded() => None,
            ArgKind::Out => self.data(addr, self.ret?),
            ArgKind::OutStr => self.c_string(addr, MAX_PATH),
            ArgKind::OutFds => {
                let both = self.word(addr)?;
                Some(format!("[{}, {}]", both as i32, (both >> 32) as i32))
            }
            ArgKind::OutInt => {
                let bytes = (self.reader)(addr, 4)?;
                Some(format!("[{}]", i32::from_le_bytes(*bytes.first_chunk()?)))
            }
            ArgKind::OutTimespec => self.pair(addr, "tv_sec", "tv_nsec"),
            ArgKind::OutTimeval => self.pair(addr, "tv_sec", "tv_usec"),
            ArgKind::OutSigSet => self.sig_set(addr),
            ArgKind::OutRlimit => self.rlimit(addr),
            _ => None,
        }
    }

    /// Eight bytes of memory.
    fn word(&self, addr: u64) -> Option<u64> {
        Some(u64::from_le_bytes(*(self.reader)(addr, 8)?.first_chunk()?))
    }

    /// A C string of at most `max` bytes.
    fn c_string(&self, addr: u64, max: usize) -> Option<String> {
        let bytes = (self.reader)(addr, max + 1)?;
        match bytes.iter().position(|b| *b == 0) {
            Some(end) => Some(format!("\"{}\"", escape(&bytes[..end]))),
            // The end is out of reach: cut, or beyond readable memory.
            None if bytes.len() > max => Some(format!("\"{}\"...", escape(&bytes[..max]))),
            None => None,
        }
    }

    /// `["a", "b"]`.
    fn string_vector(&self, addr: u64) -> Option<String> {
        let mut list = Vec::new();
        for i in 0..=MAX_STRINGS {
            match self.word(addr.wrapping_add(8 * i as u64))? {
                0 => break,
                _ if i == MAX_STRINGS => list.push("...".to_owned()),
                string => list.push(
                    self.c_string(string, MAX_DATA).unwrap_or_else(|| format!("{string:#x}")),
                ),
            }
        }
        Some(format!("[{}]", list.join(", ")))
    }

    /// `len` bytes of data, cut to [`MAX_DATA`].
    fn data(&self, addr: u64, len: u64) -> Option<String> {
        let shown = len.min(MAX_DATA as u64) as usize;
        if shown == 0 {
            return Some("\"\"".to_owned());
        }
        let bytes = (self.reader)(addr, shown).filter(|b| b.len() >= shown)?;
        let dots = if len > shown as u64 { "..." } else { "" };
        Some(format!("\"{}\"{dots}", escape(&bytes[..shown])))
    }

    /// `[{iov_base="x", iov_len=1}]`.
    fn iovec(&self, addr: u64, count: u64) -> Option<String> {
        let mut list = Vec::new();
        for i in 0..count.min(MAX_IOV) {
            let base = self.word(addr.wrapping_add(16 * i))?;
            let len = self.word(addr.wrapping_add(16 * i + 8))?;
            let data = self.data(base, len).unwrap_or_else(|| format!("{base:#x}"));
            list.push(format!("{{iov_base={data}, iov_len={len}}}"));
        }
        if count > MAX_IOV {
            list.push("...".to_owned());
        }
        Some(format!("[{}]", list.join(", ")))
    }

    /// A structure of two signed words.
    fn pair(&self, addr: u64, first: &str, second: &str) -> Option<String> {
        let (a, b) = (self.word(addr)? as i64, self.word(addr.wrapping_add(8))? as i64);
        Some(format!("{{{first}={a}, {second}={b}}}"))
    }

    /// `[INT TERM]`; `~[...]` when most signals are members.
    fn sig_set(&self, addr: u64) -> Option<String> {
        let set = SigSet(self.word(addr)?);
        let names = |set: SigSet| {
            let name = |s: Signal| {
                let full = s.to_string();
                full.strip_prefix("SIG").map(str::to_owned).unwrap_or(full)
            };
            set.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        Some(match set.0.count_ones() {
            0..=42 => format!("[{}]", names(set)),
            _ => format!("~[{}]", names(SigSet(!set.0))),
        })
    }

    /// `{sa_handler=0x…, sa_mask=[], sa_flags=SA_RESTORER, sa_restorer=0x…}`.
    fn sig_action(&self, addr: u64) -> Option<String> {
        let handler = match self.word(addr)? {
            0 => "SIG_DFL".to_owned(),
            1 => "SIG_IGN".to_owned(),
            handler => format!("{handler:#x}"),
        };
        let flags = self.word(addr.wrapping_add(8))?;
        let restorer = self.word(addr.wrapping_add(16))?;
        let mask = self.sig_set(addr.wrapping_add(24))?;
        let field = if flags & 4 != 0 { "sa_sigaction" } else { "sa_handler" };
        let tail = match flags & 0x0400_0000 {
            0 => String::new(),
            _ => format!(", sa_restorer={restorer:#x}"),
        };
        let flags = flags::SA.format(self.arch, flags);
        Some(format!("{{{field}={handler}, sa_mask={mask}, sa_flags={flags}{tail}}}"))
    }

    /// `{rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}`.
    fn rlimit(&self, addr: u64) -> Option<String> {
        let limit = |at: u64| {
            Some(match self.word(at)? {
                u64::MAX => "RLIM64_INFINITY".to_owned(),
                n if n > 1024 && n.is_multiple_of(1024) => format!("{}*1024", n / 1024),
                n => n.to_string(),
            })
        };
        let (cur, max) = (limit(addr)?, limit(addr.wrapping_add(8))?);
        Some(format!("{{rlim_cur={cur}, rlim_max={max}}}"))
    }

    /// `CLONE_VM|CLONE_VFORK|SIGCHLD`.
    fn clone_flags(&self, value: u64) -> String {
        let flags = value & !0xff;
        match (Signal::new(value & 0xff), flags) {
            (None, _) => flags::CLONE.format(self.arch, value),
            (Some(signal), 0) => signal.to_string(),
            (Some(signal), _) => format!("{}|{signal}", flags::CLONE.format(self.arch, flags)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
