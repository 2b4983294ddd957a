//! Keeps the true stack of a run and checks every method at the instructions that the engine
//! shows.

use std::collections::HashMap;

use arch::Regs;
use unwinder::{CodeAddress, Memory, Registers, signal};

use crate::engine::EngineError;
use crate::engine::flow::CalleeSaved;
use crate::engine::schedule::Visits;
use crate::engine::stepper::Sight;
use crate::export::Images;
use crate::grade::check::one_step::one_step;
use crate::grade::check::record::PcRecord;
use crate::grade::files::Mapped;
use crate::grade::followed::{Followed, Follower};
use crate::grade::methods::{MethodId, Methods, NotLoaded};
use crate::kernel::State;
use crate::truth::{Stack, saved_numbers};

/// A handle; clones look at the same run.
#[derive(Clone, Debug)]
pub struct Checker(Followed<Inner>);

#[derive(Debug)]
struct Inner {
    stack: Stack,
    methods: Methods,
    /// Those that are checked.
    checked: Vec<MethodId>,
    files: Vec<Mapped>,
    pcs: HashMap<u64, PcRecord>,
    /// Executions that could not be looked at.
    refused: u64,
}

/// What a check knows at its end.
#[derive(Clone, Copy, Debug)]
pub struct Results<'c> {
    /// The methods that were checked.
    pub checked: &'c [MethodId],
    /// All methods' names.
    pub names: &'c [String],
    /// Files with code, as they were mapped.
    pub files: &'c [Mapped],
    /// What was seen, by PC.
    pub pcs: &'c HashMap<u64, PcRecord>,
}

impl Checker {
    /// Checks a machine whose guest has not run yet. `wanted` says which methods, by name.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the engine cannot show instructions.
    pub fn start(
        state: &mut State,
        images: Images,
        visits: Visits,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Checker, EngineError> {
        let regs = state.core.regs();
        let methods = Methods::new(regs.arch);
        let checked = methods.ids().filter(|id| wanted(&methods.names()[id.0])).collect();
        let stack = Stack::new(regs.arch, regs.sp());
        let (files, pcs) = (Vec::new(), HashMap::new());
        let inner = Inner { stack, methods, checked, files, pcs, refused: 0 };
        let checker = Checker(Followed::start(state, images, inner)?);
        state.core.look(&state.arena, Box::new(checker.clone()), visits)?;
        Ok(checker)
    }

    /// Files that a method could not load.
    pub fn not_loaded(&self) -> Vec<NotLoaded> {
        self.0.borrow().methods.not_loaded().to_vec()
    }

    /// See [`Followed::refused_mappings`].
    pub fn refused_mappings(&self) -> u64 {
        self.0.refused_mappings()
    }

    /// Executions that were not looked at, because of too many blocks; known once the machine
    /// has been asked how often each was executed.
    pub fn refused_executions(&self) -> u64 {
        self.0.borrow().refused
    }

    /// Reads what was found.
    pub fn read<T>(&self, read: impl FnOnce(Results<'_>) -> T) -> T {
        let inner = self.0.borrow();
        let (names, files) = (inner.methods.names(), &inner.files);
        read(Results { checked: &inner.checked, names, files, pcs: &inner.pcs })
    }
}

impl Follower for Inner {
    const REGISTERS: bool = true;

    fn stack(&self) -> &Stack {
        &self.stack
    }

    fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    fn map(&mut self, file: Mapped) {
        self.methods.map(&file);
        self.files.push(file);
    }
}

/// What `rt_sigreturn` goes back to, out of the kernel's frame for the signal: the handler may
/// have changed it.
struct Context {
    address: CodeAddress,
    sp: u64,
    saved: CalleeSaved,
}

impl Context {
    /// That of a thread whose handler has returned.
    fn of(regs: &Regs, mut memory: &mut dyn Memory) -> Option<Context> {
        let caller = signal::step(&Registers::of_thread(regs), &mut memory).ok()?;
        let mut saved = CalleeSaved::default();
        for (place, number) in saved.iter_mut().zip(saved_numbers(regs.arch)) {
            *place = caller.registers.get(number)?;
        }
        Some(Context { address: caller.address, sp: caller.registers.sp()?, saved })
    }
}

impl Inner {
    fn check(&mut self, regs: &Regs, sp_was_set: bool, memory: &mut dyn Memory) {
        let methods = self.methods.names().len();
        let record = self.pcs.entry(regs.pc).or_insert_with(|| PcRecord::new(methods));
        if !self.stack.holds(regs.sp(), sp_was_set) {
            return;
        }
        record.checked += 1;
        let mut truth = self.stack.caller();
        let context;
        if let Some(caller) = truth.as_mut().filter(|caller| caller.signal)
            && let Some(found) = Context::of(regs, memory)
        {
            context = found;
            (caller.address, caller.sp) = (context.address, context.sp);
            caller.saved = Some(&context.saved);
        }
        for &id in &self.checked {
            let told = self.methods.step(id, regs, memory);
            let outcome = one_step(regs.arch, &told, truth.as_ref());
            record.methods[id.0].add(outcome, regs, &told, truth.as_ref()); // one for each method
        }
    }
}

impl Sight for Checker {
    fn instruction(&mut self, regs: &Regs, sp_was_set: bool, memory: &mut dyn Memory) {
        self.0.borrow_mut().check(regs, sp_was_set, memory);
    }

    fn refused(&mut self, executions: u64) {
        self.0.borrow_mut().refused = executions;
    }
}
