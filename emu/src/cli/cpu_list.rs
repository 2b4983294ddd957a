//! Lists of CPUs as perf's `-C` takes them: `0,2-3`; whose events are open.

use crate::cli::machine::Scope;
use crate::cli::options::SamplingOptions;

/// CPUs, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuList(pub u64);

/// Reads a list.
///
/// # Errors
///
/// In words, for a number above 63, a range that runs backwards, or what is no number.
pub fn cpu_list(text: &str) -> Result<CpuList, String> {
    let number = |word: &str| match word.parse::<u32>() {
        Ok(n) if n < 64 => Ok(n),
        Ok(_) => Err(format!("CPU {word}: there are at most 64, numbered from 0")),
        Err(_) => Err(format!("{word:?} is no CPU; use numbers and ranges, as 0,2-3")),
    };
    let mut mask = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("{part}: the range runs backwards"));
        }
        (first..=last).for_each(|cpu| mask |= 1 << cpu);
    }
    Ok(CpuList(mask))
}

impl SamplingOptions {
    /// Whose events are open on a machine of `cpus` CPUs.
    ///
    /// # Errors
    ///
    /// In words, for a CPU that the machine does not have.
    pub fn scope(&self, cpus: u32) -> Result<Scope, String> {
        let all = u64::MAX >> (64 - cpus);
        let wide = match self.cpu {
            Some(CpuList(mask)) if mask & !all != 0 => {
                let cpu = (mask & !all).trailing_zeros();
                return Err(format!("-C: there is no CPU {cpu}; the machine has {cpus} (--cpus)"));
            }
            Some(CpuList(mask)) => mask,
            None if self.all_cpus => all,
            None => 0,
        };
        Ok(Scope { wide, switches: self.switch_events, no_inherit: self.no_inherit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        assert_eq!(cpu_list("0"), Ok(CpuList(1)));
        assert_eq!(cpu_list("0,2-3,63"), Ok(CpuList(0x8000_0000_0000_000d)));
        for bad in ["", "64", "3-2", "a", "1,", "-1"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }
}
