//! Stacks of random chains of the calls in real programs.

use std::path::PathBuf;
use std::sync::Arc;

use arch::Arch;
use unwinder::dwarf::Section;
use unwinder::elf::{Image, Slice};
use unwinder::framehop::Framehop;
use unwinder::memory::Copied;
use unwinder::module::Sections;
use unwinder::plug::{Stop, ThirdParty};
use unwinder::{
    Context, End, Frame, InstructionPointer, Method, Module, Modules, Policy, Registers, Walk, step,
};

use crate::stacks::{Site, Stack, Xorshift, calls_of, is_caller, random, row_ends};

type Data = Arc<[u8]>;

fn programs() -> Vec<(String, Arch, Data)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guests/bin");
    let mut all = Vec::new();
    for arch in Arch::ALL {
        for entry in std::fs::read_dir(folder.join(arch.name())).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{arch} {}", path.file_name().unwrap().to_string_lossy());
            all.push((name, arch, std::fs::read(path).unwrap().into()));
        }
    }
    all.sort();
    all
}

/// Programs of which the sections are there, with SFrame: `sframe/guests.rs` describes them.
pub fn with_sframe() -> Vec<(String, Module<Vec<u8>>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sframe");
    let mut sections = std::collections::BTreeMap::<String, Sections<Vec<u8>>>::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let [name, address, section] = file.split('.').collect::<Vec<_>>()[..] else {
            panic!("{file}");
        };
        let address = u64::from_str_radix(address, 16).unwrap();
        let of = sections.entry(name.into()).or_default();
        let slot = if section == "sframe" { &mut of.sframe } else { &mut of.eh_frame };
        *slot = Some(Section { address, bytes: std::fs::read(&path).unwrap() });
    }
    let module = |(name, sections): (String, Sections<_>)| {
        let arch = if name.contains("x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
        let text = std::iter::once(0..1 << 32);
        (name.clone(), Module::new(name, arch, 0, text, sections))
    };
    sections.into_iter().filter(|(_, s)| s.eh_frame.is_some()).map(module).collect()
}

fn walk<D: std::ops::Deref<Target = [u8]>>(
    policy: Policy,
    modules: &Modules<D>,
    stack: &Stack,
    context: &mut Context,
) -> (Vec<Frame>, End) {
    let Stack { address, registers, memory, .. } = stack;
    let mut walk = Walk::new(policy, modules, *address, registers, memory.clone(), context);
    let found = (walk.by_ref().collect(), walk.end().unwrap());
    let mut walk = Walk::new(policy, modules, *address, registers, memory.clone(), context);
    let mut frames = Vec::new();
    let end = walk.visit(|frame| frames.push(frame));
    assert_eq!((frames, end), found, "visited");
    found
}

/// The frames by single steps with all registers.
fn steps<D: std::ops::Deref<Target = [u8]>>(
    policy: Policy,
    modules: &Modules<D>,
    stack: &Stack,
) -> (Vec<Frame>, End) {
    let context = &mut Context::uncached();
    let (mut address, mut registers) = (stack.address, stack.registers);
    let mut frames = vec![Frame { address, cfa: None, method: None }];
    loop {
        let memory = &mut stack.memory.clone();
        match step(&policy, modules, address, &registers, memory, context) {
            Err(end) => return (frames, end),
            Ok(unwound) => {
                (address, registers) = (unwound.caller.address, unwound.caller.registers);
                let (cfa, method) = (unwound.caller.cfa, Some(unwound.method));
                frames.push(Frame { address, cfa, method });
            }
        }
    }
}

fn addresses(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|f| f.address.value()).collect()
}

/// The stack is walked completely, by caches, without, and by steps.
fn check<D: std::ops::Deref<Target = [u8]>>(
    name: &str,
    policy: Policy,
    modules: &Modules<D>,
    stack: &Stack,
    context: &mut Context,
) {
    let (frames, end) = walk(policy, modules, stack, context);
    assert_eq!(addresses(&frames), stack.frames, "{name}");
    assert_eq!(end, End::NullReturnAddress, "{name}");
    let same = |other, how| assert_eq!(other, (frames.clone(), end), "{name}: {how}");
    same(walk(policy, modules, stack, context), "again");
    same(walk(policy, modules, stack, &mut Context::uncached()), "uncached");
    same(steps(policy, modules, stack), "steps");
}

