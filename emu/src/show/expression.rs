//! DWARF expressions, taken apart: as text, and as a value if they come to a simple one.

use arch::Arch;
use gimli::{Encoding, EndianSlice, Format, LittleEndian, Operation};

use super::notation::register;
use super::value::Value;

type Op<'a> = Operation<EndianSlice<'a, LittleEndian>>;

/// Operations and characters above which an expression is only told by its length.
const MAX_OPERATIONS: usize = 64;
const MAX_TEXT: usize = 120;

/// An expression as written for people, and what it comes to.
pub(super) struct Meaning {
    pub text: String,
    /// `None`: not a sum of a register or a loaded word and a constant.
    pub value: Option<Value>,
}

/// What is on the stack of the machine.
#[derive(Clone)]
struct Item {
    text: String,
    value: Option<Value>,
    form: Form,
}

/// How a text binds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A name, a number, or in brackets.
    Atom,
    Sum,
    Other,
}

/// Takes `code` apart. `initial` is on the stack at first; `pc` is what the program counter's
/// column holds.
pub(super) fn explain(arch: Arch, code: &[u8], initial: Option<(&str, Value)>, pc: u64) -> Meaning {
    let stack = initial
        .map(|(text, value)| Item { text: text.to_owned(), value: Some(value), form: Form::Atom })
        .into_iter()
        .collect();
    let mut machine = Machine { arch, pc, stack };
    match machine.run(code) {
        Some(item) => Meaning { text: item.text, value: item.value },
        None => Meaning { text: format!("expression({} bytes)", code.len()), value: None },
    }
}

struct Machine {
    arch: Arch,
    pc: u64,
    stack: Vec<Item>,
}

impl Machine {
    fn run(&mut self, code: &[u8]) -> Option<Item> {
        let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size: 8 };
        let mut rest = EndianSlice::new(code, LittleEndian);
        let mut count = 0;
        while !rest.is_empty() {
            let op = Op::parse(&mut rest, encoding).ok()?;
            count += 1;
            let short = self.stack.last().is_none_or(|item| item.text.len() <= MAX_TEXT);
            if count > MAX_OPERATIONS || !short {
                return None;
            }
            self.execute(&op)?;
        }
        self.stack.pop()
    }

    fn execute(&mut self, op: &Op<'_>) -> Option<()> {
        match *op {
            Operation::UnsignedConstant { value } => self.constant(value),
            Operation::SignedConstant { value } => self.constant(value.cast_unsigned()),
            Operation::Address { address } => self.constant(address),
            Operation::RegisterOffset { register: number, offset, base_type }
                if base_type.0 == 0 =>
            {
                self.register(u8::try_from(number.0).ok()?, offset)?;
            }
            Operation::PlusConstant { value } => {
                let item = self.stack.pop()?;
                self.stack.push(plus(item, value.cast_signed()));
            }
            Operation::Deref { base_type, size: 8, space: false } if base_type.0 == 0 => {
                let item = self.stack.pop()?;
                let value = item.value.and_then(Value::load);
                self.stack.push(Item { text: format!("[{}]", item.text), value, form: Form::Atom });
            }
            Operation::Pick { index } => {
                let at = self.stack.len().checked_sub(usize::from(index) + 1)?;
                self.stack.push(self.stack.get(at)?.clone());
            }
            Operation::Drop => drop(self.stack.pop()?),
            Operation::Swap => {
                let (top, below) = (self.stack.pop()?, self.stack.pop()?);
                self.stack.extend([top, below]);
            }
            Operation::Nop => {}
            _ => self.binary(op)?,
        }
        Some(())
    }

    fn constant(&mut self, value: u64) {
        let text = value.cast_signed().to_string();
        self.stack.push(Item { text, value: Some(Value::constant(value)), form: Form::Atom });
    }

    fn register(&mut self, number: u8, offset: i64) -> Option<()> {
        // x86_64 counts the program counter among the registers: column 16.
        let is_pc = self.arch == Arch::X86_64 && usize::from(number) == arch::x86_64::regs::RA;
        let (name, value) = match is_pc {
            true => ("rip", Value::constant(self.pc)),
            false => (register(self.arch, number)?, Value::register(number)),
        };
        let item = Item { text: name.to_owned(), value: Some(value), form: Form::Atom };
        self.stack.push(plus(item, offset));
        Some(())
    }

    fn binary(&mut self, op: &Op<'_>) -> Option<()> {
        let (sign, apply): (&str, fn(u64, u64) -> u64) = match op {
            Operation::Plus => ("+", u64::wrapping_add),
            Operation::Minus => ("-", u64::wrapping_sub),
            Operation::Mul => ("*", u64::wrapping_mul),
            Operation::And => ("&", |a, b| a & b),
            Operation::Or => ("|", |a, b| a | b),
            Operation::Xor => ("^", |a, b| a ^ b),
            Operation::Shl => ("<<", |a, b| if b < 64 { a << b } else { 0 }),
            Operation::Shr => (">>", |a, b| if b < 64 { a >> b } else { 0 }),
            Operation::Eq => ("==", |a, b| u64::from(a == b)),
            Operation::Ne => ("!=", |a, b| u64::from(a != b)),
            // Signed, DWARF 5, section 2.5.1.5.
            Operation::Ge => (">=", |a, b| u64::from(a.cast_signed() >= b.cast_signed())),
            Operation::Gt => (">", |a, b| u64::from(a.cast_signed() > b.cast_signed())),
            Operation::Le => ("<=", |a, b| u64::from(a.cast_signed() <= b.cast_signed())),
            Operation::Lt => ("<", |a, b| u64::from(a.cast_signed() < b.cast_signed())),
            _ => return None,
        };
        let (right, left) = (self.stack.pop()?, self.stack.pop()?);
        let value = match (&left.value, &right.value) {
            (Some(a), Some(b)) => match (a.as_constant(), b.as_constant(), op) {
                (Some(x), Some(y), _) => Some(Value::constant(apply(x, y))),
                (_, Some(y), Operation::Plus) => Some(a.clone().plus(y.cast_signed())),
                (Some(x), _, Operation::Plus) => Some(b.clone().plus(x.cast_signed())),
                (_, Some(y), Operation::Minus) => {
                    Some(a.clone().plus(y.cast_signed().wrapping_neg()))
                }
                _ => None,
            },
            _ => None,
        };
        let sum = matches!(op, Operation::Plus | Operation::Minus);
        let left = if sum { left.summand() } else { left.operand() };
        let text = format!("{left}{sign}{}", right.operand());
        let form = if sum { Form::Sum } else { Form::Other };
        self.stack.push(Item { text, value, form });
        Some(())
    }
}

