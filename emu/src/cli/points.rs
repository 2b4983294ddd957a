//! `emu points`: the steps of the modelled kernel.

use std::fmt::Write;

use clap::Args;

use crate::cli::output::{Failure, Style, status, to_stdout};
use crate::kernel::Point;

/// `emu points`
#[derive(Debug, Args)]
#[command(after_help = "\
Between two steps, and nowhere else, an interrupt can arrive. COST is in instructions, which
are nanoseconds here. Names end with the number of the rule that the step follows.

Examples:
  emu points unwind.reset    the steps of the deferred unwinder's reset
  emu points cookie          everything about cookies")]
pub struct PointsOptions {
    /// Show only steps with this text in their name or rule (capitals do not matter)
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
}

/// Prints the table.
///
/// # Errors
///
/// [`Failure`] if there is no such step.
pub fn run(options: &PointsOptions) -> Result<u8, Failure> {
    let pattern = options.pattern.as_deref().unwrap_or_default().to_lowercase();
    let fits =
        |p: &&Point| [p.name(), p.rule()].iter().any(|t| t.to_lowercase().contains(&pattern));
    let points: Vec<Point> = Point::ALL.iter().filter(fits).copied().collect();
    if points.is_empty() {
        let message =
            format!("no step has {pattern:?} in its name or rule; `emu points` lists all");
        return Err(Failure::new(status::FAILURE, message));
    }
    to_stdout(&table(&points, Style::of_stdout()))?;
    Ok(0)
}

fn table(points: &[Point], style: Style) -> String {
    let width = points.iter().map(|p| p.name().len()).max().unwrap_or_default().max(4);
    let head = format!("{:width$}  {:>4}  RULE", "STEP", "COST");
    let mut text = format!("{}\n", style.bold(&head));
    for point in points {
        let name = style.cyan(&format!("{:width$}", point.name()));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}  {:>4}  {}", point.cost(), point.rule());
    }
    text
}
