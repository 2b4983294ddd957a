//! Numbers of `include/uapi/linux/perf_event.h` and of the `perf.data` format
//! (`tools/perf/Documentation/perf.data-file-format.txt`).

/// Bytes of `struct perf_event_attr` that are written (`PERF_ATTR_SIZE_VER7`).
///
/// Tools refuse an attribute longer than the one they know; perf 6.1 knows this
/// size, and nothing that the writer sets lies beyond it.
pub const ATTR_SIZE: u32 = 128;

/// `perf_event_attr.type`
pub mod event_type {
    /// `PERF_TYPE_HARDWARE`
    pub const HARDWARE: u32 = 0;
    /// `PERF_TYPE_SOFTWARE`
    pub const SOFTWARE: u32 = 1;
    /// `PERF_TYPE_TRACEPOINT`
    pub const TRACEPOINT: u32 = 2;
    /// `PERF_TYPE_HW_CACHE`
    pub const HW_CACHE: u32 = 3;
    /// `PERF_TYPE_RAW`
    pub const RAW: u32 = 4;
    /// `PERF_TYPE_BREAKPOINT`
    pub const BREAKPOINT: u32 = 5;
}

/// Bits of `perf_event_attr.sample_type`
pub mod sample_type {
    /// `PERF_SAMPLE_IP`
    pub const IP: u64 = 1 << 0;
    /// `PERF_SAMPLE_TID`
    pub const TID: u64 = 1 << 1;
    /// `PERF_SAMPLE_TIME`
    pub const TIME: u64 = 1 << 2;
    /// `PERF_SAMPLE_CALLCHAIN`
    pub const CALLCHAIN: u64 = 1 << 5;
    /// `PERF_SAMPLE_CPU`
    pub const CPU: u64 = 1 << 7;
    /// `PERF_SAMPLE_PERIOD`
    pub const PERIOD: u64 = 1 << 8;
    /// `PERF_SAMPLE_RAW`
    pub const RAW: u64 = 1 << 10;
    /// `PERF_SAMPLE_REGS_USER`
    pub const REGS_USER: u64 = 1 << 12;
    /// `PERF_SAMPLE_IDENTIFIER`
    pub const IDENTIFIER: u64 = 1 << 16;
    /// `PERF_SAMPLE_ADDR`
    pub const ADDR: u64 = 1 << 3;
    /// `PERF_SAMPLE_READ`
    pub const READ: u64 = 1 << 4;
    /// `PERF_SAMPLE_ID`
    pub const ID: u64 = 1 << 6;
    /// `PERF_SAMPLE_STREAM_ID`
    pub const STREAM_ID: u64 = 1 << 9;
    /// `PERF_SAMPLE_BRANCH_STACK`
    pub const BRANCH_STACK: u64 = 1 << 11;
    /// `PERF_SAMPLE_STACK_USER`
    pub const STACK_USER: u64 = 1 << 13;
    /// `PERF_SAMPLE_WEIGHT` or `PERF_SAMPLE_WEIGHT_STRUCT`: one word either way
    pub const WEIGHT: u64 = 1 << 14 | 1 << 24;
    /// `PERF_SAMPLE_DATA_SRC`
    pub const DATA_SRC: u64 = 1 << 15;
    /// `PERF_SAMPLE_TRANSACTION`
    pub const TRANSACTION: u64 = 1 << 17;
    /// `PERF_SAMPLE_REGS_INTR`
    pub const REGS_INTR: u64 = 1 << 18;
    /// `PERF_SAMPLE_PHYS_ADDR`
    pub const PHYS_ADDR: u64 = 1 << 19;
    /// `PERF_SAMPLE_AUX`
    pub const AUX: u64 = 1 << 20;
    /// `PERF_SAMPLE_CGROUP`
    pub const CGROUP: u64 = 1 << 21;
    /// `PERF_SAMPLE_DATA_PAGE_SIZE`
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    /// `PERF_SAMPLE_CODE_PAGE_SIZE`
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
}

