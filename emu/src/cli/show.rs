//! `emu show`: a binary's instructions with the rows of its unwind tables.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::Range;

use arch::Arch;
use unwinder::dwarf::ErrorKind;
use unwinder::elf::Slice;
use unwinder::module::Problem;
use unwinder::sframe::check::Severity;
use unwinder::{Module, TableError};

use crate::cli::columns::{Columns, Last};
use crate::cli::options::ShowOptions;
use crate::cli::output::{Failure, Style, check_stdout, complain, one_line, status, written};
use crate::cli::world;
use crate::engine::FileMap;
use crate::loader::{FileError, LoadError, elf};
use crate::numbers::grouped;
use crate::show::code::Part;
use crate::show::{Agreement, Code, Line, Piece, Pieces, Rows};

/// Columns when nobody says how many.
const WIDTH: u16 = 100;

/// Faults of a table that are printed, each on a line.
const MAX_PROBLEMS: usize = 20;

/// Characters of the name of a jump's target.
const MAX_TARGET: usize = 60;

/// Similar names that are looked for among so many.
const MAX_NAMES: usize = 200_000;

/// Prints what `options` ask for.
///
/// # Errors
///
/// [`Failure`] if there is no such file, or it is no program or library, or it has no such
/// address or function.
pub fn run(options: &ShowOptions) -> Result<u8, Failure> {
    check_stdout()?;
    let path = world::find(&options.file, options.arch.unwrap_or(Arch::X86_64))?;
    let file = FileMap::open(&path).map_err(|e| refused(&path, LoadError::from_io(&e)))?;
    let bytes = file.bytes();
    let arch = elf::arch_of(bytes).map_err(|e| refused(&path, e))?;
    if let Some(wanted) = options.arch.filter(|a| *a != arch) {
        let message = format!(
            "{}: e_machine (offset 0x12) is {arch}; leave out --arch {wanted}, or name a file for it",
            path.display()
        );
        return Err(Failure::new(status::NOT_RUNNABLE, message));
    }
    let module = Module::from_elf(path.to_string_lossy(), bytes, 0).map_err(|e| {
        let message = format!("{}: {e}: there is nothing to show", path.display());
        Failure::new(status::NOT_RUNNABLE, message)
    })?;
    report_problems(bytes, &module);

    let binary = Binary {
        code: Code::new(arch, bytes),
        pieces: Pieces::new(bytes, &module),
        name: options.file.to_string_lossy().into_owned(),
        module,
    };
    let style = Style::of_stdout();
    let width = options.width.or_else(terminal_width).unwrap_or(WIDTH);
    let chosen = binary.choose(options)?;
    let mut listing = Listing::new(&binary, style, width.into());
    written(listing.print(&chosen))?;
    Ok(0)
}

fn refused(path: &std::path::Path, source: LoadError) -> Failure {
    let error = FileError { path: path.to_owned(), source };
    Failure::new(error.exit_code(), error)
}

/// Columns of the terminal that standard output is.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.clamp(80, 1000))
}

/// Says on standard error what is wrong with the file and its tables. They are shown as far as
/// they can be read.
fn report_problems(bytes: &[u8], module: &Module<Slice<&[u8]>>) {
    let name = module.name();
    if let Err(error) = elf::check_extents(bytes) {
        complain(&format!("{name}: {error}"));
    }
    // Entries for no instruction are strange, but hide none.
    let empty = |problem: &&Problem| matches!(problem, Problem::Dwarf(e) if e.kind == ErrorKind::EmptyRange);
    let told = module.problems().iter().filter(|p| !empty(p));
    let mut problems: Vec<String> = told.map(ToString::to_string).collect();
    if let Some(table) = module.sframe() {
        let found = table.check_within(module.text());
        let errors = found.iter().filter(|p| p.severity() > Severity::Warning);
        problems.extend(errors.map(ToString::to_string));
    }
    problems.dedup();
    for problem in problems.iter().take(MAX_PROBLEMS) {
        complain(&format!("{name}: {problem}"));
    }
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        complain(&format!("{name}: {more} more faults of its unwind tables"));
    }
}

