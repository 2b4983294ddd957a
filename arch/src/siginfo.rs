//! `siginfo_t`: what a handler learns about a signal
//! (`include/uapi/asm-generic/siginfo.h`; x86_64 and aarch64 agree).

use crate::Signal;
use crate::bytes::{get, put};
use crate::signal::code;

/// Bytes of a `siginfo_t`.
pub const SIZE: usize = 128;

/// A signal's number, reason and the fields that the reason has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigInfo {
    /// `si_signo`.
    pub signal: Signal,
    /// `si_errno`, zero in all that Linux itself sends.
    pub errno: i32,
    /// `si_code`, see [`crate::signal::code`].
    pub code: i32,
    /// The union.
    pub fields: SigFields,
}

/// The union of `siginfo_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigFields {
    /// Nothing but zeros, as with [`code::SI_KERNEL`].
    None,
    /// `kill`, `tkill`.
    Kill {
        /// Sending process.
        pid: i32,
        /// Its real user.
        uid: u32,
    },
    /// A POSIX timer.
    Timer {
        /// `timer_t`.
        id: i32,
        /// Expirations that were merged into this signal.
        overrun: i32,
        /// `si_value`.
        value: u64,
    },
    /// `rt_sigqueueinfo`.
    Rt {
        /// Sending process.
        pid: i32,
        /// Its real user.
        uid: u32,
        /// `si_value`.
        value: u64,
    },
    /// SIGCHLD.
    Child {
        /// The child.
        pid: i32,
        /// Its real user.
        uid: u32,
        /// Exit code or signal.
        status: i32,
        /// User time in clock ticks (1/100 s).
        utime: i64,
        /// System time in clock ticks.
        stime: i64,
    },
    /// SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGTRAP.
    Fault {
        /// The faulting address: of the memory, or of the instruction.
        addr: u64,
    },
    /// SIGIO.
    Poll {
        /// `POLLIN` and other events.
        band: i64,
        /// The descriptor.
        fd: i32,
    },
    /// SIGSYS.
    Sys {
        /// Address after the system-call instruction.
        call_addr: u64,
        /// The number.
        syscall: i32,
        /// `AUDIT_ARCH_*`.
        arch: u32,
    },
    /// As a program passed it to `rt_sigqueueinfo`: bytes 16 to 127.
    Raw([u8; SIZE - FIELDS]),
}

/// Offset of the union.
const FIELDS: usize = 16;

impl SigInfo {
    /// A fault at `addr`.
    pub const fn fault(signal: Signal, code: i32, addr: u64) -> SigInfo {
        SigInfo { signal, errno: 0, code, fields: SigFields::Fault { addr } }
    }

    /// Sent by the kernel without an address (`force_sig`).
    pub const fn kernel(signal: Signal) -> SigInfo {
        SigInfo { signal, errno: 0, code: code::SI_KERNEL, fields: SigFields::None }
    }

    /// Sent by `kill` ([`code::SI_USER`]) or `tgkill` ([`code::SI_TKILL`]).
    pub const fn sent(signal: Signal, code: i32, pid: i32, uid: u32) -> SigInfo {
        SigInfo { signal, errno: 0, code, fields: SigFields::Kill { pid, uid } }
    }

    /// A child changed state: `status` is its exit code or the signal.
    pub const fn child(signal: Signal, code: i32, pid: i32, uid: u32, status: i32) -> SigInfo {
        let fields = SigFields::Child { pid, uid, status, utime: 0, stime: 0 };
        SigInfo { signal, errno: 0, code, fields }
    }

    /// What a program passed to `rt_sigqueueinfo`; the signal number is the
    /// call's argument, as in the kernel.
    pub fn from_user(signal: Signal, bytes: &[u8; SIZE]) -> SigInfo {
        SigInfo {
            signal,
            errno: i32::from_le_bytes(get(bytes, 4)),
            code: i32::from_le_bytes(get(bytes, 8)),
            fields: SigFields::Raw(get(bytes, FIELDS)),
        }
    }

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        put(&mut out, 0, i32::from(self.signal.number()).to_le_bytes());
        put(&mut out, 4, self.errno.to_le_bytes());
        put(&mut out, 8, self.code.to_le_bytes());
        self.fields.put(&mut out);
        out
    }
}

impl SigFields {
    /// Stores the union.
    fn put(&self, out: &mut [u8; SIZE]) {
        let mut ids = |a: i32, b: u32| {
            put(out, FIELDS, a.to_le_bytes());
            put(out, FIELDS + 4, b.to_le_bytes());
        };
        match *self {
            SigFields::None => {}
            SigFields::Kill { pid, uid } => ids(pid, uid),
            SigFields::Timer { id, overrun, value } => {
                ids(id, overrun as u32);
                put(out, 24, value.to_le_bytes());
            }
            SigFields::Rt { pid, uid, value } => {
                ids(pid, uid);
                put(out, 24, value.to_le_bytes());
            }
            SigFields::Child { pid, uid, status, utime, stime } => {
                ids(pid, uid);
                put(out, 24, status.to_le_bytes());
                put(out, 32, utime.to_le_bytes());
                put(out, 40, stime.to_le_bytes());
            }
            SigFields::Fault { addr } => put(out, 16, addr.to_le_bytes()),
            SigFields::Poll { band, fd } => {
                put(out, 16, band.to_le_bytes());
                put(out, 24, fd.to_le_bytes());
            }
            SigFields::Sys { call_addr, syscall, arch } => {
                put(out, 16, call_addr.to_le_bytes());
                put(out, 24, syscall.to_le_bytes());
                put(out, 28, arch.to_le_bytes());
            }
            SigFields::Raw(bytes) => put(out, FIELDS, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_carries_its_address() {
        let bytes = SigInfo::fault(Signal::SIGSEGV, code::SEGV_MAPERR, 0x1234).to_bytes();
        assert_eq!(bytes[..12], [11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[16..18], [0x34, 0x12]);
        assert!(bytes[24..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_child_carries_its_status() {
        let fields = SigFields::Child { pid: 7, uid: 1000, status: 3, utime: 1, stime: 2 };
        let info = SigInfo { signal: Signal::SIGCHLD, errno: 0, code: code::CLD_EXITED, fields };
        let bytes = info.to_bytes();
        assert_eq!((bytes[16], bytes[24], bytes[32], bytes[40]), (7, 3, 1, 2));
    }

    #[test]
    fn user_bytes_pass_through() {
        let fields = SigFields::Rt { pid: 1, uid: 2, value: 3 };
        let sent = SigInfo { signal: Signal::SIGUSR1, errno: 0, code: code::SI_QUEUE, fields };
        let bytes = sent.to_bytes();
        let got = SigInfo::from_user(Signal::SIGUSR2, &bytes);
        assert_eq!(
            (got.code, got.to_bytes()[16..].to_vec()),
            (code::SI_QUEUE, bytes[16..].to_vec())
        );
        assert_eq!(got.to_bytes()[0], 12);
    }
}
