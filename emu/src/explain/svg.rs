//! A sample as a picture for a slide, 1280 by 720: the stack in the middle, the true frames to
//! its left, a column for each method to its right.

use std::fmt::Write as _;

use crate::explain::stack::return_slot;
use crate::explain::why::why;
use crate::explain::{Explained, Mark, Replay, Row, Source, Stack, register_name};

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 720;

/// Top of the stack's first row, height of a row, rows at most.
const TOP: u32 = 152;
const ROW: u32 = 24;
const ROWS: usize = 21;

/// Left edges: true frames, addresses, words, methods.
const FRAMES: u32 = 28;
const ADDRESS: u32 = 290;
const WORD: u32 = 420;
const METHODS: u32 = 630;
const RIGHT: u32 = WIDTH - 28;

/// Methods that there is room for.
const MAX_METHODS: usize = 4;

const STYLE: &str = "\
text{font-family:'DejaVu Sans','Liberation Sans',Arial,sans-serif;fill:#1d2733}\
.m{font-family:'DejaVu Sans Mono','Liberation Mono',Consolas,monospace}\
.dim{fill:#66727f}.ok{fill:#0b6b3a}.bad{fill:#a3161c}.b{font-weight:bold}";

/// The picture, a complete XML document.
pub fn svg(e: &Explained) -> String {
    let stack = Stack::new(e);
    let mut page = Page { e, text: String::new(), rows: Vec::new() };
    page.head();
    page.stack(&stack);
    page.true_frames();
    let shown = &e.replays[..e.replays.len().min(MAX_METHODS)];
    let width = (RIGHT - METHODS) / shown.len().max(1) as u32;
    for (n, replay) in shown.iter().enumerate() {
        page.method(replay, METHODS + n as u32 * width, width - 10);
    }
    page.foot();
    let about = escape(&format!("Sample {} explained", e.sample().n));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>{about}</title>\n\
         <style>{STYLE}</style>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         {}</svg>\n",
        page.text
    )
}

struct Page<'e> {
    e: &'e Explained,
    text: String,
    /// Middle of the row of an address, those that are shown.
    rows: Vec<(u64, u32)>,
}

/// A piece of text.
#[derive(Clone, Copy)]
struct Label<'t> {
    x: u32,
    y: u32,
    size: u32,
    class: &'t str,
}

