//! Rows one after the other.
//!
//! A table is made to be looked up: each lookup reads an entry from its start. Whoever shows
//! all rows of an entry that has very many reads some thousand of them at once instead.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Deref, Range};

use arch::Arch;
use unwinder::dwarf::{self, Error};
use unwinder::row::{Miss, Row, Rule, Silent, return_column};
use unwinder::sframe::{self, Found, Function};

use super::rows::key;

/// Rows that are read ahead at first and at most.
const FEW: usize = 8;
const MANY: usize = 4096;

/// What a table says, and the addresses for which it is the same.
type Answer<R, E> = (Range<u64>, Result<R, Miss<E>>);

/// Reads a table of CFI. Addresses are the table's own.
#[derive(Debug)]
pub(super) struct CfiReader<'m, D> {
    table: &'m dwarf::Table<D>,
    context: dwarf::Context,
    /// The addresses of the entry that was read last, and of the part that `rows` are of.
    entry: Range<u64>,
    known: Range<u64>,
    rows: VecDeque<CfiRow>,
    /// How many rows are read the next time.
    most: usize,
}

/// A row and the addresses that it is for.
#[derive(Debug)]
struct CfiRow {
    range: Range<u64>,
    row: Result<Row, Error>,
    /// Rules of vector registers, by DWARF number.
    vectors: Vec<(u16, Rule)>,
}

impl<'m, D: Deref<Target = [u8]>> CfiReader<'m, D> {
    pub fn new(table: &'m dwarf::Table<D>) -> CfiReader<'m, D> {
        let (context, rows) = (dwarf::Context::new(), VecDeque::new());
        CfiReader { table, context, entry: 0..0, known: 0..0, rows, most: FEW }
    }

    /// Holds the expressions of the rows.
    pub fn section(&self) -> &'m [u8] {
        self.table.section()
    }

    /// As [`dwarf::Table::row`]; with the addresses that it is for.
    pub fn row(&mut self, pc: u64) -> Answer<Row, Error> {
        if !self.known.contains(&pc)
            && let Err(miss) = self.read(pc)
        {
            return (only(pc), Err(miss));
        }
        while self.rows.front().is_some_and(|row| row.range.end <= pc) {
            self.rows.pop_front();
            self.known.start = pc;
        }
        match self.rows.front() {
            Some(CfiRow { range, row, .. }) if range.contains(&pc) => {
                (range.clone(), row.map_err(Miss::Bad))
            }
            _ => (only(pc), Err(Miss::NotCovered)),
        }
    }

    /// Rules of vector registers in the row that [`CfiReader::row`] gave last, by DWARF number.
    pub fn vectors(&self) -> &[(u16, Rule)] {
        self.rows.front().map_or(&[], |row| &row.vectors)
    }

    /// Reads the rows from `pc` on.
    fn read(&mut self, pc: u64) -> Result<(), Miss<Error>> {
        let entry = self.table.entry(key(pc))?;
        let range = entry.range.0..entry.range.1;
        self.most = if range == self.entry { (self.most * 2).min(MANY) } else { FEW };
        self.entry = range;
        self.rows.clear();
        let (rows, most) = (&mut self.rows, self.most);
        let mut end = self.entry.end;
        let context = &mut self.context;
        let outcome = self.table.rows_from(&entry, pc, context, |(start, stop), row, vectors| {
            if rows.len() == most {
                end = start;
                return ControlFlow::Break(());
            }
            rows.push_back(CfiRow { range: start..stop, row, vectors: vectors.collect() });
            ControlFlow::Continue(())
        });
        if let Err(error) = outcome {
            // Everything behind the last row is spoilt.
            let from = self.rows.back().map_or(pc, |row| row.range.end);
            let (range, row) = (from..self.entry.end, Err(error));
            self.rows.push_back(CfiRow { range, row, vectors: Vec::new() });
        }
        self.known = pc..end;
        Ok(())
    }
}

