//! Programs and truth files with bytes changed, for `emu show`, `check` and `explain`: an answer
//! or an error, in bounded time.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arch::Arch;
use goblin::elf::Elf;
use tests::program::{emu, finish};
use tests::{root, scratch};

/// Longer than this is as good as for ever; a machine may be busy.
const LONG: Duration = Duration::from_secs(20);

/// A sequence of numbers that is the same each time (xorshift, Marsaglia 2003).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Changes a few bytes of `range`, or writes a number at the edge of a type there.
    fn spoil(&mut self, bytes: &mut [u8], range: std::ops::Range<usize>) {
        for _ in 0..=self.below(4) {
            let at = range.start + self.below(range.len());
            let edge: &[u8] = match self.below(5) {
                0 => &[0xff; 8],
                1 => &[0; 8],
                2 => &[0xff, 0xff, 0xff, 0x7f],
                3 => &[1 << 7],
                _ => &[],
            };
            let Some(place) = bytes.get_mut(at..) else { continue };
            match place.first_mut() {
                Some(byte) if edge.is_empty() => *byte ^= 1 << self.below(8),
                _ => place.iter_mut().zip(edge).for_each(|(to, from)| *to = *from),
            }
        }
    }
}

/// Runs `emu`, which ends by itself soon and does not panic.
fn ends(words: &[&str], what: &str) {
    let begin = Instant::now();
    let finished = finish(&mut emu(words));
    assert!(begin.elapsed() < LONG, "{what}: {words:?} took {:?}", begin.elapsed());
    let text = &finished.stderr;
    assert!(!text.contains("panicked at") && finished.status != 101, "{what}: {words:?}: {text}");
}

/// Parts of a program that hold something to be read: sections but code, and headers.
fn parts(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let elf = Elf::parse(bytes).unwrap();
    let code = u64::from(goblin::elf::section_header::SHF_EXECINSTR);
    let sections = elf.section_headers.iter().filter(|s| s.sh_flags & code == 0);
    let mut parts: Vec<_> = sections.filter_map(|s| s.file_range()).collect();
    let headers = elf.header.e_shoff as usize;
    parts.extend([0..0x200, headers..headers + elf.section_headers.len() * 64]);
    parts.retain(|part| !part.is_empty() && part.end <= bytes.len());
    parts
}

const GUESTS: [&str; 5] = [
    "zoo-sframe-v3",
    "zoo-cfa-opcodes",
    "zoo-eh-frame-hdr",
    "zoo-plt-expression",
    "zoo-sframe-wide",
];

#[test]
fn programs() {
    let file = scratch("hostile-programs").join("program");
    let name = file.to_str().unwrap();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for arch in Arch::ALL {
        for guest in GUESTS {
            let path = root().join("guests/bin").join(arch.name()).join(guest);
            let good = std::fs::read(path).unwrap();
            let parts = parts(&good);
            for n in 0..8 {
                let mut bytes = good.clone();
                let part = parts[numbers.below(parts.len())].clone();
                numbers.spoil(&mut bytes, part);
                if n == 0 {
                    bytes.truncate(numbers.below(good.len()));
                }
                std::fs::write(&file, bytes).unwrap();
                let what = format!("{guest} for {arch}, change {n}");
                ends(&["show", name], &what);
                let limit = ["--max-instructions", "20k", "--format", "html", "-o", "/dev/null"];
                ends(&[&["check"], &limit[..], &[name]].concat(), &what);
            }
        }
    }
}

fn record(dir: &Path, arch: Arch, guest: &str) -> PathBuf {
    let profile = dir.join(format!("{guest}-{arch}"));
    let mut command = emu(&["run", "--truth", "-q", "--arch", arch.name(), "-o"]);
    command.arg(&profile);
    command.args(["-e", "instructions:u", "-c", "7", "--max-instructions", "3k", guest]);
    finish(&mut command);
    PathBuf::from(format!("{}.truth", profile.display()))
}

#[test]
fn truth_files() {
    let dir = scratch("hostile-truth");
    let file = dir.join("spoilt.truth");
    let name = file.to_str().unwrap();
    let mut numbers = Numbers(0xd1b5_4a32_d192_ed03);
    for arch in Arch::ALL {
        for guest in ["zoo-tail-call", "zoo-clobbered-fp", "lab-signals-v3"] {
            let good = std::fs::read(record(&dir, arch, guest)).unwrap();
            let lines = good.iter().filter(|b| **b == b'\n').count();
            for n in 0..12 {
                let mut bytes = good.clone();
                // Most often a digit becomes another one: all is read then.
                if n < 8 {
                    for _ in 0..1 << n {
                        let at = numbers.below(bytes.len());
                        if bytes[at].is_ascii_digit() {
                            bytes[at] = b'0' + numbers.below(10) as u8;
                        }
                    }
                } else {
                    numbers.spoil(&mut bytes, 0..good.len());
                }
                std::fs::write(&file, bytes).unwrap();
                let sample = (1 + numbers.below(lines)).to_string();
                let what = format!("{guest} for {arch}, change {n}");
                ends(&["explain", name, &sample], &what);
                ends(&["explain", name, &sample, "--svg", "-"], &what);
            }
        }
    }
}
