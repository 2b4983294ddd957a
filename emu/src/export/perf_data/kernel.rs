//! The modelled kernel's code, as records that give a reader its symbols
//! without any further file.
//!
//! For the kernel's own text `perf` wants a `vmlinux` or `kallsyms` of the
//! recorded machine and takes the host's if it finds none: wrong names. Each
//! modelled function is therefore announced like code that was added at run
//! time, by a `PERF_RECORD_KSYMBOL`, which carries its name. perf gives each of
//! them a map of its own, unless the address is inside the map of the kernel
//! image: then it attaches the name to the *start of that map* (seen in perf
//! 6.1 and in the source of later ones). `[kernel.kallsyms]` must exist, or
//! `perf report` warns; so it is put where no function is.

use crate::perf::abi::{KSYMBOL_TYPE_OOL, record};
use crate::perf::encode::{Mmap2, push_marker, push_padded};
use crate::perf::record::{FileId, KernelSymbol, Session};
use crate::perf::session_encode::{Encoder, kernel_mmap, ksymbol};

/// Length of the map of the kernel image, and granule of its place.
const PAGE: u64 = 4096;
/// Longest symbol name, without its NUL (`KSYM_NAME_LEN` - 1).
const MAX_NAME: usize = 511;

/// The records that come before the first record of the session, all with time
/// 0 (a reader processes those at once).
pub fn preamble(session: &Session, encoder: &Encoder) -> Vec<u8> {
    let mut out = Vec::new();
    // As perf does: events that never see the kernel do not need its map.
    if session.events.iter().any(|e| !e.exclude_kernel) {
        let functions = functions(&session.kernel_symbols);
        kernel_map(&functions, encoder, &mut out);
        for f in &functions {
            let mut body = f.addr.to_le_bytes().to_vec();
            body.extend((f.len as u32).to_le_bytes()); // at most u32::MAX: see `functions`
            body.extend(KSYMBOL_TYPE_OOL.to_le_bytes());
            body.extend(0u16.to_le_bytes()); // flags: registered
            push_padded(&mut body, f.name);
            encoder.push(&mut out, &ksymbol(body));
        }
    }
    push_marker(&mut out, record::FINISHED_INIT);
    out
}

#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    addr: u64,
    len: u64,
    name: &'a [u8],
}

/// The functions by address, without overlaps: a reader's maps must not.
fn functions(symbols: &[KernelSymbol]) -> Vec<Function<'_>> {
    let mut sorted: Vec<&KernelSymbol> = symbols.iter().collect();
    sorted.sort_by_key(|s| s.addr);
    sorted.dedup_by_key(|s| s.addr);
    let mut functions: Vec<Function<'_>> = Vec::with_capacity(sorted.len());
    for (i, s) in sorted.iter().enumerate() {
        let room = sorted.get(i + 1).map_or(u64::MAX - s.addr, |next| next.addr - s.addr);
        // A symbol of unknown length reaches to the next one, within its page.
        let len = if s.len == 0 { PAGE } else { s.len }.min(room).min(u64::from(u32::MAX));
        let name = s.name.as_bytes();
        let name = &name[..name.len().min(MAX_NAME)];
        functions.push(Function { addr: s.addr, len, name });
    }
    functions
}

/// `[kernel.kallsyms]_text`, in a page just below the first function, or above
/// the last one where there is no room below.
fn kernel_map(functions: &[Function<'_>], encoder: &Encoder, out: &mut Vec<u8>) {
    let below = functions.first().map_or(1 << 63, |f| f.addr) / PAGE * PAGE;
    let above = functions.last().map_or(0, |f| f.addr.saturating_add(f.len));
    let addr = below
        .checked_sub(PAGE)
        .filter(|&a| a > 0)
        .or(above.checked_next_multiple_of(PAGE))
        .unwrap_or(PAGE);
    let map = Mmap2 {
        pid: u32::MAX, // the kernel
        tid: 0,
        addr,
        len: PAGE,
        pgoff: addr, // of the reference symbol, _text
        prot: 5,
        flags: 2,
    };
    let body = map.body(&FileId::None, b"[kernel.kallsyms]_text");
    encoder.push(out, &kernel_mmap(body));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::EventKind;
    use crate::perf::session_attr::Attr;
    use crate::perf::testing::{event, session};
    use arch::Arch;

    fn symbol(addr: u64, len: u64, name: &str) -> KernelSymbol {
        KernelSymbol { addr, len, name: name.into() }
    }

    fn build(exclude_kernel: bool, symbols: Vec<KernelSymbol>) -> Vec<u8> {
        let mut e = event(EventKind::Cycles, "cycles");
        e.exclude_kernel = exclude_kernel;
        let mut s = session(Arch::X86_64, vec![e]);
        s.kernel_symbols = symbols;
        preamble(&s, &Encoder::new(Attr::all(&s)))
    }

    #[test]
    fn ksymbol_layout() {
        let b = build(false, vec![symbol(0xffff_ffff_8100_1000, 0x40, "schedule")]);
        let map_size = usize::from(u16::from_le_bytes([b[6], b[7]]));
        assert_eq!(b[16..24], 0xffff_ffff_8100_0000u64.to_le_bytes());
        let k = &b[map_size..b.len() - 8];
        let mut want = vec![17, 0, 0, 0, 0, 0, 64, 0];
        want.extend(0xffff_ffff_8100_1000u64.to_le_bytes());
        want.extend([0x40, 0, 0, 0, 2, 0, 0, 0]);
        want.extend(b"schedule\0\0\0\0\0\0\0\0");
        want.extend([0; 24]);
        assert_eq!(k, want);
        assert_eq!(b[b.len() - 8..], [82, 0, 0, 0, 0, 0, 8, 0]);
    }

    #[test]
    fn user_events_need_no_kernel() {
        assert_eq!(build(true, vec![symbol(1 << 63, 4, "x")]).len(), 8);
    }

    #[test]
    fn functions_do_not_overlap() {
        let s = [
            symbol(0x3000, 0, "open"),
            symbol(0x1000, 0x5000, "long"),
            symbol(0x2000, 8, "mid"),
            symbol(0x2000, 16, "alias"),
        ];
        let got: Vec<_> = functions(&s).iter().map(|f| (f.addr, f.len)).collect();
        assert_eq!(got, [(0x1000, 0x1000), (0x2000, 8), (0x3000, 0x1000)]);
    }

    #[test]
    fn extreme_addresses() {
        build(false, vec![]);
        build(false, vec![symbol(0, 0, "zero")]);
        build(false, vec![symbol(1, u64::MAX - 1, "all")]);
        build(false, vec![symbol(u64::MAX, u64::MAX, "last")]);
    }
}
