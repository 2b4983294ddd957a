//! What each argument of a system call means (`include/linux/syscalls.h`).
//!
//! Listed are the calls that static C, C++ and Rust programs make; the others
//! print six hexadecimal words.

use super::{FlagTable, flags};
use crate::sysno::Sysno;

/// How an argument prints.
#[derive(Clone, Copy, Debug)]
pub enum ArgKind {
    /// `int`.
    Int,
    /// `unsigned int`.
    Uint,
    /// `long`.
    Long,
    /// `size_t`.
    Size,
    /// `loff_t`.
    Off,
    /// A number in hexadecimal.
    Hex,
    /// A file descriptor.
    Fd,
    /// A directory descriptor: may be `AT_FDCWD`.
    DirFd,
    /// File mode, in octal.
    Mode,
    /// A pointer.
    Ptr,
    /// A C string, printed whole.
    Path,
    /// A C string, cut as data is.
    Str,
    /// `char **` that ends with NULL.
    StrVec,
    /// Bytes that the call reads; the argument with this index is their number.
    In(usize),
    /// Bytes that the call has written; its result is their number.
    Out,
    /// A C string that the call has written.
    OutStr,
    /// `int[2]` that the call has written.
    OutFds,
    /// `int` that the call has written.
    OutInt,
    /// `struct iovec` array that the call reads; index of the count.
    Iov(usize),
    /// `struct timespec` that the call reads.
    Timespec,
    /// `struct timespec` that the call has written.
    OutTimespec,
    /// `struct timeval` that the call has written.
    OutTimeval,
    /// A signal number.
    Signal,
    /// Signal set that the call reads.
    SigSet,
    /// Signal set that the call has written.
    OutSigSet,
    /// `struct sigaction` that the call reads.
    SigAction,
    /// `struct rlimit64` that the call reads.
    Rlimit,
    /// `struct rlimit64` that the call has written.
    OutRlimit,
    /// `int` flags or one of several values.
    Flags(&'static FlagTable),
    /// `long` flags.
    LongFlags(&'static FlagTable),
    /// `CLONE_*` with a signal in the low byte.
    CloneFlags,
}

/// How a result prints when it is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetKind {
    /// A signed number.
    Int,
    /// An address or word in hexadecimal.
    Hex,
    /// The call does not return.
    Never,
}

/// Arguments and result of a call.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Name and kind of each argument.
    pub args: &'static [(&'static str, ArgKind)],
    /// Kind of the result.
    pub ret: RetKind,
}

/// A signature from `name Kind` pairs.
macro_rules! sig {
    (@ret) => { RetKind::Int };
    (@ret $ret:ident) => { RetKind::$ret };
    ($($name:ident $kind:ident $(($of:expr))?),* $(=> $ret:ident)?) => {
        Signature {
            args: &[$((stringify!($name), ArgKind::$kind $(($of))?)),*],
            ret: sig!(@ret $($ret)?),
        }
    };
}

/// The signature of a call; six words if it is not listed.
pub fn signature(sysno: Sysno) -> Signature {
    files(sysno)
        .or_else(|| paths(sysno))
        .or_else(|| memory(sysno))
        .or_else(|| time(sysno))
        .or_else(|| signals(sysno))
        .or_else(|| process(sysno))
        .or_else(|| identity(sysno))
        .or_else(|| network(sysno))
        .unwrap_or(sig!(arg0 Hex, arg1 Hex, arg2 Hex, arg3 Hex, arg4 Hex, arg5 Hex))
}

