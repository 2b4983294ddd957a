//! The rows in force at an address, one for each table.

use std::fmt;
use std::ops::{Deref, Range};

use unwinder::address::InterruptedAddress;
use unwinder::dwarf;
use unwinder::row::{Miss, Row};
use unwinder::sframe::Found;
use unwinder::{CodeAddress, LookupAddress, Module};

use super::agreement::{self, Agreement, Parts};
use super::notation;

/// What the tables of a module say about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTexts {
    /// The row of `.eh_frame`, or else of `.debug_frame`: `cfa=rsp+16 ra=c-8 rbp=c-16`, or why
    /// it cannot be read. `None`: neither covers the address.
    pub dwarf: Option<String>,
    /// The row of `.sframe`. `None`: it does not cover the address.
    pub sframe: Option<String>,
    /// Whether they say the same.
    pub agreement: Agreement,
}

/// Looks up the rows of a module. Addresses are those of the process.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../guests/bin/x86_64/recursion");
/// let bytes = std::fs::read(program)?;
/// let module = unwinder::Module::from_elf("recursion", &bytes[..], 0)?;
/// let mut rows = emu::show::Rows::new(&module);
/// assert_eq!(rows.at(0x40_1370).dwarf.as_deref(), Some("cfa=rsp+8 ra=c-8"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Rows<'m, D> {
    module: &'m Module<D>,
    context: dwarf::Context,
    dwarf: Cell<'m>,
    sframe: Cell<'m>,
}

/// The last answer of a table: the next address is most often in the same row.
#[derive(Clone, Debug, Default)]
struct Cell<'m> {
    range: Range<u64>,
    text: Option<String>,
    answer: Answer,
    /// Holds the expressions of the row.
    section: &'m [u8],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there are two of them")]
enum Answer {
    #[default]
    None,
    Row(Row),
    /// SFrame: the caller's registers are in the kernel's signal frame.
    Trampoline,
}

impl<'m, D: Deref<Target = [u8]>> Rows<'m, D> {
    /// The rows of `module`.
    pub fn new(module: &'m Module<D>) -> Rows<'m, D> {
        let (dwarf, sframe) = (Cell::default(), Cell::default());
        Rows { module, context: dwarf::Context::new(), dwarf, sframe }
    }

    /// The rows in force at the instruction at `pc`. Addresses that ascend are the cheapest.
    pub fn at(&mut self, pc: u64) -> RowTexts {
        if !self.dwarf.range.contains(&pc) {
            self.dwarf = self.look_up_dwarf(pc);
        }
        if !self.sframe.range.contains(&pc) {
            self.sframe = self.look_up_sframe(pc);
        }
        RowTexts {
            dwarf: self.dwarf.text.clone(),
            sframe: self.sframe.text.clone(),
            agreement: self.agreement(pc),
        }
    }

    fn agreement(&self, pc: u64) -> Agreement {
        match (&self.dwarf.answer, &self.sframe.answer) {
            (Answer::None, Answer::None) => Agreement::Neither,
            (_, Answer::None) => Agreement::OnlyCfi,
            (Answer::None, _) => Agreement::OnlySframe,
            (Answer::Row(cfi), Answer::Row(sframe)) => {
                let arch = self.module.arch();
                agreement::compare(arch, cfi, self.dwarf.section, sframe, pc)
            }
            // Where the kernel puts the registers is what the row of a signal frame says.
            (Answer::Row(cfi), Answer::Trampoline) if cfi.signal => Agreement::Same,
            _ => {
                let differ = Parts { signal: true, ..Parts::default() };
                Agreement::Not { differ, unclear: Parts::default() }
            }
        }
    }

    fn look_up_dwarf(&mut self, pc: u64) -> Cell<'m> {
        let module = self.module;
        match module.dwarf_row(key(pc), &mut self.context) {
            Ok((row, table)) => Cell {
                range: row.range.0..row.range.1,
                text: Some(notation::row(module.arch(), &row, table.section(), pc)),
                answer: Answer::Row(row),
                section: table.section(),
            },
            Err(miss) => Cell::without_row(pc, &miss),
        }
    }

    fn look_up_sframe(&self, pc: u64) -> Cell<'m> {
        match self.module.sframe_row(key(pc)) {
            Ok(Found::Row(row)) => Cell {
                range: row.range.0..row.range.1,
                text: Some(notation::row(self.module.arch(), &row, &[], pc)),
                answer: Answer::Row(row),
                section: &[],
            },
            Ok(Found::SignalTrampoline) => Cell {
                range: only(pc),
                text: Some("signal".to_owned()),
                answer: Answer::Trampoline,
                section: &[],
            },
            Err(miss) => Cell::without_row(pc, &miss),
        }
    }
}

impl Cell<'_> {
    fn without_row<E: fmt::Display>(pc: u64, miss: &Miss<E>) -> Self {
        let text = match miss {
            Miss::NotCovered => None,
            Miss::Bad(error) => Some(format!("broken: {error}")),
        };
        Cell { range: only(pc), text, answer: Answer::None, section: &[] }
    }
}

fn only(pc: u64) -> Range<u64> {
    pc..pc.saturating_add(1)
}

fn key(pc: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(pc)).lookup()
}
