//! Other people's unwinders, behind one trait, to be graded like our own.
//!
//! An implementation is given modules, and then registers and memory again and again. It need
//! not be told anything else: the same stack may be walked twice, and a step may be asked for
//! in the middle of nowhere.

use std::sync::Arc;

use crate::{CodeAddress, Memory, Registers};

/// An unwinder that is not ours.
pub trait ThirdParty {
    /// Its name, for a table's head.
    fn name(&self) -> &str;

    /// From now on the program or library `bytes`, an ELF file, is in the process, `bias` bytes
    /// above where it was linked (modulo 2^64), beside those that were loaded before.
    ///
    /// # Errors
    ///
    /// Why it cannot be unwound, in a few words.
    fn load(&mut self, name: &str, bytes: &Arc<[u8]>, bias: u64) -> Result<(), String>;

    /// Goes from the frame at `address` to its caller.
    ///
    /// # Errors
    ///
    /// [`Stop`]: why there is none.
    fn step(
        &mut self,
        address: CodeAddress,
        registers: &Registers,
        memory: &mut dyn Memory,
    ) -> Result<Step, Stop>;

    /// Walks, and appends the address of each frame to `frames`, that of the topmost one too,
    /// until there are `limit` of them. Without another one, a walk is one step after the
    /// other.
    fn walk(
        &mut self,
        address: CodeAddress,
        registers: &Registers,
        memory: &mut dyn Memory,
        limit: usize,
        frames: &mut Vec<u64>,
    ) -> Stop {
        let mut here = Step { address, registers: *registers };
        while frames.len() < limit {
            frames.push(here.address.value());
            match self.step(here.address, &here.registers, memory) {
                Ok(caller) => here = caller,
                Err(stop) => return stop,
            }
        }
        Stop::Limit
    }
}

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it goes on. It says whether the unwinder takes it for a return address.
    pub address: CodeAddress,
    /// Those of its registers that the unwinder tells. What it does not restore is unknown.
    pub registers: Registers,
}

/// Why there is no caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The unwinder says that there is none: the outermost frame.
    Complete,
    /// It has no rule for the place, because nothing that was loaded covers it.
    NotCovered,
    /// It cannot get there, for a reason in its own words.
    Failed(String),
    /// As many frames as were asked for.
    Limit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReturnAddress;
    use crate::memory::Copied;
    use arch::Arch;

    /// Goes to the address before, until there is none.
    struct Countdown;

    impl ThirdParty for Countdown {
        fn name(&self) -> &str {
            "countdown"
        }

        fn load(&mut self, _: &str, _: &Arc<[u8]>, _: u64) -> Result<(), String> {
            Ok(())
        }

        fn step(
            &mut self,
            address: CodeAddress,
            registers: &Registers,
            _: &mut dyn Memory,
        ) -> Result<Step, Stop> {
            let before = address.value().checked_sub(1).ok_or(Stop::Complete)?;
            Ok(Step { address: ReturnAddress(before).into(), registers: *registers })
        }
    }

    #[test]
    fn a_walk_is_made_of_steps() {
        let registers = Registers::unknown(Arch::X86_64);
        let walk = |limit| {
            let mut frames = Vec::new();
            let memory = &mut Copied { address: 0, bytes: [] };
            let stop =
                Countdown.walk(ReturnAddress(2).into(), &registers, memory, limit, &mut frames);
            (frames, stop)
        };
        assert_eq!(walk(9), (vec![2, 1, 0], Stop::Complete));
        assert_eq!(walk(2), (vec![2, 1], Stop::Limit));
        assert_eq!(walk(0), (vec![], Stop::Limit));
    }
}