impl Page<'_> {
    fn label(&mut self, at: Label<'_>, text: &str) {
        let Label { x, y, size, class } = at;
        let text = escape(text);
        let _ = writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" class=\"{class}\">{text}</text>"
        );
    }

    fn rect(&mut self, [x, y, w, h]: [u32; 4], fill: &str, stroke: &str) {
        let _ = writeln!(
            self.text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"4\" fill=\"{fill}\" \
             stroke=\"{stroke}\"/>"
        );
    }

    fn line(&mut self, from: (u32, u32), to: (u32, u32), stroke: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.text,
            "<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{stroke}\" stroke-width=\"2\" fill=\"none\"/>"
        );
    }

    /// What, where, and the titles of the columns.
    fn head(&mut self) {
        let e = self.e;
        let sample = e.sample();
        let title = format!("Sample {}: {}", sample.n, e.frame_name(0).trim_start_matches("#0 "));
        self.label(Label { x: FRAMES, y: 50, size: 28, class: "b" }, &short(&title, 1220, 28));
        let address = sample.frames.first().map(|f| f.code_address());
        let file = address.and_then(|a| e.places.file(a)).unwrap_or("no file");
        let line = address.and_then(|a| e.places.line(a));
        let line = line.map(|line| format!("{line} in ")).unwrap_or_default();
        let (arch, point) = (e.arch(), sample.point.name());
        let place = format!("{line}{file} ({arch}); program point: {point}");
        self.label(Label { x: FRAMES, y: 80, size: 17, class: "dim" }, &short(&place, 1220, 17));
        let head = |x| Label { x, y: TOP - 26, size: 17, class: "b" };
        self.label(head(FRAMES), "True frames");
        self.label(head(ADDRESS), "Stack, from the stack pointer up");
    }

    /// The words in the middle.
    fn stack(&mut self, stack: &Stack) {
        let rows = &stack.0;
        for (n, row) in rows.iter().take(ROWS).enumerate() {
            let (y, last) = (TOP + n as u32 * ROW, n + 1 == ROWS && rows.len() > ROWS);
            let middle = Label { x: WORD + 8, y: y + 17, size: 14, class: "m dim" };
            match row {
                _ if last => self.label(middle, &format!("… {} rows more", rows.len() - n)),
                Row::Gap => self.label(middle, "other memory"),
                Row::Skipped(n) => {
                    let s = if *n == 1 { "" } else { "s" };
                    self.label(middle, &format!("… {n} word{s}"));
                }
                Row::Word { address, value, marks } => {
                    self.word(y, *address, *value, marks);
                    self.rows.push((*address, y + ROW / 2));
                }
            }
        }
    }

    fn word(&mut self, y: u32, address: u64, value: Option<u64>, marks: &[Mark]) {
        let returns = marks.iter().any(|m| matches!(m, Mark::ReturnAddress(_)));
        let saved = marks.contains(&Mark::SavedFp);
        let fill = match (returns, saved) {
            (true, _) => "#dcebfb",
            (_, true) => "#fdf1d0",
            _ => "#f5f6f8",
        };
        self.rect([WORD, y + 1, 190, ROW - 2], fill, "#c3cad3");
        // Addresses have 12 digits: behind them is room for a word.
        let (digits, room) = match value {
            Some(v) if v >> 48 == 0 => (format!("{v:012x}"), 72),
            Some(v) => (format!("{v:016x}"), 36),
            None => ("not recorded".to_owned(), 72),
        };
        self.label(Label { x: WORD + 8, y: y + 17, size: 14, class: "m" }, &digits);
        let number = |n: usize| register_name(self.e.arch(), n as u8);
        let (sp, fp) = (number(self.e.arch().sp()), number(self.e.arch().fp()));
        let saved = |short: bool| if short { fp.to_owned() } else { format!("saved {fp}") };
        let what = marks.iter().rev().find_map(|mark| match mark {
            Mark::SavedFp => Some(saved(room < 50)),
            Mark::ReturnAddress(n) => Some(format!("into #{n}")),
            _ => None,
        });
        self.right_aligned(WORD + 185, y + 16, &short(&what.unwrap_or_default(), room, 11));
        let pointer = |mark, name| if marks.contains(&mark) { name } else { "" };
        let pointers = format!("{} {}", pointer(Mark::Sp, sp), pointer(Mark::Fp, fp));
        self.right_aligned(WORD - 5, y + 16, pointers.trim());
        let class = if marks.contains(&Mark::Sp) { "m b" } else { "m dim" };
        self.label(Label { x: ADDRESS, y: y + 16, size: 11, class }, &format!("{address:x}"));
    }

    fn right_aligned(&mut self, x: u32, y: u32, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"11\" text-anchor=\"end\">{text}</text>"
        );
    }

    /// Below all: what is wrong with the first method that is, and why.
    fn foot(&mut self) {
        let wrong = self.e.replays.iter().find(|replay| !replay.is_right(self.e.sample()));
        let Some(replay) = wrong else { return };
        let said = why(self.e, replay);
        let (first, rest) = said.split_at(1.min(said.len()));
        let first = format!("{}: {}", replay.name, first.concat());
        let y = TOP + ROWS as u32 * ROW + 24;
        self.label(Label { x: FRAMES, y, size: 16, class: "bad" }, &short(&first, 1224, 15));
        let rest = rest.join("; ");
        self.label(Label { x: FRAMES, y: y + 22, size: 16, class: "" }, &short(&rest, 1224, 15));
    }

    /// Brackets to the left: the part of the stack of each frame.
    fn true_frames(&mut self) {
        let e = self.e;
        let mut below = TOP;
        for index in 0..e.sample().frames.len() {
            let Some(sp) = e.sp_of(index) else { continue };
            let cfa = e.sample().frames[index].cfa.map_or(u64::MAX, |cfa| cfa.0);
            let own = self.rows.iter().filter(|(a, _)| sp <= *a && *a < cfa);
            let (first, last) =
                own.fold((None, None), |(first, _), (_, y)| (first.or(Some(*y)), Some(*y)));
            // A frame without a word of its own still has its line.
            let top = first.map_or(below, |y| y - ROW / 2 + 3).max(below);
            let bottom = last.map_or(top + ROW - 6, |y| y + ROW / 2 - 3).max(top + ROW - 6);
            if bottom > TOP + ROWS as u32 * ROW {
                break;
            }
            below = bottom + 6;
            let x = ADDRESS - 14;
            self.line((x, top), (x, bottom), "#3d6fa8");
            self.line((x, top), (x + 7, top), "#3d6fa8");
            self.line((x, bottom), (x + 7, bottom), "#3d6fa8");
            let name = short(&e.frame_name(index), x - FRAMES - 8, 15);
            let class = if index == 0 { "b" } else { "" };
            let y = top + (bottom - top) / 2 + 5;
            self.label(Label { x: FRAMES, y, size: 15, class }, &name);
        }
    }

    /// A method's frames, each in the row where its address was read.
    fn method(&mut self, replay: &Replay, x: u32, width: u32) {
        let e = self.e;
        let head = Label { x, y: TOP - 26, size: 17, class: "b" };
        self.label(head, &short(&replay.name, width, 17));
        let right = replay.is_right(e.sample());
        let class = if right { "ok" } else { "bad" };
        let verdict = short(replay.verdict.name(), width, 14);
        self.label(Label { x, y: TOP - 8, size: 14, class }, &verdict);
        let mut below = TOP;
        let mut next = 0;
        for (n, told) in replay.frames.iter().enumerate() {
            // True frames that are left out, each as a box of its own.
            let missing = next..told.truth.unwrap_or(next);
            for index in missing {
                below = self.boxed(x, width, below, true_row(e, index), &Look::missing(e, index));
            }
            next = told.truth.map_or(next, |index| index + 1);
            let at = match n.checked_sub(1).and_then(|n| replay.frames[n].source) {
                Some(Source::Memory(slot)) => Some(slot),
                _ => told.truth.and_then(|index| true_row(e, index)),
            };
            below = self.boxed(x, width, below, at, &Look::told(e, told.truth, told.address));
        }
        for index in next..e.sample().frames.len() {
            below = self.boxed(x, width, below, true_row(e, index), &Look::missing(e, index));
        }
    }

    /// A box not above `below`, beside the row of an address if that is shown; returns what
    /// the next one must be below.
    fn boxed(&mut self, x: u32, width: u32, below: u32, at: Option<u64>, look: &Look) -> u32 {
        let row = at.and_then(|at| self.rows.iter().find(|(address, _)| *address == at));
        if row.is_none() && at.is_some() {
            return below; // its row is not shown
        }
        let y = row.map_or(below, |(_, middle)| middle - ROW / 2).max(below);
        if y + ROW > TOP + ROWS as u32 * ROW {
            return y + ROW;
        }
        let _ = writeln!(
            self.text,
            "<rect x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"4\" fill=\"{}\" \
             stroke=\"{}\"{}/>",
            y + 1,
            ROW - 2,
            look.fill,
            look.stroke,
            if look.dashed { " stroke-dasharray=\"5 3\"" } else { "" }
        );
        let name = short(&look.text, width - 12, 13);
        self.label(Label { x: x + 6, y: y + 16, size: 13, class: look.class }, &name);
        y + ROW
    }
}

