//! `emu merge`: deferred callchains of a profile, put together.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::options::is_stdout;
use crate::cli::output::{Failure, complain, status, to_stdout};
use crate::export::merge;
use crate::export::perf_read::PerfFile;
use crate::numbers::grouped;
use crate::perf::merge::{Orphan, Report};

/// `emu merge`
#[derive(Debug, Args)]
#[command(after_help = "\
A kernel with deferred unwinding (perf record --call-graph fp,defer) ends the callchain of a
sample with a cookie, and records the user stack when the task returns to user mode. perf 7
puts the two together when it reads a file, older ones cannot. Here samples and stacks are
matched by thread and cookie, also where the sample is the later one (perf leaves that one
without its user stack), and the file that is written can be read by any perf since 6.1.

Examples:
  emu merge perf.data -o merged.data
  perf report -i merged.data")]
pub struct MergeOptions {
    /// The profile, a perf.data file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where the merged profile goes
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Print a line for each sample without a stack and each stack without a sample
    #[arg(long)]
    pub orphans: bool,
}

/// Merges the profile that `options` name.
///
/// # Errors
///
/// [`Failure`] if it cannot be read or the merged one cannot be written.
pub fn run(options: &MergeOptions) -> Result<u8, Failure> {
    if is_stdout(options.output.as_os_str()) {
        let message = "-o: perf.data files are not written to standard output; name a file";
        return Err(Failure::new(status::FAILURE, message));
    }
    let bytes = read(&options.file)?;
    let fail = |path: &Path, e: &dyn std::fmt::Display| {
        Failure::new(status::FAILURE, format!("{}: {e}", path.display()))
    };
    let file = PerfFile::read(&bytes).map_err(|e| fail(&options.file, &e))?;
    let merged = merge::merge(&file).map_err(|e| fail(&options.file, &e))?;
    fs::write(&options.output, &merged.bytes)
        .map_err(|e| fail(&options.output, &format!("cannot write it: {e}")))?;
    complain(&summary(&merged.report));
    if options.orphans {
        to_stdout(&orphans(&merged.report))?;
    }
    Ok(0)
}

/// The bytes of a plain file: anything else may have no end.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let name = path.display();
    let cannot = |e: &dyn std::fmt::Display| {
        Failure::new(status::FAILURE, format!("{name}: cannot read it: {e}"))
    };
    if !fs::metadata(path).map_err(|e| cannot(&e))?.is_file() {
        return Err(cannot(&"it is no file; keep the profile in one and name that"));
    }
    fs::read(path).map_err(|e| cannot(&e))
}

/// One line: `42 samples: 41 merged (3 of them later than their stack), 1 without a stack; …`.
pub fn summary(report: &Report) -> String {
    let n = |count: u64, one: &str, more: &str| {
        format!("{} {}", grouped(count), if count == 1 { one } else { more })
    };
    let mut line = n(report.samples, "sample", "samples");
    let _ = write!(line, ": {} merged", grouped(report.merged));
    if report.late > 0 {
        let _ = write!(line, " ({} late)", grouped(report.late));
    }
    if report.cut > 0 {
        let _ = write!(line, ", {} without a cookie", grouped(report.cut));
    }
    let _ = write!(
        line,
        ", {} without a stack; {}: {} without a sample",
        grouped(report.samples_alone.len() as u64),
        n(report.stacks, "stack", "stacks"),
        grouped(report.stacks_alone.len() as u64),
    );
    if report.repeated > 0 {
        let _ = write!(line, ", {} repeated", grouped(report.repeated));
    }
    line
}

/// A line for each orphan: thread, cookie as perf prints it, seconds.
fn orphans(report: &Report) -> String {
    let mut text = String::new();
    let sides = [("sample", &report.samples_alone), ("stack", &report.stacks_alone)];
    for (what, orphans) in sides {
        for Orphan { tid, cookie, time } in orphans {
            let tid = tid.map_or("?".to_owned(), |tid| tid.to_string());
            let time = time.map_or("?".to_owned(), |time| {
                format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
            });
            let _ = writeln!(text, "{what:<6}  tid {tid:>7}  cookie {cookie:>16x}  time {time}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_and_a_line_for_each_orphan() {
        let orphan = |tid, time| Orphan { tid, cookie: 0x2a5_0000_0001, time };
        let mut report = Report {
            samples: 1042,
            merged: 1,
            stacks: 2,
            samples_alone: vec![orphan(Some(7), Some(2_000_000_030))],
            ..Report::default()
        };
        assert_eq!(
            summary(&report),
            "1,042 samples: 1 merged, 1 without a stack; 2 stacks: 0 without a sample"
        );
        report.late = 1;
        report.cut = 3;
        report.repeated = 1;
        report.stacks_alone = vec![orphan(None, None)];
        assert_eq!(
            summary(&report),
            "1,042 samples: 1 merged (1 late), 3 without a cookie, 1 without a stack; \
             2 stacks: 1 without a sample, 1 repeated"
        );
        assert_eq!(
            orphans(&report),
            "sample  tid       7  cookie      2a500000001  time 2.000000030\n\
             stack   tid       ?  cookie      2a500000001  time ?\n"
        );
    }
}
