//! A sample as a picture for a slide, 1280 by 720: the stack in the middle, the true frames to
//! its left, a column for each method to its right.

use std::fmt::Write as _;

use crate::explain::shown::{Shown, choose, partings};
use crate::explain::why::why;
use crate::explain::{Explained, Mark, Replay, Row, Source, Stack, register_name};
use crate::numbers::grouped;

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 720;

/// Top of the stack's first row, height of all rows.
const TOP: u32 = 152;
const ROOM: u32 = 504;

/// Height of a row: as many as there are, between these.
const HIGH: u32 = 24;
const LOW: u32 = 18;

/// Left edges: true frames, addresses, words, methods.
const FRAMES: u32 = 28;
const ADDRESS: u32 = 290;
const WORD: u32 = 420;
const METHODS: u32 = 630;
const RIGHT: u32 = WIDTH - 28;

/// Methods that there is room for.
const MAX_METHODS: usize = 4;

/// The program counter's row, where the innermost frame is read: no number that DWARF gives.
const PC: u8 = u8::MAX;

const STYLE: &str = "\
text{font-family:'DejaVu Sans','Liberation Sans',Arial,sans-serif;fill:#1d2733}\
.m{font-family:'DejaVu Sans Mono','Liberation Mono',Consolas,monospace}\
.dim{fill:#66727f}.ok{fill:#0b6b3a}.bad{fill:#a3161c}.b{font-weight:bold}";

