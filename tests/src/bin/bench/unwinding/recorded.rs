//! Stacks of a guest, as they are when it is sampled.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use arch::Regs;
use emu::kernel::observer::Observer;
use emu::kernel::user::Present;
use unwinder::memory::Copied;
use unwinder::{CodeAddress, InstructionPointer, Memory, Registers};

use crate::Result;
use crate::emulate::{Setup, run_with};

/// All that a walk needs of a thread.
#[derive(Clone, Debug)]
pub struct Stack {
    pub registers: Registers,
    pub address: CodeAddress,
    /// From the stack pointer on.
    pub memory: Copied<Vec<u8>>,
}

impl Stack {
    pub fn memory(&self) -> Copied<&[u8]> {
        Copied { address: self.memory.address, bytes: &self.memory.bytes }
    }
}

/// More of a stack is not copied.
const LONGEST: usize = 8 << 20;
const PAGE: u64 = 4096;

/// Copies the stack at each sample.
#[derive(Clone, Debug, Default)]
struct Recorder(Rc<RefCell<Vec<Stack>>>);

impl Observer for Recorder {
    fn signal(&mut self, _: &Regs, _: &Regs, _: u64, _: bool) {}

    fn sigreturn(&mut self, _: &Regs, _: Option<u64>) {}

    fn mapped(&mut self, _: &str, _: u64, _: u64) {}

    fn sampled(&mut self, regs: &Regs, _: &[u64], _: bool, mut memory: Present<'_>) {
        let (address, mut bytes) = (regs.sp(), Vec::new());
        let mut page = vec![0; (PAGE - address % PAGE) as usize];
        while bytes.len() < LONGEST && memory.read(address + bytes.len() as u64, &mut page) {
            bytes.extend_from_slice(&page);
            page.resize(PAGE as usize, 0);
        }
        self.0.borrow_mut().push(Stack {
            registers: Registers::of_thread(regs),
            address: InstructionPointer(regs.pc).into(),
            memory: Copied { address, bytes },
        });
    }
}

/// Runs a guest and gives `most` of the stacks of its samples at most, evenly chosen.
pub fn record(path: &Path, args: &[&str], period: u64, most: usize) -> Result<Vec<Stack>> {
    let recorder = Recorder::default();
    let observer = recorder.clone();
    run_with(
        path,
        &Setup { args, ..Setup::sampled(period) },
        |state| {
            state.observer = Some(Box::new(observer));
            Ok(())
        },
        |(), _| (),
    )?;
    let all = recorder.0.take();
    Ok(all.iter().step_by(all.len().div_ceil(most).max(1)).cloned().collect())
}
