//! Memory pressure at samples: user stacks and unwind tables are absent when somebody walks.
//!
//! ```text
//! sample ─► pages out ─► immediate walk: ends at the first absent page
//!                    └─► deferred walk:  page fault, page in, goes on
//! ```
//!
//! Only once for each user instruction of a task: else a sample in the page fault that brings a
//! page back could take it away again, and the guest would not go on.

use crate::kernel::State;

/// What is absent at samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageOut {
    /// The task's user stack, from the stack pointer's page up.
    pub stack: bool,
    /// The SFrame sections that are registered for its address space.
    pub tables: bool,
}

impl State {
    /// A sample is taken: pages leave memory, if that was asked for.
    pub fn page_out_at_sample(&mut self) {
        let PageOut { stack, tables } = self.config.page_out;
        let progress = Some(self.task.times.user);
        if !(stack || tables) || self.task.mm.is_none() || self.task.paged_out == progress {
            return;
        }
        self.task.paged_out = progress;
        let mut gone = 0;
        if stack {
            // Before N1 the slot has those of the entry before.
            let saved = self.cpu.kernel.is_some() && !self.cpu.slot_is_stale;
            let sp = if saved { self.user_regs().sp() } else { self.hw_regs().sp() };
            let range = self.mm.area(sp).map(|area| (crate::mem::page_down(sp), area.end));
            gone += range.map_or(0, |(start, end)| self.mm.page_out(start, end));
        }
        if tables && let Some(registry) = self.mm.sframe.take() {
            for section in registry.sframe_ranges() {
                let start = crate::mem::page_down(section.start);
                gone += self.mm.page_out(start, section.end);
            }
            self.mm.sframe = Some(registry);
        }
        self.stats.paged_out += gone;
    }
}
