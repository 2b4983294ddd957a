//! The unwinders that are graded: our own, then those of others.
//!
//! A new one is a [`ThirdParty`] in [`Methods::new`]'s list, and nothing else.

use std::sync::Arc;

use arch::{Arch, Regs};
use unwinder::elf::{Slice, bias};
use unwinder::plug::{Step, Stop, ThirdParty};
use unwinder::{
    CodeAddress, Context, End, InstructionPointer, Memory, Module, Modules, Policy, Registers,
    Walk, fp,
};

/// A file's bytes, shared with whoever else reads it.
pub type Bytes = Arc<[u8]>;

/// Modules as the methods have them.
pub type Tables = Modules<Slice<Bytes>>;

/// One of the methods, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId(pub usize);

impl MethodId {
    /// By frame pointer.
    pub const FP: MethodId = MethodId(0);
    /// By `.eh_frame` or `.debug_frame`.
    pub const DWARF: MethodId = MethodId(1);
    /// By `.sframe`.
    pub const SFRAME: MethodId = MethodId(2);
}

/// Why a method gave no further frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCaller {
    /// It says that there is none.
    Complete,
    /// No table covers the place.
    NoCoverage,
    /// It cannot get there: why.
    Failed(String),
}

impl NoCaller {
    fn of_end(end: End) -> NoCaller {
        match end {
            End::NoRow(_) | End::NoModule(_) => NoCaller::NoCoverage,
            end if end.claims_complete() => NoCaller::Complete,
            end => NoCaller::Failed(end.to_string()),
        }
    }
}

/// What one step told of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where it goes on.
    pub address: u64,
    /// Its registers, those that the method tells.
    pub registers: Registers,
    /// Its stack pointer there, where the method knows it.
    pub sp: Option<u64>,
}

/// All methods with the modules of one process.
pub struct Methods {
    own: Tables,
    context: Context,
    others: Vec<Box<dyn ThirdParty>>,
    names: Vec<String>,
}

impl Methods {
    /// Frames that a walk is asked for at most.
    pub const LIMIT: usize = 1024;

    /// Without modules yet.
    pub fn new(arch: Arch) -> Methods {
        let others = others(arch);
        let own = ["fp", "dwarf", "sframe"].map(str::to_owned);
        let names = own.into_iter().chain(others.iter().map(|o| o.name().to_owned())).collect();
        Methods { own: Modules::new([]), context: Context::new(), others, names }
    }

