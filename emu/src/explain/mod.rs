//! One graded sample, explained: its stack word by word, and what each method made of it.
//!
//! ```text
//! truth file ─► Found ─┬─► Places: names and code          ┐
//!                      ├─► Replay: each method again,      ├─► words (cli), svg
//!                      │   frame by frame, with its rules  │
//!                      └─► Stack: words with their marks   ┘
//! ```
//!
//! * [`place`]: where an address is
//! * [`frames`]: the true frames, and where they keep their return addresses
//! * [`replay`]: what a method did at each frame; [`pair`]: which true frame each one is
//! * [`why`]: where it parts from the truth, and why
//! * [`stack`]: the memory of the stack, marked
//! * [`svg`]: all of it as a picture; [`shown`]: which rows of the stack, if there are many

pub mod frames;
pub mod pair;
pub mod place;
pub mod replay;
pub mod shown;
pub mod stack;
pub mod svg;
pub mod why;

use std::collections::BTreeSet;
use std::sync::Arc;

use arch::Arch;
use unwinder::{CodeAddress, InstructionPointer};

pub use frames::Slot;
pub use place::Places;
pub use replay::{By, Replay, Source, Told};
pub use stack::{Mark, Row, Stack};

use crate::grade::file::{Found, MappedFile, Pieces, Sample, Undecided, build_id};
use crate::grade::files::Mapped;
use crate::grade::{MethodId, Methods};

/// A sample with everything that is known of it.
#[derive(Debug)]
pub struct Explained {
    /// As it was recorded.
    pub found: Found,
    /// Where things are.
    pub places: Places,
    /// The methods that were chosen, in the order of reports.
    pub replays: Vec<Replay>,
    /// Files that are not there any more, or are others now, with the reason.
    pub missing: Vec<String>,
    slots: Vec<Option<Slot>>,
    saved_fps: BTreeSet<u64>,
}

impl Explained {
    /// Explains what was `found`. `load` delivers the bytes of a module's file; `wanted` says
    /// which methods are of interest.
    pub fn new(
        found: Found,
        load: impl FnMut(&str) -> Option<Arc<[u8]>>,
        wanted: impl Fn(&str) -> bool,
    ) -> Explained {
        let mut methods = Methods::new(found.arch);
        let (places, missing) = places(&found, load, |module, bytes| {
            let (name, bytes) = (module.path.clone(), bytes.clone());
            methods.map(&Mapped { name, bytes, bias: module.bias.0 });
        });
        let names: Vec<String> = methods.names().to_vec();
        let recorded = methods.ids().zip(names).filter_map(|(id, name)| {
            let verdict = found.sample.verdicts.get(&name)?;
            Some((id, name, *verdict))
        });
        let recorded: Vec<_> = recorded.collect();
        let all: Vec<Replay> = recorded
            .into_iter()
            .map(|(id, name, verdict)| match missing.first() {
                // Frame records are in memory alone.
                Some(why) if id != MethodId::FP => Replay::impossible(name, verdict, why.clone()),
                _ => Replay::new(&mut methods, id, name, verdict, &found),
            })
            .collect();
        // Tables know best where a return address is: what is marked shall not depend on what
        // is wanted.
        let (tables, records): (Vec<_>, Vec<_>) = all.iter().partition(|r| r.by == By::Table);
        let slots = frames::slots(&found, &[tables, records].concat());
        let saved_fps = frames::saved_fps(&found, &all);
        let replays = all.into_iter().filter(|replay| wanted(&replay.name)).collect();
        Explained { found, places, replays, missing, slots, saved_fps }
    }

    /// The sample.
    pub fn sample(&self) -> &Sample {
        &self.found.sample
    }

    /// Whose registers and memory they are.
    pub fn arch(&self) -> Arch {
        self.found.arch
    }

