//! The true stack, as the program says it.

use arch::{Arch, Regs};

use super::Program;
use super::code::List;
use super::layout::{CALL, ENTRY, SAVED, SIGNAL, STACKS, TAIL, TOP, list};

/// A frame in the program's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where the caller goes on, the interrupted address, the address behind a jump; `None`
    /// for the vDSO, whose place the program does not know.
    pub address: Option<u64>,
    /// CFA of the frame that this one called or was interrupted by, if the program knows it.
    pub cfa: Option<u64>,
    /// One of [`CALL`], [`SIGNAL`], [`TAIL`].
    pub kind: u64,
}

impl Program {
    /// The true stack of the program at `regs`, innermost first, the thread's own instruction
    /// aside. `read` reads a word of its memory.
    ///
    /// # Errors
    ///
    /// What is wrong with the list.
    pub fn stack(
        &self,
        regs: &Regs,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> Result<Vec<Told>, String> {
        let mut word = |addr: u64| read(addr).ok_or_else(|| format!("nothing at {addr:#x}"));
        // Only the vDSO's sigreturn is outside.
        let meaning = self.code.list_at(regs.pc).unwrap_or(List::Without(1));
        let level = match self.arch {
            Arch::X86_64 => regs.gp[arch::x86_64::regs::RBX],
            Arch::Aarch64 => regs.gp[19],
        };
        let end = match meaning {
            List::ToLevel => level,
            List::Saved => word(SAVED)?,
            _ => word(TOP)?,
        };
        if end == 0 {
            return Ok(Vec::new());
        }
        let Some(start) = (0..STACKS).map(list).find(|s| (*s..s + 0x1000).contains(&end)) else {
            return Err(format!("the list ends at {end:#x}"));
        };
        let mut entries = Vec::new();
        for at in (start..end).step_by(ENTRY as usize) {
            let [address, cfa, kind] = [word(at)?, word(at + 8)?, word(at + 16)?];
            if ![CALL, SIGNAL, TAIL].contains(&kind) {
                return Err(format!("kind {kind} in the list at {at:#x}"));
            }
            let known = |value: u64| (value != 0).then_some(value);
            let cfa = if kind == TAIL { None } else { known(cfa) };
            entries.push(Told { address: known(address), cfa, kind });
        }
        match meaning {
            List::Without(frames) => {
                for _ in 0..frames {
                    let last = entries.iter().rposition(|e| e.kind != TAIL);
                    entries.truncate(last.ok_or("a frame is missing in the list")?);
                }
            }
            List::WithoutTail => drop(entries.pop()),
            List::Exact | List::ToLevel | List::Saved => {}
        }
        entries.reverse();
        Ok(entries)
    }
}
