//! Broken laws: what is said about one, and the count of all.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::laws::hazard::{Happened, Hazard};
use crate::laws::law::{Law, Level};

/// What a monitor says when its law is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What was seen instead.
    pub seen: String,
    /// The hazard that explains it.
    pub explained: Option<Happened>,
}

impl Broken {
    /// A break that nothing explains.
    pub fn new(seen: impl Into<String>) -> Broken {
        Broken { seen: seen.into(), explained: None }
    }

    /// A break, and what explains it, if anything does.
    pub fn or(explained: Option<Happened>, seen: impl Into<String>) -> Broken {
        Broken { seen: seen.into(), explained }
    }
}

/// A break, and where it was found.
#[derive(Clone, Debug)]
pub struct Break {
    /// The law.
    pub law: Law,
    /// Its level in this design.
    pub level: Level,
    /// What was seen.
    pub broken: Broken,
    /// Event number in the timeline.
    pub event: u64,
    /// The step, or what else it was.
    pub at: &'static str,
    /// CPU.
    pub cpu: u32,
    /// Thread id.
    pub tid: u32,
}

impl Break {
    /// The hazard that makes it one that is known.
    pub const fn hazard(&self) -> Option<Hazard> {
        match (self.level, self.broken.explained) {
            (Level::Except, Some(happened)) => Some(happened.hazard),
            _ => None,
        }
    }

    /// Whether the run ends with it.
    pub const fn is_fatal(&self) -> bool {
        self.hazard().is_none()
    }

    /// In one line.
    pub fn line(&self) -> String {
        let Law { number, words, .. } = self.law;
        let (event, at, tid) = (self.event, self.at, self.tid);
        let by = match self.hazard() {
            Some(hazard) => format!(", explained by {}", hazard.name()),
            None => String::new(),
        };
        format!("LAW-{number} is broken{by}, at event {event} ({at}, task {tid}): {words}")
    }

    /// All about it; `timeline`: the lines before it.
    pub fn render(&self, timeline: &[String]) -> String {
        let Law { number, words, .. } = self.law;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let by = match self.hazard() {
            Some(hazard) => format!("explained by {}", hazard.name()),
            None if self.level == Level::General => "which nothing may break".to_owned(),
            None => "and no known hazard explains it".to_owned(),
        };
        let level = self.level.letter();
        let _ = writeln!(text, "emu: LAW-{number} ({level}) is broken, {by}");
        let _ = writeln!(text, "  law     {words}");
        let _ = writeln!(text, "  seen    {}", self.broken.seen);
        let (event, at, cpu, tid) = (self.event, self.at, self.cpu, self.tid);
        let _ = writeln!(text, "  where   event {event}, {at}, CPU {cpu}, task {tid}");
        if let Some(h) = self.broken.explained.filter(|_| !self.is_fatal()) {
            let (name, words, event) = (h.hazard.name(), h.hazard.words(), h.event);
            let _ = writeln!(text, "  {name:6}  {words} (event {event})");
        }
        if !timeline.is_empty() {
            let _ = writeln!(text, "  the last of the timeline until then:");
        }
        for line in timeline {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

/// How often which law was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Laws that were watched.
    pub watched: usize,
    /// Fatal breaks by law.
    pub fatal: BTreeMap<u8, u64>,
    /// Explained breaks by law and hazard.
    pub explained: BTreeMap<(u8, Hazard), u64>,
}

impl Counts {
    /// Counts a break; whether it is the first of its kind.
    pub fn count(&mut self, found: &Break) -> bool {
        let number = found.law.number;
        let count = match found.hazard() {
            Some(hazard) => self.explained.entry((number, hazard)).or_default(),
            None => self.fatal.entry(number).or_default(),
        };
        *count += 1;
        *count == 1
    }

    /// `laws: 31 watched, 0 broken, 2 explained: LAW-11 by H1 once, LAW-37 by H2 3 times`
    pub fn summary(&self) -> String {
        let mut text = format!("laws: {} watched, {} broken", self.watched, self.fatal.len());
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let fatal = self.fatal.keys().map(|number| format!("LAW-{number}"));
        let explained = self.explained.iter().map(|((number, hazard), n)| {
            format!("LAW-{number} by {} {}", hazard.name(), times(*n))
        });
        let (fatal, explained): (Vec<_>, Vec<_>) = (fatal.collect(), explained.collect());
        if !fatal.is_empty() {
            let _ = write!(text, " ({})", fatal.join(", "));
        }
        let _ = write!(text, ", {} explained", explained.len());
        if !explained.is_empty() {
            let _ = write!(text, ": {}", explained.join(", "));
        }
        text
    }
}
