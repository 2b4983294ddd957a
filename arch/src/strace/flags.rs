//! Flag and constant names of system-call arguments
//! (`include/uapi/linux`, `include/uapi/asm-generic`).

use super::table::{FlagTable, NONE, any_of, one_of};

/// `PROT_*` of `mmap`, `mprotect`.
pub const PROT: &FlagTable = &FlagTable {
    unknown: "PROT_???",
    zero: "PROT_NONE",
    flags: &[
        (0x1, "PROT_READ"),
        (0x2, "PROT_WRITE"),
        (0x4, "PROT_EXEC"),
        (0x8, "PROT_SEM"),
        (0x0100_0000, "PROT_GROWSDOWN"),
        (0x0200_0000, "PROT_GROWSUP"),
    ],
    aarch64: &[(0x10, "PROT_BTI"), (0x20, "PROT_MTE")],
    ..NONE
};

/// `MAP_*` of `mmap`.
pub const MAP: &FlagTable = &FlagTable {
    unknown: "MAP_???",
    value_mask: 0xf,
    values: &[
        (0x0, "MAP_FILE"),
        (0x1, "MAP_SHARED"),
        (0x2, "MAP_PRIVATE"),
        (0x3, "MAP_SHARED_VALIDATE"),
    ],
    flags: &[
        (0x10, "MAP_FIXED"),
        (0x20, "MAP_ANONYMOUS"),
        (0x4000, "MAP_NORESERVE"),
        (0x8000, "MAP_POPULATE"),
        (0x1_0000, "MAP_NONBLOCK"),
        (0x100, "MAP_GROWSDOWN"),
        (0x800, "MAP_DENYWRITE"),
        (0x1000, "MAP_EXECUTABLE"),
        (0x2000, "MAP_LOCKED"),
        (0x2_0000, "MAP_STACK"),
        (0x4_0000, "MAP_HUGETLB"),
        (0x8_0000, "MAP_SYNC"),
        (0x10_0000, "MAP_FIXED_NOREPLACE"),
    ],
    x86_64: &[(0x40, "MAP_32BIT"), (0x80, "MAP_ABOVE4G")],
    ..NONE
};