/// A file to show.
struct Binary<'b> {
    /// As typed.
    name: String,
    module: Module<Slice<&'b [u8]>>,
    code: Code<'b>,
    pieces: Pieces<'b>,
}

/// What is shown of it.
enum Chosen {
    All,
    /// A piece, which of its addresses are printed, and which is marked.
    Pieces(Vec<(Piece, Range<u64>)>, Option<u64>),
}

/// How much is shown around an address of which nothing else is known.
const AROUND: u64 = 64;

impl Binary<'_> {
    fn choose(&self, options: &ShowOptions) -> Result<Chosen, Failure> {
        if let Some(pc) = options.pc {
            let part = self.part(pc).ok_or_else(|| self.no_code(pc))?;
            let piece = self.pieces.around(pc, part.range.start, part.range.end);
            let shown = match piece.is_gap() {
                true => pc.saturating_sub(AROUND)..pc.saturating_add(AROUND),
                false => piece.range.clone(),
            };
            return Ok(Chosen::Pieces(vec![(piece, shown)], Some(pc)));
        }
        let Some(name) = &options.function else { return Ok(Chosen::All) };
        let mut found: Vec<(Piece, Range<u64>)> = Vec::new();
        for address in self.pieces.symbols().named(name) {
            let Some(part) = self.part(address) else { continue };
            let piece = self.pieces.around(address, part.range.start, part.range.end);
            if found.last().is_none_or(|(last, _)| *last != piece) {
                let all = piece.range.clone();
                found.push((piece, all));
            }
        }
        if found.is_empty() {
            return Err(self.no_function(name));
        }
        Ok(Chosen::Pieces(found, None))
    }

    fn part(&self, address: u64) -> Option<&Part> {
        self.code.parts().iter().find(|part| part.range.contains(&address))
    }

    fn no_code(&self, pc: u64) -> Failure {
        let parts = self.code.parts();
        let hint = match (parts.first(), parts.last()) {
            (Some(first), Some(last)) => {
                format!("its code is from {:#x} to {:#x}", first.range.start, last.range.end)
            }
            _ => "it has no code".to_owned(),
        };
        let message = format!("--pc {pc:#x}: not in the code of {}; {hint}", self.name);
        Failure::new(status::FAILURE, message)
    }

    fn no_function(&self, name: &str) -> Failure {
        let names: Vec<String> = self.pieces.symbols().names().take(MAX_NAMES).collect();
        let mut distinct: Vec<&str> = names.iter().map(String::as_str).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let near = world::near(name, distinct.into_iter());
        let hint = match (names.is_empty(), near.is_empty()) {
            (true, _) => "it has no symbols; use --pc".to_owned(),
            (_, true) => format!("`emu show {}` shows all functions", self.name),
            _ => format!("did you mean {}?", near.join(" or ")),
        };
        let message = format!("--function: {} has no function {name:?}; {hint}", self.name);
        Failure::new(status::FAILURE, message)
    }

    /// The highest address of its code.
    fn highest(&self) -> u64 {
        self.code.parts().iter().map(|part| part.range.end).max().unwrap_or(0)
    }
}

/// Prints a [`Binary`].
struct Listing<'a, 'b> {
    binary: &'a Binary<'b>,
    rows: Rows<'a, Slice<&'b [u8]>>,
    style: Style,
    columns: Columns,
    out: BufWriter<StdoutLock<'static>>,
    counts: Counts,
}

/// What was printed.
#[derive(Debug, Default)]
struct Counts {
    functions: u64,
    instructions: u64,
    /// Instructions at which the tables disagree.
    disagreeing: u64,
    /// Places where they do, by what they disagree about.
    places: BTreeMap<String, u64>,
}

