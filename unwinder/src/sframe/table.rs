//! Lookup in a module's section.
//!
//! ```text
//! one section, functions ascend and none overlaps another   search a few of them, in place
//! otherwise                                                 search one sorted list of them all
//! ```
//!
//! Everything that a lookup relies on is either checked by [`Table::new`] or by the lookup
//! itself; nothing is trusted because the section as a whole looked sound.

use std::cmp::Ordering;
use std::ops::Deref;

use arch::Arch;

use super::buckets::Buckets;
use super::frame_row::{FrameRow, Heads, Order};
use super::function::{Entry, Function, Part};
use super::header::{HEADER_LEN, Header, MAGIC};
use super::lookup::Answer;
use super::quick::{Quick, View};
use super::rules::{Found, Rules};
use super::{Abi, Error, ErrorKind, Warning, WarningKind};
use crate::LookupAddress;
use crate::brief::Brief;
use crate::row::Miss;

/// The functions of a module's `.sframe`.
#[derive(Clone, Debug)]
pub struct Table<D> {
    data: D,
    parts: Vec<Part>,
    functions: Functions,
}

/// How the functions are searched.
#[derive(Clone, Debug)]
enum Functions {
    /// There is one part; its functions ascend and none overlaps another one.
    InPlace(Buckets, Option<Quick>),
    /// Ascending.
    Sorted(Vec<Visible>),
}

/// A function that something is looked up in.
#[derive(Clone, Copy, Debug)]
struct Visible {
    /// From here on it is the one: its start, or the end of an earlier one that overlaps it.
    from: u64,
    part: u32,
    index: u32,
}

impl<D: Deref<Target = [u8]>> Table<D> {
    /// Reads a module's section, which is linked at `address`. lld leaves several sections,
    /// one behind the other; they make one table. The byte order is the section's own: whether
    /// it is the file's, its ABI in [`Table::parts`] tells.
    ///
    /// # Errors
    ///
    /// [`Error`]: the section cannot be used. What is wrong with a single function or row is
    /// found when it is looked up, or by [`Table::check`].
    pub fn new(arch: Arch, address: u64, data: D) -> Result<(Table<D>, Vec<Warning>), Error> {
        Table::open(Some(arch), address, data)
    }

    /// As [`Table::new`], of any architecture. Functions and rows can be listed, but those of
    /// s390x cannot be looked up.
    ///
    /// # Errors
    ///
    /// [`Error`]: the section cannot be used.
    pub fn of_any_arch(address: u64, data: D) -> Result<(Table<D>, Vec<Warning>), Error> {
        Table::open(None, address, data)
    }

    fn open(arch: Option<Arch>, address: u64, data: D) -> Result<(Table<D>, Vec<Warning>), Error> {
        let mut warnings = Vec::new();
        if !address.is_multiple_of(8) {
            warnings.push(Warning { offset: 0, kind: WarningKind::Misaligned(address) });
        }
        let parts = read_parts(&data, address, arch, &mut warnings)?;
        let functions = arrange(&data, &parts, &mut warnings)?;
        Ok((Table { data, parts, functions }, warnings))
    }

    /// The row in force at an address of the module.
    ///
    /// # Errors
    ///
    /// [`Miss`]: there is none, or it cannot be read.
    #[inline]
    pub fn row(&self, at: LookupAddress) -> Result<Found, Miss<Error>> {
        let (answer, from) = self.answer(at)?;
        Ok(answer.found(from))
    }

    /// As [`Table::row`], in short.
    pub(crate) fn brief(&self, at: LookupAddress) -> Result<Brief, Miss<Error>> {
        Ok(self.answer(at)?.0.brief())
    }

