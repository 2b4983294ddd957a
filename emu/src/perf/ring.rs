//! The ring buffer that a guest maps: one control page and 2^n pages of records
//! (`kernel/events/ring_buffer.c`).
//!
//! ```text
//! page 0     struct perf_event_mmap_page: data_head ◄── the kernel,  data_tail ◄── the reader
//! page 1…    records, each at its position modulo the size, perhaps around the end
//! ```
//!
//! Positions only grow (with `write_backward`: only fall). A record that would overtake the
//! reader is counted as lost, and the next one that fits has a LOST record before it. One byte
//! is never used, so that a full ring is not taken for an empty one. A ring whose mapping
//! cannot be written has no reader to overtake: the oldest records are written over.

use std::cell::Cell;
use std::rc::Rc;

use crate::engine::{Arena, Bin, FRAME_SIZE, Frame};

/// Most pages of records (2^n, `MAX_ORDER` of them would not be one allocation).
const MOST_PAGES: u64 = 1 << 18;
/// Offsets in `struct perf_event_mmap_page`.
mod field {
    pub const LOCK: u64 = 8;
    pub const OFFSET: u64 = 16;
    pub const TIME_ENABLED: u64 = 24;
    pub const TIME_RUNNING: u64 = 32;
    pub const CAPABILITIES: u64 = 40;
    pub const SIZE: u64 = 72;
    pub const DATA_HEAD: u64 = 1024;
    pub const DATA_TAIL: u64 = 1032;
    pub const DATA_OFFSET: u64 = 1040;
    pub const DATA_SIZE: u64 = 1048;
}
/// `cap_bit0_is_deprecated`; neither `rdpmc` nor the TSC can be used.
const CAPABILITIES: u64 = 1 << 1;
/// Bytes of the structure before its reserved part.
const DEFINED: u64 = 96;

/// The pages and where the writer is.
#[derive(Debug)]
pub struct Ring {
    pages: Rc<[Frame]>,
    bin: Bin,
    overwrite: bool,
    watermark: u64,
    head: Cell<u64>,
    wakeup: Cell<u64>,
    samples: Cell<u32>,
    losses: Cell<Losses>,
    /// No records are taken (`PERF_EVENT_IOC_PAUSE_OUTPUT`).
    pub paused: Cell<bool>,
    /// There is something that `poll` has not told yet.
    pub ready: Cell<bool>,
}

/// Records that found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Losses {
    /// All of them.
    pub dropped: u64,
    /// Those that LOST records tell of.
    pub told: u64,
    /// Those since then.
    pub untold: u64,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// It is in the ring; the reader is to be woken, or not.
    Written {
        /// It is.
        wake: bool,
    },
    /// It found no room, or the ring is paused.
    Lost,
}

/// When a writer wakes the reader, beside the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct How {
    /// `write_backward`
    pub backward: bool,
    /// `wakeup_events` of a sample; 0: this record does not count.
    pub wakeup_events: u32,
}

impl Ring {
    /// A ring with `data` pages of records, 0 or a power of two. `watermark` in bytes; 0 stands
    /// for half of it. `None` when guest memory is exhausted.
    pub fn new(arena: &mut Arena, data: u64, overwrite: bool, watermark: u64) -> Option<Ring> {
        if data > MOST_PAGES || arena.used() + data >= arena.len() / FRAME_SIZE {
            return None;
        }
        let mut pages = Vec::new();
        let bin = arena.bin();
        for _ in 0..=data {
            let Some(page) = arena.alloc() else {
                pages.into_iter().for_each(|page| bin.put(page));
                return None;
            };
            pages.push(page);
        }
        let size = data * FRAME_SIZE;
        let watermark = match watermark.min(size) {
            0 => size / 2,
            watermark => watermark,
        };
        let ring = Ring {
            pages: pages.into(),
            bin,
            overwrite,
            watermark,
            head: Cell::new(0),
            wakeup: Cell::new(0),
            samples: Cell::new(0),
            losses: Cell::default(),
            paused: Cell::new(data == 0),
            ready: Cell::new(false),
        };
        ring.set(arena, field::CAPABILITIES, CAPABILITIES);
        ring.set(arena, field::SIZE, DEFINED);
        ring.set(arena, field::DATA_OFFSET, FRAME_SIZE);
        ring.set(arena, field::DATA_SIZE, size);
        Some(ring)
    }

    /// The pages, to be mapped. They are in use as long as anybody has this.
    pub fn pages(&self) -> Rc<[Frame]> {
        self.pages.clone()
    }

    /// Whether anybody but the kernel has its pages.
    pub fn is_mapped(&self) -> bool {
        Rc::strong_count(&self.pages) > 1
    }

