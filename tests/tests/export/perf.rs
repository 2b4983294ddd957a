//! What the installed `perf` makes of exported files. Each test prints a note
//! and passes where there is none.

use std::path::{Path, PathBuf};

use arch::Arch;
use emu::perf::record::{Record, Sample, context};
use tests::perf::perf;

use crate::cases::{self, Case};
use crate::elf;
use crate::round_trip::{file, stream};

pub fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Every case as a file and as a stream.
fn written(dir: &Path) -> Vec<(Case, PathBuf, PathBuf)> {
    let cases = Arch::ALL.into_iter().flat_map(|arch| cases::all(arch, dir));
    cases
        .map(|case| {
            let base = dir.join(format!("{}-{}", case.session.arch.name(), case.name));
            let (data, pipe) = (base.with_extension("data"), base.with_extension("pipe"));
            std::fs::write(&data, file(&case)).unwrap();
            std::fs::write(&pipe, stream(&case)).unwrap();
            (case, data, pipe)
        })
        .collect()
}

/// The frames that `perf script -F comm,tid,time,event,ip,sym` prints.
fn expected_script(case: &Case) -> String {
    let mut out = String::new();
    let mut comms = std::collections::HashMap::new();
    for record in &case.records {
        match record {
            Record::Comm { tid, comm, .. } => drop(comms.insert(*tid, comm.clone())),
            Record::Fork { tid, ptid, .. } => drop(comms.insert(*tid, comms[ptid].clone())),
            Record::Sample(s) => {
                let event = &case.session.events[s.event];
                let (seconds, micros) = (s.time / 1_000_000_000, s.time / 1000 % 1_000_000);
                let comm = comms[&s.tid].split_whitespace().collect::<Vec<_>>().join(" ");
                let head = format!("{comm} {} {seconds}.{micros:06}: {}:", s.tid, event.name);
                out += &head;
                out += &frames(case, s);
                out += "\n";
            }
            _ => {}
        }
    }
    out
}

fn frames(case: &Case, s: &Sample) -> String {
    let kernel = cases::kernel_frames(case.session.arch);
    let chain = if s.callchain.is_empty() { vec![s.ip] } else { s.callchain.clone() };
    let names = chain.iter().filter(|&&ip| ip < context::MAX).map(|ip| {
        let known = kernel.iter().chain(&cases::USER_FRAMES).find(|f| f.0 == *ip);
        format!(" {ip:x} {}", known.unwrap().1)
    });
    names.collect()
}

/// perf's text in the form of [`expected_script`]: single spaces, user
/// addresses absolute (perf 6 prints the file offset).
fn normalized(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = words.iter().map(|w| match u64::from_str_radix(w, 16) {
            Ok(a) if (elf::TEXT_OFFSET..elf::TEXT_OFFSET + elf::TEXT_SIZE).contains(&a) => {
                format!("{:x}", a - elf::TEXT_OFFSET + elf::TEXT_ADDR)
            }
            _ => (*w).to_owned(),
        });
        let words: Vec<String> = words.collect();
        if line.starts_with('\t') {
            out.push(' ');
        } else if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out += &words.join(" ");
    }
    out
}

#[test]
fn script_shows_the_chains() {
    let dir = directory("export-perf-script");
    for (case, data, pipe) in written(&dir) {
        let fields = ["-F", "comm,tid,time,event,ip,sym"];
        let args = [&["script", "-i", data.to_str().unwrap()], &fields[..]].concat();
        let Some(text) = perf(&args, None, &dir) else { return };
        let want = expected_script(&case);
        assert_eq!(normalized(&text).trim_end(), want.trim_end(), "{}", data.display());
        let args = [&["script", "-i", "-"], &fields[..]].concat();
        let Some(text) = perf(&args, Some(&pipe), &dir) else { return };
        assert_eq!(normalized(&text).trim_end(), want.trim_end(), "{}", pipe.display());
    }
}

#[test]
fn report_and_evlist_have_no_complaints() {
    let dir = directory("export-perf-report");
    for (case, data, pipe) in written(&dir) {
        let data = data.to_str().unwrap();
        // Of a file without samples perf report says just that, as an error.
        if case.name != "empty" {
            let Some(report) = perf(&["report", "--stdio", "-i", data], None, &dir) else { return };
            assert!(report.contains("leaf"), "{data}:\n{report}");
            perf(&["report", "--stdio", "-i", "-"], Some(&pipe), &dir);
        }
        let evlist = perf(&["evlist", "-v", "-i", data], None, &dir).unwrap_or_default();
        for e in &case.session.events {
            assert!(evlist.contains(&format!("{}: ", e.name)), "{data}:\n{evlist}");
        }
        perf(&["script", "-i", data], None, &dir);
        perf(&["report", "--header-only", "-i", data], None, &dir);
    }
}

#[test]
fn tracepoints_print_their_fields() {
    let dir = directory("export-perf-trace");
    for (case, data, pipe) in written(&dir) {
        if case.name != "several" {
            continue;
        }
        let args = ["script", "-i"];
        for (input, stdin) in [(data.to_str().unwrap(), None), ("-", Some(&*pipe))] {
            let Some(text) = perf(&[&args[..], &[input]].concat(), stdin, &dir) else { return };
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("sys_enter: NR 39 (1, fffffffffffffffe, 3, 4, 5, 6)"), "{text}");
            assert!(text.contains("sys_exit: NR 39 = -14"), "{text}");
        }
    }
}

/// perf takes the vDSO for its own, unless told otherwise.
#[test]
fn the_hosts_vdso_names_nothing() {
    let dir = directory("export-perf-vdso");
    let mut case = cases::all(Arch::X86_64, &dir).remove(0);
    let Some(Record::Sample(mut s)) = case.records.pop() else { panic!("no sample") };
    s.callchain = (0x7fff_f7ff_0000..0x7fff_f7ff_2000).step_by(0x80).collect();
    case.records.push(Record::Sample(s));
    let path = dir.join("vdso.data");
    std::fs::write(&path, file(&case)).unwrap();
    let Some(text) = perf(&["script", "-i", path.to_str().unwrap()], None, &dir) else { return };
    let names: Vec<&str> = text.lines().filter(|l| l.ends_with("([vdso])")).collect();
    assert_eq!(names.len(), 64);
    assert!(names.iter().all(|l| l.ends_with(" [unknown] ([vdso])")), "{text}");
}

/// With marks between rounds perf delivers samples before the end of the file:
/// none may be lost, repeated or late.
#[test]
fn rounds_are_delivered_in_order() {
    let dir = directory("export-perf-rounds");
    let mut case = cases::all(Arch::X86_64, &dir).remove(0);
    let Some(Record::Sample(last)) = case.records.last().cloned() else { panic!("no sample") };
    let samples = 20_000;
    case.records.extend((1..=samples).map(|n| {
        Record::Sample(Sample {
            time: last.time + n / 2 * 1000,
            cpu: (n % 2) as u32,
            ..last.clone()
        })
    }));
    let (data, pipe) = (dir.join("rounds.data"), dir.join("rounds.pipe"));
    std::fs::write(&data, file(&case)).unwrap();
    std::fs::write(&pipe, stream(&case)).unwrap();
    for (input, stdin) in [(data.to_str().unwrap(), None), ("-", Some(&*pipe))] {
        let args = ["script", "-G", "-F", "time", "-i", input];
        let Some(text) = perf(&args, stdin, &dir) else { return };
        let times: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(times.len(), samples as usize + 2);
        assert!(times.is_sorted());
    }
}