impl<'a, 'b> Listing<'a, 'b> {
    fn new(binary: &'a Binary<'b>, style: Style, width: usize) -> Listing<'a, 'b> {
        let module = &binary.module;
        let cfi = module.eh_frame().is_some() || module.debug_frame().is_some();
        let sframe = module.sframe().is_some();
        Listing {
            binary,
            rows: Rows::new(module),
            style,
            columns: Columns::new(style, width, binary.highest(), cfi, sframe),
            out: BufWriter::new(io::stdout().lock()),
            counts: Counts::default(),
        }
    }

    fn print(&mut self, chosen: &Chosen) -> io::Result<()> {
        let (cfi, sframe) = self.table_names();
        writeln!(self.out, "{}", self.columns.head(&cfi, &sframe))?;
        match chosen {
            Chosen::All => {
                for part in self.binary.code.parts() {
                    self.part(part)?;
                }
            }
            Chosen::Pieces(pieces, pc) => {
                for (piece, shown) in pieces {
                    self.piece(piece, shown, *pc)?;
                }
            }
        }
        let summary = self.summary();
        write!(self.out, "\n{summary}\n")?;
        self.out.flush()
    }

    /// Titles of the columns.
    fn table_names(&self) -> (String, String) {
        let module = &self.binary.module;
        let tables = [module.eh_frame(), module.debug_frame()];
        let names: Vec<&str> = tables.into_iter().flatten().map(|t| t.name().name()).collect();
        let versions = module.sframe().map(|table| {
            let mut all: Vec<u8> = table.parts().iter().map(|p| p.header.version as u8).collect();
            all.sort_unstable();
            all.dedup();
            let all: Vec<String> = all.iter().map(|v| format!("v{v}")).collect();
            format!("SFrame {}", all.join(", "))
        });
        (format!("CFI {}", names.join(", ")), versions.unwrap_or_default())
    }

    fn part(&mut self, part: &Part) -> io::Result<()> {
        let Range { start, end } = part.range;
        let name = part.name.as_deref().map_or("Segment".into(), one_line);
        let title = format!("{name}  {start:#x}..{end:#x}");
        writeln!(self.out, "\n{}", self.style.bold(&title))?;
        let mut at = start;
        while at < end {
            let piece = self.binary.pieces.from(at, end);
            at = piece.range.end;
            match piece.is_gap() && self.is_padding(&piece.range) {
                true => self.padding(&piece.range)?,
                false => self.piece(&piece, &piece.range, None)?,
            }
        }
        Ok(())
    }

