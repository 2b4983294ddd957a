//! One wrong instruction, to be opened.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::grade::check::overview::{has_table, kind, times};
use crate::grade::check::page::html::{counted, escape};
use crate::grade::check::report::{Caller, Fault, Hex, Registers};
use crate::grade::file::FrameKind;

/// Writes it.
pub fn render(out: &mut String, fault: &Fault, new: bool, open: bool) {
    let class = if new { "fault" } else { "fault known" };
    let open = if open { " open=\"open\"" } else { "" };
    let known = if new { "" } else { "<span class=\"tag\">known</span>" };
    let _ = writeln!(
        out,
        "<details class=\"{class}\"{open}><summary><code class=\"at\">+{}</code>\
         <code class=\"insn\">{}</code><span class=\"point\">{}</span>\
         <b class=\"bad\">{}</b><span class=\"dim\">{}</span>{known}</summary>",
        fault.offset,
        escape(&fault.instruction),
        fault.point.name(),
        escape(&kind(fault)),
        times(fault),
    );
    out.push_str("<div class=\"case\"><div class=\"left\">");
    listing(out, fault);
    facts(out, fault);
    out.push_str("</div>");
    callers(out, fault);
    out.push_str("</div></details>\n");
}

/// Code, with the line that it is about marked.
fn listing(out: &mut String, fault: &Fault) {
    out.push_str("<pre>");
    for (address, text) in &fault.listing {
        let (open, close) =
            if *address == fault.pc { ("<mark>▸ ", "</mark>") } else { ("<span>  ", "</span>") };
        let _ = write!(out, "{open}{address}  {}{close}", escape(text));
        out.push('\n');
    }
    out.push_str("</pre>");
}

fn facts(out: &mut String, fault: &Fault) {
    let row = match &fault.row {
        Some(row) => format!("<code>{}</code>", escape(row)),
        None if has_table(fault) => "none".to_owned(),
        None => "<span class=\"dim\">the method has no table to show</span>".to_owned(),
    };
    let registers: Vec<String> = fault
        .registers
        .iter()
        .map(|(name, value)| format!("<code>{}={value}</code>", escape(name)))
        .collect();
    let mut facts = vec![("Row in force", row), ("Registers", registers.join(" "))];
    facts.push((
        "Executed",
        format!("{}; wrong in {}", counted(fault.executions, "time"), times(fault)),
    ));
    if fault.address != fault.pc {
        facts.push(("In the process", format!("<code>{}</code>", fault.address)));
    }
    out.push_str("<dl>");
    for (name, text) in facts {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{text}</dd></div>");
    }
    out.push_str("</dl>");
}

/// The true caller and the one that was told, side by side.
fn callers(out: &mut String, fault: &Fault) {
    out.push_str(
        "<div class=\"right\"><table class=\"callers\"><thead><tr><th scope=\"col\">caller’s</th>\
         <th scope=\"col\">expected</th><th scope=\"col\">found</th></tr></thead><tbody>\n",
    );
    let (expected, found) = (fault.expected.as_ref(), fault.found.as_ref());
    let either = |of: fn(&Caller) -> Option<Hex>| [expected.and_then(of), found.and_then(of)];
    line(out, "CFA", either(|c| c.cfa), ["", ""]);
    let place = |c: Option<&Caller>| match c {
        Some(c) => {
            let place = if c.place.is_empty() { "in no file" } else { &c.place };
            match c.address_kind {
                Some(FrameKind::Interrupted) => format!("{place}, interrupted"),
                _ => place.to_owned(),
            }
        }
        None => String::new(),
    };
    let places = [place(expected), place(found)];
    let places = [places[0].as_str(), places[1].as_str()];
    line(out, "RA", either(|c| Some(c.return_address)), places);
    let empty = Registers::new();
    let known = [expected, found].map(|c| c.map_or(&empty, |c| &c.registers));
    let names: BTreeSet<&String> = known.iter().flat_map(|r| r.keys()).collect();
    for name in names {
        line(out, name, known.map(|r| r.get(name).copied()), ["", ""]);
    }
    out.push_str("</tbody></table>");
    let without = match (expected, found) {
        (None, _) => "There is no caller: this is the outermost frame.",
        (_, None) => "The method told no caller.",
        _ => "",
    };
    let reason = fault.reason.as_deref().map_or(String::new(), |r| format!(" {}", escape(r)));
    if !without.is_empty() || !reason.is_empty() {
        let _ = write!(out, "<p class=\"why\">{without}<b>{reason}</b></p>");
    }
    out.push_str("</div>");
}

/// A row; one that both tell and that differs is marked.
fn line(out: &mut String, name: &str, values: [Option<Hex>; 2], places: [&str; 2]) {
    let differ = matches!(values, [Some(a), Some(b)] if a != b);
    let (class, sign) = if differ { (" class=\"differs\"", "≠ ") } else { ("", "") };
    let _ = write!(out, "<tr{class}><th scope=\"row\">{}</th>", escape(name));
    for (n, (value, place)) in values.into_iter().zip(places).enumerate() {
        let sign = if n == 1 { sign } else { "" };
        let _ = match value {
            Some(value) => write!(out, "<td>{sign}<code>{value}</code>"),
            None => write!(out, "<td><span class=\"none\">–</span>"),
        };
        if !place.is_empty() {
            let _ = write!(out, "<small>{}</small>", escape(place));
        }
        out.push_str("</td>");
    }
    out.push_str("</tr>\n");
}