/// The picture, a complete XML document.
pub fn svg(e: &Explained) -> String {
    let mut stack = Stack::new(e);
    let pc = Row::Register { number: PC, value: e.sample().pc.0, marks: Vec::new() };
    stack.0.insert(0, pc);
    if stack.0.len() as u32 > ROOM / LOW {
        stack = stack.brief();
    }
    let row = (ROOM / stack.0.len().max(1) as u32).clamp(LOW, HIGH);
    let mut page = Page { e, text: String::new(), rows: Vec::new(), left_out: Vec::new(), row };
    page.head();
    let room = (ROOM / row) as usize;
    page.stack(&choose(&stack.0, &partings(e, &stack.0), room));
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
    /// Middle of the row of a word or register, those that are shown.
    rows: Vec<(Source, u32)>,
    /// Addresses of words that are left out, from the first to the last one, and the middle of
    /// the line that stands for them.
    left_out: Vec<(u64, u64, u32)>,
    /// Height of a row.
    row: u32,
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
        let sample_n = format!("Sample {}: ", sample.n);
        let taken = sample_n.len() as u32 * 17;
        let address = e.instruction();
        let (name, size) = fit(&e.places.name(address), 1220_u32.saturating_sub(taken), 28);
        self.label(Label { x: FRAMES, y: 50, size, class: "b" }, &format!("{sample_n}{name}"));
        let file = e.places.file(address).unwrap_or("no file");
        let line = e.places.line(address);
        let line = line.map(|line| format!("{line} in ")).unwrap_or_default();
        let (arch, point) = (e.arch(), sample.point.name());
        let kernel = sample.kernel.first();
        let kernel = kernel.map(|name| format!("; in the kernel, in {name}")).unwrap_or_default();
        let place = format!("{line}{file} ({arch}); program point: {point}{kernel}");
        self.label(Label { x: FRAMES, y: 80, size: 17, class: "dim" }, &short(&place, 1220, 17));
        let head = |x| Label { x, y: TOP - 26, size: 17, class: "b" };
        self.label(head(FRAMES), "True frames");
        self.label(head(ADDRESS), "Stack, from the stack pointer up");
    }

    /// The words in the middle.
    fn stack(&mut self, lines: &[Shown<'_>]) {
        for (n, line) in lines.iter().enumerate() {
            let y = TOP + n as u32 * self.row;
            let middle = Label { x: WORD + 8, y: y + self.row / 2 + 5, size: 13, class: "m dim" };
            let row = match line {
                Shown::Row(row) => *row,
                Shown::LeftOut(count, extent) => {
                    self.label(middle, &format!("… {} rows", grouped(*count as u64)));
                    let line = extent.map(|(first, last)| (first, last, y + self.row / 2));
                    self.left_out.extend(line);
                    continue;
                }
            };
            match row {
                Row::Gap => self.label(middle, "elsewhere in memory:"),
                Row::Skipped(n) => {
                    let s = if *n == 1 { "" } else { "s" };
                    self.label(middle, &format!("… {n} word{s}"));
                }
                Row::Register { number, value, marks } => {
                    let name = match *number {
                        PC => "pc",
                        number => register_name(self.e.arch(), number),
                    };
                    self.word(y, name, Some(*value), marks);
                    self.rows.push((Source::Register(*number), y + self.row / 2));
                }
                Row::Word { address, value, marks } => {
                    self.word(y, &format!("{address:x}"), *value, marks);
                    self.rows.push((Source::Memory(*address), y + self.row / 2));
                }
            }
        }
    }

    fn word(&mut self, y: u32, name: &str, value: Option<u64>, marks: &[Mark]) {
        let returns = marks.iter().any(|m| matches!(m, Mark::ReturnAddress(_)));
        let overwritten = marks.iter().any(|m| matches!(m, Mark::Overwritten(_)));
        let saved = marks.contains(&Mark::SavedFp);
        let fill = match (returns, overwritten, saved) {
            (true, _, _) => "#dcebfb",
            (_, true, _) => "#fbdcdd",
            (_, _, true) => "#fdf1d0",
            _ => "#f5f6f8",
        };
        self.rect([WORD, y + 1, 190, self.row - 2], fill, "#c3cad3");
        let base = y + self.row / 2 + 5;
        // Addresses have 12 digits: behind them is room for a word. Signed ones have 16.
        let (digits, size, room) = match value {
            Some(v) if v >> 48 == 0 => (format!("{v:012x}"), 14, 72),
            Some(v) => (format!("{v:016x}"), 11, 66),
            None => ("not recorded".to_owned(), 14, 72),
        };
        self.label(Label { x: WORD + 8, y: base, size, class: "m" }, &digits);
        let number = |n: usize| register_name(self.e.arch(), n as u8);
        let (sp, fp) = (number(self.e.arch().sp()), number(self.e.arch().fp()));
        // Where a frame goes on matters most, if a word is more than one thing.
        let what = marks.iter().find_map(|mark| match mark {
            Mark::SavedFp => Some(format!("saved {fp}")),
            Mark::ReturnAddress(n) => Some(format!("into #{n}")),
            Mark::Overwritten(n) => Some(format!("was into #{n}")),
            _ => None,
        });
        self.right_aligned(WORD + 186, base, &short(&what.unwrap_or_default(), room, 10));
        let pointer = |mark, name| if marks.contains(&mark) { name } else { "" };
        let pointers = format!("{} {}", pointer(Mark::Sp, sp), pointer(Mark::Fp, fp));
        self.right_aligned(WORD - 5, base, pointers.trim());
        let class = if marks.contains(&Mark::Sp) { "m b" } else { "m dim" };
        self.label(Label { x: ADDRESS, y: base, size: 11, class }, name);
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
        let rest = rest.join("; ");
        let below = HEIGHT - TOP - ROOM - 6;
        let sizes = [(14, 18), (12, 15), (11, 14)];
        for (size, step) in sizes {
            let lines = |text: &str| wrap(text, prose(RIGHT - FRAMES, size));
            let (first, rest) = (lines(&first), lines(&rest));
            let all = first.iter().map(|l| ("bad", l)).chain(rest.iter().map(|l| ("", l)));
            let all: Vec<_> = all.collect();
            let room = (below / step) as usize;
            if all.len() > room && size != 11 {
                continue;
            }
            for (n, (class, line)) in all.iter().take(room).enumerate() {
                let cut = if n + 1 == room && all.len() > room { " …" } else { "" };
                let y = TOP + ROOM + 2 + (n as u32 + 1) * step;
                self.label(Label { x: FRAMES, y, size, class }, &format!("{line}{cut}"));
            }
            return;
        }
    }

    /// Brackets to the left: the part of the stack of each frame.
    fn true_frames(&mut self) {
        let e = self.e;
        let mut below = TOP;
        // For each line of what is left out the first and the last frame.
        let mut hidden: Vec<Option<(usize, usize)>> = vec![None; self.left_out.len()];
        for index in 0..e.sample().frames.len() {
            let Some(sp) = e.sp_of(index) else { continue };
            let cfa = e.sample().frames[index].cfa.map_or(u64::MAX, |cfa| cfa.0);
            if let Some(line) = self.hides(index, sp, cfa) {
                let range = &mut hidden[line];
                *range = Some((range.map_or(index, |(first, _)| first), index));
                continue;
            }
            let own = self.rows.iter().filter(|(at, _)| match *at {
                Source::Memory(address) => sp <= address && address < cfa,
                Source::Register(_) => index == 0,
            });
            let (first, last) =
                own.fold((None, None), |(first, _), (_, y)| (first.or(Some(*y)), Some(*y)));
            // A frame without a word of its own still has its line.
            let (row, half) = (self.row, self.row / 2);
            let top = first.map_or(below, |y| y - half + 2).max(below);
            let bottom = last.map_or(top + row - 4, |y| y + half - 2).max(top + row - 4);
            if bottom > TOP + ROOM {
                break;
            }
            below = bottom + 4;
            let x = ADDRESS - 14;
            self.line((x, top), (x, bottom), "#3d6fa8");
            self.line((x, top), (x + 7, top), "#3d6fa8");
            self.line((x, bottom), (x + 7, bottom), "#3d6fa8");
            let (name, size) = fit(&e.frame_name(index), x - FRAMES - 8, 15);
            let class = if index == 0 { "b" } else { "" };
            let y = top + (bottom - top) / 2 + 5;
            self.label(Label { x: FRAMES, y, size, class }, &name);
        }
        for (line, range) in hidden.into_iter().enumerate() {
            let (Some((first, last)), (.., y)) = (range, self.left_out[line]) else { continue };
            let name = if first == last {
                format!("… #{first}")
            } else {
                format!("… #{first} to #{last}")
            };
            self.label(Label { x: FRAMES, y: y + 5, size: 13, class: "dim" }, &name);
        }
    }

    /// Which of the lines that stand for what is left out has all words of a frame.
    fn hides(&self, index: usize, sp: u64, cfa: u64) -> Option<usize> {
        let within = |address: u64| sp <= address && address < cfa;
        let is_shown = self.rows.iter().any(|(at, _)| match *at {
            Source::Memory(address) => within(address),
            Source::Register(_) => index == 0,
        });
        let hides = |&(first, last, _): &(u64, u64, u32)| first < cfa && sp <= last;
        if is_shown { None } else { self.left_out.iter().position(hides) }
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
        let mut boxes: Vec<(Option<Source>, Look)> = Vec::new();
        let missing = |index| (true_row(e, index), Look::missing(e, index));
        for (n, told) in replay.frames.iter().take(replay.distinct()).enumerate() {
            // True frames that are left out, each as a box of its own.
            boxes.extend((next..told.truth.unwrap_or(next)).map(missing));
            next = told.truth.map_or(next, |index| index + 1);
            let at = match n.checked_sub(1) {
                Some(callee) => replay.frames[callee].source,
                None => true_row(e, 0),
            };
            let at = at.or_else(|| told.truth.and_then(|index| true_row(e, index)));
            boxes.push((at, Look::told(e, told.truth, told.address)));
        }
        if replay.repeats.is_some() {
            let more = replay.frames.len() - replay.distinct();
            boxes.push((None, Look::again(more)));
        }
        if replay.impossible.is_some() {
            boxes.push((None, Look::dashed("not repeated".to_owned())));
        } else {
            boxes.extend((next..e.sample().frames.len()).map(missing));
        }
        let hidden = |at: &Source| !self.rows.iter().any(|(shown, _)| shown == at);
        // Words that were left out for want of room have no box; a register has no row.
        let hidden = |at: &Option<Source>| match at {
            Some(Source::Memory(_)) => at.as_ref().is_some_and(hidden),
            _ => false,
        };
        boxes.retain(|(at, _)| !hidden(at));
        // Each where it was read, whatever it is; what was read nowhere is behind the last one.
        let mut y = TOP;
        let mut placed: Vec<(u32, Option<Source>, Look)> = Vec::new();
        for (at, look) in boxes {
            let row = self.rows.iter().find(|(shown, _)| Some(*shown) == at);
            y = row.map_or(y, |(_, y)| *y);
            placed.push((y, at, look));
        }
        placed.sort_by_key(|(y, ..)| *y);
        for (_, at, look) in &placed {
            below = self.boxed([x, width], below, *at, look);
        }
    }

    /// A box not above `below`, beside the row of an address if that is shown; returns what
    /// the next one must be below.
    fn boxed(&mut self, [x, width]: [u32; 2], below: u32, at: Option<Source>, look: &Look) -> u32 {
        let row = at.and_then(|at| self.rows.iter().find(|(shown, _)| *shown == at));
        let y = row.map_or(below, |(_, middle)| middle - self.row / 2).max(below);
        if y + self.row > TOP + ROOM {
            return y + self.row;
        }
        let _ = writeln!(
            self.text,
            "<rect x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"4\" fill=\"{}\" \
             stroke=\"{}\"{}/>",
            y + 1,
            self.row - 2,
            look.fill,
            look.stroke,
            if look.dashed { " stroke-dasharray=\"5 3\"" } else { "" }
        );
        let (name, size) = fit(&look.text, width - 12, 13);
        let at = Label { x: x + 6, y: y + self.row / 2 + 4, size, class: look.class };
        self.label(at, &name);
        y + self.row
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
        Look::dashed(format!("missing {}", e.function_name(index)))
    }

    /// Frames that were there before.
    fn again(count: usize) -> Look {
        Look::dashed(format!("✗ again, {} more", grouped(count as u64)))
    }

    fn dashed(text: String) -> Look {
        Look { text, fill: "#ffffff", stroke: "#cf3a40", class: "bad", dashed: true }
    }
}

