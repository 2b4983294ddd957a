//! Scenario files: TOML, read with the line and column of whatever is wrong.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use arch::Arch;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::deferred;
use crate::kernel::Point;
use crate::kernel::scripted::Act;
use crate::kernel::state::Config;
use crate::kernel::unwind::{Clock, Design};
use crate::scenario::code::{self, Code, FunctionId, Op};
use crate::scenario::inject::{Action, Injection, Who};
use crate::scenario::judge::Finding;
use crate::scenario::machine::{SessionPlan, Setup, TaskPlan, TracerPlan};
use crate::scenario::place::{At, Place, TaskIndex};
use crate::scenario::play::Played;
use crate::spelling;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct FileError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// In words.
    pub what: String,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// In a few words.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// The designs that it is for.
    pub designs: Vec<Rc<dyn Design>>,
    /// The machine, of the first of them.
    pub setup: Setup,
    /// What happens where.
    pub injections: Vec<Injection>,
    /// What is to come of it, by design.
    pub expect: BTreeMap<String, Expect>,
    file: File,
}

impl Scenario {
    /// A file of the same machine and tasks under one design, in which this happens and nothing
    /// else, and is expected to come to what they came to.
    ///
    /// # Errors
    ///
    /// If the text of it cannot be made.
    pub fn with(
        &self,
        about: &str,
        design: &str,
        injections: &[Injection],
        played: &Played,
    ) -> Result<String, toml::ser::Error> {
        let names = |of: &TracerPlan| of.name.clone();
        let tracers: Vec<String> = self.setup.tracers.iter().map(names).collect();
        let expect = Expect {
            found: played.findings.iter().map(Finding::to_string).collect(),
            calls: tracers.iter().cloned().zip(played.calls.iter().copied()).collect(),
            stuck: played.stuck,
            state: Some(played.state()),
        };
        let inject = injections.iter().map(|injection| FileInjection {
            task: unplaced(self.setup.tasks[injection.at.task.0].name.clone()),
            before: unplaced(injection.at.place.name().to_owned()),
            nth: Some(unplaced(injection.at.nth)),
            action: unplaced(match injection.action {
                Action::Interrupt(Who::Perf) => "nmi".to_owned(),
                Action::Interrupt(Who::Tracer(at)) => format!("nmi by {}", tracers[at]),
                Action::Switch(cpu) => format!("cpu {cpu}"),
                Action::Pass(time) => format!("clock {time}"),
                Action::FailPages(count) => format!("fail {count}"),
            }),
        });
        let file = File {
            about: about.to_owned(),
            designs: vec![unplaced(design.to_owned())],
            inject: inject.collect(),
            expect: BTreeMap::from([(unplaced(design.to_owned()), expect)]),
            ..self.file.clone()
        };
        toml::to_string_pretty(&file)
    }
}

