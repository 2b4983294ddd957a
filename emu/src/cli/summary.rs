//! What a run was like, in a table for people.

use std::fmt::Write as _;
use std::path::Path;

use arch::Arch;
use arch::signal::Signal;

use crate::cli::output::{Style, quoted};
use crate::cli::place::{Names, base_name};
use crate::cli::tally::{Row, Tally, UserParts};
use crate::export::Images;
use crate::kernel::State;
use crate::kernel::state::Stats;
use crate::kernel::task::Ending;
use crate::numbers::grouped;
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
    /// How it ended, in words.
    pub ending: String,
    /// Counts.
    pub stats: Stats,
    /// Virtual time.
    pub time: Time,
    /// One for each event.
    pub events: Vec<EventLine>,
    /// The kernel has a deferred unwinder.
    pub can_defer: bool,
    /// Where the profile is, if one was wanted.
    pub profile: Option<Profile>,
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
    /// Nanoseconds for which it was open, and for which it had a counter.
    pub times: (Time, Time),
}

/// The profile that was written.
#[derive(Clone, Debug)]
pub struct Profile {
    /// File name or `standard output`.
    pub name: String,
    /// Size of the file in bytes, if it is one.
    pub size: Option<u64>,
    /// It was written to its end.
    pub whole: bool,
    /// The command that opens it.
    pub open: Option<String>,
}

impl Summary {
    /// Collects what `state` knows.
    pub fn new(state: &State, name: &str, ending: String, profile: Option<Profile>) -> Summary {
        let events = state.perf.main.session.events.iter().zip(&state.perf.main.totals);
        let events =
            events.zip(&state.perf.main.times).map(|((event, counter), times)| EventLine {
                name: event.name.clone(),
                rate: event.rate,
                samples: counter.samples,
                counted: counter.total,
                times: (times.enabled, times.running),
            });
        Summary {
            name: name.to_owned(),
            arch: state.arch,
            ending,
            stats: state.stats,
            time: state.cpus().map(|cpu| cpu.clock).max().unwrap_or_default(),
            events: events.collect(),
            can_defer: state.unwind.available(state.arch),
            profile,
        }
    }

    /// The summary as text.
    pub fn render(&self, tally: &mut Tally, style: Style) -> String {
        let mut text = String::new();
        let title = format!("{} ({}) {}", self.name, self.arch, self.ending);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", style.bold(&title));
        text.push('\n');
        self.push_counts(&mut text);
        text.push('\n');
        self.push_events(&mut text, style);
        self.push_refusals(&mut text, tally.user_parts());
        let most = if self.events.len() > 1 { TOP / 2 } else { TOP };
        for index in 0..self.events.len() {
            self.push_functions(&mut text, tally, index, most, style);
        }
        if let Some(profile) = &self.profile {
            text.push('\n');
            self.push_profile(profile, &mut text, style);
        }
        text
    }

    fn push_counts(&self, text: &mut String) {
        let s = &self.stats;
        let mut rows = vec![
            ("instructions", grouped(s.instructions)),
            ("virtual time", duration(self.time)),
            ("system calls", grouped(s.syscalls)),
            ("page faults", grouped(s.page_faults)),
            ("signals handled", grouped(s.signals)),
        ];
        if s.paged_out > 0 {
            rows.push(("pages put out", grouped(s.paged_out)));
        }
        let width = rows.iter().map(|(_, v)| v.len()).max().unwrap_or(0);
        for (name, value) in rows {
            let _ = writeln!(text, "  {name:15}  {value:>width$}");
        }
    }

    fn push_events(&self, text: &mut String, style: Style) {
        let cells: Vec<[String; 4]> = self
            .events
            .iter()
            .map(|e| [e.name.clone(), rate_words(e.rate), grouped(e.samples), grouped(e.counted)])
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
        for event in self.events.iter().filter(|e| e.times.1 < e.times.0) {
            let (enabled, running) = event.times;
            let share = running as f64 * 100.0 / enabled as f64;
            let (enabled, running) = (duration(enabled), duration(running));
            let name = &event.name;
            let _ =
                writeln!(text, "  {name} counted {share:.1} % of its time: {running} of {enabled}");
        }
    }

