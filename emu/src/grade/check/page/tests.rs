use super::html::{escape, grouped};
use super::*;
use crate::grade::check::report::{Caller, Function, Header, Hex, Registers, Summary, Symbol};
use crate::grade::file::FrameKind;
use crate::grade::point::ProgramPoint;

const HOSTILE: &str = "<b>&\"'\u{1b}\u{0}\n</script>\u{202e}]]>";

fn fault(function: &str, offset: u64, method: &str) -> Fault {
    let name = |n: u64| (format!("r{n}"), Hex(n));
    let caller = |n: u64| Caller {
        cfa: Some(Hex(n)),
        return_address: Hex(0x400),
        address_kind: Some(FrameKind::Return),
        place: HOSTILE.to_owned(),
        registers: Registers::from([name(3), name(4)]),
    };
    Fault {
        module: HOSTILE.to_owned(),
        function: Some(function.to_owned()),
        symbol: Some(Symbol { name: function.to_owned(), ordinal: 0 }),
        offset: Hex(offset),
        pc: Hex(0x1000 + offset),
        address: Hex(0x5000 + offset),
        point: ProgramPoint::Body,
        method: method.to_owned(),
        wrong: "cfa".to_owned(),
        executions: 9,
        checked: 8,
        times: 3,
        row: Some(HOSTILE.to_owned()),
        instruction: HOSTILE.to_owned(),
        listing: vec![(Hex(0x1000 + offset), HOSTILE.to_owned())],
        registers: Registers::from([name(7)]),
        expected: Some(caller(1)),
        found: (method == "dwarf").then(|| caller(2)),
        reason: (method != "dwarf").then(|| HOSTILE.to_owned()),
    }
}

/// A function with so many instructions, all wrong by two methods.
fn report(wrong: u64) -> Report {
    let counts = Counts { wrong, ..Counts::default() };
    let points = ByPoint::from([(ProgramPoint::Body, vec![counts; 2])]);
    let faults = (0..wrong)
        .flat_map(|n| ["fp", "dwarf"].map(|method| fault(HOSTILE, n, method)))
        .collect::<Vec<Fault>>();
    let methods = vec!["fp".to_owned(), "dwarf".to_owned()];
    Report {
        header: Header {
            schema: String::new(),
            version: 1,
            guest: HOSTILE.to_owned(),
            arch: "x86_64".to_owned(),
            methods,
            every: false,
        },
        functions: vec![Function {
            module: HOSTILE.to_owned(),
            function: Some(HOSTILE.to_owned()),
            symbol: None,
            start: Hex(0x1000),
            pcs: wrong,
            undecided: 0,
            points: points.clone(),
        }],
        summary: Summary {
            instructions: 9,
            pcs: wrong,
            checks: 8,
            points,
            faults: vec![wrong; 2],
            ..Summary::default()
        },
        faults,
    }
}

/// What is not well-formed in `page`, read as XML with the entities that [`escape`] makes.
fn defect(page: &str) -> Option<String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n")?;
    let mut open: Vec<&str> = Vec::new();
    while let Some(at) = rest.find(['<', '&']) {
        let (text, found) = rest.split_at(at);
        if text.contains("]]>") || text.contains(|c: char| c.is_control() && c != '\n') {
            return Some(format!("bad text: {text:?}"));
        }
        if let Some(entity) = found.strip_prefix('&') {
            let known = ["lt;", "gt;", "amp;", "quot;", "#39;"];
            let Some(name) = known.iter().find(|k| entity.starts_with(**k)) else {
                return Some(format!("bad entity: {}", &found[..found.len().min(20)]));
            };
            rest = &entity[name.len()..];
            continue;
        }
        let Some(end) = found.find('>') else { return Some("a tag without end".to_owned()) };
        let tag = &found[1..end];
        rest = &found[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> closes nothing"));
            }
            continue;
        }
        if let Some(wrong) = attributes(tag.trim_end_matches('/')) {
            return Some(wrong);
        }
        if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    (!open.is_empty()).then(|| format!("left open: {open:?}"))
}

