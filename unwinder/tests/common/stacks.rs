//! Stacks that functions could have left: laid out so that they satisfy the rows of a table.

#![allow(dead_code, reason = "every user takes a part")]

use std::ops::Deref;

use arch::{Arch, Regs};
use unwinder::dwarf;
use unwinder::memory::Copied;
use unwinder::row::{CfaRule, Row, Rule, Silent};
use unwinder::{CodeAddress, InstructionPointer, LookupAddress, Module, Registers};

#[path = "random.rs"]
mod random;

pub use random::Xorshift;

/// A place in a function and what holds there. `address` is behind the instruction, as a
/// return address is.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub address: u64,
    pub row: Row,
}

pub fn at(address: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(address)).lookup()
}

use unwinder::InterruptedAddress;

/// The ends of all rows of a module's call-frame information.
pub fn row_ends<D: Deref<Target = [u8]>>(module: &Module<D>) -> Vec<Site> {
    let context = &mut dwarf::Context::new();
    let mut all = Vec::new();
    for table in [module.eh_frame(), module.debug_frame()].into_iter().flatten() {
        for entry in table.entries().flatten() {
            let _ = table.rows(&entry, context, |row| {
                let address = row.range.1.wrapping_add(module.bias());
                all.push(Site { address, row: *row });
            });
        }
    }
    all
}

/// The calls in `code`, which is linked at `start`, whose target is a function of the table,
/// with the row there.
pub fn calls<D: Deref<Target = [u8]>>(module: &Module<D>, start: u64, code: &[u8]) -> Vec<Site> {
    let context = &mut dwarf::Context::new();
    let tables = || [module.eh_frame(), module.debug_frame()].into_iter().flatten();
    let starts: std::collections::BTreeSet<u64> =
        tables().flat_map(|t| t.entries().flatten().map(|e| e.range.0)).collect();
    let step = if module.arch() == Arch::X86_64 { 1 } else { 4 };
    let mut all = Vec::new();
    for offset in (0..code.len()).step_by(step) {
        let Some((len, to)) = call(module.arch(), &code[offset..]) else { continue };
        let pc = start + offset as u64;
        if !starts.contains(&pc.wrapping_add_signed(to)) {
            continue;
        }
        let address = (pc + len).wrapping_add(module.bias());
        if let Ok((row, _)) = module.dwarf_row(at(address - 1), context) {
            all.push(Site { address, row });
        }
    }
    all
}

/// The calls in all of a file's code.
pub fn calls_of<D: Deref<Target = [u8]>>(module: &Module<D>, file: &[u8]) -> Vec<Site> {
    let elf = goblin::elf::Elf::parse(file).unwrap_or_else(|error| panic!("{error}"));
    let code = elf.program_headers.iter().filter(|p| p.is_executable());
    code.flat_map(|p| calls(module, p.p_vaddr, &file[p.file_range()])).collect()
}

/// Length of a direct call, and its target from its start.
fn call(arch: Arch, code: &[u8]) -> Option<(u64, i64)> {
    match (arch, code) {
        (Arch::X86_64, [0xe8, a, b, c, d, ..]) => {
            Some((5, 5 + i64::from(i32::from_le_bytes([*a, *b, *c, *d]))))
        }
        (Arch::Aarch64, [a, b, c, d, ..]) => {
            let word = u32::from_le_bytes([*a, *b, *c, *d]);
            let to = (word << 6).cast_signed() >> 6;
            (word >> 26 == 0x25).then_some((4, i64::from(to) * 4))
        }
        _ => None,
    }
}

/// How a row can be satisfied: CFA from the frame pointer; offsets of the return address (in
/// the link register if there is none) and of the saved frame pointer.
struct Layout {
    offset: i64,
    from_fp: bool,
    ra: Option<i64>,
    fp: Option<i64>,
}

fn layout(arch: Arch, row: &Row) -> Option<Layout> {
    let CfaRule::Register { register, offset } = row.cfa else { return None };
    let from_fp = usize::from(register) == arch.fp();
    if row.signal || !from_fp && usize::from(register) != arch.sp() {
        return None;
    }
    let ra = match row.rule(row.return_address) {
        Rule::AtCfa(offset) => Some(offset),
        Rule::Same | Rule::Unmentioned if arch == Arch::Aarch64 => None,
        _ => return None,
    };
    let fp = match row.rule(arch.fp() as u8) {
        Rule::AtCfa(offset) => Some(offset),
        Rule::Same | Rule::Unmentioned => None,
        _ => return None,
    };
    // What lies below the stack pointer is another frame's by now.
    let sane = |at: i64| (-offset..0).contains(&at) && at % 8 == 0;
    let sane = (0..1 << 16).contains(&offset)
        && offset % 8 == 0
        && ra.into_iter().chain(fp).all(|at| from_fp || sane(at));
    (sane && !(from_fp && fp.is_none())).then_some(Layout { offset, from_fp, ra, fp })
}

