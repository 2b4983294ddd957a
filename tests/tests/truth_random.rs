//! The true stack of random programs that keep their own list of live frames.
//!
//! `TRUTH_SEED=aarch64:17 cargo test --release -p tests --test truth_random` runs one program
//! and compares at each of its instructions.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::cell::RefCell;
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

use arch::Arch;
use arch::Regs;
use emu::engine::flow::{CalleeSaved, Event, FlowSink};
use emu::kernel::observer::Observer;
use emu::kernel::state::State;
use emu::kernel::task::Ending;
use emu::kernel::user::Present;
use emu::truth::{LogicalFrame, Stack, TrueFrame};
use tests::elf;
use tests::generator::Program;
use tests::generator::layout::{CODE, SIGNAL, TAIL};
use tests::generator::list::Told;
use tests::harness::Harness;
use unwinder::{CodeAddress, Memory};

/// Compares at every sample until the first difference.
#[derive(Debug)]
struct Check {
    program: Program,
    stack: Stack,
    samples: u64,
    deepest: usize,
    /// Tail-calling functions that were seen.
    tails: u64,
    difference: Option<String>,
    /// The last events, for the message.
    events: Vec<String>,
}

/// A handle.
#[derive(Clone, Debug)]
struct Watch(Rc<RefCell<Check>>);

impl FlowSink for Watch {
    fn is_function(&self, addr: u64) -> bool {
        self.0.borrow().stack.functions().starts_at(addr)
    }

    fn take(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        let check = &mut *self.0.borrow_mut();
        events.iter().for_each(|e| check.note(format!("{e:x?}")));
        check.stack.events(events, saved);
    }
}

impl Observer for Watch {
    fn signal(&mut self, interrupted: &Regs, handler: &Regs, restorer: u64, sp_was_set: bool) {
        let check = &mut *self.0.borrow_mut();
        let (pc, sp) = (interrupted.pc, handler.sp());
        check.note(format!("signal at {pc:#x}, handler at sp {sp:#x}"));
        check.stack.signal(interrupted, handler, restorer, sp_was_set);
    }

    fn sigreturn(&mut self, regs: &Regs, return_address: Option<u64>) {
        let check = &mut *self.0.borrow_mut();
        check.note(format!("sigreturn to {:#x}, sp {:#x}", regs.pc, regs.sp()));
        check.stack.sigreturn(regs, return_address);
    }

    fn mapped(&mut self, _path: &str, _addr: u64, _pgoff: u64) {}

    fn sampled(&mut self, regs: &Regs, _: &[u64], _: bool, memory: Present<'_>) {
        self.0.borrow_mut().compare(regs, memory);
    }
}

impl Check {
    fn note(&mut self, event: String) {
        if self.difference.is_none() {
            self.events.push(event);
        }
    }

    fn compare(&mut self, regs: &Regs, mut memory: Present<'_>) {
        if self.difference.is_some() {
            return;
        }
        self.samples += 1;
        self.events.drain(..self.events.len().saturating_sub(12));
        // Data that was never touched is 0.
        let told = self.program.stack(regs, |addr| Some(memory.word(addr).unwrap_or(0)));
        let found: Vec<TrueFrame> = self.stack.frames(regs.pc).collect();
        let why = match &told {
            Err(why) => Some(why.clone()),
            Ok(told) => {
                let logical: Vec<_> = self.stack.logical(regs.pc).collect();
                self.tails += logical.iter().filter(|f| !f.physical).count() as u64;
                let same = physical(regs.pc, told, &found);
                same.and_then(|()| self::logical(told, &logical, &found)).err()
            }
        };
        self.deepest = self.deepest.max(found.len());
        if let Some(why) = why {
            let mut text = format!("sample {}, PC {:#x}: {why}\n", self.samples, regs.pc);
            let _ = writeln!(text, "sp {:#x}; told, innermost first:", regs.sp());
            for t in told.iter().flatten() {
                let _ = writeln!(text, "  {t:x?}");
            }
            let _ = writeln!(text, "found:");
            for f in &found {
                let _ = writeln!(text, "  {f:x?}");
            }
            let _ = writeln!(text, "last events:\n  {}", self.events.join("\n  "));
            self.difference = Some(text);
        }
    }
}

/// Whether the physical stack is what the program says.
fn physical(pc: u64, told: &[Told], found: &[TrueFrame]) -> Result<(), String> {
    let told: Vec<&Told> = told.iter().filter(|t| t.kind != TAIL).collect();
    if found.len() != told.len() + 1 {
        return Err(format!("{} frames, not {}", found.len(), told.len() + 1));
    }
    if found[0].address.value() != pc {
        return Err("the first frame is not the PC".to_owned());
    }
    for (n, (told, pair)) in told.iter().zip(found.windows(2)).enumerate() {
        let (callee, caller) = (&pair[0], &pair[1]);
        if told.address.is_some_and(|a| a != caller.address.value()) {
            return Err(format!("address of frame {}", n + 1));
        }
        if (told.kind == SIGNAL) != matches!(caller.address, CodeAddress::Interrupted(_)) {
            return Err(format!("kind of frame {}", n + 1));
        }
        if told.cfa.is_some_and(|cfa| Some(cfa) != callee.cfa) {
            return Err(format!("CFA of frame {n}"));
        }
    }
    match found.last().unwrap().cfa {
        None => Ok(()),
        Some(_) => Err("a CFA of the outermost frame".to_owned()),
    }
}

