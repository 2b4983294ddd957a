//! The modelled kernel's symbols in the format of `/proc/kallsyms`, for tools
//! that ignore the symbol records of a `perf.data` file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::ExportError;
use crate::perf::record::KernelSymbol;

/// Writes one line for each symbol, by address: `address type name`.
///
/// # Errors
///
/// What `out` says.
pub fn write(symbols: &[KernelSymbol], mut out: impl Write) -> io::Result<()> {
    let mut sorted: Vec<&KernelSymbol> = symbols.iter().collect();
    sorted.sort_by(|a, b| (a.addr, &a.name).cmp(&(b.addr, &b.name)));
    for s in sorted {
        writeln!(out, "{:016x} T {}", s.addr, s.name)?;
    }
    out.flush()
}

/// Writes the symbols into a file beside the profile `profile`, with
/// `.kallsyms` appended to its name, and returns that name.
///
/// # Errors
///
/// [`ExportError::Create`], [`ExportError::Write`]
pub fn write_beside(profile: &Path, symbols: &[KernelSymbol]) -> Result<PathBuf, ExportError> {
    let mut path = profile.as_os_str().to_owned();
    path.push(".kallsyms");
    let path = PathBuf::from(path);
    let file =
        File::create(&path).map_err(|source| ExportError::Create { path: path.clone(), source })?;
    write(symbols, BufWriter::new(file)).map_err(|source| ExportError::Write {
        what: "the kernel's symbols",
        to: path.display().to_string(),
        source,
    })?;
    Ok(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn lines_by_address() {
        let symbol = |addr, name: &str| KernelSymbol { addr, len: 1, name: name.into() };
        let symbols = [symbol(0xffff_ffff_8100_0010, "b"), symbol(0xffff_ffff_8100_0000, "a")];
        let mut out = Vec::new();
        write(&symbols, &mut out).unwrap();
        assert_eq!(out, b"ffffffff81000000 T a\nffffffff81000010 T b\n");
    }
}
