//! Expected texts kept in files.

use std::path::Path;

/// Compares `actual` with the text in `file`, a path below the crate's directory.
///
/// With `EMU_BLESS=1` in the environment the file is written instead.
///
/// # Panics
///
/// If they differ: with the first line that does.
pub fn compare(file: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("EMU_BLESS").is_some_and(|v| v == "1") {
        let parent = path.parent().map(std::fs::create_dir_all);
        let written = parent.unwrap_or(Ok(())).and_then(|()| std::fs::write(&path, actual));
        written.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected == actual {
        return;
    }
    let (mut ours, mut theirs) = (actual.lines(), expected.lines());
    let mut number = 1;
    let (ours, theirs) = loop {
        match (ours.next(), theirs.next()) {
            (Some(a), Some(b)) if a == b => number += 1,
            (a, b) => break (a.unwrap_or("(the end)"), b.unwrap_or("(the end)")),
        }
    };
    panic!(
        "{}, line {number}:\n  expected  {theirs}\n  actual    {ours}\n\
         If this is as it should be: EMU_BLESS=1 cargo test --release -p tests, then look at the \
         difference.\nAll of it:\n{actual}",
        path.display()
    );
}
