//! Which events are shown: `FROM..TO`, by number.

use std::str::FromStr;

/// Event numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

impl Range {
    /// All events.
    pub const ALL: Range = Range { from: 1, to: u64::MAX };

    /// Whether event `number` is in it.
    pub const fn holds(self, number: u64) -> bool {
        self.from <= number && number <= self.to
    }
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No range.
    #[error("use FROM..TO with the timeline's event numbers, such as 100..200, 100.. or ..200")]
    Form,
    /// Nothing is in it.
    #[error("no event is in it: the first is after the last")]
    Empty,
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Range, RangeError> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let number = |digits: &str, without: u64| match digits {
            "" => Ok(without),
            d if d.bytes().all(|b| b.is_ascii_digit()) => d.parse().map_err(|_| RangeError::Form),
            _ => Err(RangeError::Form),
        };
        if text.is_empty() {
            return Err(RangeError::Form);
        }
        let range = Range { from: number(from, 1)?, to: number(to, u64::MAX)? };
        if range.from > range.to { Err(RangeError::Empty) } else { Ok(range) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_included_and_may_be_left_out() {
        let parse = |text: &str| text.parse::<Range>();
        assert_eq!(parse("3..5"), Ok(Range { from: 3, to: 5 }));
        assert_eq!(parse("3.."), Ok(Range { from: 3, to: u64::MAX }));
        assert_eq!(parse("..5"), Ok(Range { from: 1, to: 5 }));
        assert_eq!(parse(".."), Ok(Range::ALL));
        assert_eq!(parse("7"), Ok(Range { from: 7, to: 7 }));
        assert!(parse("3..5").is_ok_and(|r| r.holds(3) && r.holds(5) && !r.holds(6)));
        assert_eq!(parse("5..3"), Err(RangeError::Empty));
        for wrong in ["", "a..b", "1..2..3", "-1..2", "1...2", "1..99999999999999999999", "+1..2"] {
            assert_eq!(parse(wrong), Err(RangeError::Form), "{wrong}");
        }
    }
}
