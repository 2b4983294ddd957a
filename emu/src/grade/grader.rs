//! Walks every sampled stack by every method and counts the verdicts.

use std::collections::BTreeMap;

use arch::{Arch, Regs};
use unwinder::Memory;

use crate::grade::files::Mapped;
use crate::grade::methods::Methods;
use crate::grade::verdict::{Verdict, compare};

/// A way to unwind, and how it did.
#[derive(Debug)]
pub struct MethodTally {
    /// Name as on the command line.
    pub name: String,
    /// Samples by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
}

impl MethodTally {
    fn new(name: &str) -> MethodTally {
        MethodTally { name: name.to_owned(), verdicts: BTreeMap::new() }
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
#[derive(Debug)]
pub struct Grader {
    methods: Methods,
    tallies: Vec<MethodTally>,
    found: Vec<u64>,
    truth: Vec<u64>,
}

impl Grader {
    /// No module yet.
    pub fn new(arch: Arch) -> Grader {
        let methods = Methods::new(arch);
        let tallies = methods.names().iter().map(|name| MethodTally::new(name)).collect();
        Grader { methods, tallies, found: Vec::new(), truth: Vec::new() }
    }

    /// Addresses of the truth that a chain is compared with at most.
    pub const TRUTH: usize = Methods::LIMIT + 2;

    /// See [`Methods::map`].
    pub fn map(&mut self, file: &Mapped) {
        self.methods.map(file);
    }

    /// Grades the stack of a thread that is at `regs`; `truth` has its true addresses,
    /// innermost first. Returns the verdicts, in the methods' order.
    pub fn grade(
        &mut self,
        regs: &Regs,
        truth: impl Iterator<Item = u64>,
        memory: &mut dyn Memory,
    ) -> Vec<Verdict> {
        self.truth.clear();
        // A chain is not longer than the limit; one more tells a missing frame.
        self.truth.extend(truth.take(Grader::TRUTH));
        let mut verdicts = Vec::with_capacity(self.tallies.len());
        for id in self.methods.ids() {
            let end = self.methods.walk(id, regs, memory, &mut self.found);
            let verdict = compare(&self.found, end.as_ref(), &self.truth, Methods::LIMIT);
            *self.tallies[id.0].verdicts.entry(verdict).or_default() += 1;
            verdicts.push(verdict);
        }
        verdicts
    }

    /// How the methods did.
    pub fn tallies(&self) -> &[MethodTally] {
        &self.tallies
    }

    /// The methods.
    pub fn methods(&self) -> &Methods {
        &self.methods
    }
}
