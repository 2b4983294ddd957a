//! Names of the kernel's functions, for samples that were taken in it.

use crate::perf::record::KernelSymbol;

/// The kernel's functions by address.
#[derive(Clone, Debug)]
pub struct KernelNames(Vec<KernelSymbol>);

impl KernelNames {
    /// Those of these `symbols`.
    pub fn new(symbols: &[KernelSymbol]) -> KernelNames {
        let mut symbols = symbols.to_vec();
        symbols.sort_by_key(|symbol| symbol.addr);
        KernelNames(symbols)
    }

    /// The functions that hold the addresses of a kernel stack, innermost first: the first
    /// address is that of an instruction, the others are return addresses. One without a name
    /// is told as a number.
    pub fn names(&self, addresses: &[u64]) -> Vec<String> {
        let at = |(n, address): (usize, &u64)| {
            let byte = address.saturating_sub(u64::from(n > 0));
            self.name(byte).map_or_else(|| format!("{address:#x}"), str::to_owned)
        };
        addresses.iter().enumerate().map(at).collect()
    }

    fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|symbol| symbol.addr <= address);
        let symbol = self.0.get(after.checked_sub(1)?)?;
        (address - symbol.addr < symbol.len).then_some(symbol.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_address_is_in_the_function_of_the_call() {
        let symbol = |addr, name: &str| KernelSymbol { addr, len: 0x10, name: name.to_owned() };
        let names = KernelNames::new(&[symbol(0x110, "b"), symbol(0x100, "a")]);
        assert_eq!(
            names.names(&[0x110, 0x110, 0x10f, 0x120, 0x121]),
            ["b", "a", "a", "b", "0x121"]
        );
        assert_eq!(names.names(&[0, 0]), ["0x0", "0x0"]);
        assert_eq!(names.names(&[]), [""; 0]);
    }
}