/// What is in no file yet.
fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// What is to come of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Laws that are broken and hazards that happen: exactly these.
    #[serde(default)]
    pub found: Vec<String>,
    /// Callbacks, by tracer; of those that are not named any number.
    #[serde(default)]
    pub calls: BTreeMap<String, u64>,
    /// Tasks wait for ever.
    #[serde(default)]
    pub stuck: bool,
    /// The hash of the state at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    title: String,
    #[serde(default)]
    about: String,
    designs: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<Spanned<u32>>,
    #[serde(default)]
    session: FileSession,
    #[serde(default)]
    fail_allocations: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock: Option<FileClock>,
    #[serde(default)]
    tracers: BTreeMap<String, FileTracer>,
    functions: BTreeMap<String, Vec<Spanned<String>>>,
    tasks: BTreeMap<String, FileTask>,
    #[serde(default)]
    inject: Vec<FileInjection>,
    #[serde(default)]
    expect: BTreeMap<Spanned<String>, Expect>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FileClock {
    granularity: u64,
    #[serde(default)]
    start: u64,
    #[serde(default)]
    skew: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum FileSession {
    /// The event is on the tasks.
    #[default]
    Tasks,
    /// On the CPUs.
    Cpus,
    /// On the tasks, and its user stacks are walked at once.
    Immediate,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FileTracer {
    Registered,
    Absent,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FileTask {
    cpu: Spanned<u32>,
    main: Spanned<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FileInjection {
    task: Spanned<String>,
    before: Spanned<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nth: Option<Spanned<u32>>,
    #[serde(rename = "do")]
    action: Spanned<String>,
}

/// Most CPUs of a scenario.
const MOST_CPUS: u32 = 8;
/// `exit` on x86_64.
const EXIT: u64 = 60;
/// Largest number in a script: what a second holds in nanoseconds, or in instructions.
const LARGEST: u64 = 1_000_000_000;
/// Most bytes of a file.
pub const MOST_BYTES: usize = 1 << 20;
/// Most tasks, and most tracers.
const MOST: usize = 80;

/// Reads a scenario.
///
/// # Errors
///
/// [`FileError`]: the first thing that is wrong.
pub fn read(text: &str) -> Result<Scenario, FileError> {
    let reader = Reader { text };
    if text.len() > MOST_BYTES {
        return Err(reader.error(0..0, format!("more than {MOST_BYTES} bytes")));
    }
    let file: File = toml::from_str(text).map_err(|e| {
        let what = e.message().lines().collect::<Vec<_>>().join("; ");
        reader.error(e.span().unwrap_or(0..0), what)
    })?;
    reader.scenario(file)
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, what: String) -> FileError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        FileError { line, column, what }
    }

    fn scenario(&self, file: File) -> Result<Scenario, FileError> {
        let designs = file.designs.iter().map(|d| self.design(d)).collect::<Result<Vec<_>, _>>()?;
        let Some(design) = designs.first().cloned() else {
            return Err(self.error(0..0, "`designs` names none".into()));
        };
        let tracers: Vec<&str> = file.tracers.keys().map(String::as_str).collect();
        if file.tasks.is_empty() || file.tasks.len() > MOST || tracers.len() > MOST {
            let what = format!("a scenario has 1 to {MOST} tasks and at most {MOST} tracers");
            return Err(self.error(0..0, what));
        }
        let functions: Vec<&str> = file.functions.keys().map(String::as_str).collect();
        let code = self.code(&file.functions, &functions, &tracers)?;
        let cpus = match &file.cpus {
            None => 1,
            Some(cpus) if (1..=MOST_CPUS).contains(cpus.get_ref()) => *cpus.get_ref(),
            Some(cpus) => {
                return Err(self.error(cpus.span(), format!("1 to {MOST_CPUS} CPUs")));
            }
        };
        let names: Vec<&str> = file.tasks.keys().map(String::as_str).collect();
        let mut tasks = Vec::new();
        for (name, task) in &file.tasks {
            tasks.push(self.task(name, task, cpus, &functions, tasks.is_empty())?);
        }
        let injections = file.inject.iter();
        let injections: Result<Vec<_>, _> =
            injections.map(|i| self.injection(i, &names, &tracers, cpus)).collect();
        let mut expect = BTreeMap::new();
        for (name, wanted) in &file.expect {
            expect.insert(self.design(name)?.name().to_owned(), wanted.clone());
        }
        let tracers = file.tracers.iter().map(|(name, state)| TracerPlan {
            name: name.clone(),
            registered: *state == FileTracer::Registered,
        });
        let clock = file.clock.map_or_else(Clock::default, |c| Clock {
            granularity: c.granularity.max(1),
            start: c.start,
            skew: c.skew,
        });
        let setup = Setup {
            arch: Arch::X86_64,
            cpus,
            design,
            clock,
            code: Rc::new(code),
            tasks,
            tracers: tracers.collect(),
            session: SessionPlan {
                wide: matches!(file.session, FileSession::Cpus),
                defer: !matches!(file.session, FileSession::Immediate),
            },
            failing_pages: file.fail_allocations,
            config: Config::default(),
        };
        let (title, about, injections) = (file.title.clone(), file.about.clone(), injections?);
        Ok(Scenario { title, about, designs, setup, injections, expect, file })
    }

    fn design(&self, name: &Spanned<String>) -> Result<Rc<dyn Design>, FileError> {
        deferred::by_name(name.get_ref()).ok_or_else(|| {
            let all = deferred::all().map(|d| d.name());
            self.unknown("design", name.span(), name.get_ref(), &all)
        })
    }

    /// `no WHAT is called NAME`, with the nearest of those that there are.
    fn unknown(&self, what: &str, span: Range<usize>, name: &str, all: &[&str]) -> FileError {
        let near = spelling::nearest(name, all, |distance, _| distance < usize::MAX);
        let hint = match near.is_empty() {
            true => "none is like it".to_owned(),
            false => {
                format!("nearest: {}", near.into_iter().copied().collect::<Vec<_>>().join(", "))
            }
        };
        self.error(span, format!("no {what} is called {name:?}; {hint}"))
    }

    fn place(
        &self,
        what: &str,
        name: &str,
        span: Range<usize>,
        all: &[&str],
    ) -> Result<usize, FileError> {
        let at = all.iter().position(|known| *known == name);
        at.ok_or_else(|| self.unknown(what, span, name, all))
    }

    /// A number of instructions, nanoseconds, allocations, or a CPU's.
    fn number(&self, word: &str, span: Range<usize>) -> Result<u64, FileError> {
        let number = word.parse().ok().filter(|&n| n <= LARGEST);
        number.ok_or_else(|| self.error(span, format!("{word:?} is no number from 0 to {LARGEST}")))
    }

    fn code(
        &self,
        functions: &BTreeMap<String, Vec<Spanned<String>>>,
        names: &[&str],
        tracers: &[&str],
    ) -> Result<Code, FileError> {
        let mut code = Code::default();
        for (name, lines) in functions {
            if names.len() > code::MOST || lines.len() > code::MOST {
                let span = lines.first().map_or(0..0, Spanned::span);
                let what = format!("at most {} functions of as many lines", code::MOST);
                return Err(self.error(span, what));
            }
            let mut ops = Vec::new();
            for line in lines {
                ops.push(self.op(line, names, tracers, &mut code)?);
            }
            code.add(name, ops);
        }
        Ok(code)
    }

    fn op(
        &self,
        line: &Spanned<String>,
        functions: &[&str],
        tracers: &[&str],
        code: &mut Code,
    ) -> Result<Op, FileError> {
        let (span, text) = (line.span(), line.get_ref().trim());
        if let Some(acts) = text.strip_prefix("kernel:") {
            let acts = acts.split(',').map(|act| self.act(act.trim(), span.clone(), tracers));
            return Ok(code.scripted(acts.collect::<Result<_, _>>()?));
        }
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["run", count] => Ok(Op::Run(self.number(count, span)?)),
            ["call", name] => {
                let at = self.place("function", name, span, functions)?;
                Ok(Op::Call(FunctionId(at as u16)))
            }
            ["exit"] => Ok(Op::Syscall { nr: EXIT, args: [0; 3] }),
            _ => {
                let what = format!(
                    "{text:?} is nothing that a function does: `run N`, `call FUNCTION`, `exit` or \
                     `kernel: ACT, ACT…`"
                );
                Err(self.error(span, what))
            }
        }
    }

    fn act(&self, text: &str, span: Range<usize>, tracers: &[&str]) -> Result<Act, FileError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let tracer = |name: &str| self.place("tracer", name, span.clone(), tracers);
        Ok(match words[..] {
            ["ask", name] => Act::Ask(tracer(name)?),
            ["ask", name, "anyway"] => Act::AskAnyway(tracer(name)?),
            ["register", name] => Act::Register(tracer(name)?),
            ["cancel", name] => Act::Cancel(tracer(name)?),
            ["cancel", name, "anyway"] => Act::CancelAnyway(tracer(name)?),
            ["task", "work"] => Act::TaskWork,
            ["work"] => Act::Work,
            _ => {
                let what = format!(
                    "{text:?} is nothing that the kernel does here: `ask X [anyway]`, `register \
                     X`, `cancel X [anyway]`, `task work`, `work`"
                );
                return Err(self.error(span, what));
            }
        })
    }

    fn task(
        &self,
        name: &str,
        task: &FileTask,
        cpus: u32,
        functions: &[&str],
        first: bool,
    ) -> Result<TaskPlan, FileError> {
        let cpu = *task.cpu.get_ref();
        if cpu >= cpus || first && cpu != 0 {
            let what = match first && cpu < cpus {
                true => "the first task, by name, begins on CPU 0".to_owned(),
                false => format!("there are CPUs 0 to {}", cpus - 1),
            };
            return Err(self.error(task.cpu.span(), what));
        }
        let main = self.place("function", task.main.get_ref(), task.main.span(), functions)?;
        Ok(TaskPlan { name: name.to_owned(), cpu, main: FunctionId(main as u16) })
    }

    fn injection(
        &self,
        injection: &FileInjection,
        tasks: &[&str],
        tracers: &[&str],
        cpus: u32,
    ) -> Result<Injection, FileError> {
        let (name, span) = (injection.task.get_ref(), injection.task.span());
        let task = TaskIndex(self.place("task", name, span, tasks)?);
        let (name, span) = (injection.before.get_ref().as_str(), injection.before.span());
        let place = match Point::ALL.iter().find(|point| point.name() == name) {
            Some(point) => Place::Step(*point),
            None if name == "user" => Place::User,
            None => {
                let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
                names.push("user");
                return Err(self.unknown("step point", span, name, &names));
            }
        };
        let nth = match &injection.nth {
            None => 1,
            Some(nth) if *nth.get_ref() > 0 => *nth.get_ref(),
            Some(nth) => return Err(self.error(nth.span(), "counted from 1".into())),
        };
        let action = self.action(&injection.action, tracers, cpus)?;
        Ok(Injection { at: At { task, place, nth }, action })
    }

    fn action(
        &self,
        action: &Spanned<String>,
        tracers: &[&str],
        cpus: u32,
    ) -> Result<Action, FileError> {
        let (text, span) = (action.get_ref().trim(), action.span());
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["nmi"] => Ok(Action::Interrupt(Who::Perf)),
            ["nmi", "by", name] => {
                let tracer = self.place("tracer", name, span, tracers)?;
                Ok(Action::Interrupt(Who::Tracer(tracer)))
            }
            ["cpu", number] => match self.number(number, span.clone())? {
                cpu if cpu < u64::from(cpus) => Ok(Action::Switch(cpu as u32)),
                _ => Err(self.error(span, format!("there are CPUs 0 to {}", cpus - 1))),
            },
            ["clock", time] => Ok(Action::Pass(self.number(time, span)?)),
            ["fail", count] => Ok(Action::FailPages(self.number(count, span)?)),
            _ => {
                let what = format!(
                    "{text:?} is no action: `nmi [by TRACER]`, `cpu N`, `clock NANOSECONDS`, `fail \
                     ALLOCATIONS`"
                );
                Err(self.error(span, what))
            }
        }
    }
}
