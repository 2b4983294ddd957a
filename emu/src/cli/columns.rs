//! Code beside unwind rows, in columns.
//!
//! ```text
//!    address  instruction            ! CFI                  SFrame
//! => 401370   push rbp                 cfa=rsp+8 ra=c-8     cfa=rsp+8 ra=c-8
//! ```
//!
//! A row is printed where it begins, on as many lines as its column needs.

use std::fmt::Write as _;

use crate::cli::output::{Style, one_line};
use crate::show::{Line, RowTexts};

/// The columns of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    style: Style,
    /// Hexadecimal digits of an address.
    address: usize,
    instruction: usize,
    /// 0: the file has no such table.
    cfi: usize,
    sframe: usize,
}

/// What was printed last, so that only changes are.
#[derive(Clone, Debug, Default)]
pub struct Last {
    /// Whether anything was.
    begun: bool,
    dwarf: Option<String>,
    sframe: Option<String>,
    remark: String,
}

impl Columns {
    /// Columns for `width` characters, for addresses up to `highest`. A table that is not
    /// there has none.
    pub fn new(style: Style, width: usize, highest: u64, cfi: bool, sframe: bool) -> Columns {
        let address = format!("{highest:x}").len().max("address".len());
        let instruction = (width * 28 / 100).clamp(24, 36);
        // Gutter, gaps, the mark.
        let rest = width.saturating_sub(3 + address + 2 + instruction + 2);
        let (cfi, sframe) = match (cfi, sframe) {
            (true, true) => {
                let sframe = ((rest - 4) / 2).min(36);
                ((rest - 4 - sframe).min(56), sframe)
            }
            (true, false) => (rest, 0),
            (false, true) => (0, rest),
            (false, false) => (0, 0),
        };
        Columns { style, address, instruction, cfi, sframe }
    }

    /// The head of the columns.
    pub fn head(&self, cfi: &str, sframe: &str) -> String {
        let (a, i) = (self.address, self.instruction);
        let line = format!("   {:>a$}  {:<i$}", "address", "instruction");
        let rows = self.cells(" ", cfi, sframe);
        self.style.bold(format!("{line}{rows}").trim_end())
    }

    /// The lines for an instruction. `marked` ones have an arrow; `target` is the name of where
    /// it jumps to, which is left out where there is no room.
    pub fn lines(
        &self,
        line: &Line,
        target: Option<&str>,
        rows: RowTexts,
        marked: bool,
        last: &mut Last,
    ) -> String {
        let both = self.cfi > 0 && self.sframe > 0;
        let disagree = both && rows.agreement.is_disagreement();
        let remark = if both { rows.agreement.to_string() } else { String::new() };
        let mut cells = self.changes(&rows, last).into_iter().peekable();

        let mut code = compact(&line.text);
        let room = if cells.peek().is_some() { self.instruction } else { usize::MAX };
        if let Some(target) =
            target.filter(|t| code.chars().count() + 3 + t.chars().count() <= room)
        {
            let _ = write!(code, " <{target}>");
        }
        let length = code.chars().count();
        // An instruction that needs the room has its rows below.
        let beside = if length <= self.instruction { cells.next() } else { None };
        let (cfi, sframe) = beside.unwrap_or_default();
        let pad = " ".repeat(self.instruction.saturating_sub(length));
        let head =
            format!("{} {:>w$x}", if marked { "=>" } else { "  " }, line.address, w = self.address);
        let (head, code) = match marked {
            true => (self.style.bold(&head), self.style.bold(&code)),
            false => (self.style.dim(&head), code),
        };
        let rest = self.cells(if disagree { "!" } else { " " }, &cfi, &sframe);
        let mut text = format!("{head}  {code}{pad}{rest}").trim_end().to_owned() + "\n";

        let empty = " ".repeat(3 + self.address + 2 + self.instruction);
        for (cfi, sframe) in cells {
            let below = format!("{empty}{}", self.cells(" ", &cfi, &sframe));
            let _ = writeln!(text, "{}", below.trim_end());
        }
        if remark != last.remark && !remark.is_empty() {
            let paint = if disagree { Style::red } else { Style::dim };
            let _ = writeln!(text, "{empty}    {}", paint(self.style, &remark));
        }
        *last = Last { begun: true, dwarf: rows.dwarf, sframe: rows.sframe, remark };
        text
    }

    /// What to print of the rows: each of them, where it is not the one before, in lines.
    fn changes(&self, rows: &RowTexts, last: &Last) -> Vec<(String, String)> {
        let cell = |now: &Option<String>, before: &Option<String>, width| match last.begun {
            true if now == before => Vec::new(),
            _ => wrap(now.as_deref(), width),
        };
        let cfi = cell(&rows.dwarf, &last.dwarf, self.cfi);
        let sframe = cell(&rows.sframe, &last.sframe, self.sframe);
        let mut sframe = sframe.into_iter();
        let mut lines: Vec<_> = cfi
            .into_iter()
            .map(|cfi| {
                // What is too long has the line for itself.
                let fits = cfi.chars().count() <= self.cfi;
                let beside = if fits { sframe.next() } else { None };
                (cfi, beside.unwrap_or_default())
            })
            .collect();
        lines.extend(sframe.map(|sframe| (String::new(), sframe)));
        lines
    }