    /// A function with its title. Of it, `shown` is printed, and the instruction at `pc` marked.
    fn piece(&mut self, piece: &Piece, shown: &Range<u64>, pc: Option<u64>) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.title(piece))?;
        self.counts.functions += u64::from(!piece.is_gap());
        let mut last = Last::default();
        let mut before = Agreement::Neither;
        let code = &self.binary.code;
        for line in code.lines(piece.range.start..piece.range.end.min(shown.end)) {
            if line.address < shown.start {
                continue;
            }
            let end = line.address.saturating_add(line.bytes.len() as u64);
            let marked = pc.is_some_and(|pc| (line.address..end).contains(&pc));
            let rows = self.rows.at(line.address);
            self.counts.add(rows.agreement, before);
            before = rows.agreement;
            let target = self.target(piece, &line);
            let text = self.columns.lines(&line, target.as_deref(), rows, marked, &mut last);
            self.out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// The name of what a line of `piece` jumps to or calls, if that is elsewhere.
    fn target(&self, piece: &Piece, line: &Line) -> Option<String> {
        let target = line.target().filter(|at| !piece.range.contains(at))?;
        let (name, start) = self.binary.pieces.symbols().name(target)?;
        let name: String = one_line(&name).chars().take(MAX_TARGET).collect();
        Some(match target - start {
            0 => name,
            offset => format!("{name}+{offset:#x}"),
        })
    }

    /// `fib  0x401370..0x4013c8  .eh_frame+0x1c8  .sframe+0x40`
    fn title(&self, piece: &Piece) -> String {
        let Range { start, end } = piece.range;
        let name = match &piece.symbol {
            Some((name, from)) if *from < start => {
                format!("{}+{:#x}", one_line(name), start - from)
            }
            Some((name, _)) => one_line(name).into_owned(),
            None => {
                let section = self.binary.part(start).and_then(|part| part.name.as_deref());
                let within = section.map(|name| format!(", {}", one_line(name)));
                format!("(no symbol{})", within.unwrap_or_default())
            }
        };
        let mut rest = format!("  {start:#x}..{end:#x}");
        if let Some(fde) = piece.fde {
            rest.push_str(&format!("  {}+{:#x}", fde.section.name(), fde.offset));
        }
        if let Some(function) = piece.sframe {
            rest.push_str(&format!("  .sframe+{:#x}", function.offset));
        }
        format!("{}{}", self.style.cyan(&name), self.style.dim(&rest))
    }

    /// Whether there are only instructions that do nothing, or none.
    fn is_padding(&self, range: &Range<u64>) -> bool {
        const MOST: u64 = 256;
        let len = range.end - range.start;
        if len > MOST {
            return false;
        }
        let bytes = self.binary.code.bytes(range.start, len);
        let nothing = |text: &str| {
            let words = text.split(' ').collect::<Vec<_>>();
            words.contains(&"nop") || matches!(words[..], ["int3"] | ["xchg", "ax,", "ax"])
        };
        bytes.iter().all(|b| *b == 0)
            || self.binary.code.lines(range.clone()).all(|line| nothing(&line.text))
    }

    fn padding(&mut self, range: &Range<u64>) -> io::Result<()> {
        let len = range.end - range.start;
        let bytes = if len == 1 { "byte" } else { "bytes" };
        let text = format!("   {:x}  … {len} {bytes} of padding", range.start);
        writeln!(self.out, "{}", self.style.dim(&text))
    }

    /// Why a table is not there: it is in the file but broken, or, in the words `absent`, not.
    fn without(&self, absent: &str, of_it: impl Fn(&TableError) -> bool) -> String {
        let broken = self.binary.module.problems().iter().filter_map(|problem| match problem {
            Problem::Unusable(error) if of_it(error) => Some(error.to_string()),
            _ => None,
        });
        let broken: Vec<String> = broken.collect();
        match broken.is_empty() {
            true => absent.to_owned(),
            false => format!("not usable: {}", broken.join("; ")),
        }
    }

    /// Counts, and where the tables disagree.
    fn summary(&self) -> String {
        let counts = &self.counts;
        let shown = format!(
            "{}, {}",
            number(counts.functions, "function"),
            number(counts.instructions, "instruction")
        );
        let module = &self.binary.module;
        let cfi = module.eh_frame().is_some() || module.debug_frame().is_some();
        match (cfi, module.sframe().is_some()) {
            (false, false) => format!("{shown}; {}", self.without("no unwind tables", |_| true)),
            (true, false) => {
                let sframe = |e: &TableError| matches!(e, TableError::Sframe(_));
                format!("{shown}; {}", self.without("no .sframe to compare with", sframe))
            }
            (false, true) => {
                let cfi = |e: &TableError| matches!(e, TableError::Dwarf(_));
                format!("{shown}; {}", self.without("no CFI to compare with", cfi))
            }
            (true, true) if counts.places.is_empty() => format!("{shown}; the tables agree"),
            (true, true) => {
                let places = counts.places.iter().map(|(what, n)| format!("{what}: {n}"));
                let places: Vec<String> = places.collect();
                let total = counts.places.values().sum();
                format!(
                    "{shown}; the tables disagree in {} ({}): {}",
                    number(total, "place"),
                    number(counts.disagreeing, "instruction"),
                    places.join(", ")
                )
            }
        }
    }
}

impl Counts {
    /// An instruction, and the one before it in its function.
    fn add(&mut self, now: Agreement, before: Agreement) {
        self.instructions += 1;
        if now.is_disagreement() {
            self.disagreeing += 1;
            if now != before {
                *self.places.entry(now.to_string()).or_default() += 1;
            }
        }
    }
}

/// `1 function`, `2 functions`.
fn number(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}