    /// User callchains that were to be deferred and were not.
    fn push_refusals(&self, text: &mut String, user: UserParts) {
        let UserParts { deferred, at_once } = user;
        if at_once == 0 {
            return;
        }
        let of = grouped(deferred + at_once);
        let why = match self.can_defer {
            true => "the design refused (cookie always does in an NMI; see --pmu-irq)".to_owned(),
            false => format!(
                "Linux 7.3 has no deferred unwinder on {}; see sframe,defer",
                self.arch.name()
            ),
        };
        let at_once = grouped(at_once);
        let _ = writeln!(text, "  {at_once} of {of} user callchains taken at once: {why}");
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
        let title = format!("function{of}");
        let names = rows.iter().map(|r| name_of(r).chars().count());
        let name_width = names.chain([title.len()]).max().unwrap_or(0);
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
            let _ = writeln!(
                text,
                "{}",
                style.dim(&format!("                   … {more} more function{s}"))
            );
        }
    }

    fn push_profile(&self, profile: &Profile, text: &mut String, style: Style) {
        let samples: u64 = self.events.iter().map(|e| e.samples).sum();
        let s = if samples == 1 { "" } else { "s" };
        let size = profile.size.map(|n| format!(", {}", bytes(n))).unwrap_or_default();
        let name = style.bold(&profile.name);
        if !profile.whole {
            let _ = writeln!(text, "The profile in {name} is not complete.");
            return;
        }
        let _ = writeln!(text, "Profile in {name} ({} sample{s}{size}).", grouped(samples));
        match &profile.open {
            _ if samples == 0 => {
                let _ = writeln!(text, "No sample: no event was counted up to its period (-c).");
            }
            Some(open) => {
                let _ = writeln!(text, "Open it: {open}");
            }
            None => {}
        }
    }
}

/// One line for each thing that we could not do, with how often and where first.
pub fn unsupported(state: &State, images: &mut Images) -> Vec<String> {
    let names = Names::new(state, images);
    let line = |(what, (times, pc)): (&String, &(u64, u64))| {
        let place = names.place(LookupAddress::Return(*pc)).short(Style::PLAIN);
        let times =
            if *times == 1 { "once".to_owned() } else { format!("{} times", grouped(*times)) };
        format!("unsupported: {what}, {times}, first at {place}")
    };
    state.unsupported.iter().map(line).collect()
}

