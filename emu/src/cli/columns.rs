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
    rows: Option<(Option<String>, Option<String>)>,
    remark: String,
}

impl Columns {
    /// Columns for `width` characters, for addresses up to `highest`. A table that is not
    /// there has none.
    pub fn new(style: Style, width: usize, highest: u64, cfi: bool, sframe: bool) -> Columns {
        let address = format!("{highest:x}").len().max("address".len());
        let instruction = (width * 28 / 100).clamp(24, 44);
        // Gutter, gaps, the mark.
        let rest = width.saturating_sub(3 + address + 2 + instruction + 2);
        let (cfi, sframe) = match (cfi, sframe) {
            (true, true) => {
                let sframe = ((rest - 4) / 2).min(36);
                (rest - 4 - sframe, sframe)
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

    /// The lines for an instruction. `marked` ones have an arrow.
    pub fn lines(&self, line: &Line, rows: &RowTexts, marked: bool, last: &mut Last) -> String {
        let mut text = String::new();
        let both = self.cfi > 0 && self.sframe > 0;
        let mark = if both && rows.agreement.is_disagreement() { "!" } else { " " };
        let now = Some((rows.dwarf.clone(), rows.sframe.clone()));
        let mut cells = Vec::new();
        if last.rows != now {
            let cfi = wrap(rows.dwarf.as_deref(), self.cfi);
            let sframe = wrap(rows.sframe.as_deref(), self.sframe);
            let count = cfi.len().max(sframe.len());
            let cell = |list: &[String], n: usize| list.get(n).cloned().unwrap_or_default();
            cells.extend((0..count).map(|n| (cell(&cfi, n), cell(&sframe, n))));
        }
        let gutter = if marked { "=>" } else { "  " };
        let code = one_line(&line.text);
        let length = code.chars().count();
        let head = format!("{gutter} {:>w$x}  ", line.address, w = self.address);
        // An instruction that needs the room has its rows below.
        let beside = length <= self.instruction && !cells.is_empty();
        let first = if beside { cells.remove(0) } else { Default::default() };
        let pad = " ".repeat(self.instruction.saturating_sub(length));
        let code = if marked { self.style.bold(&code) } else { code.into_owned() };
        let row = self.cells(mark, &first.0, &first.1);
        text.push_str(format!("{}{code}{pad}{row}", self.style.dim(&head)).trim_end());
        text.push('\n');
        let empty = " ".repeat(3 + self.address + 2 + self.instruction);
        for (cfi, sframe) in cells {
            text.push_str(format!("{empty}{}", self.cells(" ", &cfi, &sframe)).trim_end());
            text.push('\n');
        }
        let remark = if both { rows.agreement.to_string() } else { String::new() };
        if remark != last.remark && !remark.is_empty() {
            let remark = match rows.agreement.is_disagreement() {
                true => self.style.red(&remark),
                false => self.style.dim(&remark),
            };
            let _ = writeln!(text, "{empty}    {remark}");
        }
        (last.rows, last.remark) = (now, remark);
        text
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
