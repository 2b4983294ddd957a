//! Whether a row of CFI and one of SFrame say the same.
//!
//! Meaning is compared, not writing: from which register and how far the CFA is, and where
//! the return address and the caller's frame pointer are. `[cfa-8]`, written as an offset, as
//! an expression or as a flexible rule, is one place. What the rows say of other registers is
//! left out, because SFrame says nothing of them.

use std::fmt;

use arch::Arch;
use unwinder::row::{CfaRule, Expression, Row, Rule, Silent};

use super::expression::explain;
use super::notation::code;
use super::value::Value;

/// Parts of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Parts {
    /// The canonical frame address.
    pub cfa: bool,
    /// The return address: where it is, whether there is one, whether and how it is signed.
    pub ra: bool,
    /// The caller's frame pointer.
    pub fp: bool,
    /// Whether it is the row of a signal trampoline.
    pub signal: bool,
}

impl Parts {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Parts::default()
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(self.cfa, "CFA"), (self.ra, "RA"), (self.fp, "FP"), (self.signal, "signal")];
        let mut names = all.iter().filter(|(is, _)| *is).map(|(_, name)| name);
        names.next().map_or(Ok(()), |first| f.write_str(first))?;
        names.try_for_each(|name| write!(f, " {name}"))
    }
}

/// How CFI and SFrame compare at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agreement {
    /// Neither has a row.
    Neither,
    /// They say the same.
    Same,
    /// Only CFI has a row.
    OnlyCfi,
    /// Only SFrame has a row.
    OnlySframe,
    /// Not the same.
    Not {
        /// What they disagree about.
        differ: Parts,
        /// What cannot be compared: a CFI expression that comes to no simple value.
        unclear: Parts,
    },
}

impl Agreement {
    /// Whether the tables contradict each other, or only one of them has a row.
    pub fn is_disagreement(self) -> bool {
        match self {
            Agreement::Neither | Agreement::Same => false,
            Agreement::OnlyCfi | Agreement::OnlySframe => true,
            Agreement::Not { differ, .. } => !differ.is_empty(),
        }
    }
}

impl fmt::Display for Agreement {
    /// In a few words; nothing where there is nothing to say.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Agreement::Neither | Agreement::Same => Ok(()),
            Agreement::OnlyCfi => f.write_str("only in CFI"),
            Agreement::OnlySframe => f.write_str("only in SFrame"),
            Agreement::Not { differ, unclear } => {
                if !differ.is_empty() {
                    write!(f, "{differ} differ{}", if one(differ) { "s" } else { "" })?;
                }
                match (differ.is_empty(), unclear.is_empty()) {
                    (_, true) => Ok(()),
                    (true, _) => write!(f, "cannot compare {unclear}"),
                    (false, _) => write!(f, ", cannot compare {unclear}"),
                }
            }
        }
    }
}

fn one(parts: Parts) -> bool {
    [parts.cfa, parts.ra, parts.fp, parts.signal].iter().filter(|is| **is).count() == 1
}

/// Compares the rows that are in force at `pc`. `section` holds the expressions of `cfi`.
pub(super) fn compare(arch: Arch, cfi: &Row, section: &[u8], sframe: &Row, pc: u64) -> Agreement {
    let (mut differ, mut unclear) = (Parts::default(), Parts::default());
    let outermost = |row: &Row| row.rule(row.return_address) == Rule::Undefined;
    match (outermost(cfi), outermost(sframe)) {
        (true, true) => return Agreement::Same,
        (false, false) => {}
        // There is nothing else to compare with.
        _ => return Agreement::Not { differ: Parts { ra: true, ..differ }, unclear },
    }
    let reader = Reader { arch, section, pc };
    let cfas = [reader.cfa(cfi.cfa), reader.cfa(sframe.cfa)];
    let fp = arch.fp() as u8;
    let places = |cfi_column, sframe_column| {
        [reader.place(cfi, cfi_column), reader.place(sframe, sframe_column)]
    };
    let answers = [
        (equal(&cfas.clone().map(Place::Is), &cfas), &mut differ.cfa, &mut unclear.cfa),
        (
            equal(&places(cfi.return_address, sframe.return_address), &cfas),
            &mut differ.ra,
            &mut unclear.ra,
        ),
        (equal(&places(fp, fp), &cfas), &mut differ.fp, &mut unclear.fp),
    ];
    for (equal, differ, unclear) in answers {
        (*differ, *unclear) = (equal == Some(false), equal.is_none());
    }
    differ.ra |= cfi.signed != sframe.signed;
    differ.signal = cfi.signal != sframe.signal;
    match differ.is_empty() && unclear.is_empty() {
        true => Agreement::Same,
        false => Agreement::Not { differ, unclear },
    }
}