/// How a method's frame looks.
struct Look {
    text: String,
    fill: &'static str,
    stroke: &'static str,
    class: &'static str,
    dashed: bool,
}

impl Look {
    fn told(e: &Explained, truth: Option<usize>, address: unwinder::CodeAddress) -> Look {
        match truth {
            Some(index) => Look {
                text: e.frame_name(index),
                fill: "#d9f2e3",
                stroke: "#2e9e62",
                class: "ok",
                dashed: false,
            },
            None => Look {
                text: format!("✗ {}", e.places.name(address)),
                fill: "#fbdcdd",
                stroke: "#cf3a40",
                class: "bad",
                dashed: false,
            },
        }
    }

    fn missing(e: &Explained, index: usize) -> Look {
        Look {
            text: format!("missing {}", e.function_name(index)),
            fill: "#ffffff",
            stroke: "#cf3a40",
            class: "bad",
            dashed: true,
        }
    }
}

/// The row beside which a true frame's address is: the word that holds it.
fn true_row(e: &Explained, index: usize) -> Option<u64> {
    match index.checked_sub(1) {
        None => e.sp_of(0),
        Some(callee) => return_slot(e, callee),
    }
}

/// Text that fits into `width` at a font size, by the width of an average letter.
fn short(text: &str, width: u32, size: u32) -> String {
    let room = (width as usize * 100 / (size as usize * 60)).max(2);
    match text.chars().count() {
        n if n > room => text.chars().take(room - 1).chain(['…']).collect(),
        _ => text.to_owned(),
    }
}

/// Text in XML. Characters that XML does not allow become question marks.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("a<b>(c&\"d\u{1b}[m\n"), "a&lt;b&gt;(c&amp;&quot;d?[m?");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short("abcdefghij", 60, 10), "abcdefghij");
        assert_eq!(short("abcdefghijk", 60, 10), "abcdefghi…");
        assert_eq!(short("abc", 0, 10), "a…");
    }
}
