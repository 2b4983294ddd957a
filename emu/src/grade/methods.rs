//! The unwinders that are graded: our own, then those of others.
//!
//! A new one is a [`ThirdParty`] in [`Methods::new`]'s list, and nothing else.

use std::sync::Arc;

use arch::{Arch, Regs};
use unwinder::elf::Slice;
use unwinder::plug::{Step, Stop, ThirdParty};
use unwinder::{
    CodeAddress, Context, End, InstructionPointer, Memory, Module, Modules, Policy, Registers,
    Walk, fp,
};

use crate::grade::files::Mapped;

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

/// Our own, in the order of their [`MethodId`]s.
const OWN: [&str; 3] = ["fp", "dwarf", "sframe"];

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

    /// `None` at the limit.
    fn of_stop(stop: Stop) -> Option<NoCaller> {
        match stop {
            Stop::Complete => Some(NoCaller::Complete),
            Stop::NotCovered => Some(NoCaller::NoCoverage),
            Stop::Failed(why) => Some(NoCaller::Failed(why)),
            Stop::Limit => None,
        }
    }
}

/// A file that a method could not load: it has no tables of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLoaded {
    /// The method, or several.
    pub method: String,
    /// The file.
    pub file: String,
    /// Why, in the method's words.
    pub why: String,
}

/// What one step told of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where it goes on.
    pub address: CodeAddress,
    /// Whether the method tells interrupted addresses from return addresses.
    pub tells_interrupted: bool,
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
    not_loaded: Vec<NotLoaded>,
}

impl Methods {
    /// Frames that a walk is asked for at most.
    pub const LIMIT: usize = 1024;

    /// Without modules yet.
    pub fn new(arch: Arch) -> Methods {
        Methods::with(others(arch))
    }

    /// Ours, and these.
    fn with(others: Vec<Box<dyn ThirdParty>>) -> Methods {
        let own = OWN.map(str::to_owned);
        let names = own.into_iter().chain(others.iter().map(|o| o.name().to_owned())).collect();
        let (own, context) = (Modules::new([]), Context::new());
        Methods { own, context, others, names, not_loaded: Vec::new() }
    }

    /// Their names, as on the command line, in the order of [`MethodId`].
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = MethodId> + use<> {
        (0..self.names.len()).map(MethodId)
    }

    /// A file was mapped.
    pub fn map(&mut self, file: &Mapped) {
        let Mapped { name, bytes, bias } = file;
        for other in &mut self.others {
            if let Err(why) = other.load(name, bytes, *bias) {
                let (method, file) = (other.name().to_owned(), name.clone());
                self.not_loaded.push(NotLoaded { method, file, why });
            }
        }
        match Module::from_elf(&**name, bytes.clone(), *bias) {
            Ok(module) => {
                let modules = std::mem::replace(&mut self.own, Modules::new([]));
                self.own = modules.with(module);
            }
            Err(why) => {
                let (method, file) = (OWN[1..].join(", "), name.clone());
                self.not_loaded.push(NotLoaded { method, file, why: why.to_string() });
            }
        }
    }

    /// Files that a method could not load, each once for each place where it is mapped.
    pub fn not_loaded(&self) -> &[NotLoaded] {
        &self.not_loaded
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
                let Step { address, registers } =
                    self.other_step(other, start, &registers, memory)?;
                let tells_interrupted = self.other(other).is_some_and(|o| o.tells_interrupted());
                return Ok(Told { address, tells_interrupted, registers, sp: registers.sp() });
            }
        };
        let (modules, context) = (&self.own, &mut self.context);
        let unwound = unwinder::step(&policy, modules, start, &registers, &mut memory, context);
        let caller = unwound.map_err(NoCaller::of_end)?.caller;
        let sp = caller.registers.sp().or(caller.cfa);
        let (address, registers) = (caller.address, caller.registers);
        Ok(Told { address, tells_interrupted: true, registers, sp })
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
        let step = self.other(method).ok_or(NoCaller::NoCoverage)?.step(from, registers, memory);
        // A step that ends at a limit has not found a caller.
        let limit = || NoCaller::Failed("limit".to_owned());
        step.map_err(|stop| NoCaller::of_stop(stop).unwrap_or_else(limit))
    }

    /// An unwinder that is not ours.
    fn other(&mut self, method: MethodId) -> Option<&mut Box<dyn ThirdParty>> {
        let index = method.0.checked_sub(OWN.len())?;
        self.others.get_mut(index)
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
            other => {
                let registers = Registers::of_thread(regs);
                let stop = match self.other(other) {
                    Some(o) => o.walk(start, &registers, memory, Methods::LIMIT, found),
                    None => Stop::Limit,
                };
                return NoCaller::of_stop(stop);
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

#[cfg(test)]
mod tests {
    use super::*;
    use unwinder::memory::Copied;

    /// Loads nothing, and says so.
    struct Blind;

    impl ThirdParty for Blind {
        fn name(&self) -> &str {
            "blind"
        }

        fn load(&mut self, _: &str, _: &Bytes, _: u64) -> Result<(), String> {
            Err("it is dark".to_owned())
        }

        fn step(
            &mut self,
            _: CodeAddress,
            _: &Registers,
            _: &mut dyn Memory,
        ) -> Result<Step, Stop> {
            Err(Stop::NotCovered)
        }
    }

    #[test]
    fn what_is_not_covered_is_not_wrong() {
        let mut methods = Methods::with(vec![Box::new(Blind)]);
        let blind = MethodId(OWN.len());
        assert_eq!(methods.names()[blind.0], "blind");
        let file = Mapped { name: "/junk".to_owned(), bytes: Bytes::from([0; 8]), bias: 0 };
        methods.map(&file);
        let not_loaded: Vec<_> =
            methods.not_loaded().iter().map(|n| (&*n.method, &*n.file)).collect();
        assert_eq!(not_loaded, [("blind", "/junk"), ("dwarf, sframe", "/junk")]);
        assert_eq!(methods.not_loaded()[0].why, "it is dark");
        let regs = Regs::new(Arch::X86_64);
        let memory = &mut Copied { address: 0, bytes: [] };
        assert_eq!(methods.step(blind, &regs, memory), Err(NoCaller::NoCoverage));
        let mut found = Vec::new();
        assert_eq!(methods.walk(blind, &regs, memory, &mut found), Some(NoCaller::NoCoverage));
        assert_eq!(found, [0]);
    }
}
