//! The vvar page: what the vDSO reads, one page below it.
//!
//! The other side is `emu/vdso/vvar.h`; the two must agree:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `seq: u32` | odd while the kernel writes (sequence lock) |
//! | 8 | `wall_offset_ns: u64` | `CLOCK_REALTIME` = counter + this |
//! | 16 | `multiplier: u64` | reserved, 1: nanoseconds per count |
//! | 24, 28 | `cpu: u32`, `node: u32` | where the reader runs (x86_64 `getcpu`) |
//!
//! The modelled CPU counter counts nanoseconds since boot, so `CLOCK_MONOTONIC` is
//! the counter itself and the page changes only when the wall clock is set.

use super::PAGE;

/// Nanoseconds by which TAI is ahead of `CLOCK_REALTIME` (37 s since 2017), as the
/// vDSO has it.
pub const TAI_OFFSET_NS: u64 = 37_000_000_000;

/// The content of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vvar {
    /// Sequence number, even.
    pub seq: u32,
    /// Nanoseconds from 1970 to the counter's zero, the boot.
    pub wall_offset_ns: u64,
}

impl Vvar {
    /// Offset of `seq` in the page.
    pub const SEQ: u64 = 0;
    /// Offset of `wall_offset_ns` in the page.
    pub const WALL_OFFSET: u64 = 8;
    /// Offset of `multiplier` in the page.
    pub const MULTIPLIER: u64 = 16;

    /// The page of a machine that booted at `wall_offset_ns` nanoseconds after 1970.
    pub fn new(wall_offset_ns: u64) -> Vvar {
        Vvar { seq: 0, wall_offset_ns }
    }

    /// The page after the wall clock was set. All CPUs stop while the kernel writes,
    /// so no program sees the odd number in between; the even one tells a reader
    /// that was interrupted to start again.
    pub fn set_wall_offset(self, wall_offset_ns: u64) -> Vvar {
        Vvar { seq: self.seq.wrapping_add(2), wall_offset_ns }
    }

    /// The whole page.
    pub fn page(self) -> Box<[u8; PAGE as usize]> {
        let mut page = Box::new([0; PAGE as usize]);
        page[..4].copy_from_slice(&self.seq.to_le_bytes());
        page[8..16].copy_from_slice(&self.wall_offset_ns.to_le_bytes());
        page[16..24].copy_from_slice(&1u64.to_le_bytes());
        // CPU and node (24, 28) are 0: there is one CPU.
        page
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_header_says() {
        let vvar = Vvar::new(5).set_wall_offset(0x0102_0304_0506_0708);
        let page = vvar.page();
        assert_eq!(
            page[..24],
            [2, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]
        );
        let header = include_str!("../../vdso/vvar.h");
        let at =
            |field: &str, offset: u64| header.contains(&format!("{field};\t\t/* {offset:2}: "));
        assert!(at("u32 seq", Vvar::SEQ));
        assert!(header.contains(&format!("u64 wall_offset_ns;\t/* {:2}: ", Vvar::WALL_OFFSET)));
        assert!(at("u64 multiplier", Vvar::MULTIPLIER));
        let clock = include_str!("../../vdso/clock.h");
        assert!(
            clock.contains(&format!("#define TAI_OFFSET\t{}\t", TAI_OFFSET_NS / 1_000_000_000))
        );
    }
}
