//! Those that walk the stacks.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arch::Arch;
use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder};
use unwinder::elf::{Image, Slice};
use unwinder::{Context, Memory, Modules, Policy, Walk};

use super::recorded::Stack;
use crate::RUNS;

pub type Data = Slice<Arc<[u8]>>;

/// An unwinder, with what it has learned so far.
pub enum Walker<'a> {
    Ours { policy: Policy, modules: &'a Modules<Data>, context: Box<Context> },
    X86_64(Theirs<UnwinderX86_64<Data>>),
    Aarch64(Theirs<UnwinderAarch64<Data>>),
}

/// framehop. It has no mode without its cache, but does not find there what it has learned of
/// another set of modules: such a walk takes another set for each frame.
pub struct Theirs<U: Unwinder> {
    sets: Vec<U>,
    cache: U::Cache,
    set: usize,
}

/// Sets that take turns; no multiple of the cache's 509 places.
const SETS: usize = 61;

impl<U: Unwinder<Module = framehop::Module<Data>, Cache: Default> + Default> Theirs<U> {
    fn new(image: &Image<Arc<[u8]>>, sets: usize) -> Theirs<U> {
        let module = unwinder::framehop::module_of("", image.clone(), 0);
        let set = |_| {
            let mut unwinder = U::default();
            unwinder.add_module(module.clone());
            unwinder
        };
        Theirs { sets: (0..sets).map(set).collect(), cache: U::Cache::default(), set: 0 }
    }

    #[inline(always)]
    fn walk(&mut self, stack: &Stack, mut regs: U::UnwindRegs, mut each: impl FnMut(u64)) {
        let mut memory = stack.memory();
        let mut read = |at| memory.word(at).ok_or(());
        let pc = stack.address.value();
        if let [unwinder] = &self.sets[..] {
            let mut iter = unwinder.iter_frames(pc, regs, &mut self.cache, &mut read);
            while let Ok(Some(frame)) = iter.next() {
                each(frame.address());
            }
            return;
        }
        let mut frame = Some(FrameAddress::from_instruction_pointer(pc));
        while let Some(this) = frame {
            each(this.address());
            self.set = if self.set + 1 == self.sets.len() { 0 } else { self.set + 1 };
            let unwinder = &self.sets[self.set];
            let next = unwinder.unwind_frame(this, &mut regs, &mut self.cache, &mut read);
            frame = next.ok().flatten().and_then(FrameAddress::from_return_address);
        }
    }
}

impl<'a> Walker<'a> {
    pub fn ours(policy: Policy, modules: &'a Modules<Data>, cached: bool) -> Walker<'a> {
        let context = if cached { Context::new() } else { Context::uncached() };
        Walker::Ours { policy, modules, context: Box::new(context) }
    }

    pub fn framehop(image: &Image<Arc<[u8]>>, cached: bool) -> Walker<'a> {
        let sets = if cached { 1 } else { SETS };
        match image.arch {
            Arch::X86_64 => Walker::X86_64(Theirs::new(image, sets)),
            Arch::Aarch64 => Walker::Aarch64(Theirs::new(image, sets)),
        }
    }

    /// Gives the address of each frame.
    #[inline(always)]
    fn walk(&mut self, stack: &Stack, mut each: impl FnMut(u64)) {
        let registers = &stack.registers;
        let register = |number: usize| registers.get(number as u8).unwrap_or(0);
        let (pc, sp) = (stack.address.value(), register(registers.arch().sp()));
        let fp = register(registers.arch().fp());
        match self {
            Walker::Ours { policy, modules, context } => {
                let memory = stack.memory();
                Walk::new(*policy, modules, stack.address, registers, memory, context)
                    .visit(|frame| each(frame.address.value()));
            }
            Walker::X86_64(theirs) => {
                theirs.walk(stack, UnwindRegsX86_64::new(pc, sp, fp), each);
            }
            Walker::Aarch64(theirs) => {
                let lr = register(arch::aarch64::regs::LR);
                let mask = PtrAuthMask((1 << 48) - 1);
                let regs = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp);
                theirs.walk(stack, regs, each);
            }
        }
    }

    /// The addresses of all frames.
    pub fn frames(&mut self, stack: &Stack) -> Vec<u64> {
        let mut frames = Vec::new();
        self.walk(stack, |address| frames.push(address));
        frames
    }

    /// Walks all stacks; the number of frames.
    #[inline(never)]
    fn walk_all(&mut self, stacks: &[&Stack]) -> usize {
        let mut frames = 0;
        for stack in stacks {
            self.walk(stack, |address| {
                black_box(address);
                frames += 1;
            });
        }
        frames
    }
}

/// What one turn of a walker takes at least.
const TURN: Duration = Duration::from_millis(1);
/// Turns of each walker, and the time that all of its turns may take.
const TURNS: usize = 40 * RUNS;
const LONGEST: Duration = Duration::from_secs(2);

/// Nanoseconds per frame for each walker: the least of all its turns. They take turns that are
/// short, so that a busy moment of the host hits all alike, and many, so that some are quiet.
pub fn measure(walkers: &mut [Walker<'_>], stacks: &[&Stack]) -> Vec<f64> {
    let plan = |walker: &mut Walker<'_>| {
        let frames = walker.walk_all(stacks);
        let start = Instant::now();
        walker.walk_all(stacks);
        let once = start.elapsed().max(Duration::from_nanos(1));
        (frames, TURN.div_duration_f64(once).ceil() as u32, once)
    };
    let plans: Vec<_> = walkers.iter_mut().map(plan).collect();
    let longest = plans.iter().map(|&(_, rounds, once)| once * rounds).max().unwrap_or(TURN);
    let turns = (LONGEST.div_duration_f64(longest) as usize).clamp(RUNS, TURNS);
    let mut best = vec![f64::INFINITY; walkers.len()];
    for _ in 0..turns {
        for ((walker, &(frames, rounds, _)), best) in walkers.iter_mut().zip(&plans).zip(&mut best)
        {
            let start = Instant::now();
            for _ in 0..rounds {
                black_box(walker.walk_all(stacks));
            }
            let steps = f64::from(rounds) * frames as f64;
            *best = best.min(start.elapsed().as_nanos() as f64 / steps);
        }
    }
    best
}
