//! Nanoseconds per frame of whole walks.
#![allow(clippy::unwrap_used, reason = "a measurement that fails may panic")]

#[path = "../tests/common/stacks.rs"]
mod stacks;

use std::hint::black_box;
use std::time::Instant;

use stacks::{Site, Stack, Xorshift};
use unwinder::elf::Slice;
use unwinder::{Context, Module, Modules, Policy, Walk};

type Bytes = &'static [u8];

fn best(frames: usize, mut run: impl FnMut() -> usize) -> f64 {
    assert_eq!(run(), frames);
    let rounds = (400_000 / frames).max(3);
    (0..7)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                black_box(run());
            }
            start.elapsed().as_nanos() as f64 / (rounds * frames) as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn ours(
    policy: Policy,
    modules: &Modules<Slice<Bytes>>,
    context: &mut Context,
    stacks: &[Stack],
) -> f64 {
    let frames = stacks.iter().map(|s| s.frames.len()).sum();
    best(frames, || {
        stacks
            .iter()
            .map(|s| {
                let memory = unwinder::memory::Copied {
                    address: s.memory.address,
                    bytes: &s.memory.bytes[..],
                };
                let walk = Walk::new(policy, modules, s.address, &s.registers, memory, context);
                walk.map(|f| black_box(f.address.value())).count()
            })
            .sum()
    })
}

fn main() {
    for path in std::env::args().skip(1) {
        let bytes: Bytes = std::fs::read(&path).unwrap().leak();
        let module = Module::from_elf(&*path, bytes, 0).unwrap();
        let arch = module.arch();
        let elf = goblin::elf::Elf::parse(bytes).unwrap();
        let text = elf
            .section_headers
            .iter()
            .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(".text"))
            .unwrap();
        let code = &bytes[text.file_range().unwrap()];
        let sites: Vec<Site> = stacks::calls(&module, text.sh_addr, code);
        let callers = sites.iter().filter(|s| stacks::is_caller(arch, s)).count();
        let has_sframe = module.sframe().is_some();
        println!("{path}: {} sites, {callers} callers, sframe {has_sframe}", sites.len());
        for problem in module.problems() {
            println!("  {problem}");
        }
        let modules = Modules::new([module]);
        for depth in [8, 64, 512, 4096] {
            let mut random = Xorshift(depth as u64 + 99);
            let stacks: Vec<Stack> = (0..(4096 / depth).min(16))
                .map(|_| stacks::random(arch, &sites, depth, &mut random))
                .collect();
            print!("  depth {depth:5}");
            for (name, policy) in [("dwarf", Policy::dwarf()), ("sframe", Policy::sframe())] {
                if name == "sframe" && !has_sframe {
                    continue;
                }
                let cached = ours(policy, &modules, &mut Context::new(), &stacks);
                let uncached = ours(policy, &modules, &mut Context::uncached(), &stacks);
                print!("   {name}: cached {cached:6.1} uncached {uncached:6.1}");
            }
            println!();
        }
    }
}
