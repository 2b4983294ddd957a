//! Error numbers, the same on both architectures
//! (`include/uapi/asm-generic/errno.h`), with the messages of `strerror`.

use std::fmt;

/// A positive Linux error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(
    /// The number, 1 to 4095.
    pub u16,
);

impl Errno {
    /// Numbers above this are no errors when a system call returns them negated.
    pub const MAX: u16 = 4095;

    /// Synonym of [`Errno::EAGAIN`].
    pub const EWOULDBLOCK: Errno = Errno::EAGAIN;
    /// Synonym of [`Errno::EDEADLK`].
    pub const EDEADLOCK: Errno = Errno::EDEADLK;
    /// Synonym of [`Errno::EOPNOTSUPP`].
    pub const ENOTSUP: Errno = Errno::EOPNOTSUPP;

    /// The error that a system call's result register holds: -4095 to -1.
    pub const fn from_ret(ret: u64) -> Option<Errno> {
        match ret.wrapping_neg() {
            n @ 1..=4095 => Some(Errno(n as u16)),
            _ => None,
        }
    }

    /// The value of a system call's result register for this error.
    pub const fn to_ret(self) -> u64 {
        (self.0 as u64).wrapping_neg()
    }

    /// Symbolic name (`"ENOENT"`), if the number has one.
    pub fn name(self) -> Option<&'static str> {
        Some(self.entry()?.1)
    }

    /// Message of `strerror` (`"No such file or directory"`), if the number has one.
    pub fn message(self) -> Option<&'static str> {
        Some(self.entry()?.2)
    }

    /// Row of this error; the table is sorted by number.
    fn entry(self) -> Option<&'static (u16, &'static str, &'static str)> {
        let at = TABLE.binary_search_by_key(&self.0, |row| row.0).ok()?;
        TABLE.get(at)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry() {
            Some((_, name, message)) => write!(f, "{name} ({message})"),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl std::error::Error for Errno {}

/// Declares the constants and the table.
macro_rules! errnos {
    ($($name:ident $number:literal $message:literal,)*) => {
        impl Errno {
            $(#[doc = $message] pub const $name: Errno = Errno($number);)*
        }

        /// Number, name, message; ascending.
        const TABLE: &[(u16, &str, &str)] = &[$(($number, stringify!($name), $message),)*];
    };
}

errnos! {
    EPERM 1 "Operation not permitted",
    ENOENT 2 "No such file or directory",
    ESRCH 3 "No such process",
    EINTR 4 "Interrupted system call",
    EIO 5 "Input/output error",
    ENXIO 6 "No such device or address",
    E2BIG 7 "Argument list too long",
    ENOEXEC 8 "Exec format error",
    EBADF 9 "Bad file descriptor",
    ECHILD 10 "No child processes",
    EAGAIN 11 "Resource temporarily unavailable",
    ENOMEM 12 "Cannot allocate memory",
    EACCES 13 "Permission denied",
    EFAULT 14 "Bad address",
    ENOTBLK 15 "Block device required",
    EBUSY 16 "Device or resource busy",
    EEXIST 17 "File exists",
    EXDEV 18 "Invalid cross-device link",
    ENODEV 19 "No such device",
    ENOTDIR 20 "Not a directory",
    EISDIR 21 "Is a directory",
    EINVAL 22 "Invalid argument",
    ENFILE 23 "Too many open files in system",
    EMFILE 24 "Too many open files",
    ENOTTY 25 "Inappropriate ioctl for device",
    ETXTBSY 26 "Text file busy",
    EFBIG 27 "File too large",
    ENOSPC 28 "No space left on device",
    ESPIPE 29 "Illegal seek",
    EROFS 30 "Read-only file system",
    EMLINK 31 "Too many links",
    EPIPE 32 "Broken pipe",
    EDOM 33 "Numerical argument out of domain",
    ERANGE 34 "Numerical result out of range",
    EDEADLK 35 "Resource deadlock avoided",
    ENAMETOOLONG 36 "File name too long",
    ENOLCK 37 "No locks available",
    ENOSYS 38 "Function not implemented",
    ENOTEMPTY 39 "Directory not empty",
    ELOOP 40 "Too many levels of symbolic links",
    ENOMSG 42 "No message of desired type",
    EIDRM 43 "Identifier removed",
    ECHRNG 44 "Channel number out of range",
    EL2NSYNC 45 "Level 2 not synchronized",
    EL3HLT 46 "Level 3 halted",
    EL3RST 47 "Level 3 reset",
    ELNRNG 48 "Link number out of range",
    EUNATCH 49 "Protocol driver not attached",
    ENOCSI 50 "No CSI structure available",
    EL2HLT 51 "Level 2 halted",
    EBADE 52 "Invalid exchange",
    EBADR 53 "Invalid request descriptor",
    EXFULL 54 "Exchange full",
    ENOANO 55 "No anode",
    EBADRQC 56 "Invalid request code",
    EBADSLT 57 "Invalid slot",
    EBFONT 59 "Bad font file format",
    ENOSTR 60 "Device not a stream",
    ENODATA 61 "No data available",
    ETIME 62 "Timer expired",
    ENOSR 63 "Out of streams resources",
    ENONET 64 "Machine is not on the network",
    ENOPKG 65 "Package not installed",
    EREMOTE 66 "Object is remote",
    ENOLINK 67 "Link has been severed",
    EADV 68 "Advertise error",
    ESRMNT 69 "Srmount error",
    ECOMM 70 "Communication error on send",
    EPROTO 71 "Protocol error",
    EMULTIHOP 72 "Multihop attempted",
    EDOTDOT 73 "RFS specific error",
    EBADMSG 74 "Bad message",
    EOVERFLOW 75 "Value too large for defined data type",
    ENOTUNIQ 76 "Name not unique on network",
    EBADFD 77 "File descriptor in bad state",
    EREMCHG 78 "Remote address changed",
    ELIBACC 79 "Can not access a needed shared library",
    ELIBBAD 80 "Accessing a corrupted shared library",
    ELIBSCN 81 ".lib section in a.out corrupted",
    ELIBMAX 82 "Attempting to link in too many shared libraries",
    ELIBEXEC 83 "Cannot exec a shared library directly",
    EILSEQ 84 "Invalid or incomplete multibyte or wide character",
    ERESTART 85 "Interrupted system call should be restarted",
    ESTRPIPE 86 "Streams pipe error",
    EUSERS 87 "Too many users",
    ENOTSOCK 88 "Socket operation on non-socket",
    EDESTADDRREQ 89 "Destination address required",
    EMSGSIZE 90 "Message too long",
    EPROTOTYPE 91 "Protocol wrong type for socket",
    ENOPROTOOPT 92 "Protocol not available",
    EPROTONOSUPPORT 93 "Protocol not supported",
    ESOCKTNOSUPPORT 94 "Socket type not supported",
    EOPNOTSUPP 95 "Operation not supported",
    EPFNOSUPPORT 96 "Protocol family not supported",
    EAFNOSUPPORT 97 "Address family not supported by protocol",
    EADDRINUSE 98 "Address already in use",
    EADDRNOTAVAIL 99 "Cannot assign requested address",
    ENETDOWN 100 "Network is down",
    ENETUNREACH 101 "Network is unreachable",
    ENETRESET 102 "Network dropped connection on reset",
    ECONNABORTED 103 "Software caused connection abort",
    ECONNRESET 104 "Connection reset by peer",
    ENOBUFS 105 "No buffer space available",
    EISCONN 106 "Transport endpoint is already connected",
    ENOTCONN 107 "Transport endpoint is not connected",
    ESHUTDOWN 108 "Cannot send after transport endpoint shutdown",
    ETOOMANYREFS 109 "Too many references: cannot splice",
    ETIMEDOUT 110 "Connection timed out",
    ECONNREFUSED 111 "Connection refused",
    EHOSTDOWN 112 "Host is down",
    EHOSTUNREACH 113 "No route to host",
    EALREADY 114 "Operation already in progress",
    EINPROGRESS 115 "Operation now in progress",
    ESTALE 116 "Stale file handle",
    EUCLEAN 117 "Structure needs cleaning",
    ENOTNAM 118 "Not a XENIX named type file",
    ENAVAIL 119 "No XENIX semaphores available",
    EISNAM 120 "Is a named type file",
    EREMOTEIO 121 "Remote I/O error",
    EDQUOT 122 "Disk quota exceeded",
    ENOMEDIUM 123 "No medium found",
    EMEDIUMTYPE 124 "Wrong medium type",
    ECANCELED 125 "Operation canceled",
    ENOKEY 126 "Required key not available",
    EKEYEXPIRED 127 "Key has expired",
    EKEYREVOKED 128 "Key has been revoked",
    EKEYREJECTED 129 "Key was rejected by service",
    EOWNERDEAD 130 "Owner died",
    ENOTRECOVERABLE 131 "State not recoverable",
    ERFKILL 132 "Operation not possible due to RF-kill",
    EHWPOISON 133 "Memory page has hardware error",
    // Never leave the kernel: restart rules of an interrupted call.
    ERESTARTSYS 512 "To be restarted if SA_RESTART is set",
    ERESTARTNOINTR 513 "To be restarted",
    ERESTARTNOHAND 514 "To be restarted if no handler",
    ENOIOCTLCMD 515 "No ioctl command",
    ERESTART_RESTARTBLOCK 516 "Interrupted by signal",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_messages_agree() {
        assert_eq!(Errno::ENOENT.0, 2);
        assert_eq!(Errno::ENOSYS.to_string(), "ENOSYS (Function not implemented)");
        assert_eq!(Errno(9999).name(), None);
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn results_hold_small_negative_numbers() {
        assert_eq!(Errno::from_ret(-2i64 as u64), Some(Errno::ENOENT));
        assert_eq!(Errno::from_ret(Errno::EINVAL.to_ret()), Some(Errno::EINVAL));
        assert_eq!(Errno::from_ret(-4096i64 as u64), None);
        assert_eq!(Errno::from_ret(0), None);
        assert_eq!(Errno::from_ret(7), None);
    }
}
