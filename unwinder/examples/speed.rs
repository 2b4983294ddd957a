//! Nanoseconds per frame of whole walks, ours and framehop's over the same stacks.
//!
//! ```text
//! cargo run --release -p unwinder --example speed [ELF file ...]
//! ```
//!
//! Stacks are random chains of the calls in a program, laid out as its tables say; without
//! a program, those of made-up modules of 100 to 1 000 000 functions. "uncached" is each
//! frame's rule read anew.
#![allow(clippy::unwrap_used, reason = "a measurement that fails may panic")]

#[path = "../tests/common/made.rs"]
mod made;
#[path = "../tests/common/stacks.rs"]
mod stacks;

use std::hint::black_box;
use std::time::Instant;

use arch::Arch;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder};
use stacks::{Stack, Xorshift};
use unwinder::elf::{Image, Slice};
use unwinder::memory::Copied;
use unwinder::{Context, Memory, Module, Modules, Policy, Walk};

type Bytes = &'static [u8];
type Data = Slice<Bytes>;

/// Nanoseconds per frame: the best of some runs.
fn best(expected: usize, mut run: impl FnMut() -> usize) -> f64 {
    let frames = run();
    // The kernel's walks give the address 0 at the end, too.
    assert!((expected..=expected * 9 / 8).contains(&frames), "{frames} frames of {expected}");
    let rounds = (20_000 / frames).max(1);
    let once = |_| {
        let start = Instant::now();
        for _ in 0..rounds {
            black_box(run());
        }
        start.elapsed().as_nanos() as f64 / (rounds * frames) as f64
    };
    (0..40).map(once).fold(f64::INFINITY, f64::min)
}

fn frames(stacks: &[Stack]) -> usize {
    stacks.iter().map(|s| s.frames.len()).sum()
}

fn memory(stack: &Stack) -> Copied<&[u8]> {
    Copied { address: stack.memory.address, bytes: &stack.memory.bytes }
}

fn ours(policy: Policy, modules: &Modules<Data>, mut context: Context, stacks: &[Stack]) -> f64 {
    let mut walk = |s: &Stack| {
        let walk = Walk::new(policy, modules, s.address, &s.registers, memory(s), &mut context);
        walk.inspect(|frame| _ = black_box(frame.address.value())).count()
    };
    best(frames(stacks), || stacks.iter().map(&mut walk).sum())
}

/// framehop, which for want of an uncached mode changes its set of modules from frame to frame.
fn framehop(module: Option<framehop::Module<Data>>, cached: bool, stacks: &[Stack]) -> f64 {
    let sets = if cached { 1 } else { 61 };
    let unwinders: Vec<UnwinderX86_64<Data>> = (0..sets)
        .map(|_| {
            let mut unwinder = UnwinderX86_64::new();
            module.iter().for_each(|m| unwinder.add_module(m.clone()));
            unwinder
        })
        .collect();
    let mut cache = CacheX86_64::new();
    let mut set = 0;
    let mut walk = |s: &Stack| {
        let mut memory = memory(s);
        let mut read = |at| memory.word(at).ok_or(());
        let (sp, fp) = (s.registers.sp().unwrap(), s.registers.fp().unwrap());
        let pc = s.address.value();
        let mut regs = UnwindRegsX86_64::new(pc, sp, fp);
        if cached {
            let mut iter = unwinders[0].iter_frames(pc, regs, &mut cache, &mut read);
            let mut count = 0;
            while let Ok(Some(frame)) = iter.next() {
                black_box(frame.address());
                count += 1;
            }
            return count;
        }
        let mut frame = FrameAddress::from_instruction_pointer(pc);
        let mut count = 1;
        loop {
            set = if set + 1 == sets { 0 } else { set + 1 };
            let next = unwinders[set].unwind_frame(frame, &mut regs, &mut cache, &mut read);
            let Some(to) = next.ok().flatten().and_then(FrameAddress::from_return_address) else {
                return count;
            };
            frame = to;
            black_box(frame.address());
            count += 1;
        }
    };
    best(frames(stacks), || stacks.iter().map(&mut walk).sum())
}

/// A row of the table. The stacks have about 4096 frames in all, or more.
fn measure(name: &str, image: Image<Bytes>, sites: &[stacks::Site], depth: usize) {
    let Image { arch, text, sections } = image.clone();
    let module = Module::new("", arch, 0, text, sections);
    let has_sframe = module.sframe().is_some();
    let modules = Modules::new([module]);
    let mut random = Xorshift(depth as u64 + 99);
    let stacks: Vec<Stack> = (0..(8192 / depth).min(64))
        .map(|_| stacks::random(arch, sites, depth, &mut random))
        .collect();
    let ours = |policy, context| ours(policy, &modules, context, &stacks);
    print!("{name:32} {depth:5}");
    for (policy, there) in [(Policy::dwarf(), true), (Policy::sframe(), has_sframe)] {
        if there {
            print!(" {:8.1}", ours(policy, Context::new()));
            print!(" {:8.1}", ours(policy, Context::uncached()));
        } else {
            print!(" {:>8} {:>8}", "-", "-");
        }
    }
    if arch == Arch::X86_64 {
        let module = || Some(unwinder::framehop::module_of("", image.clone(), 0));
        print!(" {:8.1}", framehop(module(), true, &stacks));
        print!(" {:8.1}", framehop(module(), false, &stacks));
    }
    println!();
}

fn frame_pointers(depth: usize) {
    let stacks: Vec<Stack> =
        (0..(8192 / depth).min(64)).map(|n| stacks::records(depth, n as u64 + 1)).collect();
    let modules = Modules::new([]);
    let ours = |policy| ours(policy, &modules, Context::new(), &stacks);
    print!("{:32} {depth:5}", "frame records: fp, kernel");
    print!(" {:8.1} {:8.1}", ours(Policy::frame_pointer()), ours(Policy::kernel()));
    println!(" {:26} {:8.1}", "", framehop(None, true, &stacks));
}

fn main() {
    println!("ns per frame: {:18} {:5} dwarf          sframe            framehop", "", "");
    println!("{:32} {:>5}   cached uncached   cached uncached   cached uncached", "", "depth");
    for depth in [8, 64, 512, 4096] {
        frame_pointers(depth);
    }
    let programs: Vec<String> = std::env::args().skip(1).collect();
    for path in &programs {
        let bytes: Bytes = std::fs::read(path).unwrap().leak();
        let image = Image::read(bytes).unwrap();
        let module = Module::from_elf(&**path, bytes, 0).unwrap();
        let sites = stacks::calls_of(&module, bytes);
        let name = path.rsplit('/').next().unwrap_or_default();
        for depth in [8, 64, 512, 4096] {
            measure(&format!("{name} ({})", sites.len()), image.clone(), &sites, depth);
        }
    }
    if !programs.is_empty() {
        return;
    }
    for functions in [100, 1000, 10_000, 100_000, 1_000_000] {
        let (image, sites) = made::module(functions);
        for depth in [64, 4096] {
            measure(&format!("{functions} functions"), image.clone(), &sites, depth);
        }
    }
}
