//! A fine index of functions that ascend: which ones can hold an address.
//!
//! ```text
//! base ├── 2^shift ──┼── 2^shift ──┼── …        addresses
//!      first[0]      first[1]      first[2]    the last function that starts at or below
//! ```
//!
//! A function that holds an address of bucket b is one of `first[b]..=first[b + 1]`, and not
//! that last one if it starts where the bucket ends, as aligned functions like to. There are
//! about four to eight times as many buckets as functions, however far these are apart: mostly
//! there is nothing left to search.

#[derive(Clone, Debug)]
pub(super) struct Buckets {
    base: u64,
    shift: u32,
    first: Vec<First>,
}

/// The last function that starts at or below the start of a bucket, and, in the highest bit,
/// whether it starts right there.
#[derive(Clone, Copy, Debug)]
struct First(u32);

impl First {
    const THERE: u32 = 1 << 31;

    const fn index(self) -> u32 {
        self.0 & !First::THERE
    }

    /// The last function that starts below.
    const fn below(self) -> u32 {
        self.index().saturating_sub(self.0 >> 31)
    }
}

/// The logarithm of how many buckets a function has at least, if all are equally far apart.
const FINER: u32 = 2;

impl Buckets {
    /// An index of `starts`, which ascend.
    pub fn new(count: u32, mut start: impl FnMut(u32) -> Option<u64>) -> Option<Buckets> {
        if count > First::THERE {
            return None;
        }
        let (base, last) = (start(0)?, start(count.checked_sub(1)?)?);
        let span = last.checked_sub(base)?;
        let apart = (span / u64::from(count)).checked_ilog2().unwrap_or(0);
        let shift = apart.saturating_sub(FINER);
        let buckets = usize::try_from(span >> shift).ok()? + 2;
        let mut first = Vec::with_capacity(buckets);
        let (mut index, mut from) = (0, 0);
        for bucket in 0..buckets as u64 {
            // The last ones may begin behind all addresses.
            let at = u128::from(bucket) << shift;
            while index + 1 < count {
                let next = start(index + 1)?.checked_sub(base)?;
                if u128::from(next) > at {
                    break;
                }
                (index, from) = (index + 1, next);
            }
            let there = if u128::from(from) == at { First::THERE } else { 0 };
            first.push(First(index | there));
        }
        Some(Buckets { base, shift, first })
    }

    /// The first one of the functions that can hold `pc`, and how many there are.
    #[inline(always)]
    pub fn candidates(&self, pc: u64) -> Option<(u32, u32)> {
        let bucket = usize::try_from(pc.checked_sub(self.base)? >> self.shift).ok()?;
        let low = self.first.get(bucket).or(self.first.last())?.index();
        let high = self.first.get(bucket + 1).map_or(low, |next| next.below());
        Some((low, high.saturating_sub(low) + 1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn check(starts: &[u64]) {
        let count = starts.len() as u32;
        let buckets = Buckets::new(count, |i| starts.get(i as usize).copied()).unwrap();
        assert!(
            buckets.first.len() <= (starts.len() << (FINER + 1)) + 2,
            "{}",
            buckets.first.len()
        );
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
