//! The run loop: exact stops, look-ahead fetches, self-modifying code.

use arch::Arch;
use arch::decode::Special;

use crate::engine::arena::FRAME_SIZE;
use crate::engine::counting::{Left, cost};
use crate::engine::schedule::Next;
use crate::engine::shared::{DROP_WINDOW, Stepping, Stop};
use crate::engine::stepper::Stepped;
use crate::engine::{
    Access, Arena, Budget, Engine, EngineError, Exception, Exit, Frame, Mmu, Run, aarch64, x86_64,
};

/// Whether a run has to count branches.
const fn branches_matter(budget: Budget) -> bool {
    budget.branches != Budget::UNLIMITED.branches
}

impl Engine {
    /// Runs guest code at user level until the budget is used up or something happens. A
    /// budget counts to 2^31 - 1 at most. Branches are counted from the first run on that
    /// has a budget of them.
    pub fn run(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        budget: Budget,
    ) -> Result<Run, EngineError> {
        let instructions = budget.instructions.min(Left::MAX);
        let branches = budget.branches.min(Left::MAX);
        if branches_matter(budget) && self.shared.hot.inlines {
            self.call_all_hooks()?;
        }
        if self.shared.sites.is_full() {
            self.shared.sites.clear();
            self.handle.flush_blocks()?;
        }
        self.known.set(None);
        self.shared.budget = instructions;
        self.shared.hot.left = Left::new(instructions, branches);
        self.shared.forget_last_block();
        self.drop_stale(arena, mmu)?;
        let exit = loop {
            if let Some(exit) = self.run_once(arena, mmu)? {
                break exit;
            }
        };
        if let Some(flow) = &mut self.shared.flow {
            flow.flush();
        }
        let retired = instructions - self.shared.hot.left.instructions();
        self.shared.clock = self.shared.clock.wrapping_add(retired);
        // Blocks that count themselves leave branches out.
        let taken = match branches_matter(budget) {
            true => branches - self.shared.hot.left.branches(),
            false => 0,
        };
        Ok(Run { exit, retired, branches: taken })
    }

    /// From now on every block calls its hook: those that count themselves do not count
    /// branches.
    fn call_all_hooks(&mut self) -> Result<(), EngineError> {
        self.shared.hot.inlines = false;
        self.shared.sites.clear();
        self.handle.flush_blocks()
    }

