//! Options of the deferred unwinder's surroundings, and what their words mean.

use std::fmt::Write as _;

use clap::Args;

use crate::cli::output::{Failure, status};
use crate::cli::summary::duration;
use crate::cli::values::number;
use crate::kernel::State;
use crate::kernel::page_out::PageOut;
use crate::kernel::tracer::{self, Asks, Phase, Plan, Tally};
use crate::kernel::unwind::Clock;
use crate::numbers::grouped;

/// What the deferred unwinder meets besides perf.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Deferred unwinding")]
pub struct DeferringOptions {
    /// What the kernel's local clock shows, by which the timestamp design names stacks (the
    /// other designs do not look at it): granularity=NS, one value for so long [default: 1];
    /// start=NS, the value at boot [default: 0]; skew=NS, so much more on each CPU than on
    /// the one before it [default: 0]. Separated by commas; suffixes k, M, G
    #[arg(long, value_name = "granularity=NS,...", value_parser = clock)]
    pub clock: Option<Clock>,
    /// Make user stacks, SFrame tables, or both absent from memory at each sample (at most
    /// once for each user instruction of a task): the walk at the sample ends there, the
    /// deferred one brings the pages in
    #[arg(long, value_name = "stack|tables|stack,tables", value_parser = page_out)]
    pub page_out: Option<PageOut>,
    /// Let the first N allocations of the page in which a task's user stack is cached fail, or all
    /// of them [default: 0]
    #[arg(long, value_name = "N|all", value_parser = failing)]
    pub fail_cache_page: Option<u64>,
    /// Let another tracer ask for deferred stacks too (may be repeated): ftrace, at system
    /// calls, or bpf, from a timer of each CPU. Settings follow after a colon, separated by
    /// commas: every=N, system calls or nanoseconds between two requests [default: 1, 1M];
    /// from=NS and until=NS, when it is registered and cancelled [default: at the start,
    /// never]; count=N, so many of them [default: 1]. At most 128
    #[arg(long = "tracer", value_name = "ftrace|bpf[:every=N,...]", value_parser = tracer)]
    pub tracers: Vec<Tracers>,
}

/// Tracers that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracers {
    /// What each is to be.
    pub plan: Plan,
    /// How many there are.
    pub count: usize,
}

impl DeferringOptions {
    /// Sets the machine up accordingly, once the design is chosen.
    ///
    /// # Errors
    ///
    /// [`Failure`] for more tracers than there can be.
    pub fn prepare(&self, state: &mut State) -> Result<(), Failure> {
        if let Some(clock) = self.clock {
            state.unwind.clock = clock;
        }
        state.unwind.failing_pages = self.fail_cache_page.unwrap_or_default();
        state.config.page_out = self.page_out.unwrap_or_default();
        if !self.tracers.is_empty() && !state.unwind.available(state.arch) {
            let message = "--tracer: the kernel of aarch64 has no deferred unwinder (Linux 7.3), so \
                           that a tracer cannot register; use --call-graph sframe or sframe,defer";
            return Err(Failure::new(status::FAILURE, message));
        }
        let plans = self.tracers.iter().flat_map(|t| std::iter::repeat_n(t.plan, t.count));
        for plan in plans {
            if state.tracers.len() == tracer::MOST || state.attach(plan).is_none() {
                let message = format!("--tracer: there can be {} of them at most", tracer::MOST);
                return Err(Failure::new(status::FAILURE, message));
            }
        }
        Ok(())
    }
}

/// `KEY=VALUE`, separated by commas: each goes to `take`, at most once.
fn settings(
    text: &str,
    keys: &str,
    mut take: impl FnMut(&str, &str) -> Option<Result<(), String>>,
) -> Result<(), String> {
    let mut seen = Vec::new();
    for word in text.split(',') {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is no setting; there are {keys}, each with =VALUE"))?;
        if seen.contains(&key) {
            return Err(format!("{key} is there twice"));
        }
        seen.push(key);
        let taken =
            take(key, value).ok_or_else(|| format!("there is no {key:?}; there are {keys}"))?;
        taken.map_err(|why| format!("{key}: {why}"))?;
    }
    Ok(())
}

/// The words of `--clock`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn clock(text: &str) -> Result<Clock, String> {
    let mut clock = Clock::default();
    settings(text, "granularity, start and skew", |key, value| {
        let field = match key {
            "granularity" => &mut clock.granularity,
            "start" => &mut clock.start,
            "skew" => &mut clock.skew,
            _ => return None,
        };
        Some(number(value).map(|n| *field = n))
    })?;
    match clock.granularity {
        0 => Err("granularity: use a number of nanoseconds from 1 on".to_owned()),
        _ => Ok(clock),
    }
}

/// The words of `--fail-cache-page`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn failing(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(u64::MAX),
        _ => number(text).map_err(|why| format!("{why}, or all")),
    }
}

/// The words of `--page-out`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn page_out(text: &str) -> Result<PageOut, String> {
    let mut absent = PageOut::default();
    for word in text.split(',') {
        match word {
            "stack" => absent.stack = true,
            "tables" => absent.tables = true,
            _ => return Err("use stack, tables or stack,tables".to_owned()),
        }
    }
    Ok(absent)
}

