//! What was seen at one instruction.

use std::collections::BTreeMap;

use arch::Regs;
use unwinder::CodeAddress;

use crate::engine::flow::CalleeSaved;
use crate::grade::check::one_step::{Outcome, Wrong};
use crate::grade::methods::{NoCaller, Told};
use crate::truth::TrueCaller;

/// One PC.
#[derive(Clone, Debug, Default)]
pub struct PcRecord {
    /// Executions that were checked: those in which the true caller was known.
    pub checked: u64,
    /// Each method's, in their order.
    pub methods: Vec<MethodRecord>,
}

/// How a method did at one PC.
#[derive(Clone, Debug, Default)]
pub struct MethodRecord {
    /// Checks in which the table said nothing.
    pub no_coverage: u64,
    /// In what it was wrong.
    pub wrong: BTreeMap<Wrong, Seen>,
}

/// A kind of wrong steps at one PC.
#[derive(Clone, Debug)]
pub struct Seen {
    /// In how many checks.
    pub times: u64,
    /// The first of them.
    pub example: Box<Example>,
}

/// A step that was wrong.
#[derive(Clone, Debug)]
pub struct Example {
    /// The thread's registers.
    pub regs: Regs,
    /// The true caller; `None` for the outermost frame.
    pub expected: Option<Expected>,
    /// The caller that was told, or why there was none.
    pub found: Result<Told, NoCaller>,
}

/// A true caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Where it goes on.
    pub address: CodeAddress,
    /// Its stack pointer there, the CFA.
    pub sp: u64,
    /// Its callee-saved registers.
    pub saved: Option<CalleeSaved>,
}

impl PcRecord {
    /// Of so many methods.
    pub fn new(methods: usize) -> PcRecord {
        PcRecord { methods: vec![MethodRecord::default(); methods], ..PcRecord::default() }
    }
}

impl MethodRecord {
    /// Checks in which it was wrong in any way.
    pub fn times_wrong(&self) -> u64 {
        self.wrong.values().map(|seen| seen.times).sum()
    }

    /// Counts one check.
    pub fn add(
        &mut self,
        outcome: Outcome,
        regs: &Regs,
        told: &Result<Told, NoCaller>,
        truth: Option<&TrueCaller<'_>>,
    ) {
        match outcome {
            Outcome::Right => {}
            Outcome::NoCoverage => self.no_coverage += 1,
            Outcome::Wrong(wrong) => {
                let first = || Seen { times: 0, example: Example::new(regs, told, truth).into() };
                self.wrong.entry(wrong).or_insert_with(first).times += 1;
            }
        }
    }
}

impl Example {
    fn new(regs: &Regs, told: &Result<Told, NoCaller>, truth: Option<&TrueCaller<'_>>) -> Example {
        let expected =
            truth.map(|t| Expected { address: t.address, sp: t.sp, saved: t.saved.copied() });
        Example { regs: *regs, expected, found: told.clone() }
    }
}