    fn pc(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => x86_64::regs::pc(&self.handle),
            Arch::Aarch64 => aarch64::regs::pc(&self.handle),
        }
    }

    /// Starts the CPU at its PC; returns what stopped it.
    fn start(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        until: u64,
    ) -> Result<Stop, EngineError> {
        if self.shared.tlb_stale {
            self.handle.flush_tlb()?;
            self.shared.tlb_stale = false;
            self.outdate_stepper();
        }
        self.shared.stop = Stop::None;
        let pc = self.pc();
        self.shared.lend(arena, mmu);
        let error = self.handle.start(pc, until);
        let at = self.pc();
        self.shared.stop_flow(self.handle.raw(), at);
        self.shared.take_back();
        let stop = self.shared.stop;
        if stop == Stop::None && self.pc() != until {
            // WFI at EL0 returns for no reason of ours with the PC moved on: it is a hint.
            if self.arch == Arch::Aarch64 && self.pc() != pc {
                return Ok(Stop::None);
            }
            return Err(EngineError::Stray { pc: self.pc(), detail: error.to_string() });
        }
        Ok(stop)
    }

    /// One start of the CPU and its consequences; `None` to go on.
    fn run_once(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
    ) -> Result<Option<Exit>, EngineError> {
        let stop = self.start(arena, mmu, 0)?;
        self.handle_stop(arena, mmu, stop)
    }

    fn handle_stop(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        stop: Stop,
    ) -> Result<Option<Exit>, EngineError> {
        match stop {
            Stop::None => Ok(None),
            Stop::Syscall => Ok(Some(Exit::Syscall)),
            Stop::Block { addr, size } => self.stop_inside(arena, mmu, addr, size),
            Stop::Due { addr, size, rest } => self.look_at(arena, mmu, (addr, size), rest),
            Stop::Miss { page, access } => {
                self.take_back_unretired(arena, mmu)?;
                let pc_page = self.pc() & !(FRAME_SIZE - 1);
                if access == Access::Fetch && page != pc_page {
                    return self.look_ahead(arena, mmu, page);
                }
                Ok(Some(Exit::PageFault { page, access }))
            }
            Stop::Flip { frame, to_code } => {
                self.take_back_unretired(arena, mmu)?;
                self.flip(arena, mmu, frame, to_code)
            }
            Stop::Interrupt(number) => {
                self.take_back_unretired(arena, mmu)?;
                let exit = self.classify(number);
                // aarch64: `svc` leaves nothing behind, and there are many.
                if exit != Exit::Syscall {
                    self.end_exception()?;
                }
                Ok(Some(exit))
            }
            Stop::Invalid => {
                self.take_back_unretired(arena, mmu)?;
                self.end_exception()?;
                Ok(Some(Exit::Exception(Exception::InvalidOpcode)))
            }
        }
    }

    /// unicorn leaves an exception pending for ever: give it a state without one.
    fn end_exception(&mut self) -> Result<(), EngineError> {
        let (regs, fp) = (self.regs(), self.fp());
        self.handle.restore_pristine()?;
        self.known.set(None);
        self.set_fp(&fp);
        self.set_regs(&regs);
        Ok(())
    }

    fn classify(&self, number: u32) -> Exit {
        match self.arch {
            Arch::X86_64 => x86_64::classify(number),
            Arch::Aarch64 => aarch64::classify(number),
        }
    }

    /// Gives back what was counted of the last block but did not retire.
    fn take_back_unretired(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
    ) -> Result<(), EngineError> {
        let pc = self.pc();
        let last = self.shared.last();
        if last.counted > 0 {
            self.shared.lend(arena, mmu);
            self.shared.ensure_block(last.addr, last.size);
            self.shared.take_back();
        }
        if last.counted == 0 {
            // Nothing was counted: no block ran, or a `rep` went on and is now cut.
            // The first instruction of a `rep` that goes on was counted by the block
            // before; it is given back here since it will be counted when it restarts.
            if last.size != 0 && self.rep_is_cut(pc) {
                self.shared.hot.left.give_back(1, 0);
            }
            self.shared.forget_last_block();
            return Ok(());
        }
        let Some(block) = self.shared.counts.get(last.addr, last.size) else {
            return Err(EngineError::Stray { pc, detail: "unknown block".to_owned() });
        };
        let Some(index) = block.index_of(pc.wrapping_sub(last.addr), last.size) else {
            // A jump target: the block retired whole and its successor never started.
            self.shared.forget_last_block();
            return Ok(());
        };
        if index < block.starts.len() {
            let first = block.len() - u64::from(last.counted);
            let instructions = block.len() - (index as u64).max(first);
            let branches = u64::from(block.branches);
            self.shared.hot.left.give_back(instructions, branches);
            if index > 0 {
                self.shared.goes_on(pc, Next::Unseen);
            }
        }
        self.shared.forget_last_block();
        Ok(())
    }

    fn rep_is_cut(&self, pc: u64) -> bool {
        let last = self.shared.last();
        let block = self.shared.counts.get(last.addr, last.size);
        block.and_then(|b| b.rep).is_some_and(|rep| last.addr + u64::from(rep) == pc)
    }

    /// The block at `addr` does not fit the budget (or holds a forbidden instruction):
    /// run to the exact instruction inside it.
    fn stop_inside(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        addr: u64,
        size: u32,
    ) -> Result<Option<Exit>, EngineError> {
        let Some(block) = self.shared.counts.get(addr, size) else {
            return Err(EngineError::Stray { pc: addr, detail: "unknown block".to_owned() });
        };
        let forbidden = block.forbidden;
        let first_forbidden = forbidden.map_or(usize::MAX, |(index, _)| index);
        let by_budget = match self.shared.hot.left.branches() {
            0 => 0,
            _ => self.shared.hot.left.instructions() as usize,
        };
        let target = by_budget.min(first_forbidden);
        if target == 0 {
            return Ok(Some(match forbidden {
                _ if by_budget == 0 => Exit::Budget,
                Some((_, Special::Vex)) => Exit::Exception(Exception::InvalidOpcode),
                _ => Exit::Exception(Exception::Protection { vector: 13 }),
            }));
        }
        let Some(&offset) = block.starts.get(target) else {
            return Err(EngineError::Stray { pc: addr, detail: "empty block".to_owned() });
        };
        self.run_to(arena, mmu, addr, size, addr + u64::from(offset))
    }

    /// Runs inside one block to the instruction at `target`; `None` when it is reached.
    fn run_to(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        addr: u64,
        size: u32,
        target: u64,
    ) -> Result<Option<Exit>, EngineError> {
        let end = addr + u64::from(size);
        self.drop_range(arena, mmu, addr, end)?;
        self.shared.exact = true;
        let stop = self.start(arena, mmu, target);
        self.shared.exact = false;
        let stop = stop?;
        let result = if stop == Stop::None {
            if self.pc() != target {
                return Err(EngineError::Stray { pc: self.pc(), detail: "missed stop".to_owned() });
            }
            self.shared.forget_last_block();
            Ok(None)
        } else {
            self.handle_stop(arena, mmu, stop)
        };
        self.drop_range(arena, mmu, addr, end)?;
        result
    }

    fn outdate_stepper(&mut self) {
        if let Some(stepper) = &mut self.stepper {
            stepper.stale = true;
        }
    }

    /// A block, which fits the budget, is due: the stepper executes it, but for wild
    /// instructions, which the main CPU executes in between. `rest`: it is counted already.
    fn look_at(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        (addr, size): (u64, u32),
        rest: bool,
    ) -> Result<Option<Exit>, EngineError> {
        let unknown = || EngineError::Stray { pc: addr, detail: "unknown block".to_owned() };
        let block = self.shared.counts.get(addr, size).ok_or_else(unknown)?;
        let (starts, flow) = (block.starts.clone(), block.flow);
        let branches = u64::from(block.branches);
        let mut code = Vec::with_capacity(size as usize);
        self.shared.lend(arena, mmu);
        self.shared.copy_code(addr, size, &mut code);
        self.shared.take_back();
        if !rest {
            self.shared.looked_at(addr, size);
        }
        self.shared.forget_last_block();
        // Instructions that have retired.
        let mut done = 0;
        loop {
            match self.step_from(arena, mmu, (addr, &code), &starts, done, flow.sets_sp())? {
                Stepped::Whole => {
                    self.take(starts.len() - done, branches)?;
                    self.shared.hot.begin_flow(addr, size, flow);
                    let pc = self.pc();
                    if self.shared.hot.hold.is_some() {
                        self.shared.end_flow(self.handle.raw(), 0, pc);
                    }
                    return Ok(None);
                }
                Stepped::Wild(index) if index + 1 == starts.len() => {
                    self.retire(index - done, flow.sets_sp())?;
                    self.shared.goes_on(addr + u64::from(starts[index]), Next::Wild);
                    return Ok(None);
                }
                Stepped::Fault(index) => {
                    self.retire(index - done, flow.sets_sp())?;
                    self.shared.goes_on(addr + u64::from(starts[index]), Next::Shown);
                    return Ok(None);
                }
                Stepped::Wild(index) => {
                    self.retire(index - done, flow.sets_sp())?;
                    let at = |i: usize| addr + u64::from(starts[i]); // both are in range
                    let (pc, next) = (at(index), at(index + 1));
                    let left = (size as u64 - (pc - addr)) as u32;
                    let exit = self.run_to(arena, mmu, pc, left, next)?;
                    if exit.is_some() || self.pc() != next {
                        return Ok(exit);
                    }
                    done = index + 1;
                }
            }
        }
    }

    /// The stepper goes on in a block behind its first `done` instructions.
    fn step_from(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        (addr, code): (u64, &[u8]),
        starts: &[u16],
        done: usize,
        sets_sp: bool,
    ) -> Result<Stepped, EngineError> {
        let nothing = || EngineError::Stray { pc: addr, detail: "nothing to step".to_owned() };
        let (Some(stepper), Some(&first)) = (&mut self.stepper, starts.get(done)) else {
            return Err(nothing());
        };
        if let Some(flow) = &mut self.shared.flow {
            flow.flush();
        }
        let sp_was_set = self.shared.hot.sp_was_set != 0 || sets_sp;
        let starts: Vec<u16> = starts[done..].iter().map(|start| start - first).collect();
        let code = code.get(usize::from(first)..).unwrap_or_default();
        self.shared.lend(arena, mmu);
        let at = addr + u64::from(first);
        let stepped = stepper.step(&mut self.handle, at, &starts, code, sp_was_set);
        self.shared.take_back();
        Ok(match stepped? {
            Stepped::Whole => Stepped::Whole,
            Stepped::Wild(index) => Stepped::Wild(index + done),
            Stepped::Fault(index) => Stepped::Fault(index + done),
        })
    }

    /// So many instructions retired at the front of a block that sets the stack pointer or
    /// not.
    fn retire(&mut self, instructions: usize, sets_sp: bool) -> Result<(), EngineError> {
        if sets_sp && instructions > 0 {
            self.shared.hot.sp_was_set = 1;
        }
        self.take(instructions, 0)
    }

    fn take(&mut self, instructions: usize, branches: u64) -> Result<(), EngineError> {
        let cost = cost(instructions as u64, branches);
        let none = || EngineError::Stray { pc: self.pc(), detail: "budget".to_owned() };
        self.shared.hot.left = self.shared.hot.left.take(cost).ok_or_else(none)?;
        Ok(())
    }

    /// The translator looked at `page`, which is absent, while the PC is on another page:
    /// run the instructions before it, then the fault is real.
    fn look_ahead(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        page: u64,
    ) -> Result<Option<Exit>, EngineError> {
        let pc = self.pc();
        let mut bytes = Vec::new();
        self.shared.lend(arena, mmu);
        self.shared.copy_code_to_page_end(pc, &mut bytes);
        self.shared.take_back();
        let block = self.shared.counts.decoder().decode_block(&bytes);
        // Everything up to an instruction that straddles the boundary, or to the boundary.
        let target = match block.unknown {
            Some(tail) => pc + u64::from(tail),
            None => pc + bytes.len() as u64,
        };
        if target == pc {
            return Ok(Some(Exit::PageFault { page, access: Access::Fetch }));
        }
        let stop = self.start(arena, mmu, target)?;
        if stop == Stop::None && self.pc() == target {
            return Ok(None);
        }
        self.handle_stop(arena, mmu, stop)
    }

    /// Changes a frame between code and data.
    fn flip(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        frame: Frame,
        to_code: bool,
    ) -> Result<Option<Exit>, EngineError> {
        self.shared.tlb_stale = true;
        if to_code {
            arena.uses[frame.0 as usize].writable = false;
            return Ok(None);
        }
        let pc_page = self.pc() & !(FRAME_SIZE - 1);
        let own = [pc_page, pc_page.wrapping_add(FRAME_SIZE)]
            .into_iter()
            .any(|page| mmu.translate(page).is_some_and(|(f, _)| f == frame));
        if own {
            return self.step_with_both(arena, mmu, frame);
        }
        arena.uses[frame.0 as usize].code = false;
        self.drop_frame(arena, mmu, frame)?;
        Ok(None)
    }

    /// A store into the frame of its own PC runs alone with both rights.
    fn step_with_both(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        frame: Frame,
    ) -> Result<Option<Exit>, EngineError> {
        let pc = self.pc();
        let mut bytes = Vec::new();
        self.shared.lend(arena, mmu);
        self.shared.copy_code(pc, 16, &mut bytes);
        self.shared.take_back();
        let starts = self.shared.counts.decoder().decode_block(&bytes).starts;
        let next = starts.get(1).map_or(pc + bytes.len() as u64, |&s| pc + u64::from(s));
        self.shared.both = Some(frame);
        self.drop_range(arena, mmu, pc, next)?;
        let left = std::mem::replace(&mut self.shared.hot.left, Left::new(0, 1));
        self.shared.stepping = Some(Stepping { left, block: None });
        let stop = self.start(arena, mmu, next);
        self.shared.both = None;
        if let Some(stepped) = self.shared.stepping.take() {
            self.shared.hot.left = stepped.left;
        }
        self.shared.tlb_stale = true;
        self.drop_frame(arena, mmu, frame)?;
        match stop? {
            Stop::None => {
                self.shared.forget_last_block();
                Ok(None)
            }
            // The stepped instruction was a branch or a `rep`: its successor was stopped.
            Stop::Block { .. } if self.pc() != pc => {
                self.shared.forget_last_block();
                Ok(None)
            }
            // A `rep` that changed its own bytes: it is another instruction now.
            Stop::Block { .. } if self.shared.last().counted > 0 => {
                self.shared.forget_last_block();
                Ok(None)
            }
            other => self.handle_stop(arena, mmu, other),
        }
    }

    /// Drops the blocks of frames that the kernel wrote or freed.
    fn drop_stale(&mut self, arena: &mut Arena, mmu: &mut dyn Mmu) -> Result<(), EngineError> {
        while let Some(frame) = arena.stale_code.pop() {
            self.shared.tlb_stale = true;
            self.drop_frame(arena, mmu, frame)?;
        }
        Ok(())
    }

    fn drop_frame(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        frame: Frame,
    ) -> Result<(), EngineError> {
        self.outdate_stepper();
        let start = DROP_WINDOW + frame.addr();
        self.shared.forget_blocks();
        self.shared.window_open = true;
        let dropped = self.drop_range(arena, mmu, start, start + FRAME_SIZE);
        self.shared.window_open = false;
        dropped?;
        // The window's entry must not stay: user code could jump there.
        self.shared.tlb_stale = true;
        Ok(())
    }

    fn drop_range(
        &mut self,
        arena: &mut Arena,
        mmu: &mut dyn Mmu,
        start: u64,
        end: u64,
    ) -> Result<(), EngineError> {
        let stop = self.shared.stop;
        self.shared.lend(arena, mmu);
        let result = self.handle.drop_blocks(start, end);
        self.shared.take_back();
        self.shared.stop = stop;
        result
    }
}
