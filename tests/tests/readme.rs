//! What README.md shows of a command is what the command prints today.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;

use tests::program::{emu, finish};
use tests::{root, scratch};

/// A command and the lines that are shown of what it prints.
#[derive(Debug)]
struct Shown {
    words: Vec<String>,
    lines: Vec<String>,
}

/// Commands that are shown with the guest of a reader, or with an outcome that is made up.
const ELSEWHERE: [&str; 3] = ["record", "replay", "test"];

/// The commands of `emu` with output, in the order of the text.
fn shown(text: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for block in text.split("\n```\n").skip(1).step_by(2) {
        for line in block.lines() {
            match (line.strip_prefix("$ "), all.last_mut()) {
                (Some(command), _) => {
                    let command = command.split(" #").next().unwrap();
                    let words = command.split_whitespace().map(str::to_owned).collect();
                    all.push(Shown { words, lines: Vec::new() });
                }
                (None, Some(last)) if block.starts_with("$ ") => last.lines.push(line.to_owned()),
                _ => {}
            }
        }
    }
    // A blank line parts a command from the next.
    for shown in &mut all {
        while shown.lines.last().is_some_and(String::is_empty) {
            shown.lines.pop();
        }
    }
    all.retain(|s| {
        let emu = s.words[0] == "emu" || s.words[0].ends_with("/emu");
        emu && !s.lines.is_empty() && !ELSEWHERE.contains(&s.words[1].as_str())
    });
    all
}

/// The first of `lines` that is not in `printed`, behind the one before it: at once, or after
/// any number of others for `…`. The first may be anywhere.
fn missing<'s>(lines: &'s [String], printed: &str) -> Option<&'s str> {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let (mut at, mut gap) = (0, true);
    for line in lines {
        if line.trim() == "…" {
            gap = true;
            continue;
        }
        let reach = if gap { printed.len() - at } else { 1 };
        match printed.iter().skip(at).take(reach).position(|p| p == line) {
            Some(found) => at += found + 1,
            None => return Some(line),
        }
        gap = false;
    }
    None
}

#[test]
fn left_out_lines_are_marked() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(missing(&lines("b c … e"), "a\nb\nc\nd\ne\nf"), None);
    assert_eq!(missing(&lines("b d"), "a\nb\nc\nd"), Some("d"));
    assert_eq!(missing(&lines("c … b"), "a\nb\nc"), Some("b"));
    assert_eq!(missing(&lines("a b"), "a"), Some("b"));
}

#[test]
fn every_excerpt_is_what_is_printed() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let all = shown(&readme);
    assert!(all.len() >= 9, "{all:?}");
    // A later command may read what an earlier one wrote.
    let dir = scratch("readme");
    fs::create_dir_all(dir.join("target/demo")).unwrap();
    for Shown { words, lines } in &all {
        let words = words[1..].iter().map(|word| match word.strip_prefix("tests/data/") {
            Some(_) => root().join(word).display().to_string(),
            None => word.clone(),
        });
        let words: Vec<String> = words.collect();
        let finished = finish(emu(&words).current_dir(&dir));
        let printed = finished.stdout + &finished.stderr;
        let missing = missing(lines, &printed);
        assert_eq!(
            missing,
            None,
            "README.md shows this of `emu {}`, but:\n{printed}",
            words.join(" ")
        );
    }
}