/// Calls on open files.
fn files(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        Read => sig!(fd Fd, buf Out, count Size),
        Write => sig!(fd Fd, buf In(2), count Size),
        Pread64 => sig!(fd Fd, buf Out, count Size, offset Off),
        Pwrite64 => sig!(fd Fd, buf In(2), count Size, offset Off),
        Readv => sig!(fd Fd, iov Ptr, iovcnt Int),
        Writev => sig!(fd Fd, iov Iov(2), iovcnt Int),
        Preadv => sig!(fd Fd, iov Ptr, iovcnt Int, offset Off),
        Pwritev => sig!(fd Fd, iov Iov(2), iovcnt Int, offset Off),
        Close => sig!(fd Fd),
        CloseRange => sig!(first Uint, last Uint, flags Flags(flags::CLOSE_RANGE)),
        Lseek => sig!(fd Fd, offset Off, whence Flags(flags::SEEK)),
        Dup => sig!(fd Fd),
        Dup2 => sig!(oldfd Fd, newfd Fd),
        Dup3 => sig!(oldfd Fd, newfd Fd, flags Flags(flags::FD)),
        Fcntl => sig!(fd Fd, cmd Flags(flags::FCNTL), arg Hex),
        Ioctl => sig!(fd Fd, request Flags(flags::IOCTL), arg Ptr),
        Flock => sig!(fd Fd, operation Flags(flags::LOCK)),
        Fsync | Fdatasync | Syncfs => sig!(fd Fd),
        Sync => sig!(),
        Ftruncate => sig!(fd Fd, length Off),
        Fallocate => sig!(fd Fd, mode Hex, offset Off, len Off),
        Fadvise64 => sig!(fd Fd, offset Off, len Size, advice Int),
        Readahead => sig!(fd Fd, offset Off, count Size),
        Fstat => sig!(fd Fd, statbuf Ptr),
        Fstatfs => sig!(fd Fd, buf Ptr),
        Fchmod => sig!(fd Fd, mode Mode),
        Fchown => sig!(fd Fd, owner Uint, group Uint),
        Fchdir => sig!(fd Fd),
        Getdents64 | Getdents => sig!(fd Fd, dirp Ptr, count Size),
        Pipe => sig!(pipefd OutFds),
        Pipe2 => sig!(pipefd OutFds, flags Flags(flags::FD)),
        Sendfile => sig!(out_fd Fd, in_fd Fd, offset Ptr, count Size),
        CopyFileRange => {
            sig!(fd_in Fd, off_in Ptr, fd_out Fd, off_out Ptr, len Size, flags Uint)
        }
        Splice => sig!(fd_in Fd, off_in Ptr, fd_out Fd, off_out Ptr, len Size, flags Hex),
        Poll => sig!(fds Ptr, nfds Uint, timeout Int),
        Ppoll => sig!(fds Ptr, nfds Uint, tmo Timespec, sigmask SigSet, sigsetsize Size),
        Select => sig!(nfds Int, readfds Ptr, writefds Ptr, exceptfds Ptr, timeout Ptr),
        Pselect6 => {
            sig!(nfds Int, readfds Ptr, writefds Ptr, exceptfds Ptr, timeout Timespec, sig Ptr)
        }
        EpollCreate => sig!(size Int),
        EpollCreate1 => sig!(flags Flags(flags::EPOLL_FLAGS)),
        EpollCtl => sig!(epfd Fd, op Flags(flags::EPOLL_CTL), fd Fd, event Ptr),
        EpollWait => sig!(epfd Fd, events Ptr, maxevents Int, timeout Int),
        EpollPwait => {
            sig!(epfd Fd, events Ptr, maxevents Int, timeout Int, sigmask SigSet, sigsetsize Size)
        }
        Eventfd => sig!(initval Uint),
        Eventfd2 => sig!(initval Uint, flags Flags(flags::EFD)),
        MemfdCreate => sig!(name Str, flags Flags(flags::MFD)),
        InotifyInit1 => sig!(flags Flags(flags::FD)),
        InotifyAddWatch => sig!(fd Fd, pathname Path, mask Hex),
        _ => return None,
    })
}

