//! `emu explain`: one graded sample in words, and as a picture.

use std::fmt::Write as _;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arch::Arch;
use clap::Args;
use unwinder::{InstructionPointer, ReturnAddress};

use crate::cli::files;
use crate::cli::options::is_stdout;
use crate::cli::output::{Failure, Style, complain, one_line, status, to_stdout, truth_of};
use crate::cli::outputs::Outputs;
use crate::cli::world;
use crate::explain::why::{again, why};
use crate::explain::{
    Explained, Mark, Places, Replay, Row, Source, Stack, Unexplained, register_name, svg,
};
use crate::grade::file::{Answer, Found, Frame, FrameKind, Reader, Undecided, build_id};
use crate::grade::{Grader, ProgramPoint};
use crate::loader::vdso::Vdso;
use crate::numbers::grouped;
use crate::perf::record::FileId;
use crate::truth::Doubt;
use crate::truth::cut::MAX_LIVE_FRAMES;

/// `emu explain`
#[derive(Debug, Args)]
#[command(after_help = "\
What is printed: where the sample is, with the code around it; the true stack, with the
functions that made tail calls and have no frame any more; for each
method its frames, with the rule that it applied at each (in the words of `emu show`) and
where it found the next one; where it parts from the truth, and why; and the words of the
stack from the stack pointer up, with what they are. Frames have the numbers of the true
stack, #0 the innermost; a frame that does not exist is marked with ??. Of a sample whose true
stack is not known (N counts these, too) the place is printed, and why it is not. Of one that
was taken in the kernel the kernel's functions are told, and the system call instruction is
marked. docs/verdicts.md of the repository says what the verdicts mean.

Examples:
  emu run --truth golden-leaf        writes perf.data and perf.data.truth
  emu explain perf.data 3            the third sample of perf script
  emu explain perf.data 3 --method fp --svg slide.svg")]
pub struct ExplainOptions {
    /// The profile, beside which is FILE.truth, or the truth file itself
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Which sample, from 1, in the order of perf script
    #[arg(value_name = "N", value_parser = sample_number)]
    pub sample: u64,
    /// Write a picture of 1280 by 720 (- for standard output) instead of text
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Only this method: fp, dwarf, sframe or another one of the file (may be repeated)
    #[arg(long, value_name = "METHOD")]
    pub method: Vec<String>,
}

/// Frames of a list that are printed; of a longer one the first and the last ones.
const FRAMES: usize = 24;

/// Tail callers of a frame that are printed.
const TAIL_CALLERS: usize = 8;

/// Columns of a line; rules that are longer go on in the next one.
const COLUMNS: usize = 100;

/// Columns of a frame's name, if they are enough.
const NAME: usize = 38;

/// Instructions before and behind the sampled one.
const AROUND: usize = 4;

/// Explains the sample that `options` name.
///
/// # Errors
///
/// [`Failure`] if there is no such file or sample, or the file is damaged.
pub fn run(options: &ExplainOptions) -> Result<u8, Failure> {
    let path = truth_file(&options.file)?;
    let fail = |e: &dyn std::fmt::Display| {
        Failure::new(status::FAILURE, format!("{}: {e}", path.display()))
    };
    if let Some(picture) = options.svg.as_deref().filter(|to| !is_stdout(to.as_os_str())) {
        let mut outputs = Outputs::default();
        outputs.input("the profile", &options.file);
        outputs.input("the truth file", &path);
        outputs.file("--svg", picture)?;
    }
    let file = files::open(&path).map_err(|e| fail(&e))?;
    let reader = Reader::new(BufReader::new(file)).map_err(|e| fail(&e))?;
    let methods = reader.header().methods.clone();
    if let Some(wrong) = options.method.iter().find(|m| !methods.contains(m)) {
        let known = methods.join(", ");
        return Err(fail(&format!("--method {wrong}: the methods of this file are {known}")));
    }
    match reader.find(options.sample).map_err(|e| fail(&e))? {
        Answer::Graded(found) => graded(options, found),
        Answer::Undecided(found) if options.svg.is_some() => {
            let n = found.sample.n;
            Err(fail(&format!(
                "--svg: the true stack of sample {n} is not known; without --svg, the reason is told"
            )))
        }
        Answer::Undecided(found) => undecided(found),
    }
}

