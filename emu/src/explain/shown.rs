//! The rows of a picture that has no room for all.

use std::ops::Range;

use crate::explain::{Explained, Row, Source};

/// A line of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'r> {
    /// A row of the stack.
    Row(&'r Row),
    /// So many rows that are left out, and the first and last address in them.
    LeftOut(usize, Option<(u64, u64)>),
}

/// At most `room` lines: the rows nearest to the first one, to the last one and to those of
/// `anchors`.
pub fn choose<'r>(rows: &'r [Row], anchors: &[usize], room: usize) -> Vec<Shown<'r>> {
    if rows.len() <= room {
        return rows.iter().map(Shown::Row).collect();
    }
    let ends = [0, rows.len() - 1];
    let mut chosen = Vec::new();
    // Those that matter less are given up if there is no room for all.
    for count in (0..=anchors.len()).rev() {
        let anchors: Vec<usize> = anchors[..count].iter().chain(&ends).copied().collect();
        let radii = 0..rows.len();
        let fitting = radii.map_while(|r| {
            Some(pieces(rows.len(), &anchors, r)).filter(|p| lines(p, rows.len()) <= room)
        });
        if let Some(last) = fitting.last() {
            chosen = last;
            break;
        }
    }
    let mut shown = Vec::new();
    let mut next = 0;
    let end = rows.len()..rows.len();
    for piece in chosen.into_iter().chain(std::iter::once(end)) {
        let hidden = &rows[next..piece.start];
        match hidden {
            [] => {}
            // It takes no more room than to say that it is left out.
            [one] => shown.push(Shown::Row(one)),
            many => shown.push(Shown::LeftOut(many.len(), extent(many))),
        }
        shown.extend(rows[piece.clone()].iter().map(Shown::Row));
        next = piece.end;
    }
    shown
}

/// The ranges of rows that are at most `radius` from one of `anchors`, in order.
fn pieces(count: usize, anchors: &[usize], radius: usize) -> Vec<Range<usize>> {
    let near = |a: &usize| a.saturating_sub(radius)..a.saturating_add(radius + 1).min(count);
    let mut ranges: Vec<Range<usize>> = anchors.iter().map(near).collect();
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Lines of these rows and of what is between them.
fn lines(pieces: &[Range<usize>], count: usize) -> usize {
    let rows: usize = pieces.iter().map(Range::len).sum();
    let ends = [0..0, count..count];
    let all = || ends[..1].iter().chain(pieces).chain(&ends[1..]);
    let gaps = all().zip(all().skip(1)).filter(|(a, b)| a.end < b.start).count();
    rows + gaps
}

fn extent(rows: &[Row]) -> Option<(u64, u64)> {
    let addresses = || {
        rows.iter().filter_map(|row| match row {
            Row::Word { address, .. } => Some(*address),
            _ => None,
        })
    };
    Some((addresses().min()?, addresses().max()?))
}

/// Rows that show where methods part from the truth, that of the first wrong one first: where
/// it read, and where it should have.
pub fn partings(e: &Explained, rows: &[Row]) -> Vec<usize> {
    let row_of = |source: Source| {
        rows.iter().position(|row| match (row, source) {
            (Row::Word { address, .. }, Source::Memory(at)) => *address == at,
            (Row::Register { number, .. }, Source::Register(n)) => *number == n,
            _ => false,
        })
    };
    let mut found: Vec<usize> = Vec::new();
    for replay in e.replays.iter().filter(|replay| !replay.is_right(e.sample())) {
        let Some(here) = replay.parting().checked_sub(1) else { continue };
        let read = replay.frames.get(here).and_then(|told| told.source);
        let right = e.slot(here).map(|slot| slot.at);
        for row in read.into_iter().chain(right).filter_map(row_of) {
            if !found.contains(&row) {
                found.push(row);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(shown: &[Shown<'_>]) -> Vec<i64> {
        let number = |shown: &Shown<'_>| match shown {
            Shown::Row(Row::Skipped(n)) => *n as i64,
            Shown::LeftOut(n, _) => -(*n as i64),
            other => panic!("{other:?}"),
        };
        shown.iter().map(number).collect()
    }

    #[test]
    fn the_ends_and_what_matters_are_kept() {
        let rows: Vec<Row> = (0..100).map(Row::Skipped).collect();
        let shown = |anchors: &[usize], room| numbers(&choose(&rows, anchors, room));
        assert_eq!(shown(&[50], 100).len(), 100);
        assert_eq!(shown(&[50], 5), [0, -49, 50, -48, 99]);
        assert_eq!(shown(&[50], 9), [0, 1, -47, 49, 50, 51, -46, 98, 99]);
        // A single row takes no more room than that it is left out.
        assert_eq!(shown(&[2], 8), [0, 1, 2, 3, -94, 98, 99]);
        assert_eq!(shown(&[50, 70], 5), [0, -49, 50, -48, 99]);
        assert_eq!(shown(&[], 3), [0, -98, 99]);
        for (anchor, room) in (0..100).flat_map(|a| (5..40).map(move |room| (a, room))) {
            let list = shown(&[anchor], room);
            assert!(list.len() <= room && list.contains(&(anchor as i64)), "{anchor} {room}");
            assert_eq!(list.iter().map(|n| if *n < 0 { -n } else { 1 }).sum::<i64>(), 100);
        }
    }
}
