//! Names as a programmer wrote them: Rust (legacy and v0) and Itanium C++.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

/// Longer symbols stay as they are; a name of a few bytes can demangle to
/// gigabytes, by substitutions that double at each use.
const MAX_MANGLED: usize = 8 << 10;
/// Longer results are given up.
const MAX_DEMANGLED: usize = 16 << 10;
/// Nesting that the C++ demangler may follow, on the host's stack.
const MAX_DEPTH: u32 = 96;

/// The readable form of `name`: without hash (Rust), parameters and return type
/// (C++), as `perf` prints it. `name` itself if it is not mangled or too big.
pub fn demangle(name: &str) -> String {
    if name.len() > MAX_MANGLED {
        return name.to_owned();
    }
    rust(name).or_else(|| cpp(name)).unwrap_or_else(|| name.to_owned())
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut out = Bounded::default();
    write!(out, "{demangled:#}").ok()?;
    Some(out.0)
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let (symbol, rest) = BorrowedSymbol::with_tail_and_options(name.as_bytes(), &parse).ok()?;
    if !rest.is_empty() && !rest.starts_with(b".") && !rest.starts_with(b"@") {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type().recursion_limit(MAX_DEPTH);
    let mut out = Bounded::default();
    symbol.structured_demangle(&mut out, &options).ok()?;
    Some(out.0)
}

/// A string that refuses to grow beyond [`MAX_DEMANGLED`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let cases = [
            ("main", "main"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN3foo3barEiPKc", "foo::bar"),
            ("_ZN3foo3barEv.cold", "foo::bar"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("_Zgarbage", "_Zgarbage"),
            ("_Z", "_Z"),
            ("", ""),
        ];
        for (mangled, want) in cases {
            assert_eq!(demangle(mangled), want, "{mangled}");
        }
    }

    #[test]
    fn doubling_substitutions_stay_small() {
        // pair<S, S> of the type before, 60 times: 2^60 names.
        let mut name = String::from("_Z1fI1PIiiE");
        for i in 0..60u8 {
            let s = if i == 0 { "S1_".to_owned() } else { format!("S{}_", base36(i)) };
            name += &format!("1PI{s}{s}E");
        }
        name += "Evv";
        assert!(demangle(&name).len() <= MAX_DEMANGLED);
        let deep = format!("_Z1f{}i", "P".repeat(5000));
        assert!(demangle(&deep).len() <= MAX_DEMANGLED);
    }

    fn base36(n: u8) -> String {
        let digit = |d: u8| char::from(if d < 10 { b'0' + d } else { b'A' + d - 10 });
        if n < 36 { digit(n).to_string() } else { format!("{}{}", digit(n / 36), digit(n % 36)) }
    }
}
