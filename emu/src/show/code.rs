//! The code of a file: assembly at an address, around one, or of a range.

use std::ops::Range;

use arch::Arch;
use arch::decode::Decoder;
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::Header;
use goblin::elf::program_header::{PF_X, PT_LOAD, ProgramHeader};
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SectionHeader};

/// The longest instruction of either architecture.
const LONGEST: u64 = 15;

/// Bytes that are disassembled at once.
const CHUNK: u64 = 4096;

/// How far before an address [`Code::around`] begins to decode.
const MAX_BACK: u64 = 64 << 10;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Mnemonic and operands, Intel syntax on x86_64; `.byte` or `.inst` for what is none.
    pub text: String,
}

impl Line {
    /// Where a direct jump or call goes to.
    pub fn target(&self) -> Option<u64> {
        let (mnemonic, operands) = self.text.split_once(' ')?;
        let x86 = mnemonic == "call" || mnemonic.starts_with('j');
        let branches = ["b", "bl", "cbz", "cbnz", "tbz", "tbnz"];
        if !x86 && !mnemonic.starts_with("b.") && !branches.contains(&mnemonic) {
            return None;
        }
        let last = operands.rsplit(", ").next()?;
        let digits = last.strip_prefix('#').unwrap_or(last).strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    }
}

/// A section with code, or a segment if there are no sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the section; `None` for a segment.
    pub name: Option<String>,
    /// Its addresses, as linked.
    pub range: Range<u64>,
}

/// The code of an ELF file at link-time addresses.
#[derive(Debug)]
pub struct Code<'b> {
    bytes: &'b [u8],
    decoder: Decoder,
    parts: Vec<Part>,
    /// Executable segments: addresses, and where they are in the file.
    segments: Vec<(Range<u64>, Range<usize>)>,
}

const CTX: Ctx = Ctx { container: Container::Big, le: Endian::Little };

impl<'b> Code<'b> {
    /// The code of the file `bytes`, which is for `arch`. What is wrong with the file leads to
    /// less code, or none.
    pub fn new(arch: Arch, bytes: &'b [u8]) -> Code<'b> {
        let decoder = Decoder::new(arch);
        let mut code = Code { bytes, decoder, parts: Vec::new(), segments: Vec::new() };
        if let Ok(header) = goblin::elf::Elf::parse_header(bytes) {
            code.segments = segments(bytes, &header);
            code.parts = sections(bytes, &header, &code.segments);
        }
        if code.parts.is_empty() {
            let part = |(range, _): &(Range<u64>, _)| Part { name: None, range: range.clone() };
            code.parts = code.segments.iter().map(part).collect();
        }
        code
    }

    /// The parts with code, by address.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The bytes from `address` on: at most `len`, and none where there is no code.
    pub fn bytes(&self, address: u64, len: u64) -> &'b [u8] {
        let found = self.segments.iter().find(|(range, _)| range.contains(&address));
        let Some((range, at)) = found else { return &[] };
        let into = usize::try_from(address - range.start).unwrap_or(usize::MAX);
        let rest = self.bytes.get(at.clone()).and_then(|b| b.get(into..)).unwrap_or_default();
        rest.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(rest)
    }

    /// The instructions that begin in `range`, one after the other.
    pub fn lines(&self, range: Range<u64>) -> impl Iterator<Item = Line> + '_ {
        let mut at = range.start;
        let mut ready = Vec::new().into_iter();
        std::iter::from_fn(move || {
            if let line @ Some(_) = ready.next() {
                return line;
            }
            let lines = self.chunk(at, range.end);
            let last = lines.last()?;
            at = last.address.checked_add(last.bytes.len() as u64)?;
            ready = lines.into_iter();
            ready.next()
        })
    }

    /// Some instructions from `at` on that begin before `end`.
    fn chunk(&self, at: u64, end: u64) -> Vec<Line> {
        let Some(wanted) = end.checked_sub(at).filter(|len| *len > 0) else { return Vec::new() };
        let wanted = wanted.min(CHUNK);
        // An instruction may reach beyond the end: what is decoded does not depend on it.
        let code = self.bytes(at, wanted.saturating_add(LONGEST - 1));
        self.decode(code, at, at.saturating_add(wanted))
    }

    /// The instructions of `code`, which is at `at`, that begin below `limit`.
    fn decode(&self, code: &[u8], mut at: u64, limit: u64) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut rest = code;
        while at < limit
            && let Some(insn) = self.decoder.insn(rest)
        {
            // What is no instruction may be one from the next byte on.
            let len = if insn.known { usize::from(insn.len) } else { self.unit() };
            let (one, after) = rest.split_at(len.min(rest.len()));
            let text = self.decoder.disassemble(one, at).into_iter();
            lines.extend(text.map(|(address, bytes, text)| Line { address, bytes, text }));
            at = at.saturating_add(one.len() as u64);
            rest = after;
        }
        lines
    }

    /// What instructions are a multiple of.
    fn unit(&self) -> usize {
        match self.decoder.arch() {
            Arch::X86_64 => 1,
            Arch::Aarch64 => 4,
        }
    }

    /// The instruction at `pc` with up to `count` before and `count` behind it. On x86_64 those
    /// before can be told only from a `start` of an instruction below, such as the function's
    /// first or that of the unwind row.
    pub fn around(&self, start: Option<u64>, pc: u64, count: usize) -> Vec<Line> {
        let back = (count as u64).saturating_mul(4);
        let start = match self.decoder.arch() {
            Arch::Aarch64 => Some(pc.saturating_sub(back).max(start.unwrap_or(0))),
            Arch::X86_64 => start.filter(|s| *s <= pc && pc - *s <= MAX_BACK),
        };
        let before: Vec<Line> = self.lines(start.unwrap_or(pc)..pc).collect();
        // What begins with data may not decode up to the PC exactly.
        let meets = before.last().is_none_or(|l| l.address + l.bytes.len() as u64 == pc);
        let mut lines = if meets { before } else { Vec::new() };
        lines.drain(..lines.len().saturating_sub(count));
        lines.extend(self.lines(pc..u64::MAX).take(count.saturating_add(1)));
        lines
    }
}