    /// Their names, as on the command line, in the order of [`MethodId`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = MethodId> + use<> {
        (0..self.names.len()).map(MethodId)
    }

    /// A file was mapped: offset `pgoff` of it is at address `addr`. What is no ELF file, or
    /// has no such executable part, gives no module.
    pub fn map(&mut self, name: &str, bytes: &Bytes, addr: u64, pgoff: u64) {
        if let Some(bias) = bias(bytes, addr, pgoff) {
            self.map_at(name, bytes, bias);
        }
    }

    /// As [`Methods::map`], for a file that is `bias` bytes above where it was linked.
    pub fn map_at(&mut self, name: &str, bytes: &Bytes, bias: u64) {
        for other in &mut self.others {
            // One that cannot be loaded has no coverage, as its steps will say.
            let _ = other.load(name, bytes, bias);
        }
        if let Ok(module) = Module::from_elf(name, bytes.clone(), bias) {
            let modules = std::mem::replace(&mut self.own, Modules::new([]));
            self.own = modules.with(module);
        }
    }

    /// What is mapped.
    pub fn tables(&self) -> &Tables {
        &self.own
    }

    /// One step of a method from a thread's registers.
    ///
    /// # Errors
    ///
    /// [`NoCaller`]: why there is no caller.
    pub fn step(
        &mut self,
        method: MethodId,
        regs: &Regs,
        mut memory: &mut dyn Memory,
    ) -> Result<Told, NoCaller> {
        let start: CodeAddress = InstructionPointer(regs.pc).into();
        let registers = Registers::of_thread(regs);
        let policy = match method {
            MethodId::FP => Policy::frame_pointer(),
            MethodId::DWARF => Policy::dwarf(),
            MethodId::SFRAME => Policy::sframe(),
            other => {
                let step = self.other_step(other, start, &registers, memory)?;
                let (address, registers) = (step.address.value(), step.registers);
                return Ok(Told { address, registers, sp: registers.sp() });
            }
        };
        let (modules, context) = (&self.own, &mut self.context);
        let unwound = unwinder::step(&policy, modules, start, &registers, &mut memory, context);
        let caller = unwound.map_err(NoCaller::of_end)?.caller;
        let sp = caller.registers.sp().or(caller.cfa);
        Ok(Told { address: caller.address.value(), registers: caller.registers, sp })
    }

    /// One step of an unwinder that is not ours, from any frame.
    ///
    /// # Errors
    ///
    /// [`NoCaller`]: why there is no caller. Our own methods have none here.
    pub fn other_step(
        &mut self,
        method: MethodId,
        from: CodeAddress,
        registers: &Registers,
        memory: &mut dyn Memory,
    ) -> Result<Step, NoCaller> {
        let other = method.0.checked_sub(3).and_then(|index| self.others.get_mut(index));
        let step = other.ok_or(NoCaller::NoCoverage)?.step(from, registers, memory);
        step.map_err(|stop| match stop {
            Stop::Complete => NoCaller::Complete,
            Stop::NotCovered => NoCaller::NoCoverage,
            Stop::Failed(why) => NoCaller::Failed(why),
            Stop::Limit => NoCaller::Failed("limit".to_owned()),
        })
    }

    /// A whole walk from a thread's registers: the addresses, innermost first, go to `found`;
    /// returns why it ended, if the method says so.
    pub fn walk(
        &mut self,
        method: MethodId,
        regs: &Regs,
        mut memory: &mut dyn Memory,
        found: &mut Vec<u64>,
    ) -> Option<NoCaller> {
        found.clear();
        let start: CodeAddress = InstructionPointer(regs.pc).into();
        let policy = match method {
            MethodId::FP => {
                perf_walk(regs, memory, found);
                return None;
            }
            MethodId::DWARF => Policy::dwarf(),
            MethodId::SFRAME => Policy::sframe(),
            MethodId(other) => {
                let registers = Registers::of_thread(regs);
                let stop = match self.others.get_mut(other - 3) {
                    Some(o) => o.walk(start, &registers, memory, Methods::LIMIT, found),
                    None => Stop::Limit,
                };
                return match stop {
                    Stop::Complete => Some(NoCaller::Complete),
                    Stop::NotCovered => Some(NoCaller::NoCoverage),
                    Stop::Failed(why) => Some(NoCaller::Failed(why)),
                    Stop::Limit => None,
                };
            }
        };
        let registers = Registers::of_thread(regs);
        let (modules, context) = (&self.own, &mut self.context);
        let walk = Walk::new(policy, modules, start, &registers, &mut memory, context);
        let mut walk = walk.limit(Methods::LIMIT);
        found.extend(walk.by_ref().map(|frame| frame.address.value()));
        walk.end().map(NoCaller::of_end)
    }
}

/// The kernel's immediate walk, as perf samples have it.
fn perf_walk(regs: &Regs, mut memory: &mut dyn Memory, found: &mut Vec<u64>) {
    let mut store = |address| {
        let room = found.len() < Methods::LIMIT;
        if room {
            found.push(address);
        }
        room
    };
    fp::perf::walk(regs, false, &mut memory, &mut store);
    // arm64's terminal record, (0, 0), is no frame.
    if found.last() == Some(&0) {
        found.pop();
    }
}

/// Those that are built in.
fn others(arch: Arch) -> Vec<Box<dyn ThirdParty>> {
    #[cfg(feature = "framehop")]
    return vec![Box::new(unwinder::framehop::Framehop::new(arch))];
    #[cfg(not(feature = "framehop"))]
    {
        let _ = arch;
        Vec::new()
    }
}

impl std::fmt::Debug for Methods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Methods").field("names", &self.names).finish_non_exhaustive()
    }
}
