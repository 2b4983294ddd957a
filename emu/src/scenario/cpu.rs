//! The CPU of scripted tasks: what [`crate::engine::Engine`] is to guests.

use std::fmt;
use std::rc::Rc;

use arch::{Arch, FpState, Regs};

use crate::engine::flow::{Event, FlowSink, Transfer};
use crate::engine::schedule::Visits;
use crate::engine::stepper::Sight;
use crate::engine::{Access, Arena, Budget, EngineError, Exit, Mmu, Run};
use crate::kernel::state::UserCpu;
use crate::mem::{PAGE, page_down};
use crate::scenario::code::{self, Code, Op};

/// Executes [`Code`]. A call leaves `[fp] = caller's fp`, `[fp + 8] = return address`, as compilers
/// do that keep frame pointers.
pub struct ScriptCpu {
    regs: Regs,
    fp: FpState,
    code: Rc<Code>,
    sink: Option<Box<dyn FlowSink>>,
}

impl fmt::Debug for ScriptCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptCpu").field("pc", &self.regs.pc).finish_non_exhaustive()
    }
}

/// A page that has to come in first.
struct Miss {
    page: u64,
    access: Access,
}

impl ScriptCpu {
    /// One that executes `code`.
    pub fn new(arch: Arch, code: Rc<Code>) -> ScriptCpu {
        ScriptCpu { regs: Regs::new(arch), fp: FpState::new(arch), code, sink: None }
    }

    /// How far the task is in a run of instructions: a register that no call changes.
    const fn progress(arch: Arch) -> usize {
        match arch {
            Arch::X86_64 => arch::x86_64::regs::RBX,
            Arch::Aarch64 => 19,
        }
    }

    /// One instruction, or as many of a run as `most` allows: how many, and why it goes no further.
    fn execute(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        most: u64,
    ) -> Result<(u64, Option<Exit>), Miss> {
        let Some(op) = self.code.at(self.regs.pc) else {
            let (page, access) = (page_down(self.regs.pc), Access::Fetch);
            return Err(Miss { page, access });
        };
        match op {
            Op::Run(count) => {
                let at = ScriptCpu::progress(self.regs.arch);
                let done = (count - self.regs.gp[at].min(count)).min(most);
                self.regs.gp[at] += done;
                if self.regs.gp[at] >= count {
                    self.regs.gp[at] = 0;
                    self.regs.pc = code::next(self.regs.pc);
                }
                Ok((done, None))
            }
            Op::Call(function) => self.call(arena, mmu, code::entry(function)),
            Op::Return => self.ret(arena, mmu),
            Op::Syscall { nr, args } => {
                self.regs.pc = code::next(self.regs.pc);
                self.set_syscall(nr, args);
                Ok((1, Some(Exit::Syscall)))
            }
        }
    }

    fn set_syscall(&mut self, nr: u64, args: [u64; 3]) {
        use arch::x86_64::regs::{RAX, RDI, RDX, RSI};
        let places = match self.regs.arch {
            Arch::X86_64 => [RAX, RDI, RSI, RDX],
            Arch::Aarch64 => [8, 0, 1, 2],
        };
        let values = [nr, args[0], args[1], args[2]];
        for (place, value) in places.into_iter().zip(values) {
            self.regs.gp[place] = value;
        }
    }

    fn call(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        to: u64,
    ) -> Result<(u64, Option<Exit>), Miss> {
        let next = code::next(self.regs.pc);
        let (sp, fp) = (self.regs.sp().wrapping_sub(16), self.regs.fp());
        store(arena, mmu, sp, [fp, next])?;
        self.regs.set_sp(sp);
        self.regs.gp[self.regs.arch.fp()] = sp;
        self.regs.pc = to;
        self.tell(Transfer::Call, next, sp.wrapping_add(8));
        Ok((1, None))
    }

    fn ret(&mut self, arena: &mut Arena, mmu: &mut dyn Mmu) -> Result<(u64, Option<Exit>), Miss> {
        let from = code::next(self.regs.pc);
        let at = self.regs.fp();
        let [fp, to] = load(arena, mmu, at)?;
        self.regs.set_sp(at.wrapping_add(16));
        self.regs.gp[self.regs.arch.fp()] = fp;
        self.regs.pc = to;
        self.tell(Transfer::Return, from, at.wrapping_add(16));
        Ok((1, None))
    }

    fn tell(&mut self, kind: Transfer, next: u64, sp: u64) {
        let event = Event { kind, next, to: self.regs.pc, sp, sp_was_set: false };
        if let Some(sink) = &mut self.sink {
            sink.take(&[event], &[]);
        }
    }
}

/// The frame of a page that allows `access`.
fn translate(mmu: &mut dyn Mmu, at: u64, access: Access) -> Result<crate::engine::Frame, Miss> {
    let page = page_down(at);
    match mmu.translate(page) {
        Some((frame, perms)) if perms.allow(access) => Ok(frame),
        _ => Err(Miss { page, access }),
    }
}

/// Stores a frame record at `at`, which is aligned to 16.
fn store(arena: &mut Arena, mmu: &mut dyn Mmu, at: u64, words: [u64; 2]) -> Result<(), Miss> {
    let frame = translate(mmu, at, Access::Write)?;
    let offset = ((at % PAGE) & !15) as usize;
    let bytes = &mut arena.bytes_mut(frame)[offset..offset + 16];
    bytes[..8].copy_from_slice(&words[0].to_le_bytes());
    bytes[8..].copy_from_slice(&words[1].to_le_bytes());
    Ok(())
}

fn load(arena: &Arena, mmu: &mut dyn Mmu, at: u64) -> Result<[u64; 2], Miss> {
    let frame = translate(mmu, at, Access::Read)?;
    let offset = (at % PAGE) & !15;
    Ok([arena.word(frame, offset), arena.word(frame, offset + 8)])
}

impl UserCpu for ScriptCpu {
    fn run(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        budget: Budget,
    ) -> Result<Run, EngineError> {
        // Each of the script's lines is a place where others may act.
        let (retired, exit) = match budget.instructions {
            0 => (0, Exit::Budget),
            most => match self.execute(arena, mmu, most) {
                Ok((count, exit)) => (count, exit.unwrap_or(Exit::Budget)),
                Err(Miss { page, access }) => (0, Exit::PageFault { page, access }),
            },
        };
        Ok(Run { exit, retired, branches: 0 })
    }

    fn regs(&self) -> Regs {
        self.regs
    }

    fn set_regs(&mut self, regs: &Regs) {
        self.regs = *regs;
    }

    fn fp(&self) -> FpState {
        self.fp.clone()
    }

    fn set_fp(&mut self, fp: &FpState) {
        self.fp = fp.clone();
    }

    fn flush_tlb(&mut self) {}

    fn set_clock(&mut self, _clock: u64) {}

    fn follow(&mut self, sink: Box<dyn FlowSink>) -> Result<(), EngineError> {
        self.sink = Some(sink);
        Ok(())
    }

    fn sp_was_set(&self) -> bool {
        false
    }

    fn look(
        &mut self,
        _arena: &Arena,
        _sight: Box<dyn Sight>,
        _visits: Visits,
    ) -> Result<(), EngineError> {
        // A script has no instructions to look at.
        Ok(())
    }

    fn executions(&mut self) -> Vec<(u64, u32, u64)> {
        Vec::new()
    }
}
