//! Values of options, from their words.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::cli::options::{CallGraph, Sysctl};
use crate::kernel::state::PmuIrq;
use crate::loader::vdso::Vdso;
use crate::perf::pmu::MAX_SAMPLE_RATE;

/// An environment variable, name first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Not empty, without `=`.
    pub name: Vec<u8>,
    /// Any bytes.
    pub value: Vec<u8>,
}

impl Variable {
    /// A variable of text.
    pub fn new(name: &str, value: &str) -> Variable {
        Variable { name: name.into(), value: value.into() }
    }

    /// `NAME=value`
    pub fn entry(&self) -> Vec<u8> {
        [&self.name[..], b"=", &self.value].concat()
    }
}

/// A number with an optional suffix for thousands, millions, thousand millions.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return Err("use a whole number such as 1000000, 1000k or 1M".to_owned());
    }
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    number.ok_or_else(|| format!("use a number up to {}", u64::MAX))
}

/// A number from 1 on, with a suffix or not.
///
/// # Errors
///
/// In words, what to write instead.
pub fn positive(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("use a number from 1 on".to_owned()),
        n => Ok(n),
    }
}

/// A number between two others.
pub fn from_to<T: TryFrom<u64>>(
    low: u64,
    high: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|n| (low..=high).contains(n));
        let number = number.and_then(|n| T::try_from(n).ok());
        number.ok_or_else(|| format!("use a number from {low} to {high}"))
    }
}

/// A sampling period.
///
/// # Errors
///
/// In words, what to write instead.
pub fn period(text: &str) -> Result<u64, String> {
    match positive(text)? {
        n if n > i64::MAX as u64 => {
            Err(format!("the kernel takes periods up to {}; it says EINVAL", i64::MAX))
        }
        n => Ok(n),
    }
}

/// Samples a second, up to the kernel's limit.
///
/// # Errors
///
/// In words, what to write instead.
pub fn frequency(text: &str) -> Result<u64, String> {
    match positive(text)? {
        n if n > MAX_SAMPLE_RATE => {
            Err(format!("the kernel's limit is {MAX_SAMPLE_RATE}; for more samples use -c"))
        }
        n => Ok(n),
    }
}

/// A seed: decimal, or hexadecimal with `0x`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("use a number from 0 to {}, or in hexadecimal with 0x", u64::MAX))
}

/// A hexadecimal address.
///
/// # Errors
///
/// In words, what to write instead.
pub fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let parsed = plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    parsed.ok_or_else(|| "use a hexadecimal address such as 0x401370".to_owned())
}

/// The words of `--call-graph`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn call_graph(text: &str) -> Result<CallGraph, String> {
    match text {
        "fp" => Ok(CallGraph::Fp),
        "fp,defer" => Ok(CallGraph::Deferred),
        "sframe,defer" => Ok(CallGraph::DeferredSframe),
        "sframe" => Ok(CallGraph::Sframe),
        "dwarf" => Ok(CallGraph::Dwarf(DUMP_SIZE)),
        "defer" => Err("defer says when, not how: use fp,defer".to_owned()),
        defer if defer.ends_with(",defer") => {
            Err("only fp and sframe can be deferred: use fp,defer or sframe,defer".to_owned())
        }
        "lbr" => Err(format!("emu cannot do this yet; {HOW}")),
        _ => match text.split_once(',') {
            Some(("dwarf", size)) => dump_size(size).map(CallGraph::Dwarf),
            Some(("fp" | "sframe", more)) => Err(format!("{more:?} does not belong there; {HOW}")),
            Some(("lbr", _)) => Err("no more arguments are needed for lbr".to_owned()),
            _ => Err(format!("unknown --call-graph option value; {HOW}")),
        },
    }
}

/// What `--call-graph` takes.
const HOW: &str = "use fp, fp,defer, dwarf[,SIZE], sframe or sframe,defer";
/// perf's default for `--call-graph dwarf`.
const DUMP_SIZE: u16 = 8192;
/// The longest that perf takes: a multiple of 8 in 16 bits.
const MAX_DUMP: u64 = 65_528;

