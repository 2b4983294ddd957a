//! The unwinders over the same stacks: ours, and framehop.
//!
//! ```text
//! emulate ─► recorded ─┐                       ┌─ fp                     framehop, cached
//!                      ├─► Vec<Stack> ─► walkers ─ DWARF, cached, uncached
//! made ────────────────┘                       └─ SFrame, cached, uncached
//!  guests of any size     .sframe by sframe
//! ```

mod growth;
mod made;
mod recorded;
mod sframe;
mod walkers;

use std::path::Path;
use std::sync::Arc;

use arch::Arch;
use guests::Catalogue;
use unwinder::dwarf::Section;
use unwinder::elf::{Image, Slice};
use unwinder::sframe::Version;
use unwinder::{Module, Modules, Policy};

use crate::Result;
use crate::emulate::guest;
use crate::table::{Bound, Row, Table};
use recorded::{Stack, record};
use walkers::{Data, Walker, measure};

pub use growth::growth;

/// A program as both unwinders take it.
type Program = Image<Arc<[u8]>>;

/// Where a section that a program does not have is put.
const SFRAME: u64 = 0x7000_0000;

/// Gives a program the SFrame table that says what its `.eh_frame` says.
fn with_sframe(mut image: Program, version: Version) -> Program {
    let bytes: Arc<[u8]> = sframe::section(&module(&image), version, SFRAME).into();
    let len = bytes.len();
    let section = Section { address: SFRAME, bytes: Slice::new(bytes, 0..len) };
    image.sections.sframe = Some(section);
    image
}

fn module(image: &Program) -> Module<Data> {
    let Image { arch, text, sections } = image.clone();
    Module::new("", arch, 0, text, sections)
}

/// A guest, and how to get at stacks of it.
struct Recording<'a> {
    guest: &'a str,
    args: &'static [&'static str],
    /// In cycles.
    period: u64,
    /// Stacks that are taken.
    most: usize,
    /// Whether the unwinders' ratios are promised.
    promised: bool,
}

const RECORDINGS: [Recording<'static>; 4] = [
    Recording { guest: "bench", args: &["1"], period: 20_011, most: 256, promised: true },
    Recording { guest: "cpp-throw", args: &[], period: 10_007, most: 256, promised: true },
    Recording { guest: "recursion", args: &["10", "4096"], period: 2_003, most: 8, promised: true },
    Recording {
        guest: "recursion-nofp",
        args: &["10", "4096"],
        period: 2_003,
        most: 8,
        promised: true,
    },
];

/// Guests that come with an assembler's SFrame table, but for that of version 1, few of whose
/// stacks all unwinders walk alike. They are small, and nothing is promised for their few short
/// stacks.
fn with_own_sframe(catalogue: &Catalogue) -> impl Iterator<Item = Recording<'_>> {
    let names = catalogue.guests().iter().map(|guest| &*guest.name);
    let small = |guest| Recording { guest, args: &[], period: 101, most: 256, promised: false };
    names.filter(|name| ["lab-recursion-v2", "lab-recursion-v3"].contains(name)).map(small)
}

/// Recorded stacks of the guests.
pub fn recorded(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let all = RECORDINGS.into_iter().chain(with_own_sframe(catalogue));
    for recording in all {
        let Recording { guest: name, args, period, most, .. } = recording;
        let path = guest(catalogue, name, arch)?;
        let stacks = record(&path, args, period, most)?;
        let keeps_fp = catalogue.find(name).is_some_and(|guest| guest.frame_pointers);
        compare(&recording, &program(&path)?, &stacks, keeps_fp, table);
    }
    Ok(())
}

fn program(path: &Path) -> Result<Program> {
    let image = Image::read(Arc::<[u8]>::from(std::fs::read(path)?))?;
    match image.sections.sframe {
        Some(_) => Ok(image),
        None => Ok(with_sframe(image, Version::V3)),
    }
}

/// Whether two walks found the same. One may say where the other one only ends.
fn agree(one: &[u64], other: &[u64]) -> bool {
    let both = one.len().min(other.len());
    one[..both] == other[..both] && one.len().abs_diff(other.len()) <= 1
}

/// All unwinders over those stacks that all of them walk alike; frame pointers, if the guest
/// `keeps_fp`, over those of them that it walks like the others.
fn compare(
    &Recording { guest: name, promised, .. }: &Recording<'_>,
    image: &Program,
    stacks: &[Stack],
    keeps_fp: bool,
    table: &mut Table,
) {
    let modules = Modules::new([module(image)]);
    let mut walkers = [
        Walker::framehop(image, true),
        Walker::framehop(image, false),
        Walker::ours(Policy::dwarf(), &modules, true),
        Walker::ours(Policy::dwarf(), &modules, false),
        Walker::ours(Policy::sframe(), &modules, true),
        Walker::ours(Policy::sframe(), &modules, false),
    ];
    let mut alike: Vec<(&Stack, Vec<u64>)> = Vec::new();
    for stack in stacks {
        let frames = walkers[2].frames(stack);
        if walkers.iter_mut().all(|walker| agree(&frames, &walker.frames(stack))) {
            alike.push((stack, frames));
        }
    }
    let frames: usize = alike.iter().map(|(_, frames)| frames.len()).sum();
    let bench =
        format!("unwinding {name}: {} of {} stacks, {frames} frames", alike.len(), stacks.len());
    let all: Vec<&Stack> = alike.iter().map(|(stack, _)| *stack).collect();
    let best = measure(&mut walkers, &all);
    let arch = image.arch.name();
    let mut add = |what: &str, ns: f64, promise: Option<(f64, Bound)>| {
        let row = Row::new(&bench, arch, what, ns, "ns");
        table.push(match promise {
            Some((ratio, bound)) if promised => row.ratio(ratio).promise(bound),
            Some((ratio, _)) => row.ratio(ratio),
            None => row,
        });
    };
    let at_most = |ratio: f64| Some((ratio, Bound::AtMost(1.0)));
    add("framehop, cached", best[0], None);
    add("framehop, uncached", best[1], None);
    add("DWARF, cached: × of framehop, cached", best[2], at_most(best[2] / best[0]));
    add("SFrame, cached: × of framehop, cached", best[4], at_most(best[4] / best[0]));
    add("DWARF, uncached: × of framehop, uncached", best[3], at_most(best[3] / best[1]));
    let times = best[3] / best[5];
    let promise = Some((times, Bound::AtLeast(4.0)));
    add("SFrame, uncached: DWARF, uncached is × of it", best[5], promise);

    let mut fp = Walker::ours(Policy::frame_pointer(), &modules, true);
    alike.retain(|(stack, frames)| agree(frames, &fp.frames(stack)));
    if !keeps_fp || alike.is_empty() {
        return;
    }
    let some: Vec<&Stack> = alike.iter().map(|(stack, _)| *stack).collect();
    let best = measure(&mut [fp, Walker::framehop(image, true)], &some);
    let what = format!("fp ({} stacks): × of framehop, cached", some.len());
    add(&what, best[0], at_most(best[0] / best[1]));
}
