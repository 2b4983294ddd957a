//! The verdicts on every unwinding method, at every instruction of the program that a run
//! executes, by function and offset.
//!
//! ```text
//! grade::check::Checker           ─► single steps ─┐
//! a sample at every instruction   ─► whole walks  ─┴─► right · wrong · uncovered
//! ```
//!
//! A walk is right if its addresses are the true ones, uncovered if it ends too early for lack
//! of a rule. Where the stack pointer is between two stacks there is no verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arch::{Arch, Regs};
use emu::engine::schedule::Visits;
use emu::export::Images;
use emu::grade::check::Checker;
use emu::grade::files::Mapped;
use emu::grade::followed::{Followed, Follower};
use emu::grade::methods::{Methods, NoCaller};
use emu::kernel::user::Present;
use emu::kernel::{Kernel, State, run};
use emu::loader::vdso;
use emu::perf::record::Record;
use emu::truth::Stack;
use goblin::elf::Elf;

use crate::harness::Harness;

/// What a method is at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Its answer is the truth.
    Right,
    /// It is not.
    Wrong,
    /// It knows no rule.
    Uncovered,
}

/// The verdicts at the offsets of a function's instructions.
pub type Offsets = BTreeMap<u64, BTreeSet<Verdict>>;

/// Verdicts by method and by function of the program.
pub type Verdicts = BTreeMap<String, BTreeMap<String, Offsets>>;

/// Single steps of `harness`'s program, an ELF file at its own addresses.
///
/// # Panics
///
/// If the guest cannot be run.
pub fn steps(harness: &Harness, program: &Arc<[u8]>) -> Verdicts {
    let kernel = harness.start("steps");
    let checker = kernel
        .with(|state| Checker::start(state, images(state.arch, program), Visits::Sparse, |_| true))
        .unwrap();
    finish(&kernel);
    let mut verdicts = Collected::new(program);
    checker.read(|results| {
        for (&pc, record) in results.pcs {
            for id in results.checked {
                let (name, found) = (&results.names[id.0], &record.methods[id.0]);
                let wrong = found.times_wrong();
                let right = record.checked - wrong - found.no_coverage;
                for (verdict, count) in [
                    (Verdict::Right, right),
                    (Verdict::Wrong, wrong),
                    (Verdict::Uncovered, found.no_coverage),
                ] {
                    if count > 0 {
                        verdicts.add(name, pc, verdict);
                    }
                }
            }
        }
    });
    verdicts.verdicts
}

/// Whole walks of `harness`'s program, an ELF file at its own addresses, from every
/// instruction but the first.
///
/// # Panics
///
/// If the guest cannot be run.
pub fn walks(harness: &Harness, program: &Arc<[u8]>) -> Verdicts {
    let harness = harness.clone().without_callchains().without_laws();
    let kernel = harness.events("instructions:u", 1).start("walks");
    let walker = kernel.with(|state| Walker::start(state, program));
    finish(&kernel);
    let mut inner = walker.0.borrow_mut();
    std::mem::take(&mut inner.verdicts.verdicts)
}

fn images(arch: Arch, program: &Arc<[u8]>) -> Images {
    let program = program.clone();
    let files = Images::new(move |_| Some(program.clone()));
    files.with("[vdso]", Arc::from(vdso::image(arch)))
}

fn finish(kernel: &Kernel) {
    run::run(kernel, &AtomicBool::new(false), |_, _: &[Record]| Ok::<(), Infallible>(())).unwrap();
}

/// Verdicts, and the functions of the program in ascending order of their addresses.
#[derive(Debug)]
struct Collected {
    /// Address, size, name.
    functions: Vec<(u64, u64, String)>,
    verdicts: Verdicts,
}

impl Collected {
    fn new(program: &[u8]) -> Collected {
        let elf = Elf::parse(program).unwrap();
        let functions = elf.syms.iter().filter(|s| s.is_function() && s.st_size > 0);
        let name = |at| elf.strtab.get_at(at).unwrap_or_default().to_owned();
        let mut functions: Vec<_> =
            functions.map(|s| (s.st_value, s.st_size, name(s.st_name))).collect();
        functions.sort();
        Collected { functions, verdicts: Verdicts::new() }
    }

    fn add(&mut self, method: &str, pc: u64, verdict: Verdict) {
        let after = self.functions.partition_point(|f| f.0 <= pc);
        let Some((start, size, name)) = after.checked_sub(1).map(|i| &self.functions[i]) else {
            return;
        };
        if pc - start < *size {
            let functions = self.verdicts.entry(method.to_owned()).or_default();
            let offsets = functions.entry(name.clone()).or_default();
            offsets.entry(pc - start).or_default().insert(verdict);
        }
    }
}

/// Walks at every sample.
#[derive(Clone, Debug)]
struct Walker(Followed<Inner>);

#[derive(Debug)]
struct Inner {
    stack: Stack,
    methods: Methods,
    verdicts: Collected,
}

impl Walker {
    fn start(state: &mut State, program: &Arc<[u8]>) -> Walker {
        let regs = state.core.regs();
        let inner = Inner {
            stack: Stack::new(regs.arch, regs.sp()),
            methods: Methods::new(regs.arch),
            verdicts: Collected::new(program),
        };
        let images = images(regs.arch, program);
        Walker(Followed::start(state, images, inner).unwrap())
    }
}

impl Follower for Inner {
    fn stack(&self) -> &Stack {
        &self.stack
    }

    fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    fn map(&mut self, file: Mapped) {
        self.methods.map(&file);
    }

    fn sampled(&mut self, regs: &Regs, _: &[u64], sp_was_set: bool, mut memory: Present<'_>) {
        let Inner { stack, methods, verdicts, .. } = self;
        if !stack.holds(regs.sp(), sp_was_set) {
            return;
        }
        let truth: Vec<u64> = stack.frames(regs.pc).map(|f| f.address.value()).collect();
        let mut found = Vec::new();
        for id in methods.ids() {
            let end = methods.walk(id, regs, &mut memory, &mut found);
            let verdict = match end {
                _ if found == truth => Verdict::Right,
                Some(NoCaller::NoCoverage) if truth.starts_with(&found) => Verdict::Uncovered,
                _ => Verdict::Wrong,
            };
            verdicts.add(&methods.names()[id.0], regs.pc, verdict);
        }
    }
}
