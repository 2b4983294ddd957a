//! How the time of a step grows: with the depth of the stack, and with the size of the table.

use arch::Arch;
use unwinder::sframe::Version;
use unwinder::{Modules, Policy};

use super::made::{self, Random};
use super::recorded::Stack;
use super::walkers::{Walker, measure};
use super::{Program, module, with_sframe};
use crate::table::{Row, Table};

/// Functions of the program whose stacks have different depths.
const FUNCTIONS: u64 = 100;
const DEPTHS: [usize; 4] = [8, 64, 512, 4096];
/// Functions of the programs whose stacks have [`DEPTH`] frames.
const SIZES: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const DEPTH: usize = 64;

/// Both tables.
pub fn growth(table: &mut Table) {
    let image = made::program(FUNCTIONS);
    for depth in DEPTHS {
        let bench = format!("unwinding by depth: {depth} frames, {FUNCTIONS} functions");
        let stacks = made::stacks(FUNCTIONS, depth, (8192 / depth).min(64), &mut Random(99));
        rows(&bench, &image, &stacks, true, table);
    }
    for functions in SIZES {
        let bench = format!("unwinding by size: {functions} functions, {DEPTH} frames");
        let stacks = made::stacks(functions, DEPTH, 64, &mut Random(7));
        rows(&bench, &made::program(functions), &stacks, false, table);
    }
}

/// A row for each way to unwind; `all` of them, or those that read tables anew.
fn rows(bench: &str, image: &Program, stacks: &[Stack], all: bool, table: &mut Table) {
    let modules = |version| Modules::new([module(&with_sframe(image.clone(), version))]);
    let (v2, v3) = (modules(Version::V2), modules(Version::V3));
    let (dwarf, sframe) = (Policy::dwarf(), Policy::sframe());
    let mut named = vec![
        ("DWARF, uncached", Walker::ours(dwarf, &v3, false)),
        ("SFrame version 2, uncached", Walker::ours(sframe, &v2, false)),
        ("SFrame version 3, uncached", Walker::ours(sframe, &v3, false)),
        ("framehop, uncached", Walker::framehop(image, false)),
    ];
    if all {
        named.extend([
            ("fp", Walker::ours(Policy::frame_pointer(), &v3, true)),
            ("DWARF, cached", Walker::ours(dwarf, &v3, true)),
            ("SFrame version 3, cached", Walker::ours(sframe, &v3, true)),
            ("framehop, cached", Walker::framehop(image, true)),
        ]);
    }
    let (names, mut walkers): (Vec<_>, Vec<_>) = named.into_iter().unzip();
    let stacks: Vec<&Stack> = stacks.iter().collect();
    let frames = walkers[0].frames(stacks[0]);
    for (walker, name) in walkers.iter_mut().zip(&names) {
        assert!(super::agree(&frames, &walker.frames(stacks[0])), "{name} walks differently");
    }
    for (name, ns) in names.into_iter().zip(measure(&mut walkers, &stacks)) {
        table.push(Row::new(bench, Arch::X86_64.name(), name, ns, "ns"));
    }
}
