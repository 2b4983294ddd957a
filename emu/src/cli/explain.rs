//! `emu explain`: one graded sample in words, and as a picture.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arch::Arch;
use clap::Args;

use crate::cli::options::is_stdout;
use crate::cli::output::{Failure, Style, complain, one_line, status, to_stdout, truth_of};
use crate::cli::summary::grouped;
use crate::cli::world;
use crate::explain::stack::return_slot;
use crate::explain::why::why;
use crate::explain::{Explained, Mark, Replay, Row, Source, Stack, register_name, svg};
use crate::grade::file::{FrameKind, Reader};
use crate::perf::record::FileId;

/// `emu explain`
#[derive(Debug, Args)]
#[command(after_help = "\
What is printed: where the sample is, with the code around it; the true stack; for each
method its frames, with the rule that it applied at each (in the words of `emu show`) and
where it found the next one; where it parts from the truth, and why; and the words of the
stack from the stack pointer up, with what they are. Frames have the numbers of the true
stack, #0 the innermost; a frame that does not exist is marked with ??.

Examples:
  emu run --truth golden-leaf        writes perf.data and perf.data.truth
  emu explain perf.data 3            the third sample of perf script
  emu explain perf.data 3 --method fp --svg slide.svg")]
pub struct ExplainOptions {
    /// The profile, beside which is FILE.truth, or the truth file itself
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Which sample, from 1, in the order of perf script
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
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
    let file = File::open(&path).map_err(|e| fail(&e))?;
    let reader = Reader::new(BufReader::new(file)).map_err(|e| fail(&e))?;
    let methods = reader.header().methods.clone();
    if let Some(wrong) = options.method.iter().find(|m| !methods.contains(m)) {
        let known = methods.join(", ");
        return Err(fail(&format!("--method {wrong}: the methods of this file are {known}")));
    }
    let found = reader.find(options.sample).map_err(|e| fail(&e))?;
    let root = found.header.root.clone().map(PathBuf::from);
    let mut images = world::images(found.arch, root.as_deref());
    let load = |path: &str| -> Option<Arc<[u8]>> { images.get(path, &FileId::None).bytes() };
    let wanted = |name: &str| options.method.is_empty() || options.method.iter().any(|m| m == name);
    let explained = Explained::new(found, load, wanted);
    for missing in &explained.missing {
        complain(&format!("{missing}; its names and tables are left out"));
    }
    match &options.svg {
        Some(to) if is_stdout(to.as_os_str()) => to_stdout(&svg::svg(&explained))?,
        Some(to) => {
            fs::write(to, svg::svg(&explained)).map_err(|e| {
                let message = format!("--svg {}: cannot write it: {e}", to.display());
                Failure::new(status::FAILURE, message)
            })?;
        }
        None => to_stdout(&Words { e: &explained, style: Style::of_stdout() }.text())?,
    }
    Ok(0)
}

