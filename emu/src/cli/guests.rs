//! `emu guests`: the catalogue.

use std::fmt::Write as _;

use arch::signal::Signal;
use guests::{Catalogue, Guest};

use crate::cli::options::GuestsOptions;
use crate::cli::output::{Failure, Style, quoted, status, to_stdout};
use crate::cli::world;

/// Prints the catalogue, or all about one guest.
///
/// # Errors
///
/// [`Failure`] if there is no catalogue or no such guest in it.
pub fn run(options: &GuestsOptions) -> Result<u8, Failure> {
    let catalogue =
        Catalogue::load(&guests::default_dir()).map_err(|e| Failure::new(status::FAILURE, e))?;
    let style = Style::of_stdout();
    let text = match &options.name {
        None => table(catalogue.guests(), style),
        Some(name) => match catalogue.find(name) {
            Some(guest) => details(&catalogue, guest, style),
            None => {
                let names = catalogue.guests().iter().map(|g| g.name.as_str());
                return Err(Failure::new(status::NOT_FOUND, world::unknown("guest", name, names)));
            }
        },
    };
    to_stdout(&text)?;
    Ok(0)
}

/// One line a guest.
fn table(guests: &[Guest], style: Style) -> String {
    let head = ["NAME", "ARCH", "LIBC", "FP", "SHOWS"].map(str::to_owned);
    let rows: Vec<[String; 5]> = guests
        .iter()
        .map(|g| {
            let fp = if g.frame_pointers { "yes" } else { "no" };
            [g.name.clone(), g.arches.join(" "), g.libc.to_string(), fp.to_owned(), g.shows.clone()]
        })
        .collect();
    let width = |i: usize| {
        rows.iter().chain([&head]).map(|r| r[i].chars().count()).max().unwrap_or_default()
    };
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 5], paint: &dyn Fn(&str) -> String| {
        let [a, b, c, d] = widths;
        let name = paint(&format!("{:a$}", row[0]));
        format!("{name}  {:b$}  {:c$}  {:d$}  {}\n", row[1], row[2], row[3], row[4])
    };
    let mut text = style.bold(line(&head, &str::to_owned).trim_end());
    text.push('\n');
    for row in &rows {
        text.push_str(&line(row, &|name| style.cyan(name)));
    }
    text
}

/// All about one guest.
fn details(catalogue: &Catalogue, guest: &Guest, style: Style) -> String {
    let mut text = String::new();
    let fp = if guest.frame_pointers { "kept" } else { "omitted" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}: {}\n", style.bold(&guest.name), guest.shows);
    let _ = writeln!(text, "  libc            {}, {}", guest.libc, guest.link);
    let _ = writeln!(text, "  frame pointers  {fp}");
    if !guest.tags.is_empty() {
        let _ = writeln!(text, "  tags            {}", guest.tags.join(", "));
    }
    for arch in &guest.arches {
        let path = catalogue.path(guest, arch);
        let missing = if path.is_file() { "" } else { " (missing: run guests/build.sh)" };
        let _ = writeln!(text, "  {arch:<14}  {}{missing}", path.display());
    }
    let mut sources: Vec<_> = guest.arches.iter().map(|a| catalogue.source(guest, a)).collect();
    sources.dedup();
    for source in sources {
        let _ = writeln!(text, "  source          {}", source.display());
    }
    let _ = writeln!(text, "\n{}", style.bold("Runs:"));
    push_runs(&mut text, guest, style);
    text
}

/// The command lines of the catalogue and what comes of them.
fn push_runs(text: &mut String, guest: &Guest, style: Style) {
    let Some(arch) = guest.arches.first() else { return };
    let rows: Vec<(String, String)> = guest
        .runs(arch)
        .map(|run| {
            let mut command = format!("emu run {}", guest.name);
            let args = if run.case.is_some() { run.args } else { &[] };
            for arg in args {
                let _ = write!(command, " {}", quoted(arg));
            }
            let what = run.case.unwrap_or("the default");
            let ends = match (run.signal(), run.exit) {
                (Some(number), _) => format!(", killed by {}", signal_name(number)),
                (None, 0) => String::new(),
                (None, status) => format!(", exits with {status}"),
            };
            (command, format!("{what}{ends}"))
        })
        .collect();
    let width = rows.iter().map(|(c, _)| c.chars().count()).max().unwrap_or(0);
    for (command, what) in rows {
        let _ = writeln!(text, "  {}  {}", style.cyan(&format!("{command:width$}")), what);
    }
}

fn signal_name(number: i32) -> String {
    match u64::try_from(number).ok().and_then(Signal::new) {
        Some(signal) => signal.to_string(),
        None => format!("signal {number}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = r#"
[[guest]]
name = "one"
shows = "the first"
source = "asm/ARCH/one.S"
libc = "none"
frame_pointers = false

[[guest]]
name = "another"
shows = "the second"
source = "c/another.c"
libc = "musl"
frame_pointers = true
args = ["x"]
tags = ["c", "small"]
[[guest.case]]
name = "it dies"
args = ["a b", "c"]
exit = 139
"#;

    #[test]
    fn a_line_for_each_guest() {
        let catalogue = Catalogue::parse(TEXT, Path::new("/g")).unwrap();
        assert_eq!(
            table(catalogue.guests(), Style::PLAIN),
            "NAME     ARCH            LIBC  FP   SHOWS\n\
             one      x86_64 aarch64  none  no   the first\n\
             another  x86_64 aarch64  musl  yes  the second\n"
        );
        assert!(table(&[], Style::PLAIN).starts_with("NAME"));
    }

    #[test]
    fn all_about_one() {
        let catalogue = Catalogue::parse(TEXT, Path::new("/g")).unwrap();
        let text = details(&catalogue, catalogue.find("another").unwrap(), Style::PLAIN);
        for line in [
            "another: the second",
            "  libc            musl, static",
            "  aarch64         /g/bin/aarch64/another (missing: run guests/build.sh)",
            "  source          /g/programs/c/another.c",
            "  emu run another            the default",
            "  emu run another 'a b' c    it dies, killed by SIGSEGV",
        ] {
            let found = text.lines().any(|l| squeezed(l) == squeezed(line));
            assert!(found, "{line:?} is not in\n{text}");
        }
        let text = details(&catalogue, catalogue.find("one").unwrap(), Style::PLAIN);
        assert!(text.contains("asm/x86_64/one.S") && text.contains("asm/aarch64/one.S"));
        assert_eq!(signal_name(99), "signal 99");
    }

    fn squeezed(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