/// Whether a frame that called another one can be here.
pub fn is_caller(arch: Arch, site: &Site) -> bool {
    layout(arch, &site.row).is_some_and(|l| l.ra.is_some() && l.offset > 0)
}

/// A stack, the registers on top of it, and the addresses of all frames.
pub struct Stack {
    pub registers: Registers,
    pub address: CodeAddress,
    pub memory: Copied<Vec<u8>>,
    pub frames: Vec<u64>,
}

const TOP: u64 = 0x7fff_ffff_0000;

/// The stack of a chain of frames, the topmost one first; the last one returns to 0. All but
/// the topmost are callers.
pub fn build(arch: Arch, chain: &[Site], random: &mut Xorshift) -> Stack {
    let mut words = std::collections::BTreeMap::new();
    let (mut sp, mut fp) = (TOP, 0);
    let (mut lr, mut outer) = (0, 0);
    for (n, site) in chain.iter().enumerate().rev() {
        let layout = layout(arch, &site.row).unwrap_or_else(|| panic!("no layout: {site:?}"));
        let cfa = sp;
        match layout.ra {
            Some(at) => {
                words.insert(cfa.wrapping_add_signed(at), sign(site, outer, random));
            }
            None => {
                assert_eq!(n, 0, "only the topmost frame has its return address in a register");
                lr = sign(site, outer, random);
            }
        }
        if let Some(at) = layout.fp {
            words.insert(cfa.wrapping_add_signed(at), fp);
            fp = random.next() >> 20 & !7;
        }
        if layout.from_fp {
            fp = cfa.wrapping_add_signed(-layout.offset);
            let lowest = layout.ra.into_iter().chain(layout.fp).min().unwrap_or(0).min(-16);
            sp = cfa.wrapping_add_signed(lowest) - 16 * random.below(8) as u64;
        } else {
            sp = cfa.wrapping_add_signed(-layout.offset);
        }
        outer = site.address;
    }
    let mut regs = Regs::new(arch);
    for value in &mut regs.gp {
        *value = random.next();
    }
    regs.set_sp(sp);
    regs.gp[arch.fp()] = fp;
    if arch == Arch::Aarch64 {
        regs.gp[30] = lr;
    }
    let mut bytes = vec![0; (TOP - sp) as usize];
    for (address, word) in words {
        // Below the stack pointer is what was popped: no copy has it.
        if let Some(at) = address.checked_sub(sp) {
            bytes[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
    }
    // The topmost frame has not called anything: its address is looked up as it is.
    let address = InstructionPointer(chain[0].address - 1).into();
    let mut frames: Vec<u64> = chain.iter().map(|site| site.address).collect();
    frames[0] -= 1;
    Stack {
        registers: Registers::of_thread(&regs),
        address,
        memory: Copied { address: sp, bytes },
        frames,
    }
}

/// A signature on a return address, where the row says that there is one.
fn sign(site: &Site, address: u64, random: &mut Xorshift) -> u64 {
    match site.row.signed {
        Some(_) if address != 0 => address | (random.next() & 0x7f) << 48,
        _ => address,
    }
}

/// A stack of `depth` x86_64 frames with frame records.
pub fn records(depth: usize, seed: u64) -> Stack {
    let cfa = CfaRule::Register { register: 6, offset: 16 };
    let mut row = Row::new(Arch::X86_64, 0..u64::MAX, cfa, Silent::CalleeSaved);
    row.set(16, Rule::AtCfa(-8));
    row.set(6, Rule::AtCfa(-16));
    let mut random = Xorshift(seed);
    let chain: Vec<Site> =
        (0..depth).map(|_| Site { address: 0x40_0000 + random.next() % 0x10_0000, row }).collect();
    build(Arch::X86_64, &chain, &mut random)
}

/// A random stack of `depth` frames.
pub fn random(arch: Arch, sites: &[Site], depth: usize, random: &mut Xorshift) -> Stack {
    let callers: Vec<Site> = sites.iter().copied().filter(|s| is_caller(arch, s)).collect();
    let chain: Vec<Site> = (0..depth).map(|_| random.pick(&callers)).collect();
    build(arch, &chain, random)
}