/// The words of `--tracer`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn tracer(text: &str) -> Result<Tracers, String> {
    let (kind, words) = text.split_once(':').unwrap_or((text, ""));
    let (asks, least): (fn(u64) -> Asks, u64) = match kind {
        "ftrace" => (Asks::SystemCalls, 1),
        "bpf" => (Asks::Timer, tracer::SHORTEST),
        _ => return Err(format!("there is no tracer {kind:?}; use ftrace or bpf")),
    };
    let mut every = if kind == "ftrace" { 1 } else { 1_000_000 };
    let (mut from, mut until, mut count) = (0, None, 1);
    if text.contains(':') {
        settings(words, "every, from, until and count", |key, value| {
            let number = number(value);
            Some(match key {
                "every" => number.map(|n| every = n),
                "from" => number.map(|n| from = n),
                "until" => number.map(|n| until = Some(n)),
                "count" => number.map(|n| count = n),
                _ => return None,
            })
        })?;
    }
    if every < least {
        return Err(format!("every: use a number from {least} on"));
    }
    if until.is_some_and(|until| until <= from) {
        return Err("until: use a time after that of from".to_owned());
    }
    match usize::try_from(count) {
        Ok(count @ 1..=tracer::MOST) => {
            Ok(Tracers { plan: Plan { asks: asks(every), from, until }, count })
        }
        _ => Err(format!("count: use a number from 1 to {}", tracer::MOST)),
    }
}

/// What tracers asked for and were given, and how long tasks waited for the designs' mutex; empty
/// without tracers.
pub fn summary(state: &State) -> String {
    if state.tracers.is_empty() {
        return String::new();
    }
    let head =
        ["tracer", "asked", "refused", "called", "empty", "addresses", "registered", "cancelled"];
    let mut rows = vec![head.map(str::to_owned)];
    for (index, tracer) in state.tracers.iter().enumerate() {
        let Tally { asked, refused, called, empty, addresses, .. } = tracer.tally;
        let registered = match (tracer.phase, tracer.tally.registered) {
            (Phase::Refused(errno), _) => format!("refused, {errno:?}"),
            (_, Some(at)) => duration(at),
            (_, None) => "not yet".to_owned(),
        };
        let cancelled = match tracer.tally.cancelled {
            Some((began, Some(over))) => {
                format!("{}, took {}", duration(began), duration(over - began))
            }
            Some((began, None)) => format!("{}, not over", duration(began)),
            None => "no".to_owned(),
        };
        let counts = [asked, refused, called, empty, addresses].map(grouped);
        let [asked, refused, called, empty, addresses] = counts;
        let name = format!("{}/{index}", tracer.plan.asks.name());
        rows.push([name, asked, refused, called, empty, addresses, registered, cancelled]);
    }
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cell = |at: usize| {
            let pad = " ".repeat(widths[at] - row[at].chars().count());
            match at {
                1..=5 => format!("{pad}{}", row[at]),
                _ => format!("{}{pad}", row[at]),
            }
        };
        let cells: Vec<String> = (0..row.len()).map(cell).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    let mutex = &state.unwind.mutex;
    if mutex.longest_queue > 0 {
        let (waited, queue) = (duration(mutex.waited), mutex.longest_queue);
        let _ = writeln!(
            text,
            "Tasks waited {waited} for the callbacks' mutex, {queue} at most at a time."
        );
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn tracers() {
        let plan = Plan { asks: Asks::SystemCalls(1), from: 0, until: None };
        assert_eq!(tracer("ftrace"), Ok(Tracers { plan, count: 1 }));
        let plan = Plan { asks: Asks::Timer(10_007), from: 5, until: Some(1_000_000) };
        let words = "bpf:every=10007,from=5,until=1M,count=3";
        assert_eq!(tracer(words), Ok(Tracers { plan, count: 3 }));
        for (text, told) in [
            ("perf", "there is no tracer \"perf\"; use ftrace or bpf"),
            ("bpf:", "is no setting"),
            ("bpf:every=10", "every: use a number from 2000 on"),
            ("ftrace:every=0", "from 1 on"),
            ("ftrace:from=9,until=9", "after that of from"),
            ("ftrace:count=0", "from 1 to 128"),
            ("ftrace:count=129", "from 1 to 128"),
            ("ftrace:at=9", "there is no \"at\""),
        ] {
            let error = tracer(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn pages() {
        assert_eq!(page_out("stack"), Ok(PageOut { stack: true, tables: false }));
        assert_eq!(page_out("tables,stack"), Ok(PageOut { stack: true, tables: true }));
        for text in ["", "heap", "stack,", "stack tables"] {
            assert!(page_out(text).unwrap_err().contains("use stack"), "{text}");
        }
    }

    #[test]
    fn clocks() {
        let coarse = Clock { granularity: 4_000_000, start: 7, skew: 0 };
        assert_eq!(clock("granularity=4M,start=7"), Ok(coarse));
        assert_eq!(clock("skew=5"), Ok(Clock { skew: 5, ..Clock::default() }));
        for (text, told) in [
            ("", "is no setting; there are granularity"),
            ("granularity", "is no setting"),
            ("granularity=0", "from 1 on"),
            ("granularity=-1", "granularity: use a whole number"),
            ("start=1,start=2", "start is there twice"),
            ("tick=4", "there is no \"tick\"; there are granularity, start and skew"),
            ("start=1,", "\"\" is no setting"),
        ] {
            let error = clock(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