/// `MREMAP_*`.
pub const MREMAP: &FlagTable =
    &any_of("MREMAP_???", &[(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")]);

/// `MS_*` of `msync`.
pub const MS: &FlagTable =
    &any_of("MS_???", &[(1, "MS_ASYNC"), (2, "MS_INVALIDATE"), (4, "MS_SYNC")]);

/// `MADV_*`.
pub const MADV: &FlagTable = &one_of(
    "MADV_???",
    &[
        (0, "MADV_NORMAL"),
        (1, "MADV_RANDOM"),
        (2, "MADV_SEQUENTIAL"),
        (3, "MADV_WILLNEED"),
        (4, "MADV_DONTNEED"),
        (8, "MADV_FREE"),
        (9, "MADV_REMOVE"),
        (10, "MADV_DONTFORK"),
        (11, "MADV_DOFORK"),
        (12, "MADV_MERGEABLE"),
        (13, "MADV_UNMERGEABLE"),
        (14, "MADV_HUGEPAGE"),
        (15, "MADV_NOHUGEPAGE"),
        (16, "MADV_DONTDUMP"),
        (17, "MADV_DODUMP"),
        (18, "MADV_WIPEONFORK"),
        (19, "MADV_KEEPONFORK"),
        (20, "MADV_COLD"),
        (21, "MADV_PAGEOUT"),
        (22, "MADV_POPULATE_READ"),
        (23, "MADV_POPULATE_WRITE"),
        (24, "MADV_DONTNEED_LOCKED"),
        (25, "MADV_COLLAPSE"),
        (102, "MADV_GUARD_INSTALL"),
        (103, "MADV_GUARD_REMOVE"),
    ],
);

/// `O_*` of `open`: some bits trade places between the architectures.
pub const OPEN: &FlagTable = &FlagTable {
    unknown: "O_???",
    value_mask: 0o3,
    values: &[(0, "O_RDONLY"), (1, "O_WRONLY"), (2, "O_RDWR"), (3, "O_ACCMODE")],
    flags: &[
        (0o100, "O_CREAT"),
        (0o200, "O_EXCL"),
        (0o400, "O_NOCTTY"),
        (0o1000, "O_TRUNC"),
        (0o2000, "O_APPEND"),
        (0o4000, "O_NONBLOCK"),
        (0o4010000, "O_SYNC"),
        (0o10000, "O_DSYNC"),
        (0o20000, "FASYNC"),
        (0o1000000, "O_NOATIME"),
        (0o2000000, "O_CLOEXEC"),
        (0o10000000, "O_PATH"),
    ],
    x86_64: &[
        (0o20200000, "O_TMPFILE"),
        (0o40000, "O_DIRECT"),
        (0o100000, "O_LARGEFILE"),
        (0o200000, "O_DIRECTORY"),
        (0o400000, "O_NOFOLLOW"),
    ],
    aarch64: &[
        (0o20040000, "O_TMPFILE"),
        (0o40000, "O_DIRECTORY"),
        (0o100000, "O_NOFOLLOW"),
        (0o200000, "O_DIRECT"),
        (0o400000, "O_LARGEFILE"),
    ],
    ..NONE
};

/// `AT_*` of the `*at` calls.
pub const AT: &FlagTable = &any_of(
    "AT_???",
    &[
        (0x100, "AT_SYMLINK_NOFOLLOW"),
        (0x200, "AT_REMOVEDIR"),
        (0x400, "AT_SYMLINK_FOLLOW"),
        (0x800, "AT_NO_AUTOMOUNT"),
        (0x1000, "AT_EMPTY_PATH"),
        (0x2000, "AT_STATX_FORCE_SYNC"),
        (0x4000, "AT_STATX_DONT_SYNC"),
        (0x8000, "AT_RECURSIVE"),
    ],
);

/// `AT_*` of `faccessat2`.
pub const AT_ACCESS: &FlagTable = &any_of(
    "AT_???",
    &[(0x100, "AT_SYMLINK_NOFOLLOW"), (0x200, "AT_EACCESS"), (0x1000, "AT_EMPTY_PATH")],
);

/// `R_OK` and friends of `access`.
pub const ACCESS: &FlagTable = &FlagTable {
    unknown: "?_OK",
    zero: "F_OK",
    flags: &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")],
    ..NONE
};

/// `SEEK_*`.
pub const SEEK: &FlagTable = &one_of(
    "SEEK_???",
    &[(0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END"), (3, "SEEK_DATA"), (4, "SEEK_HOLE")],
);

/// `F_*` of `fcntl`.
pub const FCNTL: &FlagTable = &one_of(
    "F_???",
    &[
        (0, "F_DUPFD"),
        (1, "F_GETFD"),
        (2, "F_SETFD"),
        (3, "F_GETFL"),
        (4, "F_SETFL"),
        (5, "F_GETLK"),
        (6, "F_SETLK"),
        (7, "F_SETLKW"),
        (8, "F_SETOWN"),
        (9, "F_GETOWN"),
        (10, "F_SETSIG"),
        (11, "F_GETSIG"),
        (15, "F_SETOWN_EX"),
        (16, "F_GETOWN_EX"),
        (36, "F_OFD_GETLK"),
        (37, "F_OFD_SETLK"),
        (38, "F_OFD_SETLKW"),
        (1024, "F_SETLEASE"),
        (1025, "F_GETLEASE"),
        (1030, "F_DUPFD_CLOEXEC"),
        (1031, "F_SETPIPE_SZ"),
        (1032, "F_GETPIPE_SZ"),
        (1033, "F_ADD_SEALS"),
        (1034, "F_GET_SEALS"),
    ],
);

/// Requests of `ioctl` that terminals and C libraries use.
pub const IOCTL: &FlagTable = &one_of(
    "_IOC_???",
    &[
        (0x5401, "TCGETS"),
        (0x5402, "TCSETS"),
        (0x5403, "TCSETSW"),
        (0x5404, "TCSETSF"),
        (0x540f, "TIOCGPGRP"),
        (0x5410, "TIOCSPGRP"),
        (0x5413, "TIOCGWINSZ"),
        (0x541b, "FIONREAD"),
        (0x5421, "FIONBIO"),
        (0x5450, "FIONCLEX"),
        (0x5451, "FIOCLEX"),
        (0x802c_542a, "TCGETS2"),
    ],
);

/// `CLOCK_*`.
pub const CLOCK: &FlagTable = &one_of(
    "CLOCK_???",
    &[
        (0, "CLOCK_REALTIME"),
        (1, "CLOCK_MONOTONIC"),
        (2, "CLOCK_PROCESS_CPUTIME_ID"),
        (3, "CLOCK_THREAD_CPUTIME_ID"),
        (4, "CLOCK_MONOTONIC_RAW"),
        (5, "CLOCK_REALTIME_COARSE"),
        (6, "CLOCK_MONOTONIC_COARSE"),
        (7, "CLOCK_BOOTTIME"),
        (8, "CLOCK_REALTIME_ALARM"),
        (9, "CLOCK_BOOTTIME_ALARM"),
        (11, "CLOCK_TAI"),
    ],
);

/// `TIMER_ABSTIME` of `clock_nanosleep`, `timer_settime`.
pub const TIMER: &FlagTable = &any_of("TIMER_???", &[(1, "TIMER_ABSTIME")]);

/// `TFD_*` flags of `timerfd_create`.
pub const TFD: &FlagTable =
    &any_of("TFD_???", &[(0o2000000, "TFD_CLOEXEC"), (0o4000, "TFD_NONBLOCK")]);

/// `ITIMER_*`.
pub const ITIMER: &FlagTable =
    &one_of("ITIMER_???", &[(0, "ITIMER_REAL"), (1, "ITIMER_VIRTUAL"), (2, "ITIMER_PROF")]);

/// `SIG_BLOCK` and friends of `rt_sigprocmask`.
pub const SIG_HOW: &FlagTable =
    &one_of("SIG_???", &[(0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK")]);

/// `SA_*` of `rt_sigaction`.
pub const SA: &FlagTable = &any_of(
    "SA_???",
    &[
        (0x0400_0000, "SA_RESTORER"),
        (0x0800_0000, "SA_ONSTACK"),
        (0x1000_0000, "SA_RESTART"),
        (0x4000_0000, "SA_NODEFER"),
        (0x8000_0000, "SA_RESETHAND"),
        (0x1, "SA_NOCLDSTOP"),
        (0x2, "SA_NOCLDWAIT"),
        (0x4, "SA_SIGINFO"),
        (0x800, "SA_EXPOSE_TAGBITS"),
    ],
);

/// `CLONE_*`; the low byte is the signal that the parent gets.
pub const CLONE: &FlagTable = &any_of(
    "CLONE_???",
    &[
        (0x100, "CLONE_VM"),
        (0x200, "CLONE_FS"),
        (0x400, "CLONE_FILES"),
        (0x800, "CLONE_SIGHAND"),
        (0x1000, "CLONE_PIDFD"),
        (0x2000, "CLONE_PTRACE"),
        (0x4000, "CLONE_VFORK"),
        (0x8000, "CLONE_PARENT"),
        (0x1_0000, "CLONE_THREAD"),
        (0x2_0000, "CLONE_NEWNS"),
        (0x4_0000, "CLONE_SYSVSEM"),
        (0x8_0000, "CLONE_SETTLS"),
        (0x10_0000, "CLONE_PARENT_SETTID"),
        (0x20_0000, "CLONE_CHILD_CLEARTID"),
        (0x40_0000, "CLONE_DETACHED"),
        (0x80_0000, "CLONE_UNTRACED"),
        (0x100_0000, "CLONE_CHILD_SETTID"),
        (0x200_0000, "CLONE_NEWCGROUP"),
        (0x400_0000, "CLONE_NEWUTS"),
        (0x800_0000, "CLONE_NEWIPC"),
        (0x1000_0000, "CLONE_NEWUSER"),
        (0x2000_0000, "CLONE_NEWPID"),
        (0x4000_0000, "CLONE_NEWNET"),
        (0x8000_0000, "CLONE_IO"),
        (0x1_0000_0000, "CLONE_CLEAR_SIGHAND"),
        (0x2_0000_0000, "CLONE_INTO_CGROUP"),
    ],
);

/// Options of `wait4`, `waitid`.
pub const WAIT: &FlagTable = &any_of(
    "W???",
    &[
        (1, "WNOHANG"),
        (2, "WSTOPPED"),
        (4, "WEXITED"),
        (8, "WCONTINUED"),
        (0x0100_0000, "WNOWAIT"),
        (0x2000_0000, "__WNOTHREAD"),
        (0x4000_0000, "__WALL"),
        (0x8000_0000, "__WCLONE"),
    ],
);

/// Operations of `futex` with their modifier bits.
pub const FUTEX: &FlagTable = &FlagTable {
    unknown: "FUTEX_???",
    value_mask: 0x7f,
    values: &[
        (0, "FUTEX_WAIT"),
        (1, "FUTEX_WAKE"),
        (3, "FUTEX_REQUEUE"),
        (4, "FUTEX_CMP_REQUEUE"),
        (5, "FUTEX_WAKE_OP"),
        (6, "FUTEX_LOCK_PI"),
        (7, "FUTEX_UNLOCK_PI"),
        (8, "FUTEX_TRYLOCK_PI"),
        (9, "FUTEX_WAIT_BITSET"),
        (10, "FUTEX_WAKE_BITSET"),
        (11, "FUTEX_WAIT_REQUEUE_PI"),
        (12, "FUTEX_CMP_REQUEUE_PI"),
        (13, "FUTEX_LOCK_PI2"),
    ],
    flags: &[(0x80, "FUTEX_PRIVATE_FLAG"), (0x100, "FUTEX_CLOCK_REALTIME")],
    ..NONE
};

/// `ARCH_*` of `arch_prctl`.
pub const ARCH_PRCTL: &FlagTable = &one_of(
    "ARCH_???",
    &[
        (0x1001, "ARCH_SET_GS"),
        (0x1002, "ARCH_SET_FS"),
        (0x1003, "ARCH_GET_FS"),
        (0x1004, "ARCH_GET_GS"),
        (0x1011, "ARCH_GET_CPUID"),
        (0x1012, "ARCH_SET_CPUID"),
        (0x1021, "ARCH_GET_XCOMP_SUPP"),
        (0x1022, "ARCH_GET_XCOMP_PERM"),
        (0x1023, "ARCH_REQ_XCOMP_PERM"),
        (0x3001, "ARCH_CET_STATUS"),
        (0x5001, "ARCH_SHSTK_ENABLE"),
        (0x5002, "ARCH_SHSTK_DISABLE"),
        (0x5005, "ARCH_SHSTK_STATUS"),
    ],
);

/// `PR_*` of `prctl`.
pub const PRCTL: &FlagTable = &one_of(
    "PR_???",
    &[
        (1, "PR_SET_PDEATHSIG"),
        (2, "PR_GET_PDEATHSIG"),
        (3, "PR_GET_DUMPABLE"),
        (4, "PR_SET_DUMPABLE"),
        (15, "PR_SET_NAME"),
        (16, "PR_GET_NAME"),
        (21, "PR_GET_SECCOMP"),
        (22, "PR_SET_SECCOMP"),
        (29, "PR_SET_TIMERSLACK"),
        (30, "PR_GET_TIMERSLACK"),
        (36, "PR_SET_CHILD_SUBREAPER"),
        (38, "PR_SET_NO_NEW_PRIVS"),
        (39, "PR_GET_NO_NEW_PRIVS"),
        (41, "PR_SET_THP_DISABLE"),
        (50, "PR_SVE_SET_VL"),
        (51, "PR_SVE_GET_VL"),
        (54, "PR_PAC_RESET_KEYS"),
        (55, "PR_SET_TAGGED_ADDR_CTRL"),
        (56, "PR_GET_TAGGED_ADDR_CTRL"),
        (0x5356_4d41, "PR_SET_VMA"),
    ],
);

/// `RLIMIT_*`.
pub const RLIMIT: &FlagTable = &one_of(
    "RLIMIT_???",
    &[
        (0, "RLIMIT_CPU"),
        (1, "RLIMIT_FSIZE"),
        (2, "RLIMIT_DATA"),
        (3, "RLIMIT_STACK"),
        (4, "RLIMIT_CORE"),
        (5, "RLIMIT_RSS"),
        (6, "RLIMIT_NPROC"),
        (7, "RLIMIT_NOFILE"),
        (8, "RLIMIT_MEMLOCK"),
        (9, "RLIMIT_AS"),
        (10, "RLIMIT_LOCKS"),
        (11, "RLIMIT_SIGPENDING"),
        (12, "RLIMIT_MSGQUEUE"),
        (13, "RLIMIT_NICE"),
        (14, "RLIMIT_RTPRIO"),
        (15, "RLIMIT_RTTIME"),
    ],
);

/// `RUSAGE_*` of `getrusage`.
pub const RUSAGE: &FlagTable = &one_of(
    "RUSAGE_???",
    &[(0, "RUSAGE_SELF"), (1, "RUSAGE_THREAD"), (0xffff_ffff, "RUSAGE_CHILDREN")],
);

/// `GRND_*` of `getrandom`.
pub const GRND: &FlagTable =
    &any_of("GRND_???", &[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM"), (4, "GRND_INSECURE")]);

/// `MFD_*` of `memfd_create`.
pub const MFD: &FlagTable = &any_of(
    "MFD_???",
    &[
        (1, "MFD_CLOEXEC"),
        (2, "MFD_ALLOW_SEALING"),
        (4, "MFD_HUGETLB"),
        (8, "MFD_NOEXEC_SEAL"),
        (0x10, "MFD_EXEC"),
    ],
);

/// `EPOLL_CLOEXEC`; the same bit in `epoll_create1`.
pub const EPOLL_FLAGS: &FlagTable = &any_of("EPOLL_???", &[(0o2000000, "EPOLL_CLOEXEC")]);

/// `EPOLL_CTL_*`.
pub const EPOLL_CTL: &FlagTable =
    &one_of("EPOLL_CTL_???", &[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")]);

/// `EFD_*` of `eventfd2`.
pub const EFD: &FlagTable = &any_of(
    "EFD_???",
    &[(1, "EFD_SEMAPHORE"), (0o2000000, "EFD_CLOEXEC"), (0o4000, "EFD_NONBLOCK")],
);

/// `AF_*` of `socket`.
pub const AF: &FlagTable = &one_of(
    "AF_???",
    &[
        (0, "AF_UNSPEC"),
        (1, "AF_UNIX"),
        (2, "AF_INET"),
        (10, "AF_INET6"),
        (16, "AF_NETLINK"),
        (17, "AF_PACKET"),
        (40, "AF_VSOCK"),
    ],
);

/// `SOCK_*` of `socket`.
pub const SOCK: &FlagTable = &FlagTable {
    unknown: "SOCK_???",
    value_mask: 0xf,
    values: &[
        (1, "SOCK_STREAM"),
        (2, "SOCK_DGRAM"),
        (3, "SOCK_RAW"),
        (4, "SOCK_RDM"),
        (5, "SOCK_SEQPACKET"),
    ],
    flags: &[(0o2000000, "SOCK_CLOEXEC"), (0o4000, "SOCK_NONBLOCK")],
    ..NONE
};

/// `MSG_*` of `sendto`, `recvfrom`.
pub const MSG: &FlagTable = &any_of(
    "MSG_???",
    &[
        (0x1, "MSG_OOB"),
        (0x2, "MSG_PEEK"),
        (0x4, "MSG_DONTROUTE"),
        (0x20, "MSG_TRUNC"),
        (0x40, "MSG_DONTWAIT"),
        (0x100, "MSG_WAITALL"),
        (0x4000, "MSG_NOSIGNAL"),
        (0x4000_0000, "MSG_CMSG_CLOEXEC"),
    ],
);

/// `SHUT_*` of `shutdown`.
pub const SHUT: &FlagTable =
    &one_of("SHUT_???", &[(0, "SHUT_RD"), (1, "SHUT_WR"), (2, "SHUT_RDWR")]);

/// `LOCK_*` of `flock`.
pub const LOCK: &FlagTable =
    &any_of("LOCK_???", &[(1, "LOCK_SH"), (2, "LOCK_EX"), (8, "LOCK_UN"), (4, "LOCK_NB")]);

/// `RENAME_*` of `renameat2`.
pub const RENAME: &FlagTable = &any_of(
    "RENAME_???",
    &[(1, "RENAME_NOREPLACE"), (2, "RENAME_EXCHANGE"), (4, "RENAME_WHITEOUT")],
);

/// `STATX_*` mask.
pub const STATX: &FlagTable = &any_of(
    "STATX_???",
    &[
        (0xfff, "STATX_ALL"),
        (0x7ff, "STATX_BASIC_STATS"),
        (0x1, "STATX_TYPE"),
        (0x2, "STATX_MODE"),
        (0x4, "STATX_NLINK"),
        (0x8, "STATX_UID"),
        (0x10, "STATX_GID"),
        (0x20, "STATX_ATIME"),
        (0x40, "STATX_MTIME"),
        (0x80, "STATX_CTIME"),
        (0x100, "STATX_INO"),
        (0x200, "STATX_SIZE"),
        (0x400, "STATX_BLOCKS"),
        (0x800, "STATX_BTIME"),
        (0x1000, "STATX_MNT_ID"),
        (0x2000, "STATX_DIOALIGN"),
    ],
);

/// Commands of `membarrier`.
pub const MEMBARRIER: &FlagTable = &one_of(
    "MEMBARRIER_???",
    &[
        (0, "MEMBARRIER_CMD_QUERY"),
        (1, "MEMBARRIER_CMD_GLOBAL"),
        (2, "MEMBARRIER_CMD_GLOBAL_EXPEDITED"),
        (4, "MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED"),
        (8, "MEMBARRIER_CMD_PRIVATE_EXPEDITED"),
        (16, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED"),
        (32, "MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE"),
        (64, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE"),
    ],
);

/// Flags of `rseq`.
pub const RSEQ: &FlagTable = &any_of("RSEQ_???", &[(1, "RSEQ_FLAG_UNREGISTER")]);

/// `CLOSE_RANGE_*`.
pub const CLOSE_RANGE: &FlagTable =
    &any_of("CLOSE_RANGE_???", &[(2, "CLOSE_RANGE_UNSHARE"), (4, "CLOSE_RANGE_CLOEXEC")]);

/// Flags of `accept4`.
pub const SOCK_FLAGS: &FlagTable =
    &any_of("SOCK_???", &[(0o2000000, "SOCK_CLOEXEC"), (0o4000, "SOCK_NONBLOCK")]);

/// Flags of descriptors that calls make: the `O_*` bits without access mode.
pub const FD: &FlagTable =
    &any_of("O_???", &[(0o2000000, "O_CLOEXEC"), (0o4000, "O_NONBLOCK"), (0o40000, "O_DIRECT")]);