#[test]
fn stacks_of_programs_are_walked_completely() {
    let mut walked = 0;
    let mut context = Context::new();
    for (name, arch, bytes) in programs() {
        let module = Module::from_elf(&*name, bytes.clone(), 0x5555_0000_0000).unwrap();
        let sites: Vec<Site> =
            calls_of(&module, &bytes).into_iter().filter(|s| is_caller(arch, s)).collect();
        if sites.is_empty() {
            continue;
        }
        let modules = Modules::new([module]);
        let mut chance = Xorshift(0x1234_5678 + walked as u64);
        for depth in [1, 2, 9, 60, 300] {
            let stack = random(arch, &sites, depth, &mut chance);
            check(&name, Policy::dwarf(), &modules, &stack, &mut context);
            check(&name, Policy::best(), &modules, &stack, &mut context);
            walked += 1;
        }
    }
    assert!(walked > 200, "{walked}");
}

/// framehop would evaluate its expressions for ever.
fn assert_refused<D: std::ops::Deref<Target = [u8]>>(
    framehop: &mut Framehop,
    arch: Arch,
    module: &Module<D>,
    loaded: Result<(), String>,
) {
    let why = loaded.unwrap_err();
    assert!(why.starts_with(".eh_frame, offset ") && why.contains("branches backwards"), "{why}");
    let (registers, mut memory) = (Registers::unknown(arch), Copied { address: 0, bytes: [] });
    for at in module.text().iter().flat_map(|text| [text.start, text.end - 1]) {
        let step = framehop.step(InstructionPointer(at).into(), &registers, &mut memory);
        assert_eq!(step, Err(Stop::NotCovered));
    }
}

#[test]
fn framehop_walks_the_same_where_both_claim_success() {
    let (mut same, mut complete) = (0, 0);
    for (name, arch, bytes) in programs() {
        let bias = 0x5555_0000_0000;
        let module = Module::from_elf(&*name, bytes.clone(), bias).unwrap();
        let mut framehop = Framehop::new(arch);
        let loaded = framehop.load(&name, &bytes, bias);
        if name.contains("endless-expression") {
            assert_refused(&mut framehop, arch, &module, loaded);
            continue;
        }
        loaded.unwrap();
        let sites: Vec<Site> =
            calls_of(&module, &bytes).into_iter().filter(|s| is_caller(arch, s)).collect();
        if sites.is_empty() {
            continue;
        }
        let modules = Modules::new([module]);
        let mut chance = Xorshift(0x8765_4321);
        for depth in [1, 5, 40, 200] {
            let stack = random(arch, &sites, depth, &mut chance);
            let (ours, end) = walk(Policy::dwarf(), &modules, &stack, &mut Context::new());
            let mut theirs = Vec::new();
            let Stack { address, registers, memory, .. } = &stack;
            let stop = framehop.walk(*address, registers, &mut memory.clone(), 999, &mut theirs);
            complete += usize::from(end == End::NullReturnAddress);
            // A return address of 0 is no success for framehop; the frames are the same.
            if theirs.len() == ours.len() {
                assert_eq!(theirs, addresses(&ours), "{name}: {stop:?}");
                same += 1;
            } else {
                println!("{name}: {} frames, framehop {}: {stop:?}", ours.len(), theirs.len());
            }
        }
    }
    println!("{complete} complete, {same} the same");
    assert!(same * 10 >= complete * 8 && same > 150, "{same} of {complete}");
}