    /// Pages of records.
    pub fn data_pages(&self) -> u64 {
        self.pages.len() as u64 - 1
    }

    fn size(&self) -> u64 {
        self.data_pages() * FRAME_SIZE
    }

    fn set(&self, arena: &mut Arena, field: u64, value: u64) {
        let at = field as usize;
        arena.bytes_mut(self.pages[0])[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// `perf_event_update_userpage`: count, time enabled, time running. The counter itself
    /// cannot be read by the program, so its index stays 0.
    pub fn tell(&self, arena: &mut Arena, [count, enabled, running]: [u64; 3]) {
        let lock = arena.word(self.pages[0], field::LOCK) as u32;
        self.set(arena, field::OFFSET, count);
        self.set(arena, field::TIME_ENABLED, enabled);
        self.set(arena, field::TIME_RUNNING, running);
        // Even again: what is between is whole. The word behind it is the index.
        self.set(arena, field::LOCK, u64::from(lock.wrapping_add(2)));
    }

    /// Writes a record (`perf_output_begin` to `perf_output_end`), before it what `lost` makes
    /// of the number of those that were lost.
    pub fn output(
        &self,
        arena: &mut Arena,
        record: &[u8],
        how: How,
        lost: impl FnOnce(u64) -> Vec<u8>,
    ) -> Output {
        if self.paused.get() {
            if self.data_pages() > 0 {
                self.lose();
            }
            return Output::Lost;
        }
        let mut bytes = match self.losses.get().untold {
            0 => Vec::new(),
            count => lost(count),
        };
        bytes.extend(record);
        let (old, need) = (self.head.get(), bytes.len() as u64);
        let tail = arena.word(self.pages[0], field::DATA_TAIL);
        let room = has_space(old, tail, self.size(), need, how.backward);
        // A reader of an overwritten ring follows nothing; longer than the ring is nothing.
        if need >= self.size() || !self.overwrite && !room {
            self.lose();
            return Output::Lost;
        }
        let losses = self.losses.get();
        let told = losses.told + losses.untold;
        self.losses.set(Losses { told, untold: 0, ..losses });
        let head = if how.backward { old.wrapping_sub(need) } else { old.wrapping_add(need) };
        self.head.set(head);
        self.copy(arena, if how.backward { head } else { old }, &bytes);
        let wake = self.is_time_to_wake(head, how);
        self.set(arena, field::DATA_HEAD, head);
        if wake {
            self.ready.set(true);
        }
        Output::Written { wake }
    }

    fn lose(&self) {
        let Losses { dropped, told, untold } = self.losses.get();
        self.losses.set(Losses { dropped: dropped + 1, told, untold: untold + 1 });
    }

    /// Where the next record goes; with `write_backward`, where the last one is.
    pub const fn position(&self) -> u64 {
        self.head.get()
    }

    /// Records that found no room.
    pub const fn losses(&self) -> Losses {
        self.losses.get()
    }

    fn is_time_to_wake(&self, head: u64, how: How) -> bool {
        let mut wake = false;
        let written = if how.backward { head.wrapping_neg() } else { head };
        if written.wrapping_sub(self.wakeup.get()) > self.watermark {
            self.wakeup.set(self.wakeup.get().wrapping_add(self.watermark));
            wake = true;
        }
        if how.wakeup_events > 0 {
            self.samples.set(self.samples.get() + 1);
            if self.samples.get() >= how.wakeup_events {
                self.samples.set(self.samples.get() - how.wakeup_events);
                self.wakeup.set(self.wakeup.get().wrapping_add(1));
                wake = true;
            }
        }
        wake
    }

    fn copy(&self, arena: &mut Arena, at: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let place = at.wrapping_add(done as u64) & (self.size() - 1);
            let page = self.pages[1 + (place / FRAME_SIZE) as usize];
            let from = (place % FRAME_SIZE) as usize;
            let n = (FRAME_SIZE as usize - from).min(bytes.len() - done);
            arena.bytes_mut(page)[from..from + n].copy_from_slice(&bytes[done..done + n]);
            done += n;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The areas that map it keep the event that owns it.
        if !self.is_mapped() {
            self.pages.iter().for_each(|&page| self.bin.put(page));
        }
    }
}

/// `ring_buffer_has_space`: `CIRC_SPACE`, one byte of which is never used. The reader's position
/// may be anything.
pub const fn has_space(head: u64, tail: u64, size: u64, need: u64, backward: bool) -> bool {
    if size == 0 {
        return false;
    }
    let (ahead, behind) = if backward { (tail, head) } else { (head, tail) };
    behind.wrapping_sub(ahead.wrapping_add(1)) & (size - 1) >= need
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const FORWARD: How = How { backward: false, wakeup_events: 0 };

    fn ring(data: u64, overwrite: bool) -> (Arena, Ring) {
        let mut arena = Arena::with_len(64 * FRAME_SIZE).unwrap();
        let ring = Ring::new(&mut arena, data, overwrite, 0).unwrap();
        (arena, ring)
    }

    fn lost_record(count: u64) -> Vec<u8> {
        [[0xff; 8], count.to_le_bytes()].concat()
    }

    fn put(arena: &mut Arena, ring: &Ring, byte: u8, len: usize) -> Output {
        ring.output(arena, &vec![byte; len], FORWARD, lost_record)
    }

    fn data(arena: &Arena, ring: &Ring, at: u64, len: usize) -> Vec<u8> {
        (at..at + len as u64)
            .map(|i| {
                let i = i & (ring.size() - 1);
                arena.bytes(ring.pages[1 + (i / FRAME_SIZE) as usize])[(i % FRAME_SIZE) as usize]
            })
            .collect()
    }

    #[test]
    fn one_byte_is_never_used() {
        assert!(has_space(0, 0, 4096, 4095, false) && !has_space(0, 0, 4096, 4096, false));
        assert!(has_space(4096, 4096, 4096, 4095, false));
        assert!(has_space(4000, 0, 4096, 95, false) && !has_space(4000, 0, 4096, 96, false));
        assert!(has_space(u64::MAX - 4095, 0, 4096, 4095, true), "backward");
        assert!(!has_space(0, 0, 0, 0, false));
    }

    #[test]
    fn records_go_around_the_end_and_are_lost_before_they_overtake_the_reader() {
        let (mut arena, ring) = ring(1, false);
        assert_eq!(put(&mut arena, &ring, 1, 3000), Output::Written { wake: true });
        assert_eq!(put(&mut arena, &ring, 2, 1096), Output::Lost, "the last byte");
        assert_eq!(put(&mut arena, &ring, 2, 2000), Output::Lost);
        assert_eq!(arena.word(ring.pages[0], field::DATA_HEAD), 3000);
        ring.set(&mut arena, field::DATA_TAIL, 3000);
        assert_eq!(put(&mut arena, &ring, 3, 1200), Output::Written { wake: true });
        assert_eq!(arena.word(ring.pages[0], field::DATA_HEAD), 3000 + 16 + 1200);
        assert_eq!(data(&arena, &ring, 3000, 16), lost_record(2));
        assert_eq!(data(&arena, &ring, 3016, 1200), [3; 1200]);
    }

    #[test]
    fn without_a_reader_the_oldest_is_written_over() {
        let (mut arena, ring) = ring(1, true);
        for byte in 0..10 {
            assert_ne!(put(&mut arena, &ring, byte, 1000), Output::Lost);
        }
        assert_eq!(data(&arena, &ring, 9000, 1000), [9; 1000]);
        assert_eq!(put(&mut arena, &ring, 0, 4096), Output::Lost, "longer than the ring");
    }

    #[test]
    fn backward_the_newest_is_at_the_head() {
        let (mut arena, ring) = ring(2, true);
        let how = How { backward: true, ..FORWARD };
        for byte in 1..4 {
            ring.output(&mut arena, &[byte; 104], how, lost_record);
        }
        let head = arena.word(ring.pages[0], field::DATA_HEAD);
        assert_eq!(head, 312u64.wrapping_neg());
        assert_eq!(
            data(&arena, &ring, head & 8191, 312)[..],
            [[3; 104], [2; 104], [1; 104]].concat()
        );
    }

    #[test]
    fn wakes_by_events_by_watermark_and_not_when_paused() {
        let (mut arena, ring) = ring(4, false);
        let how = How { backward: false, wakeup_events: 3 };
        let wakes: Vec<_> =
            (0..7).map(|_| ring.output(&mut arena, &[0; 40], how, lost_record)).collect();
        let woken = |wake| Output::Written { wake };
        assert_eq!(wakes, [false, false, true, false, false, true, false].map(woken));
        assert_eq!(put(&mut arena, &ring, 0, 8192), woken(true), "half of it is full");
        ring.paused.set(true);
        assert_eq!(put(&mut arena, &ring, 0, 8), Output::Lost);
        ring.paused.set(false);
        assert_eq!(put(&mut arena, &ring, 0, 8), woken(false));
        assert_eq!(data(&arena, &ring, 7 * 40 + 8192, 16), lost_record(1));
    }

    #[test]
    fn any_tail_of_a_hostile_reader_is_taken() {
        let (mut arena, ring) = ring(1, false);
        for tail in [u64::MAX, 1 << 63, 4095, 1, 0xdead_beef] {
            ring.set(&mut arena, field::DATA_TAIL, tail);
            put(&mut arena, &ring, 7, 96);
        }
        assert_eq!(ring.size(), 4096);
    }
}
