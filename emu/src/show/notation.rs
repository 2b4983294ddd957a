//! Rows in short.
//!
//! ```text
//! cfa=rsp+16      the canonical frame address is rsp + 16
//! ra=c-8          the return address is in memory at CFA - 8
//! rbp=c-16        so is the caller's rbp, at CFA - 16
//! d8=c-16         the low half of v8, which functions preserve, is at CFA - 16
//! x19=v-8         the caller's x19 is CFA - 8 itself
//! ra=x30          the return address is in a register
//! ra=[rbp-8]      in memory at rbp - 8
//! ra=undefined    there is no caller
//! pac=A           the return address is signed, with key A
//! signal          a signal trampoline: the caller was interrupted
//! ```
//!
//! Registers that are as the caller left them are not told.

use std::fmt::Write as _;

use arch::Arch;
use unwinder::row::{CfaRule, Expression, Key, Row, Rule, Silent, return_column};

use super::expression::explain;
use super::value::Value;

/// The name of a register by its DWARF number, if it is a general one.
pub(super) fn register(arch: Arch, number: u8) -> Option<&'static str> {
    let names = match arch {
        Arch::X86_64 => &arch::x86_64::regs::NAMES[..],
        Arch::Aarch64 => &arch::aarch64::regs::NAMES[..],
    };
    names.get(usize::from(number)).copied()
}

/// A row as text, with the rules of `vectors`, registers that it does not keep, by DWARF number.
/// `section` holds the expressions; `pc` is where it is asked for.
pub(super) fn row(
    arch: Arch,
    row: &Row,
    vectors: &[(u16, Rule)],
    section: &[u8],
    pc: u64,
) -> String {
    let writer = Writer { arch, section, pc };
    let mut text = String::new();
    let ra = row.rule(row.return_address);
    let sframe = row.silent == Silent::Unknown;
    // SFrame gives an outermost frame no CFA at all.
    if ra != Rule::Undefined || !sframe {
        let _ = write!(text, "cfa={} ", writer.cfa(row.cfa));
    }
    let _ = write!(text, "ra={}", writer.return_address(row));
    let fp = arch.fp() as u8;
    let others = (0..Row::COLUMNS as u8).filter(|n| *n != fp && *n != row.return_address);
    for number in std::iter::once(fp).chain(others) {
        // Writing to a string cannot fail.
        match row.rule(number) {
            Rule::Unmentioned => {}
            Rule::Same if sframe => {}
            Rule::Undefined if sframe && ra == Rule::Undefined => {}
            rule => {
                let _ = write!(text, " {}={}", writer.name(number), writer.rule(rule));
            }
        }
    }
    let mut vectors: Vec<&(u16, Rule)> = vectors.iter().collect();
    vectors.sort_by_key(|(number, _)| *number);
    for (number, rule) in vectors {
        let _ = write!(text, " {}={}", vector(arch, *number), writer.rule(*rule));
    }
    match row.signed {
        Some(Key::A) => text.push_str(" pac=A"),
        Some(Key::B) => text.push_str(" pac=B"),
        None => {}
    }
    if row.signal {
        text.push_str(" signal");
    }
    text
}

/// The name of a register that is no general one, by its DWARF number.
fn vector(arch: Arch, number: u16) -> String {
    match (arch, number) {
        (Arch::X86_64, 17..=32) => format!("xmm{}", number - 17),
        // Of these the low 64 bits are preserved (AAPCS64, section 6.1.2).
        (Arch::Aarch64, 72..=79) => format!("d{}", number - 64),
        (Arch::Aarch64, 64..=95) => format!("v{}", number - 64),
        _ => format!("r{number}"),
    }
}

struct Writer<'a> {
    arch: Arch,
    section: &'a [u8],
    pc: u64,
}

impl Writer<'_> {
    fn name(&self, number: u8) -> String {
        register(self.arch, number).map_or_else(|| format!("r{number}"), str::to_owned)
    }

    fn cfa(&self, rule: CfaRule) -> String {
        match rule {
            CfaRule::Register { register, offset } => sum(&self.name(register), offset),
            CfaRule::Memory { register, offset } => {
                format!("[{}]", sum(&self.name(register), offset))
            }
            CfaRule::Expression(e) => self.expression(e, false),
        }
    }

    /// The rule for the return address, and its column if that is an unusual one.
    fn return_address(&self, row: &Row) -> String {
        let column = row.return_address;
        let own_register = match column == return_column(Arch::X86_64) {
            true if self.arch == Arch::X86_64 => None,
            _ => Some(self.name(column)),
        };
        let text = match (row.rule(column), &own_register) {
            (Rule::Same | Rule::Unmentioned, Some(name)) => name.clone(),
            (rule, _) => self.rule(rule),
        };
        match own_register {
            Some(name) if column != return_column(self.arch) => format!("{text}({name})"),
            _ => text,
        }
    }

    fn rule(&self, rule: Rule) -> String {
        match rule {
            Rule::Unmentioned => "unknown".to_owned(),
            Rule::Undefined => "undefined".to_owned(),
            Rule::Same => "same".to_owned(),
            Rule::AtCfa(offset) => format!("c{offset:+}"),
            Rule::Cfa(offset) => format!("v{offset:+}"),
            Rule::Register { register, offset } => sum(&self.name(register), offset),
            Rule::Memory { register, offset } => {
                format!("[{}]", sum(&self.name(register), offset))
            }
            Rule::AtExpression(e) => format!("[{}]", self.expression(e, true)),
            Rule::Expression(e) => self.expression(e, true),
        }
    }

    fn expression(&self, e: Expression, on_cfa: bool) -> String {
        let initial = on_cfa.then(|| ("cfa", Value::cfa()));
        explain(self.arch, code(self.section, e), initial, self.pc).text
    }
}