#[test]
fn both_tables_lead_to_the_same_frames() {
    let (mut walked, mut frames) = (0, 0);
    let mut context = Context::new();
    for (name, module) in with_sframe() {
        let (arch, mut chance) = (module.arch(), Xorshift(42));
        let mut sites = row_ends(&module);
        let sframe = |s: &Site| {
            let at = crate::stacks::at(s.address - 1);
            matches!(module.sframe_row(at), Ok(unwinder::sframe::Found::Row(_)))
        };
        sites.retain(|s| is_caller(arch, s) && sframe(s));
        if sites.is_empty() {
            continue;
        }
        let modules = Modules::new([module]);
        for depth in [1, 3, 50] {
            let stack = random(arch, &sites, depth, &mut chance);
            check(&name, Policy::dwarf(), &modules, &stack, &mut context);
            let (found, _) = walk(Policy::sframe(), &modules, &stack, &mut context);
            // Versions before 3 cannot say everything; what they say is checked elsewhere.
            if addresses(&found) == stack.frames {
                check(&name, Policy::sframe(), &modules, &stack, &mut context);
                check(&name, Policy::best(), &modules, &stack, &mut context);
                let (best, _) = walk(Policy::best(), &modules, &stack, &mut context);
                assert!(best.iter().skip(1).all(|f| f.method == Some(Method::Sframe)));
                frames += found.len();
            }
            walked += 1;
        }
    }
    println!("{walked} stacks, {frames} frames by SFrame");
    assert!(walked > 30 && frames > 20 * walked / 2, "{walked} {frames}");
}

#[test]
fn garbage_on_the_stack_is_the_same_garbage_for_all() {
    let mut context = Context::new();
    let mut chance = Xorshift(0xdead_beef);
    let mut ends = std::collections::BTreeMap::new();
    for (name, module) in with_sframe() {
        let arch = module.arch();
        let sites = row_ends(&module);
        let callers: Vec<Site> = sites.iter().copied().filter(|s| is_caller(arch, s)).collect();
        let modules = Modules::new([module]);
        for _ in 0..20 {
            let mut stack = random(arch, &callers, 30, &mut chance);
            // Any row's end, of whatever kind, in the places of return addresses and all over.
            let bytes = &mut stack.memory.bytes;
            for _ in 0..chance.below(6) {
                let at = chance.below(bytes.len() / 8) * 8;
                let word = match chance.below(4) {
                    0 => stack.memory.address + chance.below(4096) as u64,
                    1 => chance.next(),
                    _ => chance.pick(&sites).address,
                };
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            for policy in
                [Policy::dwarf(), Policy::sframe(), Policy::best(), Policy::kernel_sframe()]
            {
                let (frames, end) = walk(policy, &modules, &stack, &mut context);
                let uncached = walk(policy, &modules, &stack, &mut Context::uncached());
                assert_eq!(uncached, (frames.clone(), end), "{name}");
                if !matches!(end, End::NoProgress { .. }) {
                    assert_eq!(steps(policy, &modules, &stack), (frames, end), "{name}");
                }
                *ends
                    .entry(format!("{end:?}").split(['(', ' ']).next().unwrap().to_owned())
                    .or_insert(0) += 1;
            }
        }
    }
    println!("{ends:?}");
    assert!(ends.len() > 4, "{ends:?}");
}

#[test]
fn a_file_without_section_headers_has_the_same_tables() {
    for (name, _, bytes) in programs() {
        let mut stripped = bytes.to_vec();
        stripped[0x28..0x30].fill(0); // e_shoff
        stripped[0x3c..0x40].fill(0); // e_shnum, e_shstrndx
        let tables = |bytes: Vec<u8>| {
            let image: Image<Arc<[u8]>> = Image::read(bytes.into()).unwrap();
            let sections = image.sections;
            let of = |s: Option<Section<Slice<_>>>| s.map(|s| (s.address, s.bytes.to_vec()));
            (of(sections.eh_frame), of(sections.eh_frame_hdr), of(sections.sframe))
        };
        let (whole, without) = (tables(bytes.to_vec()), tables(stripped));
        assert_eq!(without.1, whole.1, "{name}");
        if let (Some((address, frame)), Some((at, found))) = (whole.0, without.0) {
            assert_eq!(address, at, "{name}");
            assert!(found.starts_with(&frame) || frame.starts_with(&found), "{name}");
        }
    }
}
