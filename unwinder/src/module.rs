//! A program or library as it is mapped in a process, with its unwind tables.

use std::fmt;
use std::ops::{Deref, Range};

use arch::Arch;

use crate::brief::Brief;
use crate::dwarf::{self, Section};
use crate::end::TableError;
use crate::row::{Miss, Row};
use crate::{LookupAddress, sframe};

/// The sections that a [`Module`]'s tables are made from, at their link-time addresses.
#[derive(Clone, Copy, Debug)]
pub struct Sections<D> {
    /// `.eh_frame`
    pub eh_frame: Option<Section<D>>,
    /// `.eh_frame_hdr`; of no use without `.eh_frame`.
    pub eh_frame_hdr: Option<Section<D>>,
    /// `.debug_frame`, not compressed.
    pub debug_frame: Option<D>,
    /// `.sframe`
    pub sframe: Option<Section<D>>,
    /// Link-time address of `.text`, for pointers relative to it (none in practice).
    pub text: Option<u64>,
    /// Link-time address of `.got`, for pointers relative to it (none in practice).
    pub got: Option<u64>,
}

impl<D> Default for Sections<D> {
    fn default() -> Sections<D> {
        Sections {
            eh_frame: None,
            eh_frame_hdr: None,
            debug_frame: None,
            sframe: None,
            text: None,
            got: None,
        }
    }
}

/// What is wrong with a module's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A table cannot be used at all; the module is without it.
    Unusable(TableError),
    /// An entry of `.eh_frame` or `.debug_frame` is broken, or `.eh_frame_hdr` is not used.
    Dwarf(dwarf::Warning),
    /// `.sframe` is strange.
    Sframe(sframe::Warning),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unusable(error) => error.fmt(f),
            Problem::Dwarf(warning) => warning.fmt(f),
            Problem::Sframe(warning) => warning.fmt(f),
        }
    }
}

/// A mapped program or library.
#[derive(Debug)]
pub struct Module<D> {
    name: String,
    arch: Arch,
    bias: u64,
    text: Vec<Range<u64>>,
    eh_frame: Option<dwarf::Table<D>>,
    debug_frame: Option<dwarf::Table<D>>,
    sframe: Option<sframe::Table<D>>,
    problems: Vec<Problem>,
}

impl<D: Deref<Target = [u8]>> Module<D> {
    /// A module whose executable parts, `text`, and `sections` are linked for addresses that
    /// are `bias` bytes below where they are in the process (modulo 2^64).
    ///
    /// Never fails: a table that cannot be used is absent, and [`Module::problems`] has the
    /// reason.
    pub fn new(
        name: impl Into<String>,
        arch: Arch,
        bias: u64,
        text: impl IntoIterator<Item = Range<u64>>,
        sections: Sections<D>,
    ) -> Module<D> {
        let moved = |r: Range<u64>| {
            let start = r.start.wrapping_add(bias);
            start..start.saturating_add(r.end.saturating_sub(r.start))
        };
        let mut module = Module {
            name: name.into(),
            arch,
            bias,
            text: text.into_iter().map(moved).filter(|r| !r.is_empty()).collect(),
            eh_frame: None,
            debug_frame: None,
            sframe: None,
            problems: Vec::new(),
        };
        let Sections { eh_frame, eh_frame_hdr, debug_frame, sframe, text, got } = sections;
        module.eh_frame = eh_frame.and_then(|frame| {
            module.dwarf(dwarf::Sections::EhFrame { frame, header: eh_frame_hdr, text, got })
        });
        module.debug_frame =
            debug_frame.and_then(|bytes| module.dwarf(dwarf::Sections::DebugFrame { bytes }));
        module.sframe = sframe.and_then(|section| module.read_sframe(section));
        module
    }

    fn dwarf(&mut self, sections: dwarf::Sections<D>) -> Option<dwarf::Table<D>> {
        match dwarf::Table::new(self.arch, sections) {
            Ok((table, warnings)) => {
                self.problems.extend(warnings.into_iter().map(Problem::Dwarf));
                Some(table)
            }
            Err(error) => {
                self.problems.push(Problem::Unusable(error.into()));
                None
            }
        }
    }

    fn read_sframe(&mut self, section: Section<D>) -> Option<sframe::Table<D>> {
        match sframe::Table::new(self.arch, section.address, section.bytes) {
            Ok((table, warnings)) => {
                self.problems.extend(warnings.into_iter().map(Problem::Sframe));
                Some(table)
            }
            Err(error) => {
                self.problems.push(Problem::Unusable(error.into()));
                None
            }
        }
    }

