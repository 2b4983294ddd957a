//! What came of a run, fact by fact, to be compared with what was expected.
//!
//! ```text
//! Expected, verdicts ─► facts ─┬─► text ─► NAME.expected ─► facts ─┐
//!                              └───────────────────────────────────┴─► differences
//! ```

use std::fmt::Write as _;

use crate::cli::output::one_line;
use crate::cli::summary::ending_words;
use crate::grade::{MethodTally, Verdict};
use crate::kernel::task::Ending;
use crate::numbers::grouped;
use crate::recording::manifest::{End, Expected, Output};

/// Longer texts are known by length and digest only.
const MAX_TEXT: usize = 400;

/// Facts shown at most of one that has changed, in characters.
const MAX_SHOWN: usize = 160;

/// One thing that can be compared: `instructions`, `12,345`.
pub type Fact = (String, String);

/// What of an outcome is the same in every replay with the same options.
pub fn facts(expected: &Expected) -> Vec<Fact> {
    let mut facts = vec![
        ("end".to_owned(), end_words(expected.end)),
        ("instructions".to_owned(), grouped(expected.instructions)),
    ];
    let streams = ["standard output", "standard error"];
    let outputs = streams.iter().zip(&expected.output);
    facts.extend(outputs.map(|(stream, output)| ((*stream).to_owned(), output_words(output))));
    push_profile(&mut facts, "", &expected.samples, expected.profile.as_deref());
    for (n, session) in expected.sessions.iter().enumerate() {
        let prefix = format!("session {} ", n + 2);
        push_profile(&mut facts, &prefix, &session.samples, session.profile.as_deref());
    }
    facts
}

/// The facts of one session.
fn push_profile(
    facts: &mut Vec<Fact>,
    prefix: &str,
    samples: &[(String, u64)],
    digest: Option<&str>,
) {
    let mut seen: Vec<&str> = Vec::new();
    for (event, samples) in samples {
        let before = seen.iter().filter(|e| *e == event).count();
        seen.push(event);
        let again = if before > 0 { format!(" ({})", before + 1) } else { String::new() };
        facts.push((format!("{prefix}samples of {}{again}", one_line(event)), grouped(*samples)));
    }
    if let Some(digest) = digest {
        facts.push((format!("{prefix}profile"), format!("sha256 {}", one_line(digest))));
    }
}

/// What the unwinders made of the samples.
pub fn verdicts(tallies: &[MethodTally], undecided: u64) -> Vec<Fact> {
    let mut facts: Vec<Fact> = tallies.iter().map(verdict).collect();
    if undecided > 0 {
        facts.push(("undecided".to_owned(), grouped(undecided)));
    }
    facts
}

/// `unwinder fp`: `383 exact, 29 missing frame`
fn verdict(tally: &MethodTally) -> Fact {
    let counts = Verdict::ALL.into_iter().map(|v| (tally.count(v), v)).filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, v)| format!("{} {}", grouped(n), v.name())).collect();
    let value = if counts.is_empty() { "no sample".to_owned() } else { counts.join(", ") };
    (format!("unwinder {}", tally.name), value)
}

fn end_words(end: End) -> String {
    ending_words(match end {
        End::Exited(status) => Ending::Exited(status),
        End::Signalled(signal) => Ending::Signalled(signal),
        End::Limit => Ending::Limit,
        End::Strict => Ending::Strict,
        End::Deadlock => Ending::Deadlock,
        End::Livelock => Ending::Livelock,
    })
}

fn output_words(output: &Output) -> String {
    let text = output.text.as_ref().and_then(|t| std::str::from_utf8(&t.0).ok());
    match text.filter(|t| t.len() <= MAX_TEXT) {
        Some("") => "nothing".to_owned(),
        Some(text) => format!("{text:?}"),
        None => {
            format!("{} bytes, sha256 {}", grouped(output.len), one_line(&output.sha256))
        }
    }
}

