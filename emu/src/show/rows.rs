//! The rows in force at an address, one for each table.

use std::fmt;
use std::ops::{Deref, Range};

use arch::Arch;
use unwinder::address::InterruptedAddress;
use unwinder::row::{Miss, Row};
use unwinder::sframe::{self, Found};
use unwinder::{CodeAddress, LookupAddress, Module};

use super::agreement::{self, Agreement, Parts};
use super::ahead::{CfiReader, SframeReader};
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
    arch: Arch,
    bias: u64,
    /// `.eh_frame`, `.debug_frame`: what the first one does not cover the second one may.
    cfi: Vec<CfiReader<'m, D>>,
    sframe_table: Option<SframeReader<'m, D>>,
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
        let arch = module.arch();
        let cfi = [module.eh_frame(), module.debug_frame()];
        Rows {
            arch,
            bias: module.bias(),
            cfi: cfi.into_iter().flatten().map(CfiReader::new).collect(),
            sframe_table: module.sframe().map(|table| SframeReader::new(arch, table)),
            dwarf: Cell::default(),
            sframe: Cell::default(),
        }
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
                agreement::compare(self.arch, cfi, self.dwarf.section, sframe, pc)
            }
            // Where the kernel puts the registers is what the row of a signal frame says.
            (Answer::Row(cfi), Answer::Trampoline) if cfi.signal => Agreement::Same,
            _ => {
                let differ = Parts { signal: true, ..Parts::default() };
                Agreement::Not { differ, unclear: Parts::default() }
            }
        }
    }

    /// As [`Module::dwarf_row`].
    fn look_up_dwarf(&mut self, pc: u64) -> Cell<'m> {
        let (arch, bias) = (self.arch, self.bias);
        let mut miss = Miss::NotCovered;
        for reader in &mut self.cfi {
            match reader.row(pc.wrapping_sub(bias)) {
                (range, Ok(row)) => {
                    let (vectors, section) = (reader.vectors(), reader.section());
                    let text = notation::row(arch, &row, vectors, section, pc);
                    return Cell {
                        range: placed(&range, bias),
                        text: Some(text),
                        answer: Answer::Row(row),
                        section: reader.section(),
                    };
                }
                (_, Err(bad)) if miss == Miss::NotCovered => miss = bad,
                _ => {}
            }
        }
        Cell::without_row(pc, &miss)
    }

    fn look_up_sframe(&mut self, pc: u64) -> Cell<'m> {
        let (arch, bias) = (self.arch, self.bias);
        let Some(reader) = &mut self.sframe_table else {
            return Cell::without_row(pc, &Miss::<sframe::Error>::NotCovered);
        };
        let (range, found) = reader.row(pc.wrapping_sub(bias));
        let (text, answer) = match found {
            Ok(Found::Row(row)) => (notation::row(arch, &row, &[], &[], pc), Answer::Row(row)),
            Ok(Found::SignalTrampoline) => ("signal".to_owned(), Answer::Trampoline),
            Err(miss) => return Cell::without_row(pc, &miss),
        };
        Cell { range: placed(&range, bias), text: Some(text), answer, section: &[] }
    }
}

/// Addresses of the process.
fn placed(range: &Range<u64>, bias: u64) -> Range<u64> {
    range.start.wrapping_add(bias)..range.end.wrapping_add(bias)
}

impl Cell<'_> {
    fn without_row<E: fmt::Display>(pc: u64, miss: &Miss<E>) -> Self {
        let text = match miss {
            Miss::NotCovered => None,
            Miss::Bad(error) => Some(format!("broken: {error}")),
        };
        let range = pc..pc.saturating_add(1);
        Cell { range, text, answer: Answer::None, section: &[] }
    }
}

/// The key for the tables of an instruction's address.
pub(super) fn key(pc: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(pc)).lookup()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use unwinder::dwarf;

    /// All programs of an architecture that the repository has, and those with both tables.
    fn programs(arch: Arch) -> Vec<Vec<u8>> {
        let catalogue = guests::default_dir().join("bin").join(arch.name());
        let both = guests::default_dir().join("../tests/data/show").join(arch.name());
        let files = [catalogue, both].into_iter().flat_map(|d| std::fs::read_dir(d).unwrap());
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn rows_in_order_are_those_of_lookups() {
        const BIAS: u64 = 0x5555_0000_0000;
        let mut compared = 0;
        for arch in Arch::ALL {
            for bytes in programs(arch).into_iter().filter(|b| b.len() < 200_000) {
                let module = Module::from_elf("program", &bytes[..], BIAS).unwrap();
                let mut rows = Rows::new(&module);
                let mut context = dwarf::Context::new();
                for pc in module.text().iter().flat_map(|text| text.clone().step_by(2)) {
                    rows.at(pc);
                    let cfi = match module.dwarf_row(key(pc), &mut context) {
                        Ok((row, _)) => Answer::Row(row),
                        Err(_) => Answer::None,
                    };
                    let sframe = match module.sframe_row(key(pc)) {
                        Ok(Found::Row(row)) => Answer::Row(row),
                        Ok(Found::SignalTrampoline) => Answer::Trampoline,
                        Err(_) => Answer::None,
                    };
                    let unplaced = |answer: &Answer| match answer {
                        Answer::Row(row) => Answer::Row(Row { range: (0, 0), ..*row }),
                        other => other.clone(),
                    };
                    assert_eq!(unplaced(&rows.dwarf.answer), unplaced(&cfi), "{pc:#x}");
                    assert_eq!(unplaced(&rows.sframe.answer), unplaced(&sframe), "{pc:#x}");
                    compared += u64::from(cfi != Answer::None);
                }
            }
        }
        assert!(compared > 50_000, "{compared}");
    }
}