/// The bytes of an expression.
pub(super) fn code(section: &[u8], e: Expression) -> &[u8] {
    let start = e.offset as usize;
    section.get(start..start.saturating_add(e.len as usize)).unwrap_or_default()
}

/// `rsp+8`, or `rsp` alone.
fn sum(name: &str, offset: i64) -> String {
    if offset == 0 { name.to_owned() } else { format!("{name}{offset:+}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    fn text(arch: Arch, silent: Silent, change: impl FnOnce(&mut Row)) -> String {
        let cfa = CfaRule::Register { register: arch.sp() as u8, offset: 16 };
        let mut r = Row::new(arch, 0..1, cfa, silent);
        change(&mut r);
        row(arch, &r, &[], &[0x76, 0x78, 0x06], AT)
    }

    #[test]
    fn rows_of_both_tables() {
        let cfi = text(Arch::X86_64, Silent::CalleeSaved, |r| {
            r.set(16, Rule::AtCfa(-8));
            r.set(6, Rule::AtCfa(-16));
            r.set(3, Rule::Cfa(8));
            r.set(12, Rule::Same);
        });
        assert_eq!(cfi, "cfa=rsp+16 ra=c-8 rbp=c-16 rbx=v+8 r12=same");
        let sframe = text(Arch::Aarch64, Silent::Unknown, |r| {
            r.set(30, Rule::Same);
            r.set(29, Rule::Same);
            r.signed = Some(Key::B);
        });
        assert_eq!(sframe, "cfa=sp+16 ra=x30 pac=B");
        let outermost = text(Arch::X86_64, Silent::Unknown, |r| {
            r.set(16, Rule::Undefined);
            r.set(6, Rule::Undefined);
        });
        assert_eq!(outermost, "ra=undefined");
    }

    #[test]
    fn vector_registers() {
        let text = |arch, rules: &[(u16, Rule)]| {
            let cfa = CfaRule::Register { register: arch::Arch::sp(arch) as u8, offset: 0 };
            let mut r = Row::new(arch, 0..1, cfa, Silent::CalleeSaved);
            r.signed = Some(Key::A);
            row(arch, &r, rules, &[], AT)
        };
        let rules = [(73, Rule::AtCfa(-8)), (72, Rule::AtCfa(-16)), (95, Rule::Same)];
        assert_eq!(text(Arch::Aarch64, &rules), "cfa=sp ra=x30 d8=c-16 d9=c-8 v31=same pac=A");
        let rules = [(99, Rule::Undefined), (18, Rule::Cfa(8))];
        let row = text(Arch::X86_64, &rules);
        assert_eq!(row, "cfa=rsp ra=unknown xmm1=v+8 r99=undefined pac=A");
    }

    #[test]
    fn unusual_rules() {
        let e = Expression { offset: 0, len: 3 };
        let drap = text(Arch::X86_64, Silent::CalleeSaved, |r| {
            r.cfa = CfaRule::Expression(e);
            r.set(16, Rule::AtExpression(e));
            r.set(6, Rule::Register { register: 10, offset: 0 });
            r.signal = true;
        });
        assert_eq!(drap, "cfa=[rbp-8] ra=[[rbp-8]] rbp=r10 signal");
        let moved = text(Arch::Aarch64, Silent::CalleeSaved, |r| {
            r.return_address = 29;
            r.set(29, Rule::AtCfa(-8));
        });
        assert_eq!(moved, "cfa=sp+16 ra=c-8(x29) x29=c-8");
        let nothing = text(Arch::X86_64, Silent::CalleeSaved, |_| {});
        assert_eq!(nothing, "cfa=rsp+16 ra=unknown");
        // An expression that is not where it should be.
        let wild = Expression { offset: 9, len: 9 };
        let wild = text(Arch::X86_64, Silent::Unknown, |r| r.cfa = CfaRule::Expression(wild));
        assert_eq!(wild, "cfa=expression(0 bytes) ra=unknown");
    }
}
