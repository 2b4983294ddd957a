//! Keeps the true stack of a run and grades every sample.

use std::io::{self, Write};

use arch::Regs;
use unwinder::Memory;

use crate::engine::EngineError;
use crate::export::Images;
use crate::grade::by_point::ByPoint;
use crate::grade::file::{
    Frame, Header, Hex, MAX_SAMPLE_FRAMES, MappedFile, Recorder, SCHEMA, Sample, Undecided,
    VERSION, Writer, registers_of,
};
use crate::grade::files::Mapped;
use crate::grade::followed::{Followed, Follower};
use crate::grade::grader::{Grader, MethodTally};
use crate::grade::kernel_names;
use crate::grade::methods::NotLoaded;
use crate::grade::point::Points;
use crate::kernel::State;
use crate::kernel::user::Present;
use crate::symbols::Symbolizer;
use crate::truth::{Doubt, Stack, TrueFrame};

/// A handle; clones look at the same run.
#[derive(Clone, Debug)]
pub struct Watch(Followed<Inner>);

#[derive(Debug)]
struct Inner {
    stack: Stack,
    grader: Grader,
    points: Points,
    kernel: Symbolizer,
    by_point: ByPoint,
    file: Option<Writer>,
    /// Samples so far, graded or not: the number of the last one, as in the profile.
    samples: u64,
    /// Samples between two stacks, or with frames that are not kept.
    undecided: u64,
    /// Samples with the registers of an earlier entry into the kernel.
    unsaved: u64,
}

/// Where the truth goes, and what its header says of the run.
pub struct TruthFile {
    /// The file.
    pub out: Box<dyn Write>,
    /// Folder of the host that the paths of modules are below, if not `/`.
    pub root: Option<String>,
}

impl std::fmt::Debug for TruthFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TruthFile").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Watch {
    /// Watches a machine whose guest has not run yet. Every sample goes to `file` with its
    /// truth.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the engine cannot follow transfers of control.
    pub fn start(
        state: &mut State,
        images: Images,
        file: Option<TruthFile>,
    ) -> Result<Watch, EngineError> {
        let regs = state.core.regs();
        let stack = Stack::new(regs.arch, regs.sp());
        let grader = Grader::new(regs.arch);
        let file = file.map(|file| {
            let header = Header {
                schema: SCHEMA.to_owned(),
                version: VERSION,
                arch: regs.arch.name().to_owned(),
                methods: grader.methods().names().to_vec(),
                root: file.root,
            };
            Writer::new(file.out, header)
        });
        let inner = Inner {
            stack,
            grader,
            points: Points::new(regs.arch),
            kernel: Symbolizer::new(&state.perf.main.session.kernel_symbols),
            by_point: ByPoint::default(),
            file,
            samples: 0,
            undecided: 0,
            unsaved: 0,
        };
        Followed::start(state, images, inner).map(Watch)
    }

    /// Reads the tallies.
    pub fn with_tallies<T>(&self, read: impl FnOnce(&[MethodTally]) -> T) -> T {
        read(self.0.borrow().grader.tallies())
    }

    /// Samples in all, graded or not.
    pub fn samples(&self) -> u64 {
        self.0.borrow().samples
    }

    /// Samples with the stack pointer between two stacks, or in so deep a recursion that its
    /// frames are not kept ([`crate::truth::cut`]), so that there is nothing to grade.
    pub fn undecided(&self) -> u64 {
        self.0.borrow().undecided
    }

    /// Files that a method could not load.
    pub fn not_loaded(&self) -> Vec<NotLoaded> {
        self.0.borrow().grader.methods().not_loaded().to_vec()
    }

    /// See [`Followed::refused_mappings`].
    pub fn refused_mappings(&self) -> u64 {
        self.0.refused_mappings()
    }

    /// Samples that were taken before the kernel had saved the registers: they have those of an
    /// earlier entry, so that there is nothing to grade.
    pub fn unsaved(&self) -> u64 {
        self.0.borrow().unsaved
    }

    /// Reads the counts by program point, and the methods' names.
    pub fn with_points<T>(&self, read: impl FnOnce(&ByPoint, &[String]) -> T) -> T {
        let inner = self.0.borrow();
        read(&inner.by_point, inner.grader.methods().names())
    }

    /// Writes what is left of the truth file.
    ///
    /// # Errors
    ///
    /// The first error of the host while it was written.
    pub fn finish(&self) -> io::Result<()> {
        self.0.borrow_mut().file.as_mut().map_or(Ok(()), Writer::finish)
    }
}

impl Follower for Inner {
    fn stack(&self) -> &Stack {
        &self.stack
    }

    fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    fn sampled(&mut self, regs: &Regs, kernel: &[u64], sp_was_set: bool, mut memory: Present<'_>) {
        self.grade(regs, kernel, sp_was_set, &mut memory);
    }

    fn sampled_unsaved(&mut self, regs: &Regs) {
        self.samples += 1;
        self.unsaved += 1;
        self.write_undecided(regs, &[], Doubt::Unsaved);
    }

    fn sampled_elsewhere(&mut self, regs: &Regs) {
        self.samples += 1;
        self.undecided += 1;
        self.write_undecided(regs, &[], Doubt::AnotherProgram);
    }

    fn map(&mut self, file: Mapped) {
        let known = self.grader.methods().tables().iter().count();
        self.grader.map(&file);
        // None, if it has no module.
        for module in self.grader.methods().tables().iter().skip(known) {
            self.points.add(module, file.bytes.clone());
            if let Some(to) = &mut self.file {
                to.module(MappedFile::new(module, &file.bytes));
            }
        }
    }
}

impl Inner {
    /// Writes a sample that is not graded, the last one.
    fn write_undecided(&mut self, regs: &Regs, kernel: &[u64], why: Doubt) {
        let point = self.points.at(regs.pc);
        if let Some(file) = &mut self.file {
            let kernel = kernel_names::names(&self.kernel, kernel);
            let (n, pc) = (self.samples, Hex(regs.pc));
            file.undecided(Undecided { n, pc, kernel, point, registers: registers_of(regs), why });
        }
    }

    fn grade(&mut self, regs: &Regs, kernel: &[u64], sp_was_set: bool, memory: &mut dyn Memory) {
        let point = self.points.at(regs.pc);
        self.samples += 1;
        let (n, pc) = (self.samples, Hex(regs.pc));
        if let Some(why) = self.stack.doubt(regs.sp(), sp_was_set, Grader::TRUTH) {
            self.undecided += 1;
            return self.write_undecided(regs, kernel, why);
        }
        let truth = self.stack.frames(regs.pc).map(|frame| frame.address.value());
        let Some(file) = &mut self.file else {
            let verdicts = self.grader.grade(regs, truth, memory);
            return self.by_point.count(point, &verdicts);
        };
        let mut recorder = Recorder::new(memory);
        let verdicts = self.grader.grade(regs, truth, &mut recorder);
        self.by_point.count(point, &verdicts);
        let frames: Vec<TrueFrame> = self.stack.frames(regs.pc).take(MAX_SAMPLE_FRAMES).collect();
        let names = self.grader.methods().names();
        file.sample(Sample {
            n,
            pc,
            kernel: kernel_names::names(&self.kernel, kernel),
            point,
            registers: registers_of(regs),
            depth: self.stack.depth().map(|depth| depth as u64 + 1),
            memory: recorder.pieces(regs.sp(), &frames),
            frames: Frame::list(self.stack.logical(regs.pc)),
            verdicts: names.iter().cloned().zip(verdicts).collect(),
        });
    }
}
