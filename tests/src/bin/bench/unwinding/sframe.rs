//! `.sframe` made of call-frame information, as an assembler does: a guest that has only the
//! one table is walked by the other, too.

use std::ops::{Deref, Range};

use arch::Arch;
use unwinder::Module;
use unwinder::dwarf;
use unwinder::row::{CfaRule, Row, Rule};
use unwinder::sframe::Version;

/// A function and its rows.
struct Function {
    range: Range<u64>,
    rows: Vec<Frame>,
}

/// A row: from which address on, and what it says.
struct Frame {
    start: u64,
    rules: Rules,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Rules {
    from_sp: bool,
    signed: bool,
    /// CFA, return address, frame pointer, as far as they have a word. None: no caller.
    words: [Option<i32>; 3],
}

impl Rules {
    /// `None`: SFrame cannot say it.
    fn of(row: &Row, arch: Arch) -> Option<Rules> {
        let signed = row.signed.is_some();
        let ra = row.rule(row.return_address);
        if ra == Rule::Undefined {
            return Some(Rules { from_sp: true, signed: false, words: [None; 3] });
        }
        let CfaRule::Register { register, offset } = row.cfa else { return None };
        let from_sp = usize::from(register) == arch.sp();
        if row.signal || !from_sp && usize::from(register) != arch.fp() {
            return None;
        }
        let saved = |rule| match rule {
            Rule::AtCfa(offset) => i32::try_from(offset).ok().map(Some),
            Rule::Same | Rule::Unmentioned => Some(None),
            _ => None,
        };
        let fp = saved(row.rule(arch.fp() as u8))?;
        let ra = match (arch, saved(ra)?) {
            (Arch::X86_64, Some(-8)) => None, // the header says so
            (Arch::X86_64, _) => return None,
            // The frame pointer's word is behind that of the return address.
            (Arch::Aarch64, None) if fp.is_some() => return None,
            (Arch::Aarch64, ra) => ra,
        };
        Some(Rules { from_sp, signed, words: [Some(i32::try_from(offset).ok()?), ra, fp] })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let words: Vec<i32> = self.words.into_iter().flatten().collect();
        let fits = |bits: u32| words.iter().all(|w| (*w << (32 - bits)) >> (32 - bits) == *w);
        let code = if fits(8) {
            0
        } else if fits(16) {
            1
        } else {
            2u8
        };
        let count = words.len() as u8;
        out.push(u8::from(self.from_sp) | count << 1 | code << 5 | u8::from(self.signed) << 7);
        words.iter().for_each(|w| out.extend(&w.to_le_bytes()[..1 << code]));
    }
}

/// The functions of `.eh_frame`, ascending. What SFrame cannot describe is left out: a function
/// with such rows becomes several.
fn functions<D: Deref<Target = [u8]>>(module: &Module<D>) -> Vec<Function> {
    let context = &mut dwarf::Context::new();
    let mut all: Vec<Function> = Vec::new();
    let Some(table) = module.eh_frame() else { return all };
    for entry in table.entries().flatten() {
        let mut open = false;
        let read = table.rows(&entry, context, |row| {
            let (start, end) = row.range;
            match (Rules::of(row, module.arch()), all.last_mut()) {
                (None, _) => open = false,
                (Some(rules), Some(function)) if open => {
                    function.range.end = end;
                    if function.rows.last().is_none_or(|last| last.rules != rules) {
                        function.rows.push(Frame { start, rules });
                    }
                }
                (Some(rules), _) => {
                    open = true;
                    all.push(Function { range: start..end, rows: vec![Frame { start, rules }] });
                }
            }
        });
        assert_eq!(read, Ok(()), "the call-frame information of a guest");
    }
    all.sort_by_key(|function| function.range.start);
    all
}

/// The section, if it is linked at `address`, a multiple of 8. Starts of functions are relative
/// to themselves, as the linkers write them.
pub fn section<D: Deref<Target = [u8]>>(
    module: &Module<D>,
    version: Version,
    address: u64,
) -> Vec<u8> {
    const HEADER: u64 = 28;
    let v3 = version == Version::V3;
    let functions = functions(module);
    let (mut list, mut data) = (Vec::new(), Vec::new());
    for Function { range, rows } in &functions {
        let size = (range.end - range.start) as u32;
        let width = match size {
            0..=0xff => 0u8,
            0x100..=0xffff => 1,
            _ => 2,
        };
        let start = range.start.wrapping_sub(address + HEADER + list.len() as u64);
        list.extend(&start.to_le_bytes()[..if v3 { 8 } else { 4 }]);
        list.extend(size.to_le_bytes());
        list.extend((data.len() as u32).to_le_bytes());
        if v3 {
            data.extend((rows.len() as u16).to_le_bytes());
            data.extend([width, 0, 0]);
        } else {
            list.extend((rows.len() as u32).to_le_bytes());
            list.extend([width, 0, 0, 0]);
        }
        for row in rows {
            let start = (row.start - range.start) as u32;
            data.extend(&start.to_le_bytes()[..1 << width]);
            row.rules.write(&mut data);
        }
    }
    // Magic number; version; sorted, starts relative to themselves; architecture; where the
    // frame pointer and the return address are; no further header.
    let (abi, ra) = match module.arch() {
        Arch::X86_64 => (3, -8i8),
        Arch::Aarch64 => (2, 0),
    };
    let mut all = vec![0xe2, 0xde, if v3 { 3 } else { 2 }, 1 | 4, abi, 0, ra.cast_unsigned(), 0];
    let rows: usize = functions.iter().map(|function| function.rows.len()).sum();
    for number in [functions.len(), rows, data.len(), 0, list.len()] {
        all.extend((number as u32).to_le_bytes());
    }
    all.extend(list);
    all.extend(data);
    all
}
