//! Real programs: the functions that `perf` names are those that the text
//! formats name.

use std::path::{Path, PathBuf};

use arch::Arch;
use emu::export::{Format, Images, Output, open};
use emu::perf::record::{CpuMode, EventKind, FileId, Record, Sample, context};
use goblin::elf::Elf;
use goblin::elf::program_header::PT_LOAD;
use goblin::elf::sym::STT_FUNC;
use tests::perf::perf;

use crate::cases::{event, session};
use crate::perf::directory;

/// The prebuilt guests of both architectures, if the repository has them.
pub fn guests() -> Vec<(Arch, PathBuf)> {
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/bin");
    let mut found = Vec::new();
    for arch in Arch::ALL {
        let entries = std::fs::read_dir(bin.join(arch.name())).into_iter().flatten().flatten();
        found.extend(entries.map(|e| (arch, e.path().canonicalize().unwrap())));
    }
    found.sort();
    if found.is_empty() {
        println!("skipped: no guest programs below {}", bin.display());
    }
    found
}

/// One sample whose chain goes through every function of `path`, at its first
/// and in its last byte.
fn records(path: &Path) -> Vec<Record> {
    let bytes = std::fs::read(path).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let bias = if elf.header.e_type == goblin::elf::header::ET_DYN { 0x5555_5555_4000 } else { 0 };
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut records =
        vec![Record::Comm { pid: 100, tid: 100, time: 1000, cpu: 0, comm: name, exec: true }];
    for p in elf.program_headers.iter().filter(|p| p.p_type == PT_LOAD && p.is_executable()) {
        let start = p.p_vaddr & !0xfff;
        records.push(Record::Mmap2 {
            pid: 100,
            tid: 100,
            time: 1000,
            cpu: 0,
            addr: bias + start,
            len: (p.p_vaddr + p.p_memsz - start).next_multiple_of(0x1000),
            pgoff: p.p_offset & !0xfff,
            file: FileId::None,
            prot: 5,
            flags: 2,
            path: path.to_str().unwrap().into(),
        });
    }
    // Where a label without size is inside a function, perf's answer depends on
    // the shape of its tree.
    let labels: Vec<u64> = elf.syms.iter().filter(|s| s.st_size == 0).map(|s| s.st_value).collect();
    let functions = elf.syms.iter().filter(|s| s.st_type() == STT_FUNC && s.st_size > 0);
    let functions = functions.filter(|s| {
        let inside = s.st_value + 1..s.st_value + s.st_size;
        !labels.iter().any(|l| inside.contains(l))
    });
    // Large programs have thousands: some of them, spread over the file.
    let step = elf.syms.len() / 1000 + 1;
    let addresses = functions.step_by(step).flat_map(|s| [s.st_value, s.st_value + s.st_size - 1]);
    let mut time = 1_000_000;
    for a in addresses {
        time += 1000;
        let ip = bias + a;
        // As a program counter each, so that both sides look at the very address.
        records.push(Record::Sample(Sample {
            event: 0,
            mode: CpuMode::User,
            ip,
            pid: 100,
            tid: 100,
            time,
            cpu: 0,
            period: 1,
            callchain: vec![context::USER, ip],
            user_lr: None,
            dump: None,
            raw: None,
        }));
    }
    records
}

#[test]
fn same_names_as_perf() {
    let dir = directory("export-guests");
    // A third of them: perf takes a quarter of a second for each.
    let guests: Vec<_> = guests().into_iter().step_by(3).collect();
    let mut compared = 0;
    for (arch, path) in &guests {
        let arch = *arch;
        let session = session(arch, vec![event(EventKind::Cycles, "cycles")]);
        let records = records(path);
        let name = format!("{}-{}", arch.name(), path.file_name().unwrap().to_str().unwrap());
        let write = |format, extension: &str| {
            let out = dir.join(format!("{name}.{extension}"));
            let output = Output::File(out.clone());
            let mut sink = open(format, &session, output, Images::of_host()).unwrap();
            records.iter().for_each(|r| sink.record(r).unwrap());
            sink.finish().unwrap();
            out
        };
        let (data, script) = (write(Format::PerfData, "data"), write(Format::Script, "txt"));
        let Some(theirs) = perf(&["script", "-i", data.to_str().unwrap()], None, &dir) else {
            return;
        };
        let ours = std::fs::read_to_string(script).unwrap();
        let (theirs, ours) = (functions(&theirs), functions(&ours));
        compared += ours.len();
        for (theirs, ours) in theirs.iter().zip(&ours) {
            let (theirs, ours) = comparable(theirs, ours);
            assert_eq!(theirs, ours, "{name}");
        }
        assert_eq!(theirs.len(), ours.len());
    }
    // Some programs are stripped; most have dozens of functions.
    assert!(compared >= 20 * guests.len());
}

/// Function, offset and file of each frame.
fn functions(text: &str) -> Vec<&str> {
    let frames = text.lines().filter(|l| l.starts_with('\t'));
    frames.map(|l| l.trim_start().split_once(' ').unwrap().1).collect()
}

/// Two frames without the names of C++, which the demanglers write differently, and of which each
/// cannot read some.
fn comparable<'a>(theirs: &'a str, ours: &'a str) -> (&'a str, &'a str) {
    let split = |frame: &'a str| frame.split_at(frame.rfind("+0x").unwrap_or(0));
    let ((their_name, their_rest), (our_name, our_rest)) = (split(theirs), split(ours));
    let is_cpp = |name: &str| name.contains("::") || name.starts_with("_Z");
    let is_demangled = their_name.contains("::") || our_name.contains("::");
    match is_demangled && is_cpp(their_name) && is_cpp(our_name) {
        true => (their_rest, our_rest),
        false => (theirs, ours),
    }
}