/// How a guest ended.
pub fn ending_words(ending: Ending) -> String {
    match ending {
        Ending::Exited(status) => format!("exited with status {status}"),
        Ending::Signalled(number) => match Signal::new(number.into()) {
            Some(signal) => format!("was killed by {signal}"),
            None => format!("was killed by signal {number}"),
        },
        Ending::Limit => "was stopped by --max-instructions".to_owned(),
        Ending::Interrupted => "was interrupted".to_owned(),
        Ending::Strict => "was stopped by --strict".to_owned(),
        Ending::Livelock => {
            "was stopped: its kernel does not get back to user mode any more".to_owned()
        }
        Ending::Deadlock => {
            "was stopped: all its threads wait for something that cannot come".to_owned()
        }
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

/// Nanoseconds in a unit that suits them.
pub fn duration(ns: Time) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// A length in a unit that suits it.
pub fn bytes(n: u64) -> String {
    match n {
        0..1_024 => format!("{n} bytes"),
        1_024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// The `perf` command that opens the profile `file`, which names the kernel's functions
/// itself. The guest's files are below `root`.
pub fn perf_command(file: &Path, root: Option<&Path>) -> String {
    let file = quoted(&file.to_string_lossy());
    let symfs = root.map(|r| format!(" --symfs {}", quoted(&r.to_string_lossy())));
    format!("perf report -i {file}{}", symfs.unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::{EventKind, Record};
    use crate::perf::testing::{event, sample, session, start};

    fn summary(events: &[&str]) -> (Summary, Tally) {
        let list = events.iter().map(|n| event(EventKind::Cycles, n)).collect();
        let mut tally = Tally::new(&session(Arch::X86_64, list), Images::new(|_| None));
        start("/bin/guest").iter().for_each(|r| tally.record(r));
        for i in 0..events.len() {
            tally.record(&Record::Sample(sample(i, 3)));
        }
        let line = |name: &&str| EventLine {
            name: (*name).to_owned(),
            rate: Rate::Period(1000),
            samples: 1,
            counted: 1999,
            times: (4000, 3000),
        };
        let summary = Summary {
            name: "guest".to_owned(),
            arch: Arch::X86_64,
            ending: ending_words(Ending::Signalled(11)),
            stats: Stats { instructions: 12_345, syscalls: 3, ..Stats::default() },
            time: 1_234_567,
            events: events.iter().map(line).collect(),
            can_defer: true,
            profile: Some(Profile {
                name: "p.data".to_owned(),
                size: Some(2048),
                whole: true,
                open: Some("perf report -i p.data".to_owned()),
            }),
        };
        (summary, tally)
    }

    #[test]
    fn everything_is_there() {
        let (summary, mut tally) = summary(&["cycles"]);
        let text = summary.render(&mut tally, Style::PLAIN);
        for line in [
            "guest (x86_64) was killed by SIGSEGV",
            "  instructions       12,345",
            "  virtual time     1.235 ms",
            "  event   rate         samples  counted",
            "  cycles  every 1,000        1    1,999",
            "  cycles counted 75.0 % of its time: 3.000 µs of 4.000 µs",
            "    self  samples      function   file",
            "  100.0%        1  [.] [unknown]  guest",
            "Profile in p.data (1 sample, 2.0 KiB).",
            "Open it: perf report -i p.data",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn what_was_not_deferred_is_told() {
        let (mut summary, _) = summary(&["cycles"]);
        let mut told = |deferred, at_once, can_defer| {
            let mut text = String::new();
            summary.can_defer = can_defer;
            summary.push_refusals(&mut text, UserParts { deferred, at_once });
            text
        };
        assert_eq!(told(9, 0, true), "");
        let refused = "  1,000 of 1,009 user callchains taken at once: the design refused";
        assert!(told(9, 1000, true).starts_with(refused));
        assert!(told(0, 2, false).contains("Linux 7.3 has no deferred unwinder on x86_64"));
    }

    #[test]
    fn a_profile_that_failed_is_not_offered() {
        let (mut summary, mut tally) = summary(&["cycles"]);
        summary.profile.as_mut().unwrap().whole = false;
        let text = summary.render(&mut tally, Style::PLAIN);
        assert!(text.ends_with("The profile in p.data is not complete.\n"), "{text}");
    }

    #[test]
    fn several_events_have_a_table_each() {
        let (summary, mut tally) = summary(&["cycles", "branches:u"]);
        let text = summary.render(&mut tally, Style::PLAIN);
        assert!(text.contains("function of cycles") && text.contains("function of branches:u"));
    }

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([7, 1_500, 2_000_000_000].map(duration), ["7 ns", "1.500 µs", "2.000 s"]);
        assert_eq!([9, 2048, 3 << 20].map(bytes), ["9 bytes", "2.0 KiB", "3.0 MiB"]);
    }

    #[test]
    fn the_command_is_one_that_a_shell_takes() {
        assert_eq!(perf_command(Path::new("a b.data"), None), "perf report -i 'a b.data'");
    }

    #[test]
    fn long_names_are_cut() {
        let row = |name: String| Row {
            percent: 0.0,
            samples: 0,
            kernel: false,
            name: Some(name.into()),
            dso: None,
        };
        assert_eq!(name_of(&row("ä".repeat(MAX_NAME))).chars().count(), MAX_NAME);
        let long = name_of(&row("ä".repeat(MAX_NAME + 1)));
        assert!(long.chars().count() == MAX_NAME && long.ends_with('…'));
        assert_eq!(name_of(&row("a\nb".into())), "a?b");
    }
}
