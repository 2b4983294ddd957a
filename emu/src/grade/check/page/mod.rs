//! A report as a page: one file of HTML that needs nothing else, to read from a disk, with or
//! without its script, on light or dark, or printed.
//!
//! However many faults there are, it shows few enough in full to stay quick, unless all are
//! wanted, and says how many are left: see [`Limits`].

mod fault;
mod functions;
mod html;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::grade::check::overview::{Overview, sentence};
use crate::grade::check::page::functions::Functions;
use crate::grade::check::page::html::{bar, cell, counted, escape, grouped};
use crate::grade::check::report::{ByMethod, ByPoint, Counts, Fault, Report};

/// How much a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Faults of a function and method that are shown in full.
    pub per_function: usize,
    /// Faults that are shown in full. New ones come first, then one of each function and method,
    /// then a second.
    pub per_page: usize,
    /// Functions that are listed, those with faults first.
    pub functions: usize,
}

impl Default for Limits {
    /// A page that browsers show quickly.
    fn default() -> Limits {
        Limits { per_function: 6, per_page: 1500, functions: 3000 }
    }
}

impl Limits {
    /// So many faults of each function and method, 0: all, and all functions.
    pub fn per_method(count: usize) -> Limits {
        let per_function = if count == 0 { usize::MAX } else { count };
        Limits { per_function, per_page: usize::MAX, functions: usize::MAX }
    }
}

/// The page. `new`: those of the report's faults that are not known already; `compared`: some
/// may be.
pub fn render(report: &Report, new: &[&Fault], compared: bool, limits: Limits) -> String {
    let overview = Overview::new(report);
    let mut out = String::with_capacity(1 << 16);
    head(&mut out, report, new, compared);
    cards(&mut out, report, &overview.total, new);
    points(&mut out, report, &overview.total);
    modules(&mut out, report, &overview);
    Functions::new(report, &overview, new, limits).render(&mut out);
    out.push_str("</main>\n<script>\n");
    out.push_str(include_str!("script.js"));
    out.push_str("</script>\n</body>\n</html>\n");
    out
}

fn head(out: &mut String, report: &Report, new: &[&Fault], compared: bool) {
    let Report { header, summary, functions, .. } = report;
    let guest = escape(header.guest.rsplit('/').next().unwrap_or_default());
    let arch = escape(&header.arch);
    let style = include_str!("style.css");
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{guest} on {arch}: unwinders checked</title>\n<style>\n{style}</style>\n</head>\n\
         <body>\n<main>\n<header>\n<p class=\"kicker\">emu check</p>\n\
         <h1>{guest} <span class=\"dim\">on {arch}</span></h1>\n"
    );
    let class = if new.is_empty() { "good" } else { "bad" };
    let said = escape(&sentence(report, new, compared, grouped));
    let verdict = match compared && new.is_empty() {
        true => format!("Nothing new is wrong: {said}"),
        false => said,
    };
    let how = match header.every {
        true => "every execution of each",
        false => "the first 8 executions of each and then every power of two",
    };
    let _ = write!(
        out,
        "<p class=\"verdict {class}\">{verdict}</p>\n\
         <p class=\"lead\">At each instruction that the guest executed, one step of each method \
         was compared with the true caller: its stack pointer (CFA), return address (RA) and \
         callee-saved registers. An instruction is right if all its checks were.</p>\n\
         <dl class=\"facts\">\n"
    );
    let undecided = match summary.undecided {
        0 => String::new(),
        n => format!(
            " ({} between two stacks or too deep, where nothing can be checked)",
            grouped(n)
        ),
    };
    let facts = [
        ("Guest", format!("<code>{}</code>", escape(&header.guest))),
        ("Instructions", format!("{} distinct{undecided}", grouped(summary.pcs))),
        ("Executed", grouped(summary.instructions)),
        ("Functions", grouped(functions.len() as u64)),
        ("Checks", format!("{}: {how}", grouped(summary.checks))),
    ];
    for (name, text) in facts {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{text}</dd></div>");
    }
    out.push_str("</dl>\n</header>\n");
}

/// A card for each method.
fn cards(out: &mut String, report: &Report, total: &ByMethod, new: &[&Fault]) {
    out.push_str("<section class=\"cards\" aria-label=\"Methods\">\n");
    for (name, counts) in report.header.methods.iter().zip(total) {
        let of = |f: &&Fault| f.method == *name;
        let fresh = new.iter().filter(|f| of(f)).count() as u64;
        let known = report.faults.iter().filter(of).count() as u64 - fresh;
        let share = crate::grade::check::overview::share(*counts);
        let class = if fresh > 0 { "bad" } else { "" };
        let _ = write!(
            out,
            "<div class=\"card\"><h2>{}</h2><p class=\"big\">{share} <span>right</span></p>{}\
             <p class=\"nums\"><b class=\"{class}\">{} wrong</b>",
            escape(name),
            bar(*counts),
            grouped(counts.wrong),
        );
        if known > 0 {
            let _ = write!(out, "<span class=\"dim\">{} known</span>", grouped(known));
        }
        let _ = writeln!(
            out,
            "<span class=\"dim\">{} no row</span></p></div>",
            grouped(counts.no_coverage)
        );
    }
    out.push_str(
        "</section>\n<p class=\"legend\"><span><i class=\"r\"></i>right</span>\
         <span><i class=\"w\"></i>wrong at least once</span>\
         <span><i class=\"n\"></i>no row: the method’s table does not cover it</span></p>\n",
    );
}

/// A table of bars: a row for each of `rows`.
fn matrix<'a>(
    out: &mut String,
    first: &str,
    methods: &[String],
    rows: impl Iterator<Item = (&'a str, &'a ByMethod)>,
    total: Option<&ByMethod>,
) {
    let _ = write!(
        out,
        "<div class=\"wide\"><table class=\"matrix\">\n<thead><tr><th scope=\"col\">{first}</th>\
         <th scope=\"col\" class=\"num\">instructions</th>"
    );
    for method in methods {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(method));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    rows.for_each(|(name, counts)| row(out, name, counts));
    out.push_str("</tbody>\n");
    if let Some(total) = total {
        out.push_str("<tfoot>\n");
        row(out, "all", total);
        out.push_str("</tfoot>\n");
    }
    out.push_str("</table></div>\n");
}

fn row(out: &mut String, name: &str, counts: &ByMethod) {
    let total = counts.first().map_or(0, |c| c.total());
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}</th><td class=\"num\">{}</td>",
        escape(name),
        grouped(total)
    );
    counts.iter().for_each(|c: &Counts| {
        let _ = write!(out, "<td>{}</td>", cell(*c));
    });
    out.push_str("</tr>\n");
}

/// The rows of a matrix by program point.
fn by_point(points: &ByPoint) -> impl Iterator<Item = (&str, &ByMethod)> {
    points.iter().map(|(point, counts)| (point.name(), counts))
}

fn points(out: &mut String, report: &Report, total: &ByMethod) {
    out.push_str("<section>\n<h2>By program point</h2>\n");
    let methods = &report.header.methods;
    matrix(out, "program point", methods, by_point(&report.summary.points), Some(total));
    out.push_str("</section>\n");
}

fn modules(out: &mut String, report: &Report, overview: &Overview<'_>) {
    let modules = &overview.modules;
    let title = counted(modules.len() as u64, "module");
    let _ = write!(out, "<section>\n<h2>{title}</h2>\n");
    let rows = modules.iter().map(|(name, counts)| (*name, counts));
    matrix(out, "module", &report.header.methods, rows, None);
    out.push_str("</section>\n");
}