/// Functions with more rows than this are read row by row.
const LARGE: u32 = 1000;

/// Reads a table of SFrame. Addresses are the table's own.
#[derive(Debug)]
pub(super) struct SframeReader<'m, D> {
    arch: Arch,
    table: &'m sframe::Table<D>,
    /// What was read of a large function.
    large: Option<Large>,
}

#[derive(Debug)]
struct Large {
    function: Function,
    known: Range<u64>,
    rows: VecDeque<(Range<u64>, Result<Row, sframe::Error>)>,
}

impl<'m, D: Deref<Target = [u8]>> SframeReader<'m, D> {
    pub fn new(arch: Arch, table: &'m sframe::Table<D>) -> SframeReader<'m, D> {
        SframeReader { arch, table, large: None }
    }

    /// As [`sframe::Table::row`]; with the addresses that it is for.
    pub fn row(&mut self, pc: u64) -> Answer<Found, sframe::Error> {
        if let Some(answer) = self.of_large(pc) {
            return answer;
        }
        let found = self.table.row(key(pc));
        match self.table.function(key(pc)) {
            Ok(function) if function.rows > LARGE && !function.info.repeats() => {
                self.large = Some(self.read(function, pc));
                self.of_large(pc).unwrap_or((only(pc), found))
            }
            _ => match found {
                Ok(Found::Row(row)) => (row.range.0..row.range.1, found),
                _ => (only(pc), found),
            },
        }
    }

    fn of_large(&mut self, pc: u64) -> Option<Answer<Found, sframe::Error>> {
        let large = self.large.as_mut().filter(|large| large.function.range().contains(&pc))?;
        if !large.known.contains(&pc) {
            let function = large.function;
            self.large = Some(self.read(function, pc));
        }
        let large = self.large.as_mut()?;
        while large.rows.front().is_some_and(|(range, _)| range.end <= pc) {
            large.rows.pop_front();
            large.known.start = pc;
        }
        Some(match large.rows.front() {
            Some((range, row)) if range.contains(&pc) => {
                (range.clone(), row.map(Found::Row).map_err(Miss::Bad))
            }
            _ => (only(pc), Err(Miss::NotCovered)),
        })
    }

    /// The rows of a function from `pc` on.
    fn read(&self, function: Function, pc: u64) -> Large {
        let mut rows = VecDeque::new();
        let mut before: Option<(u64, Result<Row, sframe::Error>)> = None;
        let end = function.range().end;
        let mut known = pc..end;
        for frame_row in self.table.rows(&function) {
            let (start, row) = match frame_row {
                Ok(row) => {
                    let start = function.start.saturating_add(row.start.into());
                    (start, self.row_of(&function, &row))
                }
                // Everything behind the last row is spoilt.
                Err(error) => {
                    (before.as_ref().map_or(function.start, |(at, _)| at + 1), Err(error))
                }
            };
            if let Some((from, row)) = before.take()
                && start > pc
                && from < start
            {
                rows.push_back((from..start, row));
            }
            if rows.len() == MANY {
                known.end = start;
                break;
            }
            before = Some((start, row));
        }
        if let Some((from, row)) = before.filter(|(from, _)| *from < end) {
            rows.push_back((from..end, row));
        }
        Large { function, known, rows }
    }

    fn row_of(&self, function: &Function, row: &sframe::FrameRow) -> Result<Row, sframe::Error> {
        let rules = self.table.rules(function, row)?;
        let start = function.start.saturating_add(row.start.into());
        let mut all = Row::new(self.arch, start..function.range().end, rules.cfa, Silent::Unknown);
        all.set(return_column(self.arch), rules.ra);
        all.set(self.arch.fp() as u8, rules.fp);
        let signed = self.arch == Arch::Aarch64 && row.info.signed();
        (all.signed, all.signal) = (signed.then_some(function.info.key()), function.is_signal());
        Ok(all)
    }
}

fn only(pc: u64) -> Range<u64> {
    pc..pc.saturating_add(1)
}