/// Executable segments that are in the file.
fn segments(bytes: &[u8], header: &Header) -> Vec<(Range<u64>, Range<usize>)> {
    let headers = usize::try_from(header.e_phoff)
        .ok()
        .and_then(|at| ProgramHeader::parse(bytes, at, header.e_phnum.into(), CTX).ok())
        .unwrap_or_default();
    let code = headers.iter().filter(|p| p.p_type == PT_LOAD && p.p_flags & PF_X != 0);
    let mut found: Vec<_> = code
        .filter_map(|p| {
            let start = usize::try_from(p.p_offset).ok().filter(|at| *at < bytes.len())?;
            let len = usize::try_from(p.p_filesz).unwrap_or(usize::MAX).min(bytes.len() - start);
            let end = p.p_vaddr.checked_add(len as u64)?;
            (len > 0).then_some((p.p_vaddr..end, start..start + len))
        })
        .collect();
    found.sort_by_key(|(range, _)| range.start);
    // A program has none that overlap; of those that do the first one counts.
    let mut end = 0;
    found.retain(|(range, _)| {
        let fine = range.start >= end;
        end = if fine { range.end } else { end };
        fine
    });
    found
}

/// Sections with code that are in one of `segments`.
fn sections(bytes: &[u8], header: &Header, segments: &[(Range<u64>, Range<usize>)]) -> Vec<Part> {
    let headers = usize::try_from(header.e_shoff)
        .ok()
        .and_then(|at| SectionHeader::parse(bytes, at, header.e_shnum.into(), CTX).ok())
        .unwrap_or_default();
    let names = headers
        .get(usize::from(header.e_shstrndx))
        .and_then(|s| {
            let start = usize::try_from(s.sh_offset).ok()?;
            bytes.get(start..start.checked_add(usize::try_from(s.sh_size).ok()?)?)
        })
        .unwrap_or_default();
    let flags = u64::from(SHF_ALLOC | SHF_EXECINSTR);
    let code = headers.iter().filter(|s| s.sh_flags & flags == flags && s.sh_type != SHT_NOBITS);
    let mut found: Vec<Part> = code
        .filter_map(|s| {
            let (within, _) = segments.iter().find(|(range, _)| range.contains(&s.sh_addr))?;
            let end = s.sh_addr.saturating_add(s.sh_size).min(within.end);
            let name = names.get(s.sh_name..).unwrap_or_default();
            let name = name.split(|b| *b == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(name)).into_owned();
            (s.sh_addr < end).then_some(Part { name: Some(name), range: s.sh_addr..end })
        })
        .collect();
    found.sort_by_key(|part| part.range.start);
    let mut end = 0;
    found.retain(|part| {
        let fine = part.range.start >= end;
        end = if fine { part.range.end } else { end };
        fine
    });
    found
}

/// Longest name of a section that is read.
const MAX_NAME: usize = 256;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn file(arch: &str, name: &str) -> Vec<u8> {
        let path = guests::default_dir().join("bin").join(arch).join(name);
        std::fs::read(path).unwrap()
    }

    #[test]
    fn chunks_change_nothing() {
        let bytes = file("x86_64", "recursion-glibc");
        let code = Code::new(Arch::X86_64, &bytes);
        let text = code.parts().iter().find(|p| p.name.as_deref() == Some(".text")).unwrap();
        let range = text.range.start..text.range.start + 20_000;
        let bytes = code.bytes(range.start, 20_000 + LONGEST - 1);
        let all = code.decode(bytes, range.start, range.end);
        assert_eq!(code.lines(range).collect::<Vec<_>>(), all);
    }

    #[test]
    fn around_an_address() {
        for (arch, name) in [(Arch::X86_64, "x86_64"), (Arch::Aarch64, "aarch64")] {
            let bytes = file(name, "recursion");
            let code = Code::new(arch, &bytes);
            let start = code.parts()[0].range.start;
            let lines: Vec<Line> = code.lines(start..start + 100).collect();
            let around = code.around(Some(start), lines[6].address, 3);
            assert_eq!(around, lines[3..10], "{arch}");
            assert_eq!(code.around(None, 0x10, 5), []);
            assert_eq!(code.around(Some(start), lines[0].address, 2), lines[..3], "{arch}");
        }
    }

    #[test]
    fn targets() {
        let target =
            |text: &str| Line { address: 0, bytes: Vec::new(), text: text.to_owned() }.target();
        for text in ["call 0x401370", "jne 0x401370", "bl #0x401370", "tbz w0, #3, #0x401370"] {
            assert_eq!(target(text), Some(0x40_1370), "{text}");
        }
        for text in ["ret", "call rax", "mov eax, 0x401370", "jmp qword ptr [rip + 0x10]", "br x3"]
        {
            assert_eq!(target(text), None, "{text}");
        }
    }

    #[test]
    fn broken_files_have_less_code() {
        let bytes = file("x86_64", "recursion");
        for len in (0..bytes.len()).step_by(97) {
            let code = Code::new(Arch::X86_64, &bytes[..len]);
            for part in code.parts() {
                assert!(code.lines(part.range.clone()).count() <= bytes.len());
            }
        }
    }
}
