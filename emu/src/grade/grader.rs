//! Walks every sampled stack by every method and counts the verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arch::Regs;
use unwinder::elf::Slice;
use unwinder::{Context, InstructionPointer, Memory, Module, Modules, Policy, Registers, Walk, fp};

use crate::grade::verdict::{Verdict, compare};

/// A file's bytes, shared with whoever else reads it.
type Bytes = Arc<[u8]>;

/// Frames that a method is asked for at most.
const LIMIT: usize = 1024;

/// A way to unwind, and how it did.
#[derive(Debug)]
pub struct MethodTally {
    /// Name as on the command line.
    pub name: &'static str,
    /// Samples by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
}

impl MethodTally {
    fn new(name: &'static str) -> MethodTally {
        MethodTally { name, verdicts: BTreeMap::new() }
    }

    /// Samples in all.
    pub fn samples(&self) -> u64 {
        self.verdicts.values().sum()
    }

    /// Samples with this verdict.
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }
}

/// Grades the methods of one process.
pub struct Grader {
    modules: Modules<Slice<Bytes>>,
    /// In the order of the report: frame pointer, DWARF, SFrame.
    tallies: [MethodTally; 3],
    context: Context,
    found: Vec<u64>,
    truth: Vec<u64>,
}

impl Grader {
    /// No module yet.
    pub fn new() -> Grader {
        Grader {
            modules: Modules::new([]),
            tallies: ["fp", "dwarf", "sframe"].map(MethodTally::new),
            context: Context::new(),
            found: Vec::new(),
            truth: Vec::new(),
        }
    }

    /// A file was mapped: offset `pgoff` of it is at address `addr`. What is no ELF file, or
    /// has no such executable part, gives no module.
    pub fn map(&mut self, name: &str, bytes: Bytes, addr: u64, pgoff: u64) {
        let Some(bias) = bias(&bytes, addr, pgoff) else { return };
        if let Ok(module) = Module::from_elf(name, bytes, bias) {
            let modules = std::mem::replace(&mut self.modules, Modules::new([]));
            self.modules = modules.with(module);
        }
    }

    /// Grades the stack of a thread that is at `regs`; `truth` has its true addresses,
    /// innermost first.
    pub fn grade(
        &mut self,
        regs: &Regs,
        truth: impl Iterator<Item = u64>,
        mut memory: impl Memory,
    ) {
        self.truth.clear();
        self.truth.extend(truth);
        let (found, limit) = (&mut self.found, LIMIT);
        found.clear();
        let mut store = |address| {
            let room = found.len() < limit;
            if room {
                found.push(address);
            }
            room
        };
        fp::perf::walk(regs, false, &mut memory, &mut store);
        // arm64's terminal record, (0, 0), is no frame.
        if self.found.last() == Some(&0) {
            self.found.pop();
        }
        let verdict = compare(&self.found, None, &self.truth, LIMIT);
        self.count(0, verdict);
        let start = InstructionPointer(regs.pc).into();
        let registers = Registers::of_thread(regs);
        for (index, policy) in [(1, Policy::dwarf()), (2, Policy::sframe())] {
            let (modules, context) = (&self.modules, &mut self.context);
            let walk = Walk::new(policy, modules, start, &registers, &mut memory, context);
            let mut walk = walk.limit(LIMIT);
            self.found.clear();
            self.found.extend(walk.by_ref().map(|frame| frame.address.value()));
            let end = walk.end();
            let verdict = compare(&self.found, end, &self.truth, LIMIT);
            self.count(index, verdict);
        }
    }

    fn count(&mut self, index: usize, verdict: Verdict) {
        *self.tallies[index].verdicts.entry(verdict).or_default() += 1;
    }

    /// How the methods did.
    pub fn tallies(&self) -> &[MethodTally] {
        &self.tallies
    }
}

impl Default for Grader {
    fn default() -> Grader {
        Grader::new()
    }
}

impl std::fmt::Debug for Grader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grader").field("tallies", &self.tallies).finish_non_exhaustive()
    }
}

/// How far the file is mapped from where it was linked, if an executable segment holds the
/// page at offset `pgoff`:
///
/// ```text
/// bias = addr - (p_vaddr + (pgoff - p_offset))
/// ```
fn bias(bytes: &[u8], addr: u64, pgoff: u64) -> Option<u64> {
    use goblin::elf::program_header::{PF_X, PT_LOAD};
    let elf = goblin::elf::Elf::parse(bytes).ok()?;
    let segment = elf.program_headers.iter().find(|p| {
        let page = p.p_offset & !0xfff;
        p.p_type == PT_LOAD && p.p_flags & PF_X != 0 && page == pgoff
    })?;
    Some(addr.wrapping_sub(segment.p_vaddr.wrapping_add(pgoff.wrapping_sub(segment.p_offset))))
}