/// Calls on names of files.
fn paths(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        Open => sig!(pathname Path, flags Flags(flags::OPEN), mode Mode),
        Openat => sig!(dirfd DirFd, pathname Path, flags Flags(flags::OPEN), mode Mode),
        Openat2 => sig!(dirfd DirFd, pathname Path, how Ptr, size Size),
        Creat => sig!(pathname Path, mode Mode),
        Stat | Lstat => sig!(pathname Path, statbuf Ptr),
        Newfstatat => sig!(dirfd DirFd, pathname Path, statbuf Ptr, flags Flags(flags::AT)),
        Statx => {
            sig!(dirfd DirFd, pathname Path, flags Flags(flags::AT),
                 mask Flags(flags::STATX), statxbuf Ptr)
        }
        Statfs => sig!(path Path, buf Ptr),
        Access => sig!(pathname Path, mode Flags(flags::ACCESS)),
        Faccessat => sig!(dirfd DirFd, pathname Path, mode Flags(flags::ACCESS)),
        Faccessat2 => {
            sig!(dirfd DirFd, pathname Path, mode Flags(flags::ACCESS),
                 flags Flags(flags::AT_ACCESS))
        }
        Readlink => sig!(pathname Path, buf Out, bufsiz Size),
        Readlinkat => sig!(dirfd DirFd, pathname Path, buf Out, bufsiz Size),
        Getcwd => sig!(buf OutStr, size Size),
        Chdir | Chroot | Rmdir | Unlink => sig!(path Path),
        Mkdir | Chmod => sig!(pathname Path, mode Mode),
        Mkdirat => sig!(dirfd DirFd, pathname Path, mode Mode),
        Mknodat => sig!(dirfd DirFd, pathname Path, mode Mode, dev Hex),
        Unlinkat => sig!(dirfd DirFd, pathname Path, flags Flags(flags::AT)),
        Rename | Link | Symlink => sig!(oldpath Path, newpath Path),
        Renameat => sig!(olddirfd DirFd, oldpath Path, newdirfd DirFd, newpath Path),
        Renameat2 => {
            sig!(olddirfd DirFd, oldpath Path, newdirfd DirFd, newpath Path,
                 flags Flags(flags::RENAME))
        }
        Linkat => {
            sig!(olddirfd DirFd, oldpath Path, newdirfd DirFd, newpath Path,
                 flags Flags(flags::AT))
        }
        Symlinkat => sig!(target Path, newdirfd DirFd, linkpath Path),
        Fchmodat => sig!(dirfd DirFd, pathname Path, mode Mode),
        Fchmodat2 => sig!(dirfd DirFd, pathname Path, mode Mode, flags Flags(flags::AT)),
        Chown | Lchown => sig!(pathname Path, owner Uint, group Uint),
        Fchownat => {
            sig!(dirfd DirFd, pathname Path, owner Uint, group Uint, flags Flags(flags::AT))
        }
        Truncate => sig!(path Path, length Off),
        Utimensat => sig!(dirfd DirFd, pathname Path, times Ptr, flags Flags(flags::AT)),
        Getxattr | Lgetxattr => sig!(path Path, name Str, value Out, size Size),
        Umask => sig!(mask Mode),
        _ => return None,
    })
}

/// Calls on the address space.
fn memory(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        Brk => sig!(addr Ptr => Hex),
        Mmap => {
            sig!(addr Ptr, length Size, prot LongFlags(flags::PROT),
                 flags LongFlags(flags::MAP), fd Fd, offset Hex => Hex)
        }
        Munmap => sig!(addr Ptr, length Size),
        Mprotect => sig!(addr Ptr, len Size, prot LongFlags(flags::PROT)),
        PkeyMprotect => sig!(addr Ptr, len Size, prot LongFlags(flags::PROT), pkey Int),
        Mremap => {
            sig!(old_address Ptr, old_size Size, new_size Size,
                 flags LongFlags(flags::MREMAP), new_address Ptr => Hex)
        }
        Madvise => sig!(addr Ptr, length Size, advice Flags(flags::MADV)),
        Msync => sig!(addr Ptr, length Size, flags Flags(flags::MS)),
        Mincore => sig!(addr Ptr, length Size, vec Ptr),
        Mlock | Munlock => sig!(addr Ptr, len Size),
        Mlock2 => sig!(addr Ptr, len Size, flags Hex),
        Mlockall => sig!(flags Hex),
        Munlockall => sig!(),
        Mseal => sig!(addr Ptr, len Size, flags Hex),
        Membarrier => sig!(cmd Flags(flags::MEMBARRIER), flags Hex, cpu_id Int),
        Mbind => sig!(addr Ptr, len Size, mode Int, nodemask Ptr, maxnode Size, flags Hex),
        GetMempolicy => sig!(mode Ptr, nodemask Ptr, maxnode Size, addr Ptr, flags Hex),
        _ => return None,
    })
}

