//! Code addresses in words, for reports.

use crate::cli::output::{Style, one_line};
use crate::export::Images;
use crate::kernel::State;
use crate::perf::record::CpuMode;
use crate::symbols::{LookupAddress, SourceFrame, Symbolizer};

/// The names of a guest's user code as it is mapped now.
#[derive(Debug)]
pub struct Names(Symbolizer);

impl Names {
    /// Of the address space of `state`.
    pub fn new(state: &State, images: &mut Images) -> Names {
        let mut symbolizer = Symbolizer::new(&state.perf.main.session.kernel_symbols);
        for area in state.mm.areas().filter(|a| a.prot.exec) {
            let (file, path) = state.vfs.identify(area);
            let image = images.get(&path, &file);
            symbolizer.add_mapping(area.start, area.len(), area.offset_of(area.start), image);
        }
        Names(symbolizer)
    }

    /// What is known of a user address.
    pub fn place(&self, at: LookupAddress) -> Place {
        let frame = self.0.lookup(at, CpuMode::User);
        Place {
            address: frame.address,
            function: frame.function.map(|f| (one_line(&f.name).into_owned(), f.offset)),
            file: frame.dso.map(|d| base_name(&d).to_owned()),
            source: self.0.source(at),
        }
    }
}

/// The last component of a path, on one line.
pub fn base_name(path: &str) -> String {
    one_line(path.rsplit('/').find(|p| !p.is_empty()).unwrap_or(path)).into_owned()
}

/// A code address with its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address.
    pub address: u64,
    /// Function and distance from its start.
    pub function: Option<(String, u64)>,
    /// Name of the mapped file.
    pub file: Option<String>,
    /// Source frames, innermost first.
    pub source: Vec<SourceFrame>,
}

impl Place {
    /// First address of the function.
    pub fn function_start(&self) -> Option<u64> {
        let (_, offset) = self.function.as_ref()?;
        self.address.checked_sub(*offset)
    }

    /// One line for each function that was inlined here, innermost first, then one for
    /// the function that the code belongs to, which alone has an address.
    pub fn lines(&self, style: Style) -> Vec<String> {
        let inlined = self.source.len().saturating_sub(1);
        let mut lines: Vec<String> = Vec::new();
        for frame in &self.source[..inlined] {
            let name = frame.function.as_deref().map_or("??".into(), one_line);
            lines.push(format!("{:18} {} (inlined){}", "", style.cyan(&name), at_line(frame)));
        }
        let line = self.source.last().map(at_line).unwrap_or_default();
        lines.push(format!("{:#018x} {}{line}", self.address, self.name(style)));
        lines
    }

    /// The outermost line alone, the address not padded.
    pub fn short(&self, style: Style) -> String {
        // The innermost source line is where the address is.
        let line = self.source.first().map(at_line).unwrap_or_default();
        format!("{:#x} {}{line}", self.address, self.name(style))
    }

    fn name(&self, style: Style) -> String {
        match (&self.function, &self.file) {
            (Some((name, 0)), _) => style.cyan(name),
            (Some((name, offset)), _) => format!("{}+{offset:#x}", style.cyan(name)),
            (None, Some(file)) => format!("?? in {file}"),
            (None, None) => "?? (no code there)".to_owned(),
        }
    }
}

/// ` at FILE:LINE`, or nothing.
fn at_line(frame: &SourceFrame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!(" at {}:{line}", base_name(file)),
        (Some(file), None) => format!(" at {}", base_name(file)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> SourceFrame {
        SourceFrame {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(line),
            column: None,
        }
    }

    fn place() -> Place {
        Place {
            address: 0x40_1234,
            function: Some(("outer".into(), 0x34)),
            file: Some("prog".into()),
            source: vec![frame("inner", "/src/a.h", 3), frame("outer", "/src/b.c", 7)],
        }
    }

    #[test]
    fn inlined_functions_come_first_and_have_no_address() {
        let lines = place().lines(Style::PLAIN);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].trim_start(), "inner (inlined) at a.h:3");
        assert_eq!(lines[1], "0x0000000000401234 outer+0x34 at b.c:7");
        assert_eq!(place().short(Style::PLAIN), "0x401234 outer+0x34 at a.h:3");
        assert_eq!(place().function_start(), Some(0x40_1200));
    }

    #[test]
    fn what_is_unknown_is_said() {
        let bare = Place { function: None, source: vec![], ..place() };
        assert_eq!(bare.short(Style::PLAIN), "0x401234 ?? in prog");
        let wild = Place { file: None, ..bare };
        assert_eq!(wild.short(Style::PLAIN), "0x401234 ?? (no code there)");
        assert_eq!(base_name("/a/b\n/"), "b ");
    }
}
