//! How often each method is right, by program point.

use std::collections::BTreeMap;

use crate::grade::{ProgramPoint, Verdict};

/// Samples at one kind of program point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// Samples.
    pub samples: u64,
    /// Those that each method got right, in the methods' order.
    pub exact: Vec<u64>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByPoint(BTreeMap<ProgramPoint, Exact>);

impl ByPoint {
    /// A sample was graded.
    pub fn count(&mut self, point: ProgramPoint, verdicts: &[Verdict]) {
        let row = self.0.entry(point).or_default();
        row.samples += 1;
        row.exact.resize(verdicts.len(), 0);
        for (exact, verdict) in row.exact.iter_mut().zip(verdicts) {
            *exact += u64::from(*verdict == Verdict::Exact);
        }
    }

    /// The points that were sampled, in the order of reports.
    pub fn rows(&self) -> impl Iterator<Item = (ProgramPoint, &Exact)> {
        self.0.iter().map(|(point, row)| (*point, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let mut table = ByPoint::default();
        table.count(ProgramPoint::Body, &[Verdict::Exact, Verdict::MissingFrame]);
        table.count(ProgramPoint::Entry, &[Verdict::Exact, Verdict::Exact]);
        table.count(ProgramPoint::Body, &[Verdict::Exact, Verdict::Exact]);
        let rows: Vec<_> = table.rows().map(|(p, r)| (p, r.samples, r.exact.clone())).collect();
        let expected = [(ProgramPoint::Entry, 1, vec![1, 1]), (ProgramPoint::Body, 2, vec![2, 1])];
        assert_eq!(rows, expected);
    }
}
