//! The modules of a process.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{LookupAddress, Module};

/// The modules of a process by address.
#[derive(Debug)]
pub struct Modules<D> {
    modules: Vec<Module<D>>,
    /// Executable parts in ascending order, and whose they are. None overlaps another one.
    text: Vec<(Range<u64>, u32)>,
    generation: u64,
}

/// The number of sets that were made: no two have the same, so that a cache that has seen one
/// of them never answers for another.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

impl<D> Default for Modules<D> {
    fn default() -> Modules<D> {
        Modules::new([])
    }
}

impl<D> Modules<D> {
    /// A set of modules. Where executable parts overlap, that which begins first holds, and
    /// of those that begin together the one that was given first.
    pub fn new(modules: impl IntoIterator<Item = Module<D>>) -> Modules<D> {
        let modules: Vec<Module<D>> = modules.into_iter().collect();
        let ranges = (0..).zip(&modules).flat_map(|(n, m)| m.text().iter().map(move |r| (r, n)));
        let mut text: Vec<(Range<u64>, u32)> = ranges.map(|(r, n)| (r.clone(), n)).collect();
        text.sort_by_key(|(range, _)| range.start); // stable: the first one stays first
        let mut covered = 0;
        text.retain_mut(|(range, _)| {
            range.start = range.start.max(covered);
            covered = covered.max(range.end);
            !range.is_empty()
        });
        Modules { modules, text, generation: GENERATIONS.fetch_add(1, Ordering::Relaxed) }
    }

    /// This set and one more module: a new set.
    #[must_use]
    pub fn with(self, module: Module<D>) -> Modules<D> {
        Modules::new(self.modules.into_iter().chain([module]))
    }

    /// The module whose code is at an address.
    #[inline]
    pub fn find(&self, at: LookupAddress) -> Option<&Module<D>> {
        self.find_with_range(at).map(|(_, module)| module)
    }

    /// The same, and which addresses around are its, too.
    #[inline]
    pub(crate) fn find_with_range(&self, at: LookupAddress) -> Option<(&Range<u64>, &Module<D>)> {
        let address = at.value();
        let after = self.text.partition_point(|(range, _)| range.start <= address);
        let (range, module) = self.text.get(after.checked_sub(1)?)?;
        let module = self.modules.get(*module as usize)?;
        range.contains(&address).then_some((range, module))
    }

    /// The modules, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Module<D>> {
        self.modules.iter()
    }

    /// Which set this is: no other one of this program's run has the same number.
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

impl<D> FromIterator<Module<D>> for Modules<D> {
    fn from_iter<I: IntoIterator<Item = Module<D>>>(modules: I) -> Modules<D> {
        Modules::new(modules)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use arch::Arch;

    use super::*;
    use crate::module::Sections;
    use crate::{CodeAddress, InstructionPointer};

    type Bytes = &'static [u8];

    fn module(name: &str, bias: u64, text: &[(u64, u64)]) -> Module<Bytes> {
        let text = text.iter().map(|&(start, end)| start..end);
        Module::new(name, Arch::X86_64, bias, text, Sections::default())
    }

    fn name(modules: &Modules<Bytes>, address: u64) -> Option<&str> {
        let at = CodeAddress::from(InstructionPointer(address)).lookup();
        modules.find(at).map(Module::name)
    }

    #[test]
    fn modules_are_found_by_each_of_their_parts() {
        let set = Modules::new([
            module("b", 0x1000, &[(0x1000, 0x1100), (0x3000, 0x3100)]),
            module("a", 0, &[(0x2100, 0x2200)]),
        ]);
        let at = |address| name(&set, address);
        assert_eq!((at(0x1fff), at(0x2000), at(0x20ff)), (None, Some("b"), Some("b")));
        assert_eq!((at(0x2100), at(0x2200), at(0x40ff)), (Some("a"), None, Some("b")));
        assert_eq!((at(0x4100), at(0), at(u64::MAX)), (None, None, None));
    }

    #[test]
    fn overlaps_and_odd_ranges() {
        let set = Modules::new([
            module("late", 0, &[(0x150, 0x300), (0x900, 0x800)]),
            module("early", 0, &[(0x100, 0x200)]),
            module("inside", 0, &[(0x120, 0x140)]),
            module("top", u64::MAX, &[(0, 0x50)]),
        ]);
        let at = |address| name(&set, address);
        assert_eq!((at(0x130), at(0x1ff), at(0x200)), (Some("early"), Some("early"), Some("late")));
        assert_eq!((at(0x850), at(u64::MAX), at(0)), (None, None, None));
    }

    #[test]
    fn no_two_sets_are_the_same() {
        let (a, b) = (Modules::<Bytes>::default(), Modules::<Bytes>::default());
        assert_ne!(a.generation(), b.generation());
        let before = a.generation();
        assert_ne!(a.with(module("m", 0, &[])).generation(), before);
    }
}