/// Clocks and timers.
fn time(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        ClockGettime | ClockGetres => sig!(clockid Flags(flags::CLOCK), tp OutTimespec),
        ClockSettime => sig!(clockid Flags(flags::CLOCK), tp Timespec),
        ClockNanosleep => {
            sig!(clockid Flags(flags::CLOCK), flags Flags(flags::TIMER), request Timespec,
                 remain Ptr)
        }
        Nanosleep => sig!(req Timespec, rem Ptr),
        Gettimeofday => sig!(tv OutTimeval, tz Ptr),
        Time => sig!(tloc Ptr),
        Times => sig!(buf Ptr),
        Alarm => sig!(seconds Uint),
        Pause => sig!(),
        Getitimer => sig!(which Flags(flags::ITIMER), curr_value Ptr),
        Setitimer => sig!(which Flags(flags::ITIMER), new_value Ptr, old_value Ptr),
        TimerCreate => sig!(clockid Flags(flags::CLOCK), sevp Ptr, timerid OutInt),
        TimerSettime => {
            sig!(timerid Int, flags Flags(flags::TIMER), new_value Ptr, old_value Ptr)
        }
        TimerGettime => sig!(timerid Int, curr_value Ptr),
        TimerGetoverrun | TimerDelete => sig!(timerid Int),
        TimerfdCreate => sig!(clockid Flags(flags::CLOCK), flags Flags(flags::TFD)),
        TimerfdSettime => sig!(fd Fd, flags Flags(flags::TIMER), new_value Ptr, old_value Ptr),
        TimerfdGettime => sig!(fd Fd, curr_value Ptr),
        _ => return None,
    })
}

/// Signals.
fn signals(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        RtSigaction => sig!(signum Signal, act SigAction, oldact Ptr, sigsetsize Size),
        RtSigprocmask => {
            sig!(how Flags(flags::SIG_HOW), set SigSet, oldset OutSigSet, sigsetsize Size)
        }
        RtSigreturn => sig!(=> Hex),
        RtSigpending => sig!(set OutSigSet, sigsetsize Size),
        RtSigsuspend => sig!(mask SigSet, sigsetsize Size),
        RtSigtimedwait => sig!(set SigSet, info Ptr, timeout Timespec, sigsetsize Size),
        RtSigqueueinfo => sig!(pid Int, sig Signal, info Ptr),
        Sigaltstack => sig!(ss Ptr, old_ss Ptr),
        Kill => sig!(pid Int, sig Signal),
        Tkill => sig!(tid Int, sig Signal),
        Tgkill => sig!(tgid Int, tid Int, sig Signal),
        PidfdSendSignal => sig!(pidfd Fd, sig Signal, info Ptr, flags Hex),
        Signalfd4 => sig!(fd Fd, mask SigSet, sizemask Size, flags Flags(flags::FD)),
        _ => return None,
    })
}