/// Bits of the flag word of `perf_event_attr` (bit fields at offset 40)
pub mod flag {
    /// `disabled`
    pub const DISABLED: u64 = 1 << 0;
    /// `inherit`
    pub const INHERIT: u64 = 1 << 1;
    /// `exclude_user`
    pub const EXCLUDE_USER: u64 = 1 << 4;
    /// `exclude_kernel`
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// `pinned`
    pub const PINNED: u64 = 1 << 2;
    /// `exclusive`
    pub const EXCLUSIVE: u64 = 1 << 3;
    /// `exclude_hv`
    pub const EXCLUDE_HV: u64 = 1 << 6;
    /// `mmap`
    pub const MMAP: u64 = 1 << 8;
    /// `comm`
    pub const COMM: u64 = 1 << 9;
    /// `freq`
    pub const FREQ: u64 = 1 << 10;
    /// `enable_on_exec`
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// `task`
    pub const TASK: u64 = 1 << 13;
    /// `exclude_idle`
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    /// `watermark`
    pub const WATERMARK: u64 = 1 << 14;
    /// `precise_ip`, two bits.
    pub const PRECISE_IP: u64 = 3 << 15;
    /// `mmap_data`
    pub const MMAP_DATA: u64 = 1 << 17;
    /// `use_clockid`
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// `context_switch`
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    /// `write_backward`
    pub const WRITE_BACKWARD: u64 = 1 << 27;
    /// `namespaces`
    pub const NAMESPACES: u64 = 1 << 28;
    /// `bpf_event`
    pub const BPF_EVENT: u64 = 1 << 30;
    /// `aux_output`
    pub const AUX_OUTPUT: u64 = 1 << 31;
    /// `cgroup`
    pub const CGROUP: u64 = 1 << 32;
    /// `text_poke`
    pub const TEXT_POKE: u64 = 1 << 33;
    /// `inherit_thread`
    pub const INHERIT_THREAD: u64 = 1 << 35;
    /// `remove_on_exec`
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
    /// `sigtrap`
    pub const SIGTRAP: u64 = 1 << 37;
    /// Bits that no kernel knows.
    pub const RESERVED: u64 = !0 << 40;
    /// `sample_id_all`
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// `mmap2`
    pub const MMAP2: u64 = 1 << 23;
    /// `comm_exec`
    pub const COMM_EXEC: u64 = 1 << 24;
    /// `ksymbol`
    pub const KSYMBOL: u64 = 1 << 29;
    /// `build_id`
    pub const BUILD_ID: u64 = 1 << 34;
    /// `exclude_callchain_kernel`
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    /// `exclude_callchain_user`
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    /// `defer_callchain`
    pub const DEFER_CALLCHAIN: u64 = 1 << 38;
    /// `defer_output`
    pub const DEFER_OUTPUT: u64 = 1 << 39;
}

/// All bits of `sample_type` that Linux 7.3 knows (`PERF_SAMPLE_MAX` - 1).
pub const SAMPLE_TYPES: u64 = (1 << 25) - 1;
/// `PERF_ATTR_SIZE_VER0`
pub const ATTR_SIZE_VER0: u64 = 64;

/// Bits of `perf_event_attr.read_format`
pub mod read_format {
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED`
    pub const TIME_ENABLED: u64 = 1 << 0;
    /// `PERF_FORMAT_TOTAL_TIME_RUNNING`
    pub const TIME_RUNNING: u64 = 1 << 1;
    /// `PERF_FORMAT_ID`
    pub const ID: u64 = 1 << 2;
    /// `PERF_FORMAT_LOST`
    pub const LOST: u64 = 1 << 4;
    /// All of Linux 7.3 (`PERF_FORMAT_MAX` - 1).
    pub const ALL: u64 = (1 << 5) - 1;
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`
    pub const TIMES: u64 = 1 << 0 | 1 << 1;
    /// `PERF_FORMAT_GROUP`
    pub const GROUP: u64 = 1 << 3;
    /// `PERF_FORMAT_ID` and `PERF_FORMAT_LOST`
    pub const EACH: u64 = 1 << 2 | 1 << 4;
}

/// Bits of `perf_event_attr.branch_sample_type`
pub mod branch {
    /// `PERF_SAMPLE_BRANCH_USER`, `_KERNEL`, `_HV`: privilege levels.
    pub const LEVELS: u64 = 7;
    /// `PERF_SAMPLE_BRANCH_KERNEL`, `_HV`: those that need a right.
    pub const PRIVILEGED: u64 = 6;
    /// All of Linux 7.3 (`PERF_SAMPLE_BRANCH_MAX` - 1).
    pub const ALL: u64 = (1 << 20) - 1;
    /// `PERF_SAMPLE_BRANCH_HW_INDEX`
    pub const HW_INDEX: u64 = 1 << 17;
    /// `PERF_SAMPLE_BRANCH_COUNTERS`
    pub const COUNTERS: u64 = 1 << 19;
}

