//! One step with all registers, by the methods of a policy.

use std::ops::Deref;

use crate::brief::Brief;
use crate::cache::{Cache, Key, Table};
use crate::end::TableError;
use crate::fp::{plain, unwind_user};
use crate::policy::OnFailure;
use crate::row::{CfaRule, Miss, Row, Rule};
use crate::step::{Caller, apply};
use crate::{
    CodeAddress, End, LookupAddress, Memory, Method, Module, Modules, Policy, Registers, dwarf,
    sframe, signal,
};

/// Memory to unwind with, and what was learned from tables. Make one and use it for all walks,
/// of whatever modules.
#[derive(Debug)]
pub struct Context {
    dwarf: dwarf::Context,
    cache: Option<Cache>,
}

impl Default for Context {
    fn default() -> Context {
        Context::new()
    }
}

impl Context {
    /// Takes the memory: about 320 KB.
    pub fn new() -> Context {
        Context { dwarf: dwarf::Context::new(), cache: Some(Cache::new()) }
    }

    /// One that reads tables anew for each frame.
    pub fn uncached() -> Context {
        Context { dwarf: dwarf::Context::new(), cache: None }
    }

    /// Whether tables are not read anew for each frame.
    pub(crate) const fn remembers(&self) -> bool {
        self.cache.is_some()
    }

    /// The answer of a table in short, if it is remembered.
    #[inline(always)]
    pub(crate) fn remembered<D>(
        &self,
        modules: &Modules<D>,
        at: LookupAddress,
        table: Table,
    ) -> Option<&Brief> {
        self.cache.as_ref()?.brief(Key::new(at, modules.generation(), table))
    }

    /// The answer of a table in short.
    #[inline]
    pub(crate) fn brief<D: Deref<Target = [u8]>>(
        &mut self,
        modules: &Modules<D>,
        at: LookupAddress,
        table: Table,
    ) -> Brief {
        let key = Key::new(at, modules.generation(), table);
        match self.cache.as_ref().and_then(|cache| cache.brief(key)) {
            Some(brief) => *brief,
            None => self.new_brief(modules, at, table),
        }
    }

    #[inline(never)]
    fn new_brief<D: Deref<Target = [u8]>>(
        &mut self,
        modules: &Modules<D>,
        at: LookupAddress,
        table: Table,
    ) -> Brief {
        let brief = match (modules.find(at), table) {
            (None, _) => Brief::NoModule,
            (Some(module), Table::Dwarf) => module.dwarf_brief(at),
            (Some(module), Table::Sframe) => module.sframe_brief(at),
        };
        if let Some(cache) = &mut self.cache {
            cache.keep_brief(Key::new(at, modules.generation(), table), brief);
        }
        brief
    }

    /// The row of a module's call-frame information, and what holds its expressions.
    fn dwarf_row<'m, D: Deref<Target = [u8]>>(
        &mut self,
        modules: &'m Modules<D>,
        at: LookupAddress,
        module: &'m Module<D>,
    ) -> Result<(Row, &'m [u8]), Miss<dwarf::Error>> {
        let key = Key::new(at, modules.generation(), Table::Dwarf);
        if let Some((row, name)) = self.cache.as_ref().and_then(|cache| cache.row(key))
            && let Some(table) = module.dwarf_table(name)
        {
            return Ok((*row, table.section()));
        }
        let (row, table) = module.dwarf_row(at, &mut self.dwarf)?;
        if let Some(cache) = &mut self.cache {
            cache.keep_row(key, row, table.name());
        }
        Ok((row, table.section()))
    }
}

/// A caller, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// The caller.
    pub caller: Caller,
    /// The method of the policy that found it.
    pub method: Method,
}

/// Why a method has no caller.
pub(crate) enum Failure {
    /// It says nothing about this frame.
    NoRule(End),
    /// It does, and that cannot be applied; or there is no caller.
    Rule(End),
}

impl Failure {
    /// Whether the next method is tried, and why this one failed.
    #[inline]
    pub fn go_on(self, policy: &Policy) -> Result<End, End> {
        match self {
            Failure::NoRule(end) => Ok(end),
            Failure::Rule(end) => match policy.on_failure {
                OnFailure::NextMethod if !end.claims_complete() => Ok(end),
                _ => Err(end),
            },
        }
    }
}

