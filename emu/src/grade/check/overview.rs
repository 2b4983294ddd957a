//! What a report comes to: totals of each method, its modules, its functions by their faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::grade::check::report::{ByMethod, Counts, Fault, Function, Report};

/// A report summed up.
#[derive(Clone, Debug)]
pub struct Overview<'r> {
    /// Everything.
    pub total: ByMethod,
    /// By name.
    pub modules: Vec<(&'r str, ByMethod)>,
    /// Every function with its sum. First those that the methods with tables are wrong in,
    /// most faults first: frame pointers are wrong at the ends of most functions.
    pub functions: Vec<(&'r Function, ByMethod)>,
}

impl<'r> Overview<'r> {
    /// Sums up.
    pub fn new(report: &'r Report) -> Overview<'r> {
        let none = vec![Counts::default(); report.header.methods.len()];
        let mut modules: BTreeMap<&str, ByMethod> = BTreeMap::new();
        let mut functions = Vec::new();
        for function in &report.functions {
            let mut sum = none.clone();
            function.points.values().for_each(|counts| add(&mut sum, counts));
            add(modules.entry(&function.module).or_insert_with(|| none.clone()), &sum);
            functions.push((function, sum));
        }
        let tabular: Vec<bool> = report.header.methods.iter().map(|m| m != "fp").collect();
        functions.sort_by_cached_key(|(f, sum)| {
            let tables: u64 = sum.iter().zip(&tabular).filter(|p| *p.1).map(|p| p.0.wrong).sum();
            let all: u64 = sum.iter().map(|c| c.wrong).sum();
            (Reverse((tables, all)), f.module.clone(), f.start)
        });
        let mut total = none;
        report.summary.points.values().for_each(|counts| add(&mut total, counts));
        Overview { total, modules: modules.into_iter().collect(), functions }
    }
}

fn add(sum: &mut ByMethod, counts: &ByMethod) {
    sum.iter_mut().zip(counts).for_each(|(s, c)| s.add(*c));
}

/// What of a function's faults is alike: function and method.
fn kin(fault: &Fault) -> (&str, u64, &str) {
    (&fault.module, fault.pc.0.wrapping_sub(fault.offset.0), &fault.method)
}

/// The same faults in an order in which the first few show most: one of each function and
/// method, functions with many faults first, then a second one of each, and so on.
pub fn varied<'f>(faults: impl IntoIterator<Item = &'f Fault>) -> Vec<&'f Fault> {
    let mut seen: HashMap<(&str, u64, &str), usize> = HashMap::new();
    let mut ranked = Vec::new();
    for fault in faults {
        let nth = seen.entry(kin(fault)).or_default();
        ranked.push((*nth, fault));
        *nth += 1;
    }
    ranked.sort_by_key(|(nth, fault)| (*nth, Reverse(seen.get(&kin(fault)))));
    ranked.into_iter().map(|(_, fault)| fault).collect()
}

/// Whether a fault has a row to show: its method reads a table that reports print.
pub fn has_table(fault: &Fault) -> bool {
    fault.row.is_some() || matches!(&*fault.method, "dwarf" | "sframe")
}

/// The share that is right, in words: 100 and 0 only where it is all or none.
pub fn share(counts: Counts) -> String {
    match (counts.right, counts.total()) {
        (_, 0) => "·".to_owned(),
        (a, b) if a == b => "100 %".to_owned(),
        (0, _) => "0 %".to_owned(),
        (a, b) => format!("{:.1} %", (a as f64 / b as f64 * 100.0).clamp(0.1, 99.9)),
    }
}

/// How much is wrong: instructions, and if that is more, in how many ways, each of which is a
/// fault. `11 wrong`, `11 newly wrong in 12 ways`. `faults` has those of an instruction and
/// method side by side; `grouped` writes numbers.
pub fn wrong(faults: &[&Fault], new: bool, grouped: impl Fn(u64) -> String) -> String {
    let mut places: Vec<_> = faults.iter().map(|f| (f.address, &f.method)).collect();
    places.dedup();
    let (places, ways) = (places.len() as u64, faults.len() as u64);
    let new = if new { "newly wrong" } else { "wrong" };
    match ways == places {
        true => format!("{} {new}", grouped(places)),
        false => format!("{} {new} in {} ways", grouped(places), grouped(ways)),
    }
}

/// What a report comes to in words, method by method: `fp 8 newly wrong (3 known), dwarf all
/// right, sframe covers nothing (43 without a row)`. `new`: its faults that are not known;
/// `compared`: there are known ones. `grouped` writes numbers.
pub fn sentence(
    report: &Report,
    new: &[&Fault],
    compared: bool,
    grouped: impl Fn(u64) -> String + Copy,
) -> String {
    let total = Overview::new(report).total;
    let methods = report.header.methods.iter().zip(total).map(|(method, counts)| {
        let fresh: Vec<&Fault> = new.iter().copied().filter(|f| f.method == *method).collect();
        let all = report.faults.iter().filter(|f| f.method == *method).count();
        let known = (all - fresh.len()) as u64;
        let mut said = Vec::new();
        if !fresh.is_empty() {
            said.push(wrong(&fresh, compared, grouped));
        }
        if known > 0 {
            said.push(format!("{} known", grouped(known)));
        }
        if counts.no_coverage > 0 {
            if counts.no_coverage == counts.total() {
                said.push("covers nothing".to_owned());
            } else if said.is_empty() {
                said.push(format!("{} right", grouped(counts.right)));
            }
            said.push(format!("{} without a row", grouped(counts.no_coverage)));
        }
        match said.split_first() {
            None => format!("{method} all right"),
            Some((first, [])) => format!("{method} {first}"),
            Some((first, rest)) => format!("{method} {first} ({})", rest.join(", ")),
        }
    });
    methods.collect::<Vec<_>>().join(", ")
}

/// In what a fault is wrong, in words: `wrong CFA`, `claimed outermost`.
pub fn kind(fault: &Fault) -> String {
    match &*fault.wrong {
        "cfa" => "wrong CFA".to_owned(),
        wrong @ ("return address" | "registers" | "kind of address") => format!("wrong {wrong}"),
        other => other.to_owned(),
    }
}

/// In how many of its checks a fault was seen, in words: `3 of 14 checks`.
pub fn times(fault: &Fault) -> String {
    let Fault { times, checked, .. } = fault;
    match (times, checked) {
        (1, 1) => "its one check".to_owned(),
        (a, b) if a == b => format!("all {b} checks"),
        (a, b) => format!("{a} of {b} checks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_all_or_none_only_if_it_is() {
        let of = |right, wrong| share(Counts { right, wrong, no_coverage: 0 });
        assert_eq!([of(0, 0), of(3, 0), of(0, 3)], ["·", "100 %", "0 %"]);
        assert_eq!([of(1, 99_999), of(99_999, 1), of(3, 1)], ["0.1 %", "99.9 %", "75.0 %"]);
    }
}
