//! What is wrong with a chain.

use serde::{Deserialize, Serialize};

use crate::grade::methods::NoCaller;

/// How a chain of addresses compares with the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All frames, and no other.
    Exact,
    /// Too short, because no table covers the last frame.
    NoCoverage,
    /// Too short, and the method says that it could not go on.
    TruncatedAdmitted,
    /// Too short, and the method says that this is the outermost frame.
    TruncatedClaimed,
    /// A caller is left out; the frames around it are right.
    MissingFrame,
    /// A frame that does not exist; the frames around it are right.
    InventedFrame,
    /// The address differs by one byte, the lookup's.
    OffByOne,
    /// The same frames again and again.
    Looping,
    /// Wrong from some frame on.
    WrongTail,
}

impl Verdict {
    /// All of them, best first.
    pub const ALL: [Verdict; 9] = [
        Verdict::Exact,
        Verdict::NoCoverage,
        Verdict::TruncatedAdmitted,
        Verdict::TruncatedClaimed,
        Verdict::MissingFrame,
        Verdict::InventedFrame,
        Verdict::OffByOne,
        Verdict::Looping,
        Verdict::WrongTail,
    ];

    /// In words, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::NoCoverage => "no coverage",
            Verdict::TruncatedAdmitted => "truncated",
            Verdict::TruncatedClaimed => "truncated, claimed complete",
            Verdict::MissingFrame => "missing frame",
            Verdict::InventedFrame => "invented frame",
            Verdict::OffByOne => "off by one",
            Verdict::Looping => "looping",
            Verdict::WrongTail => "wrong tail",
        }
    }
}

/// Compares addresses, innermost first. `limit` is the most that the method would give;
/// `end` says why it stopped, if it says so.
///
/// With `p` the length of the common beginning:
///
/// ```text
/// found = truth, or the first `limit` of truth             exact
/// p = |found|                                              no coverage, truncated …
/// truth[p+1..] begins with found[p..]                      missing frame
/// truth[p..] begins with found[p+1..], not empty           invented frame
/// found[p] = truth[p] ± 1                                  off by one
/// found ends in a cycle, at the limit; truth does not      looping
/// else                                                     wrong tail
/// ```
pub fn compare(found: &[u64], end: Option<&NoCaller>, truth: &[u64], limit: usize) -> Verdict {
    let common = found.iter().zip(truth).take_while(|(a, b)| a == b).count();
    let complete = common == truth.len() || common == limit;
    if common == found.len() {
        return match end {
            _ if complete => Verdict::Exact,
            Some(NoCaller::NoCoverage) => Verdict::NoCoverage,
            Some(NoCaller::Complete) => Verdict::TruncatedClaimed,
            _ => Verdict::TruncatedAdmitted,
        };
    }
    let (rest, expected) = (&found[common..], &truth[common..]);
    let same = |a: &[u64], b: &[u64]| !a.is_empty() && a.iter().eq(b.iter().take(a.len()));
    if expected.len() > 1 && same(rest, &expected[1..]) {
        Verdict::MissingFrame
    } else if same(&rest[1..], expected) {
        Verdict::InventedFrame
    } else if expected.first().is_some_and(|e| e.abs_diff(rest[0]) == 1) {
        Verdict::OffByOne
    } else if found.len() >= limit && truth.len() < limit && repeats(found) {
        Verdict::Looping
    } else {
        Verdict::WrongTail
    }
}

/// Whether `found` ends in a cycle of at most four addresses, three times.
fn repeats(found: &[u64]) -> bool {
    let end = |n: usize| &found[found.len() - n..];
    (1..=4).any(|n| found.len() >= 3 * n && end(3 * n)[..2 * n] == *end(2 * n))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: [u64; 5] = [10, 20, 30, 40, 50];

    fn verdict(found: &[u64], end: Option<&NoCaller>) -> Verdict {
        compare(found, end, &TRUTH, 127)
    }

    #[test]
    fn every_verdict() {
        let none = None;
        let no_row = Some(&NoCaller::NoCoverage);
        let failed = NoCaller::Failed("cannot read".to_owned());
        assert_eq!(verdict(&TRUTH, none), Verdict::Exact);
        assert_eq!(verdict(&TRUTH, no_row), Verdict::Exact);
        assert_eq!(verdict(&TRUTH[..3], no_row), Verdict::NoCoverage);
        assert_eq!(verdict(&TRUTH[..3], Some(&NoCaller::Complete)), Verdict::TruncatedClaimed);
        assert_eq!(verdict(&TRUTH[..3], Some(&failed)), Verdict::TruncatedAdmitted);
        assert_eq!(verdict(&TRUTH[..1], none), Verdict::TruncatedAdmitted);
        assert_eq!(verdict(&[10, 30, 40, 50], none), Verdict::MissingFrame);
        assert_eq!(verdict(&[10, 77, 20, 30, 40, 50], none), Verdict::InventedFrame);
        assert_eq!(verdict(&[10, 20, 29, 40, 50], none), Verdict::OffByOne);
        let looping = |found: &[u64]| compare(found, none, &TRUTH, found.len());
        assert_eq!(looping(&[10, 77, 77, 77, 77, 77]), Verdict::Looping);
        assert_eq!(looping(&[10, 20, 77, 78, 77, 78, 77, 78]), Verdict::Looping);
        // Recursion that ends.
        assert_eq!(verdict(&[10, 77, 77, 77, 77], none), Verdict::WrongTail);
        assert_eq!(verdict(&[10, 77, 78], none), Verdict::WrongTail);
        assert_eq!(verdict(&[10, 20, 30, 40, 50, 60], none), Verdict::WrongTail);
    }

    #[test]
    fn a_limit_is_no_fault() {
        assert_eq!(compare(&TRUTH[..3], None, &TRUTH, 3), Verdict::Exact);
        assert_eq!(compare(&TRUTH[..2], None, &TRUTH, 3), Verdict::TruncatedAdmitted);
    }
}
