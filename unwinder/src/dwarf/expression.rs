//! DWARF expressions over the registers and the memory of a frame (DWARF 5, section 2.5).

use gimli::{
    Encoding, EndianSlice, Evaluation, EvaluationResult, EvaluationStorage, Format, LittleEndian,
    Value,
};

use crate::{End, ExpressionError, Memory, Registers};

/// Operations after which an expression is taken for a loop.
pub(super) const MAX_OPERATIONS: u32 = 1000;

type Code<'a> = EndianSlice<'a, LittleEndian>;

/// A fixed amount of memory: nothing is allocated.
struct Storage;

impl<'a> EvaluationStorage<Code<'a>> for Storage {
    type Stack = [Value; 64];
    type ExpressionStack = [(Code<'a>, Code<'a>); 0];
    type Result = [gimli::Piece<Code<'a>>; 1];
}

/// The value of expression `code`; `initial` is on its stack when it starts.
///
/// # Errors
///
/// [`End`]: an unknown register, unreadable memory, a bad expression.
pub fn evaluate(
    code: &[u8],
    initial: Option<u64>,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<u64, End> {
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size: 8 };
    let code = EndianSlice::new(code, LittleEndian);
    let mut machine = Evaluation::<_, Storage>::new_in(code, encoding);
    machine.set_max_iterations(MAX_OPERATIONS);
    if let Some(value) = initial {
        machine.set_initial_value(value);
    }
    let mut state = machine.evaluate();
    loop {
        state = match state.map_err(end_of)? {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, base_type } if base_type.0 == 0 => {
                let number = u8::try_from(register.0).unwrap_or(u8::MAX);
                let value = registers.get(number).ok_or(End::UnknownRegister(number))?;
                machine.resume_with_register(Value::Generic(value))
            }
            EvaluationResult::RequiresMemory { address, size, space: None, base_type }
                if base_type.0 == 0 && (1..=8).contains(&size) =>
            {
                let mut bytes = [0; 8];
                if !memory.read(address, &mut bytes[..usize::from(size)]) {
                    return Err(End::BadRead { address });
                }
                machine.resume_with_memory(Value::Generic(u64::from_le_bytes(bytes)))
            }
            _ => return Err(End::Expression(ExpressionError::Unsupported)),
        };
    }
    match machine.value_result() {
        Some(Value::Generic(value)) => Ok(value),
        _ => Err(End::Expression(ExpressionError::Malformed)),
    }
}

fn end_of(error: gimli::Error) -> End {
    End::Expression(match error {
        gimli::Error::TooManyIterations => ExpressionError::TooLong,
        _ => ExpressionError::Malformed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Copied;
    use arch::{Arch, Regs};

    fn value(code: &[u8], initial: Option<u64>) -> Result<u64, End> {
        let mut regs = Regs::new(Arch::X86_64);
        regs.gp[7] = 0x1000;
        let bytes = (0..4u64).flat_map(|w| (w + 1).to_le_bytes()).collect::<Vec<_>>();
        let registers = Registers::of_thread(&regs);
        evaluate(code, initial, &registers, &mut Copied { address: 0x1000, bytes })
    }

    #[test]
    fn registers_memory_and_the_initial_value() {
        // DW_OP_breg7 8; DW_OP_deref
        assert_eq!(value(&[0x77, 8, 0x06], None), Ok(2));
        // DW_OP_plus_uconst 5, on the initial value
        assert_eq!(value(&[0x23, 5], Some(100)), Ok(105));
        // DW_OP_breg7 16; DW_OP_deref_size 1
        assert_eq!(value(&[0x77, 16, 0x94, 1], None), Ok(3));
        // The PLT's: breg7 8; breg6 (here 0) 0; lit15; and; lit11; ge; lit3; shl; plus
        let plt = [0x77, 8, 0x76, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(value(&plt, None), Ok(0x1008));
    }

    #[test]
    fn bad_expressions() {
        use ExpressionError::{Malformed, TooLong, Unsupported};
        let end = |e| Err(End::Expression(e));
        assert_eq!(value(&[], None), end(Malformed));
        assert_eq!(value(&[0x22], None), end(Malformed));
        assert_eq!(value(&[0xff], None), end(Malformed));
        // DW_OP_skip -3
        assert_eq!(value(&[0x2f, 0xfd, 0xff], None), end(TooLong));
        // DW_OP_call_frame_cfa
        assert_eq!(value(&[0x9c], None), end(Unsupported));
        // DW_OP_lit0; DW_OP_deref
        assert_eq!(value(&[0x30, 0x06], None), Err(End::BadRead { address: 0 }));
        // DW_OP_breg17 0
        assert_eq!(value(&[0x81, 0], None), Err(End::UnknownRegister(17)));
        // More values than the stack holds.
        assert_eq!(value(&[0x30; 100], None), end(Malformed));
    }
}
