//! What the generator asks of an architecture.

use super::code::{Code, Label};

/// Registers by their part in generated code. Scratch registers do not survive calls; system
/// calls take `S0` to `S3` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reg {
    /// Scratch; `setjmp`'s result.
    S0,
    /// Scratch; the argument of `longjmp` and `switch`.
    S1,
    /// Scratch.
    S2,
    /// Scratch.
    S3,
    /// Scratch; survives system calls.
    S4,
    /// Callee-saved: where the running function's list ends.
    Level,
    /// Callee-saved.
    C0,
    /// Callee-saved.
    C1,
    /// Callee-saved.
    C2,
    /// Callee-saved; the stack pointer before `alloca` in functions without a frame pointer.
    C3,
    /// Frame pointer, or callee-saved.
    Fp,
    /// Stack pointer.
    Sp,
}

impl Reg {
    /// Those that a function keeps for its caller.
    pub const SAVED: [Reg; 6] = [Reg::Level, Reg::C0, Reg::C1, Reg::C2, Reg::C3, Reg::Fp];
}

/// An argument of a system call.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A number.
    Imm(u64),
    /// The word at an address.
    At(u64),
    /// The address of a place in the code.
    Code(Label),
}

/// How a function makes its frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// With a frame pointer.
    pub fp: bool,
    /// Callee-saved registers in the order in which they are saved; without the frame
    /// pointer if there is one.
    pub saved: Vec<Reg>,
    /// Bytes for local variables, a multiple of 16.
    pub locals: u64,
    /// The stack pointer changes by a run-time amount: it comes back from the frame pointer
    /// or from `C3`.
    pub alloca: bool,
    /// aarch64: key of the signature on the return address, 0 for none, 1 for A, 2 for B.
    pub sign: u8,
    /// Which of several equal ways the code takes.
    pub style: usize,
}

/// How control leaves a function for another one's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leap {
    /// A direct jump.
    Direct,
    /// A jump to the address in `S1`.
    Register,
    /// A return instruction as a jump.
    Return,
}

/// The instructions of an architecture. Every operation's last instruction is the one that
/// does what it says; those before prepare it in registers that nothing else uses.
pub trait Asm {
    /// The code so far.
    fn code(&mut self) -> &mut Code;
    /// `r = value`
    fn imm(&mut self, r: Reg, value: u64);
    /// `r = address of label`
    fn label_address(&mut self, r: Reg, label: Label);
    /// `to = from`
    fn mov(&mut self, to: Reg, from: Reg);
    /// `r += value`, at most 4095 either way
    fn add(&mut self, r: Reg, value: i32);
    /// `r = r * by`
    fn mul(&mut self, r: Reg, by: Reg);
    /// `r = r % 2^bits`
    fn low_bits(&mut self, r: Reg, bits: u32);
    /// `r = word at base + offset`
    fn load(&mut self, r: Reg, base: Reg, offset: u64);
    /// `word at base + offset = r`
    fn store(&mut self, base: Reg, offset: u64, r: Reg);
    /// `r = word at addr`
    fn load_abs(&mut self, r: Reg, addr: u64);
    /// `word at addr = r`
    fn store_abs(&mut self, addr: u64, r: Reg);
    /// A call.
    fn call(&mut self, label: Label);
    /// A call of the address in a register.
    fn call_reg(&mut self, r: Reg);
    /// A direct jump.
    fn jump(&mut self, label: Label);
    /// A jump to the address in a register.
    fn jump_reg(&mut self, r: Reg);
    /// A return instruction that jumps to the address in a register.
    fn jump_by_return(&mut self, r: Reg);
    /// A jump if bit `bit` of `r` is `set`.
    fn jump_if_bit(&mut self, r: Reg, bit: u32, set: bool, label: Label);
    /// A jump if `r` is zero, or is not.
    fn jump_if_zero(&mut self, r: Reg, zero: bool, label: Label);
    /// A return.
    fn ret(&mut self);
    /// A system call; the last instruction is the call itself. Its result is in `S0` after
    /// [`Asm::result`].
    fn syscall(&mut self, number: i64, args: &[Arg]);
    /// `S0 = result of the system call`
    fn result(&mut self);
    /// `sp -= r`
    fn sub_sp(&mut self, r: Reg);
    /// The true CFA of a function without a frame so far: `r = CFA`.
    fn cfa(&mut self, r: Reg);
    /// Makes a frame.
    fn prologue(&mut self, frame: &Frame);
    /// Removes it: the stack pointer is as at the function's start.
    fn epilogue(&mut self, frame: &Frame);
    /// A return after [`Asm::epilogue`], perhaps one with the end of a signature.
    fn ret_after(&mut self, frame: &Frame);
    /// `setjmp` without a frame: fills the buffer at `S1`, returns 0 in `S0`.
    fn setjmp(&mut self);
    /// Ends with the jump to where the `setjmp` of the buffer at `S1` was called, with a
    /// value in `S0` that is not 0.
    fn longjmp(&mut self, style: usize);
    /// Saves all callee-saved registers and the return address on the stack.
    fn save_all(&mut self);
    /// Undoes [`Asm::save_all`], on another stack, and returns there.
    fn restore_all(&mut self, style: usize);
    /// Makes the stack that ends at `top` one that [`Asm::restore_all`] finds, with `entry`
    /// as return address; gives the stack pointer for it.
    fn new_stack(&mut self, top: u64, entry: Label) -> u64;
}