/// Delivers the files that were mapped.
fn loader<S>(found: &Found<S>) -> impl FnMut(&str) -> Option<Arc<[u8]>> + use<S> {
    let root = found.header.root.clone().map(PathBuf::from);
    let mut images = world::images(found.arch, vdso_of(found), root.as_deref());
    move |path: &str| images.get(path, &FileId::None).bytes()
}

fn complain_of(missing: &[String]) {
    for missing in missing {
        complain(&format!("{missing}; its names and tables are left out"));
    }
}

fn graded(options: &ExplainOptions, found: Found) -> Result<u8, Failure> {
    let load = loader(&found);
    let wanted = |name: &str| options.method.is_empty() || options.method.iter().any(|m| m == name);
    let explained = Explained::new(found, load, wanted);
    complain_of(&explained.missing);
    match &options.svg {
        Some(to) if is_stdout(to.as_os_str()) => to_stdout(&svg::svg(&explained))?,
        Some(to) => {
            let failed = |why: String| {
                let message = format!("--svg {}: cannot write it: {why}", to.display());
                Failure::new(status::FAILURE, message)
            };
            let mut file = files::open_output(to).map_err(failed)?;
            // What is no regular file has no length.
            let _ = file.set_len(0);
            let picture = svg::svg(&explained);
            match file.write_all(picture.as_bytes()) {
                Err(e) if e.kind() != ErrorKind::BrokenPipe => return Err(failed(e.to_string())),
                // The reader of a pipe has gone: it has seen enough.
                _ => {}
            }
        }
        None => to_stdout(&Words { e: &explained, style: Style::of_stdout() }.text())?,
    }
    Ok(0)
}

/// Says where a sample is, and why its true stack is not known.
fn undecided(found: Found<Undecided>) -> Result<u8, Failure> {
    let load = loader(&found);
    let Unexplained { found, places, missing } = Unexplained::new(found, load);
    complain_of(&missing);
    let style = Style::of_stdout();
    let (sample, regs) = (&found.sample, found.sample.regs(found.arch));
    let (n, pc, point, arch) = (sample.n, regs.pc, sample.point, found.arch);
    let place = Place { n, pc, point, arch, kernel: &sample.kernel };
    let mut text = place.text(&places, style);
    let _ = writeln!(text, "\n{}", style.bold("the true stack is not known, nothing was graded"));
    let sp = register_name(found.arch, found.arch.sp() as u8);
    let why = match sample.why {
        Doubt::BetweenStacks => format!(
            "{sp}, {:x}, has left the innermost frame, but the return or jump that ends this \
             frame has not happened yet: the code is about to change stacks, or to go on in an \
             outer frame (longjmp, an exception, a coroutine)",
            regs.sp()
        ),
        Doubt::Unsaved => "the kernel had been entered and had not saved the registers yet: the \
             sample, user callchain included, has those of an earlier entry, and this is where \
             that came from"
            .to_owned(),
        Doubt::AnotherProgram => "its thread had begun another program by execve: only the first \
                                  program's unwind tables are known"
            .to_owned(),
        Doubt::TooDeep => format!(
            "more than {} frames were live: those in the middle are not kept, and fewer than \
             {} that lead here are",
            grouped(MAX_LIVE_FRAMES as u64),
            grouped(Grader::TRUTH as u64)
        ),
    };
    let _ = writeln!(text, "  {}", wrapped(&why, 2, 2));
    to_stdout(&text)?;
    Ok(0)
}

