//! One line a step: event number, time, CPU, task, the step, what it did, `[what changed]`.
//!
//! What interrupts is drawn inside what it interrupts.

use std::io::{self, Write};

use crate::numbers::grouped;
use crate::timeline::{Edge, Line, What, Writer};

/// See the module.
#[derive(Debug, Default)]
pub struct Text {
    /// Whether a line was written.
    some: bool,
}

/// Columns of the steps' names with the lines of their nesting.
const STEP: usize = 27;

impl Writer for Text {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let step = "step";
        writeln!(
            out,
            "{:>7}  {:>13}  {:>3}  {:>5}  {step:STEP$}  what happens  [what changes]",
            "event", "time, ns", "cpu", "task"
        )
    }

    fn line(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
        let number = line.number.map(|n| n.to_string()).unwrap_or_default();
        let name = match line.what {
            What::User => "user code",
            What::Step(name) | What::Call(name) => name,
            What::Answer(_) => "unwind.answer",
        };
        let bars = match (line.depth, line.edge) {
            (0, _) => String::new(),
            (n, Edge::First) => format!("{}┌ ", "│ ".repeat(n - 1)),
            (n, Edge::Inner) => "│ ".repeat(n),
            (n, Edge::Last) => format!("{}└ ", "│ ".repeat(n - 1)),
        };
        let step = format!("{bars}{name}");
        write!(
            out,
            "{number:>7}  {:>13}  {:>3}  {:>5}  {step:STEP$}  {}",
            grouped(line.began),
            line.cpu,
            line.tid,
            line.words
        )?;
        if !line.changes.is_empty() {
            write!(out, "  [{}]", line.changes.join(", "))?;
        }
        self.some = true;
        writeln!(out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.some {
            true => Ok(()),
            false => writeln!(out, "no event is in the range"),
        }
    }
}