/// Facts in lines, `name: value`, below a comment.
pub fn render(comment: &str, facts: &[Fact]) -> String {
    let mut text = format!("# {comment}\n");
    for (name, value) in facts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}

/// The facts of [`render`]'s text.
///
/// # Errors
///
/// The number of a line that is no fact, from 1.
pub fn read(text: &str) -> Result<Vec<Fact>, usize> {
    let lines = text.lines().enumerate();
    let facts = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    facts
        .map(|(n, line)| match line.split_once(": ") {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(n + 1),
        })
        .collect()
}

/// A line for each fact that is not as expected.
pub fn differences(expected: &[Fact], found: &[Fact]) -> Vec<String> {
    let value = |facts: &'_ [Fact], name: &str| {
        facts.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    let gone = expected.iter().filter(|(name, _)| value(found, name).is_none());
    let all = found.iter().chain(gone).map(|(name, _)| name);
    let mut lines = Vec::new();
    for name in all {
        let (before, now) = (value(expected, name), value(found, name));
        if before != now {
            let (before, now) = shortened(&before.unwrap_or_default(), &now.unwrap_or_default());
            lines.push(format!("{name}: expected {before}, found {now}"));
        }
    }
    lines
}

/// Two values that differ, without most of what they have in common if they are long.
fn shortened(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = if same > MAX_SHOWN / 2 { same - MAX_SHOWN / 4 } else { 0 };
    let part = |text: &str| {
        let mut shown: String = text.chars().skip(from).take(MAX_SHOWN).collect();
        if text.chars().count() > from + MAX_SHOWN {
            shown.push('…');
        }
        let shown = if from > 0 { format!("…{shown}") } else { shown };
        if shown.is_empty() { "nothing".to_owned() } else { shown }
    };
    (part(a), part(b))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::recording::manifest::SessionExpected;
    use crate::recording::text::Text;

    fn expected() -> Expected {
        let output = |text: &str| Output {
            len: text.len() as u64,
            sha256: "00".to_owned(),
            text: (text.len() < 4096).then(|| Text(text.into())),
        };
        Expected {
            end: End::Signalled(11),
            instructions: 12_345,
            samples: vec![("cycles".to_owned(), 3), ("cycles".to_owned(), 4)],
            output: [output("a: b\n# c\n"), output(&"x".repeat(5000))],
            profile: Some("ab".to_owned()),
            sessions: vec![SessionExpected {
                samples: vec![("branches".to_owned(), 5)],
                profile: None,
            }],
        }
    }

    #[test]
    fn facts_come_back_from_their_text() {
        let facts = facts(&expected());
        let text = render("x", &facts);
        let lines: Vec<&str> = text.lines().collect();
        let wanted = [
            "# x",
            "end: was killed by SIGSEGV",
            "instructions: 12,345",
            r#"standard output: "a: b\n# c\n""#,
            "standard error: 5,000 bytes, sha256 00",
            "samples of cycles: 3",
            "samples of cycles (2): 4",
            "profile: sha256 ab",
            "session 2 samples of branches: 5",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(read(&text), Ok(facts.clone()));
        assert_eq!(differences(&facts, &facts), [""; 0]);
        assert_eq!(read("a: b\nc\n"), Err(2));
    }

    #[test]
    fn what_differs_is_said() {
        let fact = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let before = [fact("a", "1"), fact("b", "2"), fact("gone", "3")];
        let now = [fact("a", "1"), fact("b", "5"), fact("new", "4")];
        let lines = differences(&before, &now);
        let wanted = [
            "b: expected 2, found 5",
            "new: expected nothing, found 4",
            "gone: expected 3, found nothing",
        ];
        assert_eq!(lines, wanted);
        let long = "y".repeat(1000);
        let (a, b) = shortened(&format!("{long}1{long}"), &format!("{long}2"));
        assert!(a.starts_with('…') && a.ends_with('…') && a.contains('1'), "{a}");
        assert!(b.ends_with('2') && b.chars().count() < 50, "{b}");
    }
}