impl Item {
    fn operand(&self) -> String {
        match self.form {
            Form::Atom => self.text.clone(),
            Form::Sum | Form::Other => format!("({})", self.text),
        }
    }

    /// As the first of a sum.
    fn summand(&self) -> String {
        if self.form == Form::Sum { self.text.clone() } else { self.operand() }
    }
}

fn plus(item: Item, offset: i64) -> Item {
    if offset == 0 {
        return item;
    }
    let text = format!("{}{offset:+}", item.summand());
    Item { text, value: item.value.map(|v| v.plus(offset)), form: Form::Sum }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn of(code: &[u8], pc: u64) -> (String, Option<Value>) {
        let Meaning { text, value } = explain(Arch::X86_64, code, None, pc);
        (text, value)
    }

    #[test]
    fn sums_and_loads() {
        // DW_OP_breg10 0
        assert_eq!(of(&[0x7a, 0], 0), ("r10".into(), Some(Value::register(10))));
        // DW_OP_breg6 -8; DW_OP_deref; DW_OP_plus_uconst 16
        let loaded = Value::register(6).plus(-8).load().unwrap();
        assert_eq!(
            of(&[0x76, 0x78, 0x06, 0x23, 16], 0),
            ("[rbp-8]+16".into(), Some(loaded.plus(16)))
        );
    }

    #[test]
    fn the_stub_of_a_plt_is_constant_at_each_instruction() {
        // breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let (text, early) = of(&plt, 0x1020);
        assert_eq!(text, "rsp+8+(((rip&15)>=11)<<3)");
        assert_eq!(early, Some(Value::register(7).plus(8)));
        assert_eq!(of(&plt, 0x102b).1, Some(Value::register(7).plus(16)));
    }

    #[test]
    fn what_is_not_understood_has_a_length() {
        for code in [&[][..], &[0x22], &[0xff, 1], &[0x50], &[0x9c], &[0x81, 0]] {
            assert_eq!(
                of(code, 0),
                (format!("expression({} bytes)", code.len()), None),
                "{code:x?}"
            );
        }
        // DW_OP_lit1; DW_OP_dup, DW_OP_plus, again and again: texts that double.
        let mut long = vec![0x31];
        long.extend([0x12, 0x22].repeat(40));
        assert_eq!(of(&long, 0).1, None);
        // DW_OP_mul of two registers is no sum, but has a text.
        assert_eq!(of(&[0x70, 0, 0x71, 0, 0x1e], 0), ("rax*rdx".into(), None));
    }
}
