//! What a run was like, in a table for people.

use std::fmt::Write as _;
use std::path::Path;

use arch::Arch;

use crate::cli::output::Style;
use crate::cli::place::{Names, base_name};
use crate::cli::tally::{Row, Tally};
use crate::export::Images;
use crate::kernel::State;
use crate::kernel::state::Stats;
use crate::kernel::task::Ending;
use crate::perf::record::{Rate, Time};
use crate::symbols::LookupAddress;

/// Functions shown for a single event; of several, each gets half as many.
const TOP: usize = 10;
/// Longest name of a function, in characters.
const MAX_NAME: usize = 60;

/// What the summary tells.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The guest, as typed.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
    /// How it ended; `None` if we failed.
    pub ending: Option<Ending>,
    /// Counts.
    pub stats: Stats,
    /// Virtual time.
    pub time: Time,
    /// One for each event.
    pub events: Vec<EventLine>,
    /// Where the profile is.
    pub profile: Profile,
}

/// One event of the summary.
#[derive(Clone, Debug)]
pub struct EventLine {
    /// As typed.
    pub name: String,
    /// `-c` or `-F`
    pub rate: Rate,
    /// Samples taken.
    pub samples: u64,
    /// Events counted.
    pub counted: u64,
}

/// The profile that was written.
#[derive(Clone, Debug)]
pub struct Profile {
    /// File name or `standard output`.
    pub name: String,
    /// Size of the file in bytes, if it is one.
    pub size: Option<u64>,
    /// The command that opens it.
    pub open: Option<String>,
}

impl Summary {
    /// Collects what `state` knows.
    pub fn new(state: &State, name: &str, ending: Option<Ending>, profile: Profile) -> Summary {
        let events = state.perf.events().map(|(event, counter)| EventLine {
            name: event.name.clone(),
            rate: event.rate,
            samples: counter.samples,
            counted: counter.total,
        });
        Summary {
            name: name.to_owned(),
            arch: state.arch,
            ending,
            stats: state.stats,
            time: state.cpu.clock,
            events: events.collect(),
            profile,
        }
    }

    /// The summary as text.
    pub fn render(&self, tally: &mut Tally, style: Style) -> String {
        let mut text = String::new();
        let ending = ending_words(self.ending);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", style.bold(&format!("{} ({}) {ending}", self.name, self.arch)));
        text.push('\n');
        self.push_counts(&mut text);
        text.push('\n');
        self.push_events(&mut text, style);
        let most = if self.events.len() > 1 { TOP / 2 } else { TOP };
        for index in 0..self.events.len() {
            self.push_functions(&mut text, tally, index, most, style);
        }
        text.push('\n');
        self.push_profile(&mut text, style);
        text
    }

    fn push_counts(&self, text: &mut String) {
        let s = &self.stats;
        let rows = [
            ("instructions", grouped(s.instructions)),
            ("virtual time", duration(self.time)),
            ("system calls", grouped(s.syscalls)),
            ("page faults", grouped(s.page_faults)),
            ("signals handled", grouped(s.signals)),
        ];
        let width = rows.iter().map(|(_, v)| v.len()).max().unwrap_or(0);
        for (name, value) in rows {
            let _ = writeln!(text, "  {name:15}  {value:>width$}");
        }
    }

    fn push_events(&self, text: &mut String, style: Style) {
        let cells: Vec<[String; 4]> = self
            .events
            .iter()
            .map(|e| {
                [e.name.clone(), rate_words(e.rate), grouped(e.samples), grouped(e.counted)]
            })
            .collect();
        let head = ["event", "rate", "samples", "counted"];
        let width =
            |i: usize| cells.iter().map(|c| c[i].len()).chain([head[i].len()]).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        let line = |c: [&str; 4]| {
            let [a, b, d, e] = widths;
            format!("  {:a$}  {:b$}  {:>d$}  {:>e$}", c[0], c[1], c[2], c[3])
        };
        let _ = writeln!(text, "{}", style.dim(&line(head)));
        for c in &cells {
            let _ = writeln!(text, "{}", line([&c[0], &c[1], &c[2], &c[3]]));
        }
    }

