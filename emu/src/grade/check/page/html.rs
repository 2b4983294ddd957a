//! Pieces of HTML. The page is also well-formed XML, so that it can be checked.

use std::fmt::Write;

use crate::grade::check::overview::share;
use crate::grade::check::report::Counts;
use crate::numbers::grouped_by;

/// A name is not longer; the JSON report has it all.
const LONGEST: usize = 400;

/// Text as content or attribute: with what HTML, XML or a line may not hold made visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(2 * LONGEST));
    for (n, c) in text.chars().enumerate() {
        if n == LONGEST {
            out.push('…');
            break;
        }
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            // Those that turn the direction of what follows, and no characters at all.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() || matches!(c as u32 & 0xffff, 0xfffe | 0xffff) => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A number with its thousands apart.
pub fn grouped(n: u64) -> String {
    grouped_by(n, '\u{202f}')
}

/// `1 function`, `2 functions`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A bar of right, wrong and no row. What is there can be seen, however little it is.
pub fn bar(counts: Counts) -> String {
    let mut out = String::from("<span class=\"bar\" aria-hidden=\"true\">");
    let parts = [("r", counts.right), ("w", counts.wrong), ("n", counts.no_coverage)];
    for (class, n) in parts.into_iter().filter(|(_, n)| *n > 0) {
        let _ = write!(out, "<i class=\"{class}\" style=\"flex-grow:{n}\"></i>");
    }
    out.push_str("</span>");
    out
}

/// A bar with its numbers in words.
pub fn cell(counts: Counts) -> String {
    if counts.total() == 0 {
        return "<span class=\"none\">none</span>".to_owned();
    }
    let mut out = bar(counts);
    let _ = write!(out, "<span class=\"nums\"><span>{}</span>", share(counts));
    if counts.wrong > 0 {
        let _ = write!(out, "<b class=\"bad\">{} wrong</b>", grouped(counts.wrong));
    }
    if counts.no_coverage > 0 {
        let _ = write!(out, "<span class=\"dim\">{} no row</span>", grouped(counts.no_coverage));
    }
    out.push_str("</span>");
    out
}