/// Processes, threads and their limits.
fn process(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        Exit | ExitGroup => sig!(status Int => Never),
        Fork | Vfork | Getpid | Gettid | Getppid | Setsid | SchedYield => sig!(),
        // aarch64 swaps the last two, which print alike.
        Clone => sig!(flags CloneFlags, stack Ptr, parent_tid Ptr, child_tid Ptr, tls Ptr),
        Clone3 => sig!(cl_args Ptr, size Size),
        Execve => sig!(pathname Path, argv StrVec, envp Ptr),
        Execveat => {
            sig!(dirfd DirFd, pathname Path, argv StrVec, envp Ptr, flags Flags(flags::AT))
        }
        Wait4 => sig!(pid Int, wstatus OutInt, options Flags(flags::WAIT), rusage Ptr),
        Waitid => sig!(idtype Int, id Int, infop Ptr, options Flags(flags::WAIT), rusage Ptr),
        SetTidAddress => sig!(tidptr Ptr),
        SetRobustList => sig!(head Ptr, len Size),
        GetRobustList => sig!(pid Int, head_ptr Ptr, len_ptr Ptr),
        Futex => {
            sig!(uaddr Ptr, op Flags(flags::FUTEX), val Uint, timeout Ptr, uaddr2 Ptr, val3 Hex)
        }
        Rseq => sig!(rseq Ptr, len Uint, flags Flags(flags::RSEQ), sig Hex),
        ArchPrctl => sig!(op Flags(flags::ARCH_PRCTL), addr Hex),
        Prctl => sig!(op Flags(flags::PRCTL), arg2 Hex, arg3 Hex, arg4 Hex, arg5 Hex),
        Getrlimit => sig!(resource Flags(flags::RLIMIT), rlim OutRlimit),
        Setrlimit => sig!(resource Flags(flags::RLIMIT), rlim Rlimit),
        Prlimit64 => {
            sig!(pid Int, resource Flags(flags::RLIMIT), new_limit Rlimit, old_limit OutRlimit)
        }
        Getrusage => sig!(who Flags(flags::RUSAGE), usage Ptr),
        SchedGetaffinity | SchedSetaffinity => sig!(pid Int, cpusetsize Size, mask Ptr),
        SchedGetparam => sig!(pid Int, param Ptr),
        SchedGetscheduler => sig!(pid Int),
        SchedSetscheduler => sig!(pid Int, policy Int, param Ptr),
        SchedGetPriorityMax | SchedGetPriorityMin => sig!(policy Int),
        Getpriority => sig!(which Int, who Int),
        Setpriority => sig!(which Int, who Int, prio Int),
        Getcpu => sig!(cpu OutInt, node OutInt, tcache Ptr),
        Getpgid | Getsid => sig!(pid Int),
        Getpgrp => sig!(),
        Setpgid => sig!(pid Int, pgid Int),
        RestartSyscall => sig!(),
        PerfEventOpen => sig!(attr Ptr, pid Int, cpu Int, group_fd Fd, flags Hex),
        PidfdOpen => sig!(pid Int, flags Flags(flags::FD)),
        _ => return None,
    })
}

/// The system, users and randomness.
fn identity(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        Uname => sig!(buf Ptr),
        Sysinfo => sig!(info Ptr),
        Getrandom => sig!(buf Out, buflen Size, flags Flags(flags::GRND)),
        Getuid | Geteuid | Getgid | Getegid => sig!(),
        Setuid | Setgid => sig!(id Int),
        Setreuid | Setregid => sig!(real Int, effective Int),
        Setresuid | Setresgid => sig!(real Int, effective Int, saved Int),
        Getresuid | Getresgid => sig!(real OutInt, effective OutInt, saved OutInt),
        Getgroups | Setgroups => sig!(size Int, list Ptr),
        Sethostname => sig!(name In(1), len Size),
        Capget | Capset => sig!(hdrp Ptr, datap Ptr),
        _ => return None,
    })
}

/// Sockets.
fn network(sysno: Sysno) -> Option<Signature> {
    use Sysno::*;
    Some(match sysno {
        Socket => sig!(domain Flags(flags::AF), ty Flags(flags::SOCK), protocol Int),
        Socketpair => {
            sig!(domain Flags(flags::AF), ty Flags(flags::SOCK), protocol Int, sv OutFds)
        }
        Connect | Bind => sig!(sockfd Fd, addr Ptr, addrlen Int),
        Listen => sig!(sockfd Fd, backlog Int),
        Accept | Getsockname | Getpeername => sig!(sockfd Fd, addr Ptr, addrlen Ptr),
        Accept4 => sig!(sockfd Fd, addr Ptr, addrlen Ptr, flags Flags(flags::SOCK_FLAGS)),
        Sendto => {
            sig!(sockfd Fd, buf In(2), len Size, flags Flags(flags::MSG), dest_addr Ptr,
                 addrlen Int)
        }
        Recvfrom => {
            sig!(sockfd Fd, buf Out, len Size, flags Flags(flags::MSG), src_addr Ptr,
                 addrlen Ptr)
        }
        Sendmsg | Recvmsg => sig!(sockfd Fd, msg Ptr, flags Flags(flags::MSG)),
        Shutdown => sig!(sockfd Fd, how Flags(flags::SHUT)),
        Getsockopt => sig!(sockfd Fd, level Int, optname Int, optval Ptr, optlen Ptr),
        Setsockopt => sig!(sockfd Fd, level Int, optname Int, optval Ptr, optlen Int),
        _ => return None,
    })
}