/// Where a sample is.
struct Place<'s> {
    n: u64,
    pc: u64,
    point: ProgramPoint,
    arch: Arch,
    /// Functions of the kernel, innermost first.
    kernel: &'s [String],
}

impl Place<'_> {
    /// The first lines, with the code.
    fn text(&self, places: &Places, style: Style) -> String {
        let pc = places.system_call(self.kernel, self.pc).unwrap_or(self.pc);
        let address = InstructionPointer(pc).into();
        let file = places.file(address).map_or("no file".into(), one_line);
        let mut text = style.bold(&format!("sample {}", self.n));
        let name = one_line(&places.name(address)).into_owned();
        let _ = write!(text, ": {} in {file}, {}", style.cyan(&name), self.arch);
        if let Some(line) = places.line(address) {
            let _ = write!(text, ", {}", one_line(&line));
        }
        let _ = write!(text, "\nprogram point: {}\n", self.point.name());
        if let Some(kernel) = self.in_the_kernel() {
            let _ = writeln!(text, "{}", wrapped(&one_line(&kernel), 0, 2));
        }
        let code = places.code(pc, AROUND);
        if !code.is_empty() {
            text.push('\n');
        }
        for line in code {
            let here = line.address == pc;
            let arrow = if here { "=>" } else { "  " };
            let code = format!("  {arrow} {:x}  {}", line.address, one_line(&line.text));
            let code = if here { style.bold(&code) } else { code };
            let _ = writeln!(text, "{code}");
        }
        text
    }

    /// `in the kernel, in do_nanosleep, called from hrtimer_nanosleep, …`
    fn in_the_kernel(&self) -> Option<String> {
        let (innermost, callers) = self.kernel.split_first()?;
        let callers = match callers {
            [] => String::new(),
            callers => format!(", called from {}", callers.join(", ")),
        };
        Some(format!("in the kernel, in {innermost}{callers}"))
    }
}

/// The vDSO that the run had, by its build id.
fn vdso_of<S>(found: &Found<S>) -> Vdso {
    let recorded = found.modules.iter().find(|m| m.vdso).and_then(|m| m.build_id.as_deref());
    let is_it = |v: &Vdso| build_id(&v.image(found.arch)).as_deref() == recorded;
    [Vdso::Full, Vdso::NoCfi].into_iter().find(is_it).unwrap_or_default()
}

/// The number of a sample.
fn sample_number(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        _ if !plain => Err("use a whole number".to_owned()),
        Ok(0) => Err("use a number from 1 on".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err(format!("use a number up to {}", u64::MAX)),
    }
}

/// The truth file that belongs to `file`, or is it.
fn truth_file(file: &Path) -> Result<PathBuf, Failure> {
    let beside = truth_of(file);
    let mut begin = [0; 10];
    let opened = files::open(file).map(|mut file| file.read(&mut begin).unwrap_or(0));
    match &opened {
        Ok(len) if begin[..*len].starts_with(b"{\"header\"") => return Ok(file.to_owned()),
        Err(why) if file.exists() => {
            return Err(Failure::new(status::FAILURE, format!("{}: {why}", file.display())));
        }
        _ => {}
    }
    if beside.exists() {
        return Ok(beside);
    }
    // A damaged truth file, given by its name, shall be called so.
    if file.is_file() && file.extension().is_some_and(|e| e == "truth") {
        return Ok(file.to_owned());
    }
    let why = if file.exists() { "there is no truth beside it" } else { "no such file" };
    let message = format!("{}: {why}; emu run --truth -o FILE writes it", file.display());
    Err(Failure::new(status::FAILURE, message))
}

struct Words<'e> {
    e: &'e Explained,
    style: Style,
}

