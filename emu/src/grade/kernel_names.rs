//! Names of the kernel's functions, for samples that were taken in it.

use crate::perf::record::CpuMode;
use crate::symbols::{LookupAddress, Symbolizer};

/// The functions that hold the addresses of a kernel stack, innermost first: the first
/// address is that of an instruction, the others are return addresses. One without a name
/// is told as a number.
pub fn names(symbols: &Symbolizer, addresses: &[u64]) -> Vec<String> {
    let at = |(n, &address): (usize, &u64)| {
        let at = match n {
            0 => LookupAddress::Instruction(address),
            _ => LookupAddress::Return(address),
        };
        let function = symbols.lookup(at, CpuMode::Kernel).function;
        function.map_or_else(|| format!("{address:#x}"), |f| f.name.to_string())
    };
    addresses.iter().enumerate().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::record::KernelSymbol;

    #[test]
    fn a_return_address_is_in_the_function_of_the_call() {
        let symbol = |addr, name: &str| KernelSymbol { addr, len: 0x10, name: name.to_owned() };
        let symbols = Symbolizer::new(&[symbol(0x110, "b"), symbol(0x100, "a")]);
        assert_eq!(
            names(&symbols, &[0x110, 0x110, 0x10f, 0x120, 0x121]),
            ["b", "a", "a", "b", "0x121"]
        );
        assert_eq!(names(&symbols, &[0, 0]), ["0x0", "0x0"]);
        assert_eq!(names(&symbols, &[]), [""; 0]);
    }
}