    /// The section, if it is of the usual kind: rules where nothing is wrong, with no error put
    /// together elsewhere.
    #[inline]
    pub(crate) fn view(&self) -> Option<View<'_>> {
        match &self.functions {
            Functions::InPlace(buckets, Some(quick)) => quick.view(&self.data, buckets),
            _ => None,
        }
    }

    /// The answer, and below which address it is not used.
    #[inline]
    fn answer(&self, at: LookupAddress) -> Result<(Answer, u64), Miss<Error>> {
        let pc = at.value();
        let found = match &self.functions {
            Functions::InPlace(buckets, _) => self.search(buckets, pc),
            Functions::Sorted(list) => search_sorted(list, pc),
        };
        let Visible { from, part: number, index } = found.ok_or(Miss::NotCovered)?;
        let part = self.parts.get(number as usize).ok_or(Miss::NotCovered)?;
        let mut bytes = &*self.data;
        let function = part.function_with(&mut bytes, index, number, pc)?;
        let answer = part.answer(&mut bytes, &function, pc, Order::Ascending)?;
        Ok((answer, from))
    }

    /// The function that the row for an address is in.
    ///
    /// # Errors
    ///
    /// [`Miss`]: there is none, or it cannot be read.
    pub fn function(&self, at: LookupAddress) -> Result<Function, Miss<Error>> {
        let pc = at.value();
        let found = match &self.functions {
            Functions::InPlace(buckets, _) => self.search(buckets, pc),
            Functions::Sorted(list) => search_sorted(list, pc),
        };
        let Visible { part: number, index, .. } = found.ok_or(Miss::NotCovered)?;
        let part = self.parts.get(number as usize).ok_or(Miss::NotCovered)?;
        let function = part.function(&mut &*self.data, index, number).map_err(Miss::Bad)?;
        if function.range().contains(&pc) { Ok(function) } else { Err(Miss::NotCovered) }
    }

    /// The last function of the only part that starts at or below `pc`.
    #[inline]
    fn search(&self, buckets: &Buckets, pc: u64) -> Option<Visible> {
        let (first, count) = buckets.candidates(pc)?;
        let (index, from) = self.parts.first()?.search(&mut &*self.data, first, count, pc)?;
        Some(Visible { from, part: 0, index })
    }

    /// The headers, in the order in which they follow each other.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The section as it was given.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// All functions, in the section's order. One that cannot be read does not keep the others
    /// from being listed.
    pub fn functions(&self) -> impl Iterator<Item = Result<Function, Error>> {
        (0..).zip(&self.parts).flat_map(move |(number, part)| {
            let read = move |index| part.function(&mut &*self.data, index, number);
            (0..part.header.functions).map(read)
        })
    }

    /// The rows of a function of this table, up to the first one that cannot be read.
    pub fn rows(&self, function: &Function) -> impl Iterator<Item = Result<FrameRow, Error>> {
        let part = self.parts.get(function.part as usize);
        let mut heads = part.map(|p| (p, Heads::new(p, function, Order::Ascending)));
        std::iter::from_fn(move || {
            let (part, heads) = heads.as_mut()?;
            let head = heads.next(&mut &*self.data)?;
            let row = head.and_then(|head| part.frame_row(&mut &*self.data, head));
            if row.is_err() {
                heads.stop();
            }
            Some(row)
        })
    }

    /// What a row of a function of this table means.
    ///
    /// # Errors
    ///
    /// [`Error`]: nothing, or nothing that can be unwound here.
    pub fn rules(&self, function: &Function, row: &FrameRow) -> Result<Rules, Error> {
        let other = Error { offset: row.offset, kind: ErrorKind::OtherTable };
        self.parts.get(function.part as usize).ok_or(other)?.rules(function, row)
    }
}

#[inline]
fn search_sorted(list: &[Visible], pc: u64) -> Option<Visible> {
    let after = list.partition_point(|v| v.from <= pc);
    list.get(after.checked_sub(1)?).copied()
}

/// The headers that follow each other in `data`.
fn read_parts(
    data: &[u8],
    address: u64,
    arch: Option<Arch>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::<Part>::new();
    let mut offset = 0;
    loop {
        let rest = data.get(offset..).unwrap_or_default();
        let header = Header::read(&mut &*data, offset as u64, rest.len() as u64)?;
        let at = offset as u64;
        check_abi(&header, parts.first().map(|p| p.header.abi), arch)
            .map_err(|kind| Error { offset: at.saturating_add(4), kind })?;
        let warn = |field, kind| Warning { offset: at.saturating_add(field), kind };
        warnings.extend(strange(&header).map(|(field, kind)| warn(field, kind)));
        parts.push(Part { header, offset: at, address: address.wrapping_add(at) });
        // Row data ends inside `data`, whose length is a `usize`.
        let end = offset.saturating_add(header.len() as usize);
        let next = end.next_multiple_of(8);
        if is_header(data.get(next..).unwrap_or_default()) {
            warnings.push(Warning { offset: next as u64, kind: WarningKind::Concatenated });
            offset = next;
            continue;
        }
        let behind = data.get(end..).unwrap_or_default();
        if behind.iter().any(|&b| b != 0) {
            let kind = WarningKind::Trailing { len: behind.len() as u64 };
            warnings.push(Warning { offset: end as u64, kind });
        }
        return Ok(parts);
    }
}

/// Whether a header follows. Padding does not look like one.
fn is_header(bytes: &[u8]) -> bool {
    let magic = bytes.first_chunk().map(|&b| u16::from_le_bytes(b));
    bytes.len() as u64 >= HEADER_LEN && magic.is_some_and(|m| m == MAGIC || m.swap_bytes() == MAGIC)
}