/// The truth file that belongs to `file`, or is it.
fn truth_file(file: &Path) -> Result<PathBuf, Failure> {
    let beside = truth_of(file);
    let mut begin = [0; 10];
    let opened = File::open(file).and_then(|mut file| file.read(&mut begin));
    if opened.is_ok_and(|len| begin[..len].starts_with(b"{\"header\"")) {
        return Ok(file.to_owned());
    }
    if beside.is_file() {
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
        let mut text = self.place();
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

    /// Where the sample is, with the code.
    fn place(&self) -> String {
        let (e, sample) = (self.e, self.e.sample());
        let Some(frame) = sample.frames.first() else { return String::new() };
        let address = frame.code_address();
        let file = e.places.file(address).map_or("no file".into(), one_line);
        let mut text = self.style.bold(&format!("sample {}", sample.n));
        let name = one_line(&e.places.name(address)).into_owned();
        let _ = write!(text, ": {} in {file}, {}", self.style.cyan(&name), e.arch());
        if let Some(line) = e.places.line(address) {
            let _ = write!(text, ", {}", one_line(&line));
        }
        let _ = write!(text, "\nprogram point: {}\n\n", sample.point.name());
        for line in e.places.code(sample.pc.0, AROUND) {
            let here = line.address == sample.pc.0;
            let arrow = if here { "=>" } else { "  " };
            let code = format!("  {arrow} {:x}  {}", line.address, one_line(&line.text));
            let code = if here { self.style.bold(&code) } else { code };
            let _ = writeln!(text, "{code}");
        }
        text
    }

    fn true_stack(&self) -> String {
        let sample = self.e.sample();
        let mut text = self.head(&format!("the true stack, {} frames", grouped(sample.depth)));
        self.list(sample.frames.len(), &mut text, |index| {
            let frame = &sample.frames[index];
            let kind = match frame.kind {
                FrameKind::Current => "the thread is here",
                FrameKind::Return => "returns to here",
                FrameKind::Interrupted => "a signal came here",
            };
            let cfa = frame.cfa.map_or("outermost".to_owned(), |cfa| format!("CFA {:x}", cfa.0));
            let name = self.e.frame_name(index);
            format!("  {:<40} {}", one_line(&name), self.style.dim(&format!("{kind}, {cfa}")))
        });
        text
    }

    /// Lines for `0..count`, without those in the middle of many.
    fn list(&self, count: usize, text: &mut String, line: impl Fn(usize) -> String) {
        let left_out = FRAMES * 3 / 4..count.saturating_sub(FRAMES / 4);
        for index in 0..count {
            if count > FRAMES && index == left_out.start {
                let _ = writeln!(text, "  … {} more", grouped(left_out.len() as u64));
            }
            if count <= FRAMES || !left_out.contains(&index) {
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
        for said in why(e, replay) {
            let _ = writeln!(text, "  {}", one_line(&said));
        }
        if replay.frames.iter().all(|told| told.rule.is_none()) {
            return text;
        }
        self.list(replay.frames.len(), &mut text, |index| {
            let told = &replay.frames[index];
            let name = match told.truth {
                Some(truth) => e.frame_name(truth),
                None => format!("?? {}", e.places.name(told.address)),
            };
            let name = format!("{:<34}", one_line(&name));
            let name = if told.truth.is_some() { name } else { style.red(&name) };
            let rule = told.rule.as_deref().map(one_line).unwrap_or_default();
            let from = match (told.source, replay.frames.get(index + 1)) {
                (_, None) => match &replay.end {
                    Some(end) if right => format!("end: {}", one_line(end)),
                    _ => String::new(),
                },
                (None, _) => String::new(),
                (Some(Source::Memory(slot)), _) => format!("next: [{slot:x}]"),
                (Some(Source::Register(number)), _) => {
                    format!("next: {}", register_name(e.arch(), number))
                }
            };
            let gap = if rule.is_empty() || from.is_empty() { "" } else { "  " };
            format!("  {name}  {}", style.dim(&format!("{rule}{gap}{from}")))
        });
        text
    }

    /// The stack, word by word.
    fn stack(&self) -> String {
        let mut text = self.head("the stack, from the stack pointer up");
        text.push_str(&self.link_register());
        for row in &Stack::new(self.e).0 {
            let _ = match row {
                Row::Gap => writeln!(text, "  {}", self.style.dim("other memory")),
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

    /// The return address of the innermost frame, if that is in the link register alone.
    fn link_register(&self) -> String {
        let e = self.e;
        let caller = e.sample().frames.get(1).filter(|f| f.kind == FrameKind::Return);
        let (Arch::Aarch64, Some(caller), None) = (e.arch(), caller, return_slot(e, 0)) else {
            return String::new();
        };
        let link = e.sample().regs(e.arch()).gp[arch::aarch64::regs::LR];
        if e.arch().strip_pac(link) != caller.address.0 {
            return String::new();
        }
        let name = self.style.cyan(&format!("return address {}", one_line(&e.frame_name(1))));
        format!("  {:<12}  {link:016x}  {name}\n", "x30")
    }

    fn marks(&self, marks: &[Mark]) -> Vec<String> {
        let method = |mark: &Mark, wanted: bool| match mark {
            Mark::Method { replay, right, .. } if *right == wanted => {
                self.e.replays.get(*replay).map(|replay| replay.name.clone())
            }
            _ => None,
        };
        let read = |wanted| -> Vec<String> {
            marks.iter().filter_map(|mark| method(mark, wanted)).collect()
        };
        let mut said: Vec<String> = marks.iter().filter_map(|m| self.mark(*m)).collect();
        let (right, wrong) = (read(true), read(false));
        if !right.is_empty() {
            said.push(format!("read by {}", right.join(" and ")));
        }
        if !wrong.is_empty() {
            let wrong = format!("no return address, but {} takes it for one", wrong.join(" and "));
            said.push(self.style.red(&wrong));
        }
        said
    }

    fn mark(&self, mark: Mark) -> Option<String> {
        let (e, style) = (self.e, self.style);
        let register = |number: usize| register_name(e.arch(), number as u8);
        Some(match mark {
            Mark::Sp => style.bold(register(e.arch().sp())),
            Mark::Fp => style.bold(register(e.arch().fp())),
            Mark::Cfa(index) => style.dim(&format!("CFA of {}", one_line(&e.function_name(index)))),
            Mark::ReturnAddress(index) => {
                style.cyan(&format!("return address {}", one_line(&e.frame_name(index))))
            }
            Mark::SavedFp => format!("saved {}", register(e.arch().fp())),
            Mark::Method { .. } => return None,
        })
    }
}
