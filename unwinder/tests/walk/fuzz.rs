//! The fuzzing oracle over its corpus and over mutations of it.

use std::fs;
use std::path::PathBuf;

use unwinder::fuzz::{EH_FRAME, SFRAME, fuzz_walk};

use crate::common::{CODE, Frame, one, one_of};
use crate::guests::with_sframe;
use crate::stacks::{Site, Xorshift, is_caller, random, row_ends};
use arch::Arch::{self, Aarch64, X86_64};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/walk")
}

/// An input as `unwinder::fuzz` describes it.
struct Input {
    arch: Arch,
    policy: u8,
    registers: [u64; 32],
    pc: u64,
    known: u32,
    eh_frame: Vec<u8>,
    sframe: Vec<u8>,
    stack: Vec<u8>,
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        let kind = self.policy << 1 | u8::from(self.arch == Aarch64);
        let mut all = vec![kind];
        all.extend((self.eh_frame.len() as u16).to_le_bytes());
        all.extend((self.sframe.len() as u16).to_le_bytes());
        let words = self.registers.iter().chain([&self.pc]);
        words.for_each(|w| all.extend(w.to_le_bytes()));
        all.extend(u64::from(self.known).to_le_bytes());
        all.extend(&self.eh_frame);
        all.extend(&self.sframe);
        all.extend(&self.stack);
        all
    }
}

const SP: u64 = 0x7000_0000;

/// The kinds of policies, and one of them that goes on after a failure.
const POLICIES: [u8; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 15];

fn crafted(frame: &Frame, policy: u8, words: &[u64]) -> Vec<u8> {
    let mut registers = [SP; 32];
    registers[6] = SP + 16;
    registers[30] = CODE + 8;
    let input = Input {
        arch: frame.arch,
        policy,
        registers,
        pc: CODE + 1,
        known: u32::MAX,
        eh_frame: frame.bytes.clone(),
        sframe: Vec::new(),
        stack: words.iter().flat_map(|w| w.to_le_bytes()).collect(),
    };
    input.bytes()
}

/// Tables and a stack of a real program, as small as they come, moved to where the oracle puts
/// them.
fn real(arch: Arch, policy: u8) -> Vec<u8> {
    let small = |(_, m): &(String, unwinder::Module<Vec<u8>>)| {
        let sframe = m.sframe().map_or(usize::MAX, |t| t.data().len());
        m.arch() == arch && sframe < 2000 && m.eh_frame().is_some_and(|t| t.section().len() < 6000)
    };
    let (_, module) = with_sframe().into_iter().find(small).unwrap();
    let sites: Vec<Site> = row_ends(&module).into_iter().filter(|s| is_caller(arch, s)).collect();
    let stack = random(arch, &sites, 12, &mut Xorshift(9));
    let mut registers = [0; 32];
    (0..).zip(&mut registers).for_each(|(n, r)| *r = stack.registers.get(n).unwrap_or(0));
    let input = Input {
        arch,
        policy,
        registers,
        pc: stack.address.value(),
        known: u32::MAX,
        eh_frame: module.eh_frame().unwrap().section().to_vec(),
        sframe: module.sframe().unwrap().data().to_vec(),
        stack: stack.memory.bytes,
    };
    input.bytes()
}

fn recipes() -> Vec<(String, Vec<u8>)> {
    assert_eq!((EH_FRAME, SFRAME), (crate::common::FRAME, 0x50_0000));
    let mut all = Vec::new();
    let code: Vec<u64> = (0..12).map(|n| CODE + 4 * n).collect();
    let records = [SP + 16, CODE, SP + 32, CODE + 1, SP, CODE + 2, 0, 0];
    for policy in POLICIES {
        all.push((format!("plain-{policy}"), crafted(&one(X86_64, &[]), policy, &code)));
        all.push((
            format!("records-{policy}"),
            crafted(&one(Aarch64, &[0x9e, 1]), policy, &records),
        ));
    }
    let pushes = [0x41, 0x0e, 16, 0x86, 2, 0x41, 0x0d, 6];
    all.push(("pushes".into(), crafted(&one(X86_64, &pushes), 0, &records)));
    let long = [0x0f, 3, 0x77, 16, 0x06, 0x10, 3, 2, 0x77, 0];
    all.push(("expressions".into(), crafted(&one(X86_64, &long), 1, &records)));
    let signal = [0x0f, 2, 0x77, 0, 0x10, 16, 2, 0x77, 0, 0x10, 7, 2, 0x77, 8];
    let frame = one_of(X86_64, "zRS", &signal);
    all.push(("signal".into(), crafted(&frame, 1, &[CODE, SP + 16, CODE, SP, 0, 0])));
    let preserved = [0x0c, 3, 16, 0x83, 2];
    all.push(("preserved".into(), crafted(&one(X86_64, &preserved), 1, &records)));
    let trampoline = [0xb8u8, 0x0f, 0, 0, 0, 0x0f, 0x05, 0];
    let words = [SP, u64::from_le_bytes(trampoline), CODE, SP];
    all.push(("signal-code".into(), crafted(&one(X86_64, &[]), 6, &words)));
    for arch in Arch::ALL {
        for policy in [0, 1, 2, 5] {
            all.push((format!("real-{arch}-{policy}"), real(arch, policy)));
        }
    }
    all.push(("empty".into(), Vec::new()));
    all
}

#[test]
fn the_corpus_is_what_the_recipes_make() {
    for (name, bytes) in recipes() {
        let path = corpus().join(&name);
        if std::env::var_os("EMU_BLESS").is_some() {
            fs::create_dir_all(corpus()).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let there = fs::read(&path).unwrap_or_default();
        let path = path.display();
        assert!(there == bytes, "{path} is not up to date: run the test with EMU_BLESS=1");
    }
}

fn files() -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(corpus()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 20);
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn the_corpus_breaks_no_promise() {
    files().iter().for_each(|bytes| fuzz_walk(bytes));
}

/// Changes `bytes` in a few places, to values that hurt.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << random.below(8)),
            1 if random.below(4) == 0 => bytes.truncate(at),
            2 | 3 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = random.next() as u8),
            4 => bytes.iter_mut().take(1).for_each(|b| *b = random.next() as u8),
            // A word of the stack or a register: an address that means something, or anything.
            _ => {
                let value = match random.below(6) {
                    0 => random.next(),
                    1 => u64::MAX - random.below(64) as u64,
                    2 => CODE + random.below(0x110) as u64,
                    n => SP + 8 * random.below(16) as u64 + u64::from(n == 3),
                };
                let at = at / 8 * 8 + 5;
                let value = value.to_le_bytes();
                bytes.iter_mut().skip(at).take(8).zip(value).for_each(|(b, v)| *b = v);
            }
        }
    }
}

#[test]
fn mutated_inputs_break_no_promise() {
    let files = files();
    let mut random = Xorshift(0x7761_6c6b);
    for _ in 0..20_000 {
        let mut bytes = files[random.below(files.len())].clone();
        mutate(&mut bytes, &mut random);
        fuzz_walk(&bytes);
    }
}

#[test]
fn inputs_cut_anywhere_break_no_promise() {
    for bytes in files().iter().filter(|bytes| bytes.len() < 800) {
        (0..bytes.len()).for_each(|len| fuzz_walk(&bytes[..len]));
    }
}