/// Where, or what, a register of the caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The table does not tell.
    Unknown,
    /// It is lost.
    Undefined,
    /// A value; `None` if it is not simple.
    Is(Option<Value>),
}

/// Whether two places are the same; `None` if that cannot be told.
fn equal([a, b]: &[Place; 2], [cfa_a, cfa_b]: &[Option<Value>; 2]) -> Option<bool> {
    match (a, b) {
        (Place::Is(Some(a)), Place::Is(Some(b))) if a == b => Some(true),
        (Place::Is(Some(a)), Place::Is(Some(b))) => {
            // Not the same distance from the CFA, but perhaps the same from a register.
            let a = a.with_cfa(cfa_a.as_ref()?)?;
            let b = b.with_cfa(cfa_b.as_ref()?)?;
            Some(a == b)
        }
        (Place::Is(_), Place::Is(_)) => None,
        _ => Some(a == b),
    }
}

struct Reader<'a> {
    arch: Arch,
    section: &'a [u8],
    pc: u64,
}

impl Reader<'_> {
    fn cfa(&self, rule: CfaRule) -> Option<Value> {
        match rule {
            CfaRule::Register { register, offset } => Some(Value::register(register).plus(offset)),
            CfaRule::Memory { register, offset } => Value::register(register).plus(offset).load(),
            CfaRule::Expression(e) => self.expression(e, false),
        }
    }

    fn place(&self, row: &Row, column: u8) -> Place {
        let is_fp = usize::from(column) == self.arch.fp();
        let in_register = Place::Is(Some(Value::register(column)));
        Place::Is(match row.rule(column) {
            Rule::Same => return in_register,
            Rule::Unmentioned if is_fp && row.silent == Silent::CalleeSaved => return in_register,
            // The link register holds it until something else is said.
            Rule::Unmentioned if !is_fp && self.arch == Arch::Aarch64 => return in_register,
            Rule::Unmentioned => return Place::Unknown,
            Rule::Undefined => return Place::Undefined,
            Rule::AtCfa(offset) => Value::cfa().plus(offset).load(),
            Rule::Cfa(offset) => Some(Value::cfa().plus(offset)),
            Rule::Register { register, offset } => Some(Value::register(register).plus(offset)),
            Rule::Memory { register, offset } => Value::register(register).plus(offset).load(),
            Rule::AtExpression(e) => self.expression(e, true).and_then(Value::load),
            Rule::Expression(e) => self.expression(e, true),
        })
    }

    fn expression(&self, e: Expression, on_cfa: bool) -> Option<Value> {
        let initial = on_cfa.then(|| ("cfa", Value::cfa()));
        explain(self.arch, code(self.section, e), initial, self.pc).value
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use unwinder::row::Key;

    /// breg6 -8, deref: what gcc writes for a realigned frame.
    const DRAP: &[u8] = &[0x76, 0x78, 0x06];

    fn x86(cfa: CfaRule, ra: Rule, fp: Rule, silent: Silent) -> Row {
        let mut row = Row::new(Arch::X86_64, 0..9, cfa, silent);
        row.set(16, ra);
        row.set(6, fp);
        row
    }

    fn sp(offset: i64) -> CfaRule {
        CfaRule::Register { register: 7, offset }
    }

    fn say(cfi: &Row, sframe: &Row) -> String {
        compare(Arch::X86_64, cfi, DRAP, sframe, 0).to_string()
    }

    #[test]
    fn offsets() {
        let cfi = |cfa, fp| x86(sp(cfa), Rule::AtCfa(-8), fp, Silent::CalleeSaved);
        let sframe = |cfa, fp| x86(sp(cfa), Rule::AtCfa(-8), fp, Silent::Unknown);
        let (saved, same) = (Rule::AtCfa(-16), Rule::Same);
        assert_eq!(say(&cfi(16, Rule::Unmentioned), &sframe(16, same)), "");
        assert_eq!(say(&cfi(16, saved), &sframe(16, same)), "FP differs");
        // The CFA alone: what is at the same distance from it is not blamed.
        assert_eq!(say(&cfi(16, saved), &sframe(24, saved)), "CFA differs");
        assert_eq!(say(&cfi(16, Rule::Undefined), &sframe(24, same)), "CFA FP differ");
        assert_eq!(say(&cfi(16, saved), &sframe(16, Rule::Unmentioned)), "FP differs");
        // At another distance from another CFA, but at the same place.
        assert_eq!(say(&cfi(16, Rule::AtCfa(-16)), &sframe(24, Rule::AtCfa(-24))), "CFA differs");
    }

    #[test]
    fn expressions() {
        let e = Expression { offset: 0, len: 3 };
        let load = CfaRule::Memory { register: 6, offset: -8 };
        let cfi = |e| {
            x86(CfaRule::Expression(e), Rule::AtCfa(-8), Rule::AtExpression(e), Silent::CalleeSaved)
        };
        // [[rbp-8]], the expression's value being an address.
        let sframe = x86(load, Rule::AtCfa(-8), Rule::AtCfa(0), Silent::Unknown);
        assert_eq!(say(&cfi(e), &sframe), "");
        let not_simple = cfi(Expression { offset: 2, len: 1 });
        assert_eq!(say(&not_simple, &sframe), "cannot compare CFA FP");
        let wild = cfi(Expression { offset: 7, len: 1 });
        assert_eq!(say(&wild, &sframe), "cannot compare CFA");
    }

    #[test]
    fn the_end_of_the_stack_and_signals() {
        let row = |ra| x86(sp(8), ra, Rule::Same, Silent::CalleeSaved);
        let (inner, outer) = (row(Rule::AtCfa(-8)), row(Rule::Undefined));
        assert_eq!(say(&outer, &x86(sp(0), Rule::Undefined, Rule::Undefined, Silent::Unknown)), "");
        assert_eq!(say(&outer, &inner), "RA differs");
        let mut signal = inner;
        signal.signal = true;
        assert_eq!(say(&signal, &inner), "signal differs");
    }

    #[test]
    fn return_addresses_in_the_link_register() {
        let cfa = CfaRule::Register { register: 31, offset: 0 };
        let cfi = Row::new(Arch::Aarch64, 0..9, cfa, Silent::CalleeSaved);
        let mut sframe = Row::new(Arch::Aarch64, 0..9, cfa, Silent::Unknown);
        sframe.set(30, Rule::Same);
        sframe.set(29, Rule::Same);
        let compare = |a: &Row, b: &Row| compare(Arch::Aarch64, a, &[], b, 0);
        assert_eq!(compare(&cfi, &sframe), Agreement::Same);
        sframe.signed = Some(Key::A);
        assert_eq!(compare(&cfi, &sframe).to_string(), "RA differs");
        let mut signed = cfi;
        signed.signed = Some(Key::B);
        assert!(compare(&signed, &sframe).is_disagreement());
        signed.signed = Some(Key::A);
        assert!(!compare(&signed, &sframe).is_disagreement());
    }
}