/// Whether the logical stack is what the program says, and the physical one with tail calls.
fn logical(told: &[Told], logical: &[LogicalFrame], found: &[TrueFrame]) -> Result<(), String> {
    let physical = logical.iter().filter(|f| f.physical).map(|f| (f.address, f.cfa));
    if !physical.eq(found.iter().map(|f| (f.address, f.cfa))) {
        return Err(format!("the logical stack has other physical frames: {logical:x?}"));
    }
    let expected = told.iter().map(|t| (t.address, t.kind != TAIL));
    let seen: Vec<_> = logical.iter().skip(1).map(|f| (f.address.value(), f.physical)).collect();
    let same = |(a, b): ((Option<u64>, bool), &(u64, bool))| {
        a.1 == b.1 && a.0.is_none_or(|address| address == b.0)
    };
    if told.len() != seen.len() || !expected.zip(&seen).all(same) {
        return Err(format!("the logical stack is {seen:x?}"));
    }
    // What was tail-called was entered by the jump of the next frame out.
    for pair in logical.windows(2).filter(|pair| !pair[1].physical) {
        if pair[0].entry.is_none() || pair[0].cfa != pair[1].cfa {
            return Err(format!("a tail-called function in {logical:x?}"));
        }
    }
    Ok(())
}

/// Runs a program and compares every `period` instructions; returns samples, depth and tail calls.
fn run(dir: &Path, arch: Arch, seed: u64, period: u64) -> (u64, usize, u64) {
    let program = Program::new(arch, seed);
    let file = elf::write(dir, &format!("{arch}-{seed}"), &program.file);
    let harness = Harness::of_file(arch, file.clone(), "/bin/random").without_callchains();
    let harness = harness.events("instructions:u", period).max_instructions(5_000_000);
    let mut watch = None;
    let outcome = harness.run_prepared(|state| watch = Some(start(state, program)), |_, _| {});
    let rerun = format!("rerun: TRUTH_SEED={arch}:{seed}; the program: {}", file.display());
    let watch = watch.unwrap();
    let check = watch.0.borrow();
    if let Some(difference) = &check.difference {
        panic!("{arch}, seed {seed}, every {period} instructions, {difference}{rerun}");
    }
    let ending = outcome.ending;
    assert_eq!(ending, Ending::Exited(0), "{arch}, seed {seed}: {rerun}");
    std::fs::remove_file(file).unwrap();
    (check.samples, check.deepest, check.tails)
}

fn start(state: &mut State, program: Program) -> Watch {
    let regs = state.core.regs();
    let mut stack = Stack::new(regs.arch, regs.sp());
    stack.functions_mut().map(&program.file.as_slice().into(), CODE & !0xfff, 0);
    let (samples, deepest, tails, difference, events) = (0, 0, 0, None, Vec::new());
    let check = Check { program, stack, samples, deepest, tails, difference, events };
    let watch = Watch(Rc::new(RefCell::new(check)));
    state.core.follow(Box::new(watch.clone())).unwrap();
    state.observer = Some(Box::new(watch.clone()));
    watch
}

/// Every instruction of some programs, every few of the others.
const PERIODS: [u64; 4] = [1, 7, 13, 31];

fn many(arch: Arch, seeds: u64) {
    let dir = tests::scratch(&format!("truth-random-{arch}"));
    if let Ok(wanted) = std::env::var("TRUTH_SEED") {
        let (name, seed) = wanted.split_once(':').expect("TRUTH_SEED=ARCH:NUMBER");
        if name == arch.name() {
            let counts = run(&dir, arch, seed.parse().unwrap(), 1);
            println!("{arch} {seed}: {counts:?}");
        }
        return;
    }
    let (mut samples, mut deepest, mut tails) = (0, 0, 0);
    for seed in 0..seeds {
        let period = PERIODS[seed as usize % PERIODS.len()];
        let (more, depth, tail_calls) = run(&dir, arch, seed, period);
        samples += more;
        deepest = deepest.max(depth);
        tails += tail_calls;
    }
    println!(
        "{arch}: {seeds} programs, {samples} samples, {deepest} frames at most, {tails} tail callers"
    );
    assert!(samples > 100 * seeds && deepest > 10 && tails > samples / 10, "too little was seen");
}

#[test]
fn x86_64() {
    many(Arch::X86_64, 150);
}

#[test]
fn aarch64() {
    many(Arch::Aarch64, 150);
}
