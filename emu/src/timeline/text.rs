//! One line a step: event number, time, CPU, task, the step, what it did, `[what changed]`.
//!
//! What interrupts is drawn inside what it interrupts. Of several CPUs each has a column, in
//! which its steps stand; what the others are in the middle of goes on beside them:
//!
//! ```text
//!   task  cpu 0                 cpu 1
//!   1000  │ unwind.request.Q9   │ │          cpu 1 is in an interrupt of the kernel
//!   1001  │                     │ │ irq.exit
//! ```

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

/// Whether each of so many CPUs has a column.
pub const fn has_columns(cpus: u32) -> bool {
    matches!(cpus, 2..=4)
}

impl Writer for Text {
    fn begin(&mut self, out: &mut dyn Write, cpus: u32) -> io::Result<()> {
        write!(out, "{:>7}  {:>13}  ", "event", "time, ns")?;
        if has_columns(cpus) {
            write!(out, "{:>5}  ", "task")?;
            for cpu in 0..cpus {
                write!(out, "{:STEP$}  ", format!("cpu {cpu}"))?;
            }
        } else {
            write!(out, "{:>3}  {:>5}  {:STEP$}  ", "cpu", "task", "step")?;
        }
        writeln!(out, "what happens  [what changes]")
    }

    fn line(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
        let number = line.number.map(|n| n.to_string()).unwrap_or_default();
        write!(out, "{number:>7}  {:>13}  ", grouped(line.began))?;
        let step = step(line);
        if !line.depths.is_empty() {
            write!(out, "{:>5}  ", line.tid)?;
            for (cpu, &depth) in line.depths.iter().enumerate() {
                match cpu == line.cpu as usize {
                    true => write!(out, "{step:STEP$}  ")?,
                    false => write!(out, "{:STEP$}  ", "│ ".repeat(depth))?,
                }
            }
        } else {
            write!(out, "{:>3}  {:>5}  {step:STEP$}  ", line.cpu, line.tid)?;
        }
        write!(out, "{}", line.words)?;
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

/// The step's name behind the lines of its nesting.
fn step(line: &Line<'_>) -> String {
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
    format!("{bars}{name}")
}