    /// What is wrong with the tables, each of them in the order of its section.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The `.eh_frame` table, whose addresses are link-time ones.
    pub const fn eh_frame(&self) -> Option<&dwarf::Table<D>> {
        self.eh_frame.as_ref()
    }

    /// The `.debug_frame` table, whose addresses are link-time ones.
    pub const fn debug_frame(&self) -> Option<&dwarf::Table<D>> {
        self.debug_frame.as_ref()
    }

    /// The `.sframe` table, whose addresses are link-time ones.
    pub const fn sframe(&self) -> Option<&sframe::Table<D>> {
        self.sframe.as_ref()
    }

    /// The row of `.eh_frame`, or if that has none of `.debug_frame`, for an address of the
    /// process; its range is of the process, too. With the table that it is from.
    ///
    /// # Errors
    ///
    /// [`Miss`]: neither has one. A broken entry counts only if the other table is silent.
    pub fn dwarf_row(
        &self,
        at: LookupAddress,
        context: &mut dwarf::Context,
    ) -> Result<(Row, &dwarf::Table<D>), Miss<dwarf::Error>> {
        let mut miss = Miss::NotCovered;
        for table in self.dwarf_tables() {
            match table.row(at.unbiased(self.bias), context) {
                Ok(row) => return Ok((self.placed(row), table)),
                Err(bad @ Miss::Bad(_)) if miss == Miss::NotCovered => miss = bad,
                Err(_) => {}
            }
        }
        Err(miss)
    }

    /// As [`Module::dwarf_row`], in short.
    pub(crate) fn dwarf_brief(&self, at: LookupAddress) -> Brief {
        // A long one may be broken, and count only if the other table is silent: the row tells.
        let briefs = self.dwarf_tables().map(|table| table.brief(at.unbiased(self.bias)));
        let mut covered = briefs.filter(|brief| *brief != Brief::NotCovered);
        covered.next().unwrap_or(Brief::NotCovered)
    }

    fn dwarf_tables(&self) -> impl Iterator<Item = &dwarf::Table<D>> {
        self.eh_frame.iter().chain(&self.debug_frame)
    }

    pub(crate) fn dwarf_table(&self, name: dwarf::SectionName) -> Option<&dwarf::Table<D>> {
        self.dwarf_tables().find(|table| table.name() == name)
    }

    /// The answer of `.sframe` for an address of the process; the row's range is of the
    /// process, too.
    ///
    /// # Errors
    ///
    /// [`Miss`]: it has none.
    pub fn sframe_row(&self, at: LookupAddress) -> Result<sframe::Found, Miss<sframe::Error>> {
        let table = self.sframe.as_ref().ok_or(Miss::NotCovered)?;
        Ok(match table.row(at.unbiased(self.bias))? {
            sframe::Found::Row(row) => sframe::Found::Row(self.placed(row)),
            trampoline @ sframe::Found::SignalTrampoline => trampoline,
        })
    }

    /// As [`Module::sframe_row`], in short.
    pub(crate) fn sframe_brief(&self, at: LookupAddress) -> Brief {
        let rule = self.sframe_view().and_then(|view| view.rule(at.unbiased(self.bias).value()));
        rule.map_or_else(|| self.sframe_other(at), Brief::Usual)
    }

    /// The same, where [`Module::sframe_view`] has no rule.
    #[inline(never)]
    pub(crate) fn sframe_other(&self, at: LookupAddress) -> Brief {
        match self.sframe.as_ref().map(|table| table.brief(at.unbiased(self.bias))) {
            Some(Ok(brief)) => brief,
            None | Some(Err(Miss::NotCovered)) => Brief::NotCovered,
            Some(Err(Miss::Bad(_))) => Brief::Long,
        }
    }

    /// `.sframe`, if it is of the usual kind; its addresses are link-time ones.
    #[inline]
    pub(crate) fn sframe_view(&self) -> Option<sframe::View<'_>> {
        self.sframe.as_ref()?.view()
    }

    fn placed(&self, mut row: Row) -> Row {
        let (start, end) = row.range;
        row.range = (start.wrapping_add(self.bias), end.wrapping_add(self.bias));
        row
    }
}

impl<D> Module<D> {
    /// As it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose code it is.
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// What to add to a link-time address to get that in the process, modulo 2^64.
    pub const fn bias(&self) -> u64 {
        self.bias
    }

    /// Its executable parts, in the process.
    pub fn text(&self) -> &[Range<u64>] {
        &self.text
    }
}
