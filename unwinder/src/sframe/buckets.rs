//! A coarse index of functions that ascend: which ones can hold an address.
//!
//! ```text
//! base ├── 2^shift ──┼── 2^shift ──┼── …        addresses
//!      first[0]      first[1]      first[2]    the last function that starts at or below
//! ```
//!
//! A function that holds an address of bucket b is one of `first[b]..=first[b + 1]`, mostly
//! one or two. There are about as many buckets as functions, however far these are apart.

#[derive(Clone, Debug)]
pub(super) struct Buckets {
    base: u64,
    shift: u32,
    first: Vec<u32>,
}

impl Buckets {
    /// An index of `starts`, which ascend.
    pub fn new(count: u32, mut start: impl FnMut(u32) -> Option<u64>) -> Option<Buckets> {
        let (base, last) = (start(0)?, start(count.checked_sub(1)?)?);
        let span = last.checked_sub(base)?;
        // One bucket for a function, or up to two.
        let shift = (span / u64::from(count)).checked_ilog2().unwrap_or(0);
        let buckets = usize::try_from(span >> shift).ok()? + 2;
        let mut first = Vec::with_capacity(buckets);
        let mut index = 0;
        for bucket in 0..buckets as u64 {
            // The last ones may begin behind all addresses.
            let at = bucket.saturating_mul(1 << shift);
            while index + 1 < count && start(index + 1)?.checked_sub(base)? <= at {
                index += 1;
            }
            first.push(index);
        }
        Some(Buckets { base, shift, first })
    }

    /// The first one of the functions that can hold `pc`, and how many there are.
    #[inline]
    pub fn candidates(&self, pc: u64) -> Option<(u32, u32)> {
        let bucket = usize::try_from(pc.checked_sub(self.base)? >> self.shift).ok()?;
        let low = *self.first.get(bucket).or(self.first.last())?;
        let high = *self.first.get(bucket + 1).unwrap_or(&low);
        Some((low, high - low + 1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn check(starts: &[u64]) {
        let count = starts.len() as u32;
        let buckets = Buckets::new(count, |i| starts.get(i as usize).copied()).unwrap();
        assert!(buckets.first.len() <= 2 * starts.len() + 2, "{}", buckets.first.len());
        let edges = starts.iter().flat_map(|s| [s.saturating_sub(1), *s, s.saturating_add(1)]);
        for pc in edges.chain([0, 1 << 32, u64::MAX - 1, u64::MAX]) {
            let expected = starts.partition_point(|&s| s <= pc).checked_sub(1);
            match (expected, buckets.candidates(pc)) {
                (None, found) => assert_eq!(found, None),
                (Some(n), Some((low, len))) => {
                    assert!((low..low + len).contains(&(n as u32)), "{pc:#x} in {starts:x?}");
                }
                (Some(_), None) => panic!("{pc:#x} in {starts:x?}"),
            }
        }
    }

    #[test]
    fn the_function_is_among_the_candidates() {
        check(&[5]);
        check(&[0, u64::MAX]);
        check(&[0, 1, 2, 3, 1 << 40]);
        check(&[7, 8, 0x1000, 0x1001, u64::MAX - 1]);
        check(&(0..1000).map(|n| 0x40_0000 + n * 48 + (n % 7)).collect::<Vec<_>>());
        check(&(0..64).map(|n| 1 << n).collect::<Vec<_>>());
        assert!(Buckets::new(0, |_| None).is_none());
    }
}