/// The row beside which a true frame's address is: what holds it.
fn true_row(e: &Explained, index: usize) -> Option<Source> {
    match index.checked_sub(1) {
        None => Some(Source::Register(PC)),
        Some(callee) => e.slot(callee).map(|slot| slot.at),
    }
}

/// Letters of a name that fit into `width` at a font size: code has wide ones.
fn room(width: u32, size: u32) -> usize {
    (width as usize * 100 / (size as usize * 62)).max(2)
}

/// The same for a sentence.
fn prose(width: u32, size: u32) -> usize {
    (width as usize * 100 / (size as usize * 54)).max(2)
}

/// Text that fits into `width` at a font size.
fn short(text: &str, width: u32, size: u32) -> String {
    let room = room(width, size);
    match text.chars().count() {
        n if n > room => text.chars().take(room - 1).chain(['…']).collect(),
        _ => text.to_owned(),
    }
}

/// A frame's name that fits into `width`, and the font size, at most `size`. A long name is
/// written smaller, or cut in its middle: the number before and the function at its end tell
/// it from others.
fn fit(text: &str, width: u32, size: u32) -> (String, u32) {
    let count = text.chars().count();
    if let Some(size) = (12.max(size * 4 / 5)..=size).rev().find(|size| count <= room(width, *size))
    {
        return (text.to_owned(), size);
    }
    // What comes before the function: the frame's number, a cross.
    let begin = text.find('#').unwrap_or(0);
    let head = match text[begin..].find(' ') {
        Some(len) if begin > 0 || text.starts_with(['#', '✗']) => &text[..begin + len + 1],
        _ => "",
    };
    let letters = head.chars().count();
    // Between the parts of a path, if the last one fits.
    for size in (10..=size).rev() {
        let room = room(width, size);
        let fits = |at: &usize| letters + 1 + text[*at..].chars().count() <= room;
        if let Some(at) = text.match_indices("::").map(|(at, _)| at).find(fits) {
            return (format!("{head}…{}", &text[at..]), size);
        }
    }
    let size = size.min(11);
    let room = room(width, size);
    if count <= room {
        return (text.to_owned(), size);
    }
    let head = if letters + 6 < room { head } else { "" };
    let tail = count - (room - head.chars().count() - 1);
    let cut = head.chars().chain(['…']).chain(text.chars().skip(tail));
    (cut.collect(), size)
}

/// Lines of at most `room` letters, cut at blanks.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
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
    fn long_texts_are_cut() {
        assert_eq!(short("abcdefghij", 62, 10), "abcdefghij");
        assert_eq!(short("abcdefghijk", 62, 10), "abcdefghi…");
        assert_eq!(short("abc", 0, 10), "a…");
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("seventeen letters", 4), ["seventeen", "letters"]);
    }

    #[test]
    fn the_end_of_a_name_is_kept() {
        let cut = |text, width| fit(text, width, 13).0;
        assert_eq!(fit("#3 main+0x10", 110, 15), ("#3 main+0x10".to_owned(), 14));
        assert_eq!(cut("#3 core::hash::hash_one", 120), "#3 …::hash_one");
        assert_eq!(cut("#3 a_function_of_a_long_name", 100), "#3 …_long_name");
        assert_eq!(cut("✗ core::hash::hash_one", 120), "✗ …::hash_one");
        assert_eq!(cut("missing #3 aé::hash_it", 134), "missing #3 …::hash_it");
        assert_eq!(fit("#3 core", 0, 13).0.chars().count(), 2);
    }
}