/// What is wrong in a tag's `name a="b" c="d"`.
fn attributes(tag: &str) -> Option<String> {
    let mut parts = tag.split('"');
    let mut names = vec![parts.next()?.to_owned()];
    while let Some(value) = parts.next() {
        let Some(next) = parts.next() else { return Some(format!("a quote is open: {tag}")) };
        if value.contains('<') || !names.last()?.ends_with('=') {
            return Some(format!("a bad attribute: {tag}"));
        }
        names.push(next.to_owned());
    }
    let last = names.pop()?;
    let bare = !names.is_empty() && !last.is_empty();
    (bare || names.is_empty() && last.contains(['=', ' '])).then(|| format!("a bare word: {tag}"))
}

#[test]
fn defects_are_found() {
    let page = |text: &str| format!("<!DOCTYPE html>\n{text}");
    assert_eq!(defect(&page("<a b=\"c\" d=\"e\">&lt;<br/></a>")), None);
    let bad = ["<a>", "</a>", "<a></b>", "<a b=c></a>", "<a b></a>", "&nbsp;", "&", "\u{1b}<a/>"];
    for bad in bad {
        assert!(defect(&page(bad)).is_some(), "{bad}");
    }
}

#[test]
fn a_page_is_well_formed_whatever_the_names_are() {
    for wrong in [0, 1, 40] {
        let report = report(wrong);
        for new in [0, report.faults.len() / 2, report.faults.len()] {
            let new: Vec<&Fault> = report.faults.iter().take(new).collect();
            let page = render(&report, &new, true, Limits::default());
            assert_eq!(defect(&page), None, "{wrong} wrong, {} new", new.len());
            assert!(!page.contains("<b>&"), "a name is not escaped");
        }
    }
}

#[test]
fn known_faults_are_marked_and_new_ones_come_first() {
    let report = report(40);
    let count = |page: &str, what: &str| page.matches(what).count();
    let per_function = Limits::default().per_function;
    let (fresh, known) = ("<details class=\"fault\"", "<details class=\"fault known\"");
    let all: Vec<&Fault> = report.faults.iter().collect();
    let rendered = |new: &[&Fault]| render(&report, new, true, Limits::default());
    let page = rendered(&all);
    assert_eq!([count(&page, fresh), count(&page, known)], [2 * per_function, 0]);
    assert_eq!(count(&page, ">and 34 more, not shown"), 2);
    // The last of each method: seen all the same.
    let page = rendered(&all[78..]);
    assert_eq!([count(&page, fresh), count(&page, known)], [2, 2 * (per_function - 1)]);
    assert!(page.contains("fp 1 newly wrong (39 known), dwarf 1 newly wrong (39 known)"));
    assert!(page.contains("12 of 80 faults are shown in full, at most 6 of each function"));
    let page = rendered(&[]);
    assert_eq!([count(&page, fresh), count(&page, known)], [0, 2 * per_function]);
    assert!(page.contains("Nothing new is wrong: fp 40 known, dwarf 40 known"));
    let page = render(&report, &all, false, Limits::per_method(0));
    assert_eq!([count(&page, fresh), count(&page, "shown in full")], [80, 0]);
    assert!(page.contains(">fp 40 wrong, dwarf 40 wrong<"));
}

#[test]
fn values_that_differ_are_marked() {
    let report = report(1);
    let new: Vec<&Fault> = report.faults.iter().collect();
    let page = render(&report, &new, false, Limits::default());
    assert!(page.contains("<tr class=\"differs\"><th scope=\"row\">CFA</th>"));
    assert_eq!(page.matches("class=\"differs\"").count(), 1);
    assert!(page.contains("<mark>▸ 0x1000"));
}

#[test]
fn names_that_are_long_are_cut() {
    assert!(escape(&"x".repeat(1 << 20)).len() < 1000);
    assert_eq!(escape("a\u{0}\u{1fffe}b"), "a\u{fffd}\u{fffd}b");
    assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
}
