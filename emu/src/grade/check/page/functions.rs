//! The list of functions, each to be opened.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ptr::from_ref;

use crate::grade::check::overview::{Overview, varied, wrong};
use crate::grade::check::page::html::{bar, counted, escape, grouped};
use crate::grade::check::page::{Limits, by_point, fault, matrix};
use crate::grade::check::report::{ByMethod, Counts, Fault, Function, Report};

/// So few functions with new faults are open from the start.
const OPEN: usize = 3;

/// Module and start of a function.
type Place<'r> = (&'r str, u64);

/// The list.
pub struct Functions<'r> {
    report: &'r Report,
    /// With their sums, in the order of the overview; those with new faults first.
    functions: Vec<&'r (&'r Function, ByMethod)>,
    /// The faults of each function, by address and method.
    faults: HashMap<Place<'r>, Vec<&'r Fault>>,
    /// Those that are not known, by address in memory.
    new: HashSet<*const Fault>,
    /// Those that are shown in full.
    shown: HashSet<*const Fault>,
    limits: Limits,
    /// Whether functions with new faults are open.
    open: bool,
}

impl<'r> Functions<'r> {
    /// What will be shown. `fresh`: the report's faults that are not known.
    pub fn new(
        report: &'r Report,
        overview: &'r Overview<'r>,
        fresh: &[&'r Fault],
        limits: Limits,
    ) -> Functions<'r> {
        let mut faults: HashMap<Place<'_>, Vec<&Fault>> = HashMap::new();
        report.faults.iter().for_each(|f| faults.entry(place(f)).or_default().push(f));
        let new: HashSet<*const Fault> = fresh.iter().map(|f| from_ref(*f)).collect();
        // New ones first, so that known ones do not take their room.
        let (fresh, known): (Vec<&Fault>, Vec<&Fault>) =
            report.faults.iter().partition(|f| new.contains(&from_ref(*f)));
        let mut room: HashMap<(Place<'_>, &str), usize> = HashMap::new();
        let mut has_room = |f: &'r Fault| {
            let used = room.entry((place(f), &*f.method)).or_default();
            *used += 1;
            *used <= limits.per_function
        };
        let order = varied(fresh.iter().copied()).into_iter().chain(varied(known));
        let shown = order.filter(|f| has_room(f)).take(limits.per_page).map(from_ref).collect();
        let with_new: HashSet<Place<'_>> = fresh.iter().map(|f| place(f)).collect();
        let mut functions: Vec<_> = overview.functions.iter().collect();
        functions.sort_by_key(|(f, _)| !with_new.contains(&(&*f.module, f.start.0)));
        let open = with_new.len() <= OPEN;
        Functions { report, functions, faults, new, shown, limits, open }
    }

    /// Writes the list.
    pub fn render(&self, out: &mut String) {
        let all = &self.functions;
        let _ = write!(out, "<section>\n<h2>{}</h2>\n", counted(all.len() as u64, "function"));
        self.left_out(out);
        self.controls(out);
        let methods = self.report.header.methods.len();
        let _ =
            writeln!(out, "<div class=\"wide\"><div id=\"list\" style=\"--methods:{methods}\">");
        self.titles(out);
        for (function, sum) in all.iter().take(self.limits.functions) {
            self.function(out, function, sum);
        }
        out.push_str("</div></div>\n");
        if let Some(more) = all.len().checked_sub(self.limits.functions).filter(|n| *n > 0) {
            let more = counted(more as u64, "more function");
            let _ = writeln!(out, "<p class=\"more\">and {more}: --details 0 lists all</p>");
        }
        out.push_str("</section>\n");
    }

    /// How many faults are not shown in full, if there are such.
    fn left_out(&self, out: &mut String) {
        let all = self.report.faults.len();
        if self.shown.len() == all {
            return;
        }
        let Limits { per_function, per_page, .. } = self.limits;
        let page = match per_page {
            usize::MAX => String::new(),
            n => format!(", and {} of the page", grouped(n as u64)),
        };
        let _ = writeln!(
            out,
            "<p class=\"more\">{} of {} faults are shown in full, at most {} of each function and \
             method{page}: <code>--details 0</code> shows all, <code>--format json</code> \
             writes all.</p>",
            grouped(self.shown.len() as u64),
            grouped(all as u64),
            grouped(per_function as u64),
        );
    }

    /// Filters, which the script makes visible.
    fn controls(&self, out: &mut String) {
        out.push_str(
            "<form id=\"controls\" hidden=\"hidden\">\
             <label>Find <input id=\"find\" type=\"search\" placeholder=\"function or \
             module\"/></label><label>Show <select id=\"which\">\
             <option value=\"wrong\">functions with wrong instructions</option>",
        );
        if self.new.len() < self.report.faults.len() {
            out.push_str("<option value=\"new\">functions with new faults</option>");
        }
        for (n, method) in self.report.header.methods.iter().enumerate() {
            let method = escape(method);
            let _ = write!(out, "<option value=\"{n}\">functions with {method} wrong</option>");
        }
        out.push_str(
            "<option value=\"all\">all functions</option></select></label>\
             <output id=\"count\"></output></form>\n",
        );
    }