/// Bytes of stack in a sample, rounded up to words as perf does it.
fn dump_size(text: &str) -> Result<u16, String> {
    let size = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    let words = size.and_then(|size| size.checked_next_multiple_of(8));
    match words.filter(|size| (1..=MAX_DUMP).contains(size)) {
        Some(size) => Ok(size as u16),
        None => Err(format!("incorrect stack dump size (max {MAX_DUMP}): {text}")),
    }
}

/// Pages of a ring: their number, or their size with a suffix, rounded up to a power of two.
///
/// # Errors
///
/// In words, what to write instead.
pub fn mmap_pages(text: &str) -> Result<u32, String> {
    const PAGE: u64 = 4096;
    const MOST: u64 = 1 << 18;
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'B')) => (&text[..at], Some(1)),
        Some((at, 'K')) => (&text[..at], Some(1 << 10)),
        Some((at, 'M')) => (&text[..at], Some(1 << 20)),
        Some((at, 'G')) => (&text[..at], Some(1 << 30)),
        _ => (text, None),
    };
    let count = digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+'));
    let pages = match unit {
        Some(unit) => count.and_then(|n| n.checked_mul(unit)).map(|bytes| bytes.div_ceil(PAGE)),
        None => count,
    };
    let pages = pages.filter(|pages| (1..=MOST).contains(pages)).map(u64::next_power_of_two);
    pages.map(|pages| pages as u32).ok_or_else(|| {
        format!("use a number of pages up to {MOST}, or a size as 512K: a ring has a page or more")
    })
}

/// The words of `--pmu-irq`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn pmu_irq(text: &str) -> Result<PmuIrq, String> {
    match text {
        "nmi" => Ok(PmuIrq::Nmi),
        "nmi,latch" => Ok(PmuIrq::NmiLatched),
        "irq" => Ok(PmuIrq::Irq),
        _ => Err("use nmi, nmi,latch or irq".to_owned()),
    }
}

/// The words of `--vdso`.
///
/// # Errors
///
/// In words, what to write instead.
pub fn vdso(text: &str) -> Result<Vdso, String> {
    match text {
        "full" => Ok(Vdso::Full),
        "no-cfi" => Ok(Vdso::NoCfi),
        "off" => Ok(Vdso::Off),
        _ => Err("use full, no-cfi or off".to_owned()),
    }
}

/// `NAME=VALUE`
///
/// # Errors
///
/// In words, what to write instead.
pub fn variable(text: OsString) -> Result<Variable, String> {
    let text = text.into_vec();
    match text.iter().position(|&b| b == b'=') {
        Some(at) if at > 0 => {
            Ok(Variable { name: text[..at].to_vec(), value: text[at + 1..].to_vec() })
        }
        _ => Err("use NAME=VALUE".to_owned()),
    }
}

/// `NAME=N` of a setting of the kernel.
///
/// # Errors
///
/// In words, for another setting or a number that it cannot have.
pub fn sysctl(text: &str) -> Result<Sysctl, String> {
    const BEFORE: &str = "kernel.perf_event_";
    let known = text.strip_prefix(BEFORE).and_then(|rest| rest.split_once('='));
    let (name, value) = known.ok_or_else(|| {
        format!(
            "there is {BEFORE}paranoid=N, and so max_sample_rate, max_stack, max_contexts_per_stack"
        )
    })?;
    let from = |least: i64, most: i64, words: &str| match value.parse::<i64>() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("{BEFORE}{name}: use a number from {least}{words} to {most}")),
    };
    match name {
        "paranoid" => Ok(Sysctl::Paranoid(from(-1, 3, " (all is allowed)")? as i32)),
        "max_sample_rate" => Ok(Sysctl::MaxSampleRate(from(1, i64::from(i32::MAX), "")? as u64)),
        "max_stack" => Ok(Sysctl::MaxStack(from(0, 655_360, "")? as u32)),
        "max_contexts_per_stack" => Ok(Sysctl::MaxContexts(from(0, 1000, "")? as u32)),
        _ => Err(format!("no setting {name:?} is modelled below {BEFORE}")),
    }
}