/// All parts are for one ABI, and it is the module's.
fn check_abi(header: &Header, first: Option<Abi>, arch: Option<Arch>) -> Result<(), ErrorKind> {
    let found = header.abi;
    match (arch, first) {
        (Some(wanted), _) if found.arch() != Some(wanted) => {
            Err(ErrorKind::Arch { found, wanted: wanted.name() })
        }
        (_, Some(first)) if found != first => Err(ErrorKind::OtherAbi { found, first }),
        _ => Ok(()),
    }
}

/// What is strange about a header, and at which offset of it.
fn strange(header: &Header) -> impl Iterator<Item = (u64, WarningKind)> {
    let usual = if header.abi == Abi::Amd64 { -8 } else { 0 };
    let found = header.fixed_ra;
    [
        (3, (!header.flags.sorted()).then_some(WarningKind::NotSorted(header.flags))),
        (5, (header.fixed_fp != 0).then_some(WarningKind::FixedFp(header.fixed_fp))),
        (6, (found != usual).then_some(WarningKind::FixedRa { found, usual })),
        (7, (header.auxiliary != 0).then_some(WarningKind::Auxiliary(header.auxiliary))),
        (8, (header.functions == 0).then_some(WarningKind::NoFunctions)),
    ]
    .into_iter()
    .filter_map(|(offset, kind)| Some((offset, kind?)))
}

/// Checks order and number of rows, and decides how to search.
fn arrange(data: &[u8], parts: &[Part], warnings: &mut Vec<Warning>) -> Result<Functions, Error> {
    let mut in_place = parts.len() == 1;
    for (number, part) in parts.iter().enumerate() {
        let number = u32::try_from(number)
            .map_err(|_| Error { offset: part.offset, kind: ErrorKind::TooLarge })?;
        in_place &= check_part(data, part, number, warnings)?;
    }
    let found = parts.first().filter(|_| in_place).and_then(|part| {
        let start = |index| part.start(&mut &*data, index);
        let buckets = Buckets::new(part.header.functions, start)?;
        Some(Functions::InPlace(buckets, Quick::new(part)))
    });
    Ok(found.unwrap_or_else(|| Functions::Sorted(sort(data, parts))))
}

/// Whether the functions of a part ascend, and none overlaps another one.
fn check_part(
    data: &[u8],
    part: &Part,
    number: u32,
    warnings: &mut Vec<Warning>,
) -> Result<bool, Error> {
    let mut before = None::<Entry>;
    let (mut in_place, mut found, mut all) = (true, 0, true);
    for index in 0..part.header.functions {
        let entry = part.entry(&mut &*data, index)?;
        if let Some(before) = before {
            in_place &= before.end.is_some_and(|end| end <= entry.start);
            if part.header.flags.sorted() && entry.start < before.start {
                let kind = ErrorKind::Unsorted { index };
                return Err(Error { offset: part.entry_at(index), kind });
            }
        }
        in_place &= entry.end.is_some() && entry.size != 0;
        match part.function(&mut &*data, index, number) {
            Ok(function) => found += u64::from(function.rows),
            Err(_) => all = false,
        }
        before = Some(entry);
    }
    let announced = part.header.rows;
    let offset = part.offset.saturating_add(12);
    match (found.cmp(&announced.into()), all) {
        (Ordering::Equal, _) => {}
        (Ordering::Less, false) => {
            warnings.push(Warning { offset, kind: WarningKind::RowsMissing { found, announced } });
        }
        _ => return Err(Error { offset, kind: ErrorKind::RowCount { found, announced } }),
    }
    Ok(in_place)
}

/// All functions that have instructions, ascending. Where two overlap, the one with the lower
/// start is visible, and of those that start together the first one.
fn sort(data: &[u8], parts: &[Part]) -> Vec<Visible> {
    let mut list = Vec::new();
    for (number, part) in (0..).zip(parts) {
        for index in 0..part.header.functions {
            let Ok(Entry { start, size, end: Some(end) }) = part.entry(&mut &*data, index) else {
                continue;
            };
            if size != 0 {
                list.push((Visible { from: start, part: number, index }, end));
            }
        }
    }
    list.sort_by_key(|(v, _)| v.from); // stable: the first one stays first
    let mut covered = 0;
    let mut visible = Vec::with_capacity(list.len());
    for (mut v, end) in list {
        if end > covered {
            v.from = v.from.max(covered);
            covered = end;
            visible.push(v);
        }
    }
    visible
}
