//! Numbers of `include/uapi/linux/perf_event.h` and of the `perf.data` format
//! (`tools/perf/Documentation/perf.data-file-format.txt`) that the writer uses.

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

/// `PERF_FORMAT_ID`
pub const READ_FORMAT_ID: u64 = 1 << 2;

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

/// `PERF_SAMPLE_REGS_ABI_NONE`
pub const REGS_ABI_NONE: u64 = 0;
/// `PERF_SAMPLE_REGS_ABI_64`
pub const REGS_ABI_64: u64 = 2;

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