/// Goes from the frame at `address` to its caller, with all registers that can be told.
///
/// # Errors
///
/// [`End`]: why there is no caller. If all methods failed, what the last one says.
pub fn step<D: Deref<Target = [u8]>>(
    policy: &Policy,
    modules: &Modules<D>,
    address: CodeAddress,
    registers: &Registers,
    memory: &mut impl Memory,
    context: &mut Context,
) -> Result<Unwound, End> {
    let mut end = End::NoRow(address);
    for method in policy.methods() {
        let mut attempt = Attempt { policy, modules, address, registers, memory, context };
        match attempt.run(method) {
            Ok(caller) => return Ok(Unwound { caller, method }),
            Err(failure) => end = failure.go_on(policy)?,
        }
    }
    Err(end)
}

struct Attempt<'a, D, M> {
    policy: &'a Policy,
    modules: &'a Modules<D>,
    address: CodeAddress,
    registers: &'a Registers,
    memory: &'a mut M,
    context: &'a mut Context,
}

impl<D: Deref<Target = [u8]>, M: Memory> Attempt<'_, D, M> {
    fn run(&mut self, method: Method) -> Result<Caller, Failure> {
        match method {
            Method::FramePointer => plain::step(self.registers, self.memory).map_err(Failure::Rule),
            Method::UnwindUser => {
                unwind_user::step(self.registers, self.memory).map_err(Failure::Rule)
            }
            Method::Dwarf => self.dwarf(),
            Method::Sframe => self.sframe(),
            Method::SignalCode if signal::is_trampoline(self.address, self.memory) => self.signal(),
            Method::SignalCode => Err(self.no_row()),
        }
    }

    fn no_row(&self) -> Failure {
        Failure::NoRule(End::NoRow(self.address))
    }

    fn signal(&mut self) -> Result<Caller, Failure> {
        signal::step(self.registers, self.memory).map_err(Failure::Rule)
    }

    fn missed<E: Into<TableError>>(&self, miss: Miss<E>) -> Failure {
        match miss {
            Miss::NotCovered => self.no_row(),
            Miss::Bad(error) => Failure::NoRule(End::Table(error.into())),
        }
    }

    fn dwarf(&mut self) -> Result<Caller, Failure> {
        let at = self.address.lookup();
        let no_module = Failure::NoRule(End::NoModule(self.address));
        let module = self.modules.find(at).ok_or(no_module)?;
        let found = self.context.dwarf_row(self.modules, at, module);
        let (row, section) = found.map_err(|miss| self.missed(miss))?;
        apply(&row, self.address, self.registers, section, self.memory).map_err(Failure::Rule)
    }

    fn sframe(&mut self) -> Result<Caller, Failure> {
        let at = self.address.lookup();
        let no_module = Failure::NoRule(End::NoModule(self.address));
        let module = self.modules.find(at).ok_or(no_module)?;
        let found = module.sframe_row(at).map_err(|miss| self.missed(miss))?;
        let row = match found {
            found if self.policy.kernel_registers => {
                kernel_row(found, self.address, self.registers).ok_or_else(|| self.no_row())?
            }
            sframe::Found::SignalTrampoline => return self.signal(),
            sframe::Found::Row(row) => row,
        };
        apply(&row, self.address, self.registers, &[], self.memory).map_err(Failure::Rule)
    }
}

/// What the kernel makes of an SFrame answer: the row, unless the next method is tried. It has no
/// registers but the stack and the frame pointer below the topmost frame, and does not know the
/// frames that it makes for signals.
pub(crate) fn kernel_row(
    found: sframe::Found,
    address: CodeAddress,
    registers: &Registers,
) -> Option<Row> {
    let topmost = matches!(address, CodeAddress::Current(_));
    match found {
        sframe::Found::Row(row) if topmost || !needs_registers(registers, &row) => Some(row),
        sframe::Found::Row(_) | sframe::Found::SignalTrampoline => None,
    }
}

fn needs_registers(registers: &Registers, row: &Row) -> bool {
    let arch = registers.arch();
    let other = |register: u8| ![arch.sp(), arch.fp()].contains(&usize::from(register));
    let rule = |column: u8| match row.rule(column) {
        Rule::Register { register, .. } | Rule::Memory { register, .. } => other(register),
        _ => false,
    };
    let cfa = match row.cfa {
        CfaRule::Register { register, .. } | CfaRule::Memory { register, .. } => other(register),
        CfaRule::Expression(_) => false,
    };
    cfa || rule(row.return_address) || rule(arch.fp() as u8)
}
