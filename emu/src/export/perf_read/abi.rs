//! Numbers of `include/uapi/linux/perf_event.h` that only a reader needs, beside those of
//! [`crate::export::perf_data::abi`].

/// `PERF_ATTR_SIZE_VER0`
pub const ATTR_SIZE_VER0: u64 = 64;

/// Bits of `perf_event_attr.sample_type`
pub mod sample {
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

/// All bits of `sample_type` that Linux 7.3 knows (`PERF_SAMPLE_MAX` - 1).
pub const SAMPLE_TYPES: u64 = (1 << 25) - 1;

/// Bits of `perf_event_attr.read_format`
pub mod read_format {
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`
    pub const TIMES: u64 = 1 << 0 | 1 << 1;
    /// `PERF_FORMAT_GROUP`
    pub const GROUP: u64 = 1 << 3;
    /// `PERF_FORMAT_ID` and `PERF_FORMAT_LOST`
    pub const EACH: u64 = 1 << 2 | 1 << 4;
}

/// Bits of `perf_event_attr.branch_sample_type`
pub mod branch {
    /// `PERF_SAMPLE_BRANCH_HW_INDEX`
    pub const HW_INDEX: u64 = 1 << 17;
    /// `PERF_SAMPLE_BRANCH_COUNTERS`
    pub const COUNTERS: u64 = 1 << 19;
}

/// `enum perf_event_type` and `enum perf_user_event_type`
pub mod record {
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
    /// `PERF_RECORD_SWITCH`
    pub const SWITCH: u32 = 14;
    /// `PERF_RECORD_SWITCH_CPU_WIDE`
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// `PERF_RECORD_USER_TYPE_START`: from here on perf's own, without trailer.
    pub const USER_TYPES: u32 = 64;
    /// `PERF_RECORD_AUXTRACE`
    pub const AUXTRACE: u32 = 71;
    /// `PERF_RECORD_COMPRESSED`
    pub const COMPRESSED: u32 = 81;
    /// `PERF_RECORD_COMPRESSED2`
    pub const COMPRESSED2: u32 = 83;
}