    /// What follows an instruction: the mark and the rows.
    fn cells(&self, mark: &str, cfi: &str, sframe: &str) -> String {
        match (self.cfi, self.sframe) {
            (0, 0) => String::new(),
            (0, _) => format!("  {sframe}"),
            (_, 0) => format!("  {cfi}"),
            (w, _) => {
                let mark = if mark == "!" { self.style.red(mark) } else { mark.to_owned() };
                format!("  {mark} {cfi:<w$}  {sframe}")
            }
        }
    }
}

/// An instruction without what readers can do without: `qword ptr [rdi + 8]` is `qword [rdi+8]`.
fn compact(text: &str) -> String {
    let mut short = one_line(text).replace(" ptr [", " [");
    for sign in ["+", "-", "*"] {
        short = short.replace(&format!(" {sign} "), sign);
    }
    short
}

/// A row in lines of at most `width` characters, if its words allow that. No lines, if there is
/// no column.
fn wrap(row: Option<&str>, width: usize) -> Vec<String> {
    if width == 0 {
        return Vec::new();
    }
    let row = one_line(row.unwrap_or("-"));
    let mut lines = vec![String::new()];
    for word in row.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{Agreement, Parts};

    fn rows(dwarf: &str, sframe: Option<&str>, agreement: Agreement) -> RowTexts {
        RowTexts { dwarf: Some(dwarf.into()), sframe: sframe.map(Into::into), agreement }
    }

    fn line(address: u64, text: &str) -> Line {
        Line { address, bytes: Vec::new(), text: text.into() }
    }

    fn differ(parts: Parts) -> Agreement {
        Agreement::Not { differ: parts, unclear: Parts::default() }
    }

    #[test]
    fn changes_alone_are_printed() {
        let columns = Columns::new(Style::PLAIN, 100, 0x40_1400, true, true);
        let mut last = Last::default();
        let mut text = columns.head("CFI", "SFrame v2") + "\n";
        let mut add = |at, insn, target, rows, marked| {
            text += &columns.lines(&line(at, insn), target, rows, marked, &mut last);
        };
        let same = Agreement::Same;
        add(0x40_1370, "push rbp", None, rows("cfa=rsp+8", Some("cfa=rsp+8"), same), false);
        let cfa = differ(Parts { cfa: true, ..Parts::default() });
        let other = || rows("cfa=rsp+16 ra=c-8 rbx=c-24 rbp=c-16", Some("cfa=rsp+8"), cfa);
        add(0x40_1371, "call 0x401000", Some("f"), other(), true);
        add(0x40_1376, "call 0x401000", Some("a_name_that_is_long_indeed"), other(), false);
        let alone = || rows("cfa=rsp+8", None, Agreement::OnlyCfi);
        add(0x40_137b, "mov qword ptr [rax + rcx*8 + 0x12345678], r12", None, alone(), false);
        assert_eq!(
            text,
            "   address  instruction                     CFI                          SFrame v2
    401370  push rbp                        cfa=rsp+8                    cfa=rsp+8
=>  401371  call 0x401000 <f>             ! cfa=rsp+16 ra=c-8 rbx=c-24
                                            rbp=c-16
                                            CFA differs
    401376  call 0x401000 <a_name_that_is_long_indeed>  !
    40137b  mov qword [rax+rcx*8+0x12345678], r12  !
                                            cfa=rsp+8                    -
                                            only in CFI
"
        );
    }

    #[test]
    fn a_table_that_is_not_there_has_no_column() {
        let mut last = Last::default();
        let columns = Columns::new(Style::PLAIN, 80, 0xffff_ffff_8000_0000, true, false);
        let alone = rows("cfa=rsp+8", None, Agreement::OnlyCfi);
        let text = columns.lines(&line(u64::MAX, "ret"), None, alone.clone(), false, &mut last);
        assert_eq!(text, "   ffffffffffffffff  ret                       cfa=rsp+8\n");
        let columns = Columns::new(Style::PLAIN, 80, 0, false, false);
        let text = columns.lines(&line(0, "ret"), None, alone, false, &mut Last::default());
        assert_eq!(text, "         0  ret\n");
    }

    #[test]
    fn a_word_that_is_too_long_has_its_line_for_itself() {
        let columns = Columns::new(Style::PLAIN, 80, 0, true, true);
        let long = format!("cfa={} ra=c-8", "x".repeat(40));
        let both = rows(&long, Some("cfa=rsp+8 ra=c-8 rbp=c-16"), Agreement::Same);
        let lines = columns.changes(&both, &Last::default());
        assert_eq!(lines[0].1, "");
        assert_eq!(lines[1], ("ra=c-8".to_owned(), "cfa=rsp+8 ra=c-8".to_owned()));
        assert_eq!(lines[2], (String::new(), "rbp=c-16".to_owned()));
    }

    #[test]
    fn rows_are_wrapped_between_words() {
        assert_eq!(wrap(Some("aa bb cc"), 5), ["aa bb", "cc"]);
        assert_eq!(wrap(Some("aaaaaaaa b"), 5), ["aaaaaaaa", "b"]);
        assert_eq!((wrap(None, 5), wrap(Some("a"), 0)), (vec!["-".to_owned()], vec![]));
    }
}