impl Words<'_> {
    fn text(&self) -> String {
        let (arch, sample) = (self.e.arch(), self.e.sample());
        let (n, pc, point) = (sample.n, sample.pc.0, sample.point);
        let place = Place { n, pc, point, arch, kernel: &sample.kernel };
        let mut text = place.text(&self.e.places, self.style);
        text.push_str(&self.true_stack());
        for replay in &self.e.replays {
            text.push_str(&self.method(replay));
        }
        text.push_str(&self.stack());
        text
    }

    fn head(&self, name: &str) -> String {
        format!("\n{}\n", self.style.bold(name))
    }

    fn true_stack(&self) -> String {
        let sample = self.e.sample();
        let frames = match sample.depth {
            Some(depth) => format!("{} frames", grouped(depth)),
            None => format!("the innermost {} frames", grouped(sample.frames.len() as u64)),
        };
        let mut text = self.head(&format!("the true stack, {frames}"));
        let names: Vec<String> = self.named(sample.frames.len(), |n| self.e.frame_name(n));
        let column = column(&names);
        self.list(sample.frames.len(), &mut text, |index| {
            let frame = &sample.frames[index];
            let kind = match frame.kind {
                FrameKind::Current if self.e.system_call().is_some() => "behind the system call",
                FrameKind::Current => "the thread is here",
                FrameKind::Return => "returns to here",
                FrameKind::Interrupted => "a signal came here",
            };
            let cfa = frame.cfa.map_or("outermost".to_owned(), |cfa| format!("CFA {:x}", cfa.0));
            let here = self.style.dim(&format!("{kind}, {cfa}"));
            let name = in_column(&names[index], column);
            format!("  {name}  {here}{}", self.tail_callers(frame))
        });
        text
    }

    /// Lines for the functions that led to a frame by tail calls.
    fn tail_callers(&self, frame: &Frame) -> String {
        let mut text = String::new();
        let all = &frame.tail_callers;
        for (n, tail) in all.iter().enumerate() {
            let left_out = TAIL_CALLERS / 2..all.len().saturating_sub(TAIL_CALLERS / 2);
            if all.len() > TAIL_CALLERS && left_out.contains(&n) {
                if n == left_out.start {
                    let hidden = &all[left_out.clone()];
                    let elided: u64 = hidden.iter().map(|tail| tail.elided).sum();
                    text.push_str(&more_tail_calls(hidden.len() as u64 + elided));
                }
                continue;
            }
            let name = self.e.places.name(ReturnAddress(tail.address.0).into());
            let _ = write!(text, "\n       tail-called from {}", one_line(&name));
            if tail.elided > 0 {
                text.push_str(&more_tail_calls(tail.elided));
            }
        }
        text
    }

    /// The names of `0..count`, those that [`Words::list`] prints.
    fn named(&self, count: usize, name: impl Fn(usize) -> String) -> Vec<String> {
        let one =
            |n| if is_listed(n, count) { one_line(&name(n)).into_owned() } else { String::new() };
        (0..count).map(one).collect()
    }

    /// Lines for `0..count`, without those in the middle of many.
    fn list(&self, count: usize, text: &mut String, line: impl Fn(usize) -> String) {
        for index in 0..count {
            if count > FRAMES && index == FRAMES * 3 / 4 {
                let _ = writeln!(text, "  … {} more", grouped((count - FRAMES) as u64));
            }
            if is_listed(index, count) {
                text.push_str(line(index).trim_end());
                text.push('\n');
            }
        }
    }

    /// What a method did, where it went wrong, and why.
    fn method(&self, replay: &Replay) -> String {
        let (e, style) = (self.e, self.style);
        let right = replay.is_right(e.sample());
        let verdict = replay.verdict.name();
        let verdict = if right { verdict.to_owned() } else { style.red(verdict) };
        let mut text = format!("\n{}: {verdict}\n", style.bold(&replay.name));
        let said = why(e, replay);
        for said in &said {
            let _ = writeln!(text, "  {}", wrapped(&one_line(said), 2, 4));
        }
        if replay.frames.iter().all(|told| told.rule.is_none()) {
            return text;
        }
        // A walk that has ended too early has told why.
        let told_end = replay.end.as_ref().is_some_and(|end| said[0].contains(end.as_str()));
        let names = self.named(replay.distinct(), |index| match replay.frames[index].truth {
            Some(truth) => e.frame_name(truth),
            None => format!("?? {}", e.places.name(replay.frames[index].address)),
        });
        let column = column(&names);
        self.list(replay.distinct(), &mut text, |index| {
            let told = &replay.frames[index];
            let rule = told.rule.as_deref().map(one_line).unwrap_or_default();
            let from = match (told.source, replay.frames.get(index + 1)) {
                (_, None) => match &replay.end {
                    Some(end) if !told_end => format!("end: {}", one_line(end)),
                    _ => String::new(),
                },
                (None, _) => String::new(),
                (Some(Source::Memory(slot)), _) => format!("next:\u{a0}[{slot:x}]"),
                (Some(Source::Register(number)), _) => {
                    format!("next:\u{a0}{}", register_name(e.arch(), number))
                }
            };
            let gap = if rule.is_empty() || from.is_empty() { "" } else { "  " };
            let taken = column + 4;
            // The pair of words stays in one line.
            let rule = wrapped(&format!("{rule}{gap}{from}"), taken, taken).replace('\u{a0}', " ");
            let name = if rule.is_empty() {
                names[index].clone()
            } else {
                in_column(&names[index], column)
            };
            let name = if told.truth.is_some() { name } else { style.red(&name) };
            format!("  {name}  {}", style.dim(&rule))
        });
        if let Some(again) = again(replay) {
            let _ = writeln!(text, "  … {again}");
        }
        text
    }

    /// The stack, word by word.
    fn stack(&self) -> String {
        let mut text = self.head("the stack, from the stack pointer up");
        for row in &Stack::new(self.e).0 {
            let _ = match row {
                Row::Gap => writeln!(text, "  {}", self.style.dim("elsewhere in memory:")),
                Row::Register { number, value, marks } => {
                    let (name, marks) = (register_name(self.e.arch(), *number), self.marks(marks));
                    writeln!(text, "  {name:<12}  {value:016x}  {}", marks.join(", "))
                }
                Row::Skipped(n) => {
                    let s = if *n == 1 { "" } else { "s" };
                    let words = format!("… {} word{s}", grouped(*n));
                    writeln!(text, "  {}", self.style.dim(&words))
                }
                Row::Word { address, value, marks } => {
                    let value = value.map_or("not recorded".to_owned(), |v| format!("{v:016x}"));
                    let marks = self.marks(marks);
                    let line = format!("  {address:012x}  {value:<16}  {}", marks.join(", "));
                    writeln!(text, "{}", line.trim_end())
                }
            };
        }
        text
    }

    fn marks(&self, marks: &[Mark]) -> Vec<String> {
        let mut said: Vec<String> = marks.iter().filter_map(|m| self.mark(*m)).collect();
        // Who read there, how often, and whether a true frame came of it.
        let mut readers: Vec<(usize, usize, bool)> = Vec::new();
        for mark in marks {
            let Mark::Method { replay, right, .. } = mark else { continue };
            match readers.iter_mut().find(|reader| reader.0 == *replay) {
                Some((_, times, ever)) => (*times, *ever) = (*times + 1, *ever || *right),
                None => readers.push((*replay, 1, *right)),
            }
        }
        let list = |wanted: bool| -> Vec<String> {
            let wanted = readers.iter().filter(|(_, _, right)| *right == wanted);
            wanted.map(|&(replay, times, _)| self.reader(replay, times)).collect()
        };
        let (right, wrong) = (list(true), list(false));
        let is = |wanted: fn(&Mark) -> bool| marks.iter().any(wanted);
        let is_one = is(|mark| matches!(mark, Mark::ReturnAddress(_)));
        let was_one = is(|mark| matches!(mark, Mark::Overwritten(_)));
        if !right.is_empty() {
            said.push(format!("read by {}", and(&right)));
        }
        if !wrong.is_empty() {
            let (take, wrong) = (if wrong.len() == 1 { "takes" } else { "take" }, and(&wrong));
            said.push(self.style.red(&match (is_one, was_one) {
                (true, _) => format!("read out of turn by {wrong}"),
                (_, true) => format!("{wrong} {take} what it holds now"),
                _ => format!("no return address, but {wrong} {take} it for one"),
            }));
        }
        said
    }

    /// `fp`, `fp (1,022 times: the record leads to itself)`.
    fn reader(&self, replay: usize, times: usize) -> String {
        let Some(replay) = self.e.replays.get(replay) else { return String::new() };
        let times = match times {
            1 => String::new(),
            n => {
                let leads = replay.repeats.map(|repeats| format!(": the record {repeats}"));
                format!(" ({} times{})", grouped(n as u64), leads.unwrap_or_default())
            }
        };
        format!("{}{times}", replay.name)
    }

    fn address_kind(&self, index: usize) -> &'static str {
        match self.e.sample().frames.get(index).map(|frame| frame.kind) {
            Some(FrameKind::Interrupted) => "interrupted",
            _ => "return",
        }
    }

    fn mark(&self, mark: Mark) -> Option<String> {
        let (e, style) = (self.e, self.style);
        let register = |number: usize| register_name(e.arch(), number as u8);
        Some(match mark {
            Mark::Sp => style.bold(register(e.arch().sp())),
            Mark::Fp => style.bold(register(e.arch().fp())),
            Mark::Cfa(index) => style.dim(&format!("CFA of {}", one_line(&e.function_name(index)))),
            Mark::ReturnAddress(index) => {
                let kind = self.address_kind(index);
                style.cyan(&format!("{kind} address {}", one_line(&e.frame_name(index))))
            }
            Mark::Overwritten(index) => {
                let (kind, name) = (self.address_kind(index), e.frame_name(index));
                style.red(&format!("{kind} address {} was here", one_line(&name)))
            }
            Mark::SavedFp => format!("saved {}", register(e.arch().fp())),
            Mark::Method { .. } => return None,
        })
    }
}