    fn push_functions(
        &self,
        text: &mut String,
        tally: &mut Tally,
        index: usize,
        most: usize,
        style: Style,
    ) {
        let (rows, all) = tally.top(index, most);
        if rows.is_empty() {
            return;
        }
        text.push('\n');
        let of = match (self.events.len(), self.events.get(index)) {
            (2.., Some(event)) => format!(" of {}", event.name),
            _ => String::new(),
        };
        let name_width =
            rows.iter().map(|r| name_of(r).chars().count()).max().unwrap_or(0).max(8);
        let title = format!("function{of}");
        let head = format!("    self  samples      {title:name_width$}  file");
        let _ = writeln!(text, "{}", style.dim(&head));
        for row in &rows {
            let mode = if row.kernel { "[k]" } else { "[.]" };
            let name = name_of(row);
            let pad = " ".repeat(name_width.saturating_sub(name.chars().count()));
            let file = row.dso.as_deref().map(base_name).unwrap_or_default();
            let file = if row.kernel { "kernel".to_owned() } else { file };
            let line = format!(
                "  {:5.1}%  {:>7}  {} {}{pad}  {file}",
                row.percent,
                grouped(row.samples),
                style.dim(mode),
                style.cyan(&name),
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if all > rows.len() {
            let more = all - rows.len();
            let s = if more == 1 { "" } else { "s" };
            let _ = writeln!(text, "{}", style.dim(&format!("                   … {more} more function{s}")));
        }
    }

    fn push_profile(&self, text: &mut String, style: Style) {
        let samples: u64 = self.events.iter().map(|e| e.samples).sum();
        let s = if samples == 1 { "" } else { "s" };
        let size = self.profile.size.map(|n| format!(", {}", bytes(n))).unwrap_or_default();
        let name = style.bold(&self.profile.name);
        let _ = writeln!(text, "Profile in {name} ({} sample{s}{size}).", grouped(samples));
        if let Some(open) = &self.profile.open {
            let _ = writeln!(text, "Open it: {open}");
        }
    }
}

/// One line for each thing that we could not do, with how often and where first.
pub fn unsupported(state: &State, images: &mut Images) -> Vec<String> {
    let names = Names::new(state, images);
    let line = |(what, (times, pc)): (&String, &(u64, u64))| {
        let place = names.place(LookupAddress::Return(*pc)).short(Style::PLAIN);
        let times = if *times == 1 { "once".to_owned() } else { format!("{} times", grouped(*times)) };
        format!("unsupported: {what}, {times}, first at {place}")
    };
    state.unsupported.iter().map(line).collect()
}

/// How a run ended.
fn ending_words(ending: Option<Ending>) -> String {
    match ending {
        Some(Ending::Exited(status)) => format!("exited with status {status}"),
        Some(Ending::Signalled(number)) => match arch::signal::Signal::new(number.into()) {
            Some(signal) => format!("was killed by {signal}"),
            None => format!("was killed by signal {number}"),
        },
        Some(Ending::Limit) => "was stopped by --max-instructions".to_owned(),
        Some(Ending::Interrupted) => "was interrupted".to_owned(),
        Some(Ending::Strict) => "was stopped by --strict".to_owned(),
        None => "did not finish: emu failed".to_owned(),
    }
}

fn rate_words(rate: Rate) -> String {
    match rate {
        Rate::Period(1) => "every one".to_owned(),
        Rate::Period(n) => format!("every {}", grouped(n)),
        Rate::Frequency(f) => format!("{} Hz", grouped(f)),
    }
}

fn name_of(row: &Row) -> String {
    let name = row.name.as_deref().unwrap_or("[unknown]");
    let mut short: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if let Some((cut, _)) = short.char_indices().nth(MAX_NAME - 1) {
        // Exactly as long as allowed is not too long.
        if short.chars().count() > MAX_NAME {
            short.truncate(cut);
            short.push('…');
        }
    }
    short
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Nanoseconds in a unit that suits them.
fn duration(ns: Time) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

fn bytes(n: u64) -> String {
    match n {
        0..1_024 => format!("{n} bytes"),
        1_024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// The `perf` command that opens the profile `file`, with the kernel's symbols `kallsyms`
/// beside it and guest files below `root`.
pub fn perf_command(file: &Path, kallsyms: &Path, root: Option<&Path>) -> String {
    let mut command = format!("perf report -i {} --kallsyms {}", quoted(file), quoted(kallsyms));
    if let Some(root) = root {
        command.push_str(&format!(" --symfs {}", quoted(root)));
    }
    command
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
