//! Source lines and inlined functions, from DWARF debug information.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, LittleEndian};

use super::SourceFrame;
use super::budget::BudgetReader;
use super::demangle::demangle;
use super::elf::Elf;

/// Deepest nesting of debugging entries. addr2line follows inlined functions on
/// the host's stack; compilers stay far below.
const MAX_DEPTH: isize = 256;
/// Bytes read per byte of debug information: three passes over all of it at
/// most, and some sharing.
const BUDGET_FACTOR: u64 = 16;
/// Bytes read for any single lookup, beyond the first.
const LOOKUP_BUDGET: u64 = 64 << 20;
/// Most frames of one address.
const MAX_INLINED: usize = 256;

/// The debug information of one file.
pub struct Lines {
    context: Context<BudgetReader>,
    left: Arc<AtomicU64>,
}

impl Lines {
    /// Prepares the debug information of the file `bytes`; `None` if it has
    /// none, or none that can be trusted.
    pub fn new(elf: &Elf, bytes: &Arc<[u8]>) -> Option<Lines> {
        let left = Arc::new(AtomicU64::new(bytes.len() as u64 * BUDGET_FACTOR + (1 << 16)));
        let file = EndianArcSlice::new(bytes.clone(), LittleEndian);
        let dwarf = Dwarf::load(|id| {
            let Range { start, end } = elf.section(bytes, id.name());
            // `section` answers within the file.
            Ok::<_, gimli::Error>(BudgetReader::new(file.range(start..end), left.clone()))
        })
        .ok()?;
        check_depth(&dwarf)?;
        let context = Context::from_dwarf(dwarf).ok()?;
        Some(Lines { context, left })
    }

    /// The source frames at virtual address `vaddr`, innermost first: inlined
    /// functions, then the function that the code belongs to.
    pub fn find(&self, vaddr: u64) -> Vec<SourceFrame> {
        self.left.fetch_max(LOOKUP_BUDGET, Ordering::Relaxed);
        let mut out = Vec::new();
        let Ok(mut frames) = self.context.find_frames(vaddr).skip_all_loads() else {
            return out;
        };
        while let Ok(Some(frame)) = frames.next() {
            let function = frame
                .function
                .as_ref()
                .and_then(|f| f.raw_name().ok())
                .map(|name| demangle(&name).into());
            let location = frame.location.as_ref();
            out.push(SourceFrame {
                function,
                file: location.and_then(|l| l.file).map(Arc::from),
                line: location.and_then(|l| l.line),
                column: location.and_then(|l| l.column),
            });
            if out.len() == MAX_INLINED {
                break;
            }
        }
        out
    }
}

/// `None` if the entries of any unit are nested too deeply to be followed.
fn check_depth(dwarf: &Dwarf<BudgetReader>) -> Option<()> {
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        let abbreviations = dwarf.abbreviations(&header).ok()?;
        let mut entries = header.entries_raw(&abbreviations, None).ok()?;
        while !entries.is_empty() {
            if entries.next_depth() > MAX_DEPTH {
                return None;
            }
            if let Some(abbreviation) = entries.read_abbreviation().ok()? {
                entries.skip_attributes(abbreviation.attributes()).ok()?;
            }
        }
    }
    Some(())
}