    /// The memory.
    pub fn memory(&self) -> Pieces<'_> {
        Pieces(&self.found.sample.memory)
    }

    /// `#2 main+0x1e`: a true frame and where it is.
    pub fn frame_name(&self, index: usize) -> String {
        match self.sample().frames.get(index) {
            Some(frame) => format!("#{index} {}", self.places.name(frame.code_address())),
            None => format!("#{index}"),
        }
    }

    /// Its function alone.
    pub fn function_name(&self, index: usize) -> String {
        match self.sample().frames.get(index) {
            Some(frame) => format!("#{index} {}", self.places.function(frame.code_address())),
            None => format!("#{index}"),
        }
    }

    /// Stack pointer of a true frame.
    pub fn sp_of(&self, index: usize) -> Option<u64> {
        frames::sp_of(&self.found, index)
    }

    /// The true frame whose part of the stack holds `address`.
    pub fn owner(&self, address: u64) -> Option<usize> {
        frames::owner(&self.found, address)
    }

    /// Where the true frame `index` keeps, or kept, the address of its caller.
    pub fn slot(&self, index: usize) -> Option<Slot> {
        self.slots.get(index).copied().flatten()
    }

    /// The words in which true frames saved their callers' frame pointer.
    pub fn saved_fps(&self) -> &BTreeSet<u64> {
        &self.saved_fps
    }

    /// The system call instruction in which the sample is, if it was taken in the kernel during
    /// one.
    pub fn system_call(&self) -> Option<u64> {
        self.places.system_call(&self.sample().kernel, self.sample().pc.0)
    }

    /// Where the thread is: at its next instruction, or in a system call.
    pub fn instruction(&self) -> CodeAddress {
        InstructionPointer(self.system_call().unwrap_or(self.sample().pc.0)).into()
    }

    /// The register of the innermost frame that alone holds the address of its caller, and
    /// what else is in it: aarch64's `x30`, in a leaf.
    pub fn link(&self) -> Option<(u8, u64)> {
        match self.slot(0) {
            Some(Slot { at: Source::Register(number), holds: true }) => {
                let regs = self.sample().regs(self.arch());
                Some((number, *regs.gp.get(usize::from(number))?))
            }
            _ => None,
        }
    }
}

/// A sample without a true stack: of that only the place is known.
#[derive(Debug)]
pub struct Unexplained {
    /// As it was recorded.
    pub found: Found<Undecided>,
    /// Where things are.
    pub places: Places,
    /// Files that are not there any more, or are others now, with the reason.
    pub missing: Vec<String>,
}

impl Unexplained {
    /// What was `found`; `load` delivers the bytes of a module's file.
    pub fn new(
        found: Found<Undecided>,
        load: impl FnMut(&str) -> Option<Arc<[u8]>>,
    ) -> Unexplained {
        let (places, missing) = places(&found, load, |_, _| ());
        Unexplained { found, places, missing }
    }
}

/// The files that were mapped, each of which is shown to `take`, and those that are missing.
fn places<S>(
    found: &Found<S>,
    mut load: impl FnMut(&str) -> Option<Arc<[u8]>>,
    mut take: impl FnMut(&MappedFile, &Arc<[u8]>),
) -> (Places, Vec<String>) {
    let (mut places, mut missing) = (Places::new(found.arch), Vec::new());
    for module in &found.modules {
        let Some(bytes) = load(&module.path) else {
            missing.push(format!("{} is not there", module.path));
            continue;
        };
        if build_id(&bytes) != module.build_id {
            missing.push(format!("{} is another file now", module.path));
            continue;
        }
        take(module, &bytes);
        places.add(&module.path, bytes, module.bias.0);
    }
    (places, missing)
}

/// Name of a register by its DWARF number.
pub fn register_name(arch: Arch, number: u8) -> &'static str {
    let names: &[&str] = match arch {
        Arch::X86_64 => &arch::x86_64::regs::NAMES,
        Arch::Aarch64 => &arch::aarch64::regs::NAMES,
    };
    names.get(usize::from(number)).copied().unwrap_or("?")
}