    fn titles(&self, out: &mut String) {
        out.push_str(
            "<div class=\"row titles\"><span><button type=\"button\" data-sort=\"name\" \
             disabled=\"disabled\">function</button></span><span class=\"num\"><button \
             type=\"button\" data-sort=\"size\" disabled=\"disabled\">instr.</button></span>",
        );
        for (n, method) in self.report.header.methods.iter().enumerate() {
            let _ = write!(
                out,
                "<span class=\"pair\"><button type=\"button\" data-sort=\"{n}\" \
                 disabled=\"disabled\">{}</button><small>wrong</small><small>no row</small></span>",
                escape(method)
            );
        }
        out.push_str("</div>\n");
    }

    fn function(&self, out: &mut String, function: &Function, sum: &ByMethod) {
        let faults = self.faults.get(&(&*function.module, function.start.0));
        let faults = faults.map_or(&[][..], |f| f.as_slice());
        let new = faults.iter().filter(|f| self.is_new(f)).count();
        let wrong: Vec<String> = sum.iter().map(|c| c.wrong.to_string()).collect();
        let class = if !faults.is_empty() && new == 0 { "fn known" } else { "fn" };
        let data = format!(
            "data-size=\"{}\" data-wrong=\"{}\" data-new=\"{new}\"",
            function.pcs,
            wrong.join(" ")
        );
        // What is right everywhere has nothing to open.
        if sum.iter().all(|c| c.wrong == 0 && c.no_coverage == 0) {
            let _ = write!(out, "<div class=\"{class}\" {data}>");
            self.row(out, function, sum);
            out.push_str("</div>\n");
            return;
        }
        let open = if self.open && new > 0 { " open=\"open\"" } else { "" };
        let _ = write!(out, "<details class=\"{class}\" {data}{open}><summary>");
        self.row(out, function, sum);
        out.push_str("</summary><div class=\"inside\">\n");
        matrix(out, "program point", &self.report.header.methods, by_point(&function.points), None);
        let mut first = self.open && new > 0;
        for method in &self.report.header.methods {
            self.faults(out, faults, method, &mut first);
        }
        out.push_str("</div></details>\n");
    }

    fn row(&self, out: &mut String, function: &Function, sum: &ByMethod) {
        let name = match &function.function {
            Some(name) => escape(name),
            None => format!("<i>no name</i> {}", function.start),
        };
        let _ = write!(
            out,
            "<span class=\"row\"><span class=\"name\"><code>{name}</code> <small>{} {}</small>\
             </span><span class=\"num\">{}</span>",
            escape(&function.module),
            function.start,
            grouped(function.pcs)
        );
        for (method, counts) in self.report.header.methods.iter().zip(sum) {
            pair(out, method, *counts);
        }
        out.push_str("</span>");
    }

    /// The faults of one method. The first new one is open if `open` says so.
    fn faults(&self, out: &mut String, faults: &[&Fault], method: &str, open: &mut bool) {
        let of_method = faults.iter().copied().filter(|f| f.method == method);
        // What is new is not to be looked for below what is known.
        let (mut of_method, known): (Vec<&Fault>, Vec<&Fault>) =
            of_method.partition(|f| self.is_new(f));
        of_method.extend(known);
        if of_method.is_empty() {
            return;
        }
        let total = of_method.len() as u64;
        let words = wrong(&of_method, false, grouped);
        let _ = writeln!(out, "<h3>{}: {words}</h3>", escape(method));
        let mut left = total;
        for fault in of_method.into_iter().filter(|f| self.shown.contains(&from_ref(*f))) {
            let new = self.is_new(fault);
            fault::render(out, fault, new, new && std::mem::take(open));
            left -= 1;
        }
        if left > 0 {
            let and = if left < total { "and " } else { "" };
            let left = grouped(left);
            let _ = writeln!(out, "<p class=\"more\">{and}{left} more, not shown</p>");
        }
    }

    fn is_new(&self, fault: &Fault) -> bool {
        self.new.contains(&from_ref(fault))
    }
}

/// Wrong and no row of a method in a function.
fn pair(out: &mut String, method: &str, counts: Counts) {
    let number = |n| if n == 0 { "·".to_owned() } else { grouped(n) };
    let class = if counts.wrong > 0 { " class=\"bad\"" } else { "" };
    let _ = write!(
        out,
        "<span class=\"pair\" title=\"{}: {} right, {} wrong, {} no row\">{}<b{class}>{}</b>\
         <span class=\"dim\">{}</span></span>",
        escape(method),
        counts.right,
        counts.wrong,
        counts.no_coverage,
        bar(counts),
        number(counts.wrong),
        number(counts.no_coverage),
    );
}

fn place(fault: &Fault) -> Place<'_> {
    (&fault.module, fault.pc.0.wrapping_sub(fault.offset.0))
}