/// Whether a list of `count` lines has this one: the first and the last [`FRAMES`] are.
fn is_listed(index: usize, count: usize) -> bool {
    count <= FRAMES || index < FRAMES * 3 / 4 || index >= count - FRAMES / 4
}

/// Columns of a list's names: the longest one's, if it is not too long.
fn column(names: &[String]) -> usize {
    let lengths = names.iter().map(|name| name.chars().count());
    lengths.filter(|length| *length <= NAME).max().unwrap_or_default()
}

/// A name in so many columns. What comes behind one that is longer is below it.
fn in_column(name: &str, columns: usize) -> String {
    match name.chars().count() <= columns {
        true => format!("{name:<columns$}"),
        false => format!("{name}\n  {:columns$}", ""),
    }
}

fn more_tail_calls(n: u64) -> String {
    format!("\n       … {} tail call{} more", grouped(n), if n == 1 { "" } else { "s" })
}

/// `fp`, `fp and dwarf`, `fp, dwarf and framehop`.
fn and(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

/// `text` in lines of at most [`COLUMNS`], cut at blanks: the first one stands behind `taken`
/// columns, the others begin with `indent` blanks.
fn wrapped(text: &str, taken: usize, indent: usize) -> String {
    let (mut wrapped, mut column) = (String::new(), taken);
    for word in text.split_inclusive(' ') {
        let end = column + word.trim_end().chars().count();
        if end > COLUMNS && column > indent && !word.trim_end().is_empty() {
            wrapped.truncate(wrapped.trim_end().len());
            let _ = write!(wrapped, "\n{:indent$}", "");
            column = indent;
        }
        wrapped.push_str(word);
        column += word.chars().count();
    }
    wrapped
}