/// `enum perf_event_type` and `enum perf_user_event_type`
pub mod record {
    /// `PERF_RECORD_COMM`
    pub const COMM: u32 = 3;
    /// `PERF_RECORD_EXIT`
    pub const EXIT: u32 = 4;
    /// `PERF_RECORD_FORK`
    pub const FORK: u32 = 7;
    /// `PERF_RECORD_SAMPLE`
    pub const SAMPLE: u32 = 9;
    /// `PERF_RECORD_MMAP2`
    pub const MMAP2: u32 = 10;
    /// `PERF_RECORD_SWITCH`
    pub const SWITCH: u32 = 14;
    /// `PERF_RECORD_KSYMBOL`
    pub const KSYMBOL: u32 = 17;
    /// `PERF_RECORD_CALLCHAIN_DEFERRED`
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    /// `PERF_RECORD_HEADER_ATTR`
    pub const HEADER_ATTR: u32 = 64;
    /// `PERF_RECORD_HEADER_TRACING_DATA`
    pub const HEADER_TRACING_DATA: u32 = 66;
    /// `PERF_RECORD_FINISHED_ROUND`
    pub const FINISHED_ROUND: u32 = 68;
    /// `PERF_RECORD_EVENT_UPDATE`
    pub const EVENT_UPDATE: u32 = 78;
    /// `PERF_RECORD_HEADER_FEATURE`
    pub const HEADER_FEATURE: u32 = 80;
    /// `PERF_RECORD_FINISHED_INIT`
    pub const FINISHED_INIT: u32 = 82;
    /// `PERF_RECORD_MMAP`
    pub const MMAP: u32 = 1;
    /// `PERF_RECORD_LOST`
    pub const LOST: u32 = 2;
    /// `PERF_RECORD_THROTTLE`
    pub const THROTTLE: u32 = 5;
    /// `PERF_RECORD_UNTHROTTLE`
    pub const UNTHROTTLE: u32 = 6;
    /// `PERF_RECORD_LOST_SAMPLES`
    pub const LOST_SAMPLES: u32 = 13;
    /// `PERF_RECORD_SWITCH_CPU_WIDE`
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// `PERF_RECORD_USER_TYPE_START`: from here on perf's own, without trailer.
    pub const USER_TYPES: u32 = 64;
    /// `PERF_RECORD_HEADER_MAX` of perf 7.3, which refuses records of this type and above.
    pub const TYPES: u32 = 87;
    /// `PERF_RECORD_AUXTRACE`
    pub const AUXTRACE: u32 = 71;
    /// `PERF_RECORD_COMPRESSED`
    pub const COMPRESSED: u32 = 81;
    /// `PERF_RECORD_COMPRESSED2`
    pub const COMPRESSED2: u32 = 83;
}

/// `perf_event_header.misc`
pub mod misc {
    /// `PERF_RECORD_MISC_KERNEL`
    pub const KERNEL: u16 = 1;
    /// `PERF_RECORD_MISC_USER`
    pub const USER: u16 = 2;
    /// `PERF_RECORD_MISC_COMM_EXEC`
    pub const COMM_EXEC: u16 = 1 << 13;
    /// `PERF_RECORD_MISC_MMAP_DATA`: the mapping is not executable.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// `PERF_RECORD_MISC_SWITCH_OUT`
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// `PERF_RECORD_MISC_MMAP_BUILD_ID`
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// `PERF_RECORD_KSYMBOL_TYPE_OOL`: code that is no part of the kernel image, so
/// that tools do not look for it in `vmlinux`.
pub const KSYMBOL_TYPE_OOL: u16 = 2;

/// `PERF_EVENT_UPDATE__NAME`
pub const EVENT_UPDATE_NAME: u64 = 1;

/// Feature bits of the file header (`HEADER_*` of `tools/perf/util/header.h`)
pub mod feature {
    /// `HEADER_TRACING_DATA`
    pub const TRACING_DATA: u32 = 1;
    /// `HEADER_HOSTNAME`
    pub const HOSTNAME: u32 = 3;
    /// `HEADER_OSRELEASE`
    pub const OSRELEASE: u32 = 4;
    /// `HEADER_VERSION`
    pub const VERSION: u32 = 5;
    /// `HEADER_ARCH`
    pub const ARCH: u32 = 6;
    /// `HEADER_NRCPUS`
    pub const NRCPUS: u32 = 7;
    /// `HEADER_CMDLINE`
    pub const CMDLINE: u32 = 11;
    /// `HEADER_EVENT_DESC`
    pub const EVENT_DESC: u32 = 12;
    /// `HEADER_SAMPLE_TIME`
    pub const SAMPLE_TIME: u32 = 21;
    /// `HEADER_E_MACHINE`, which perf 6.1 does not know and skips in a file.
    pub const E_MACHINE: u32 = 33;
}

/// Magic number of a file and of a stream.
pub const MAGIC: [u8; 8] = *b"PERFILE2";
/// Bytes of `struct perf_file_header`.
pub const FILE_HEADER_SIZE: u64 = 104;
/// Bytes of `struct perf_pipe_file_header`.
pub const PIPE_HEADER_SIZE: u64 = 16;
