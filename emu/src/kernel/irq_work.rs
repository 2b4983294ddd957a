//! irq_work: what an NMI leaves to an interrupt that it raises on its own CPU.
//!
//! Of the kernel's items there are the one that does nothing (`irq_work_NMI_resume`), whose only
//! purpose is that an interrupt's exit goes through the exit loop, which an NMI's does not; and
//! those of performance events whose readers are to be woken.
//! The self-interrupt arrives before the next user instruction, or when kernel code turns
//! interrupts on.

/// The per-CPU list of raised work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IrqWork {
    /// The item is claimed, so that it is queued once.
    nmi_resume: bool,
    /// The self-interrupt was sent and has not arrived.
    raised: bool,
    /// Self-interrupts so far.
    pub interrupts: u64,
}

impl IrqWork {
    /// `irq_work_queue` of the item that does nothing.
    pub const fn queue_nmi_resume(&mut self) {
        if !self.nmi_resume {
            self.nmi_resume = true;
            self.raised = true;
        }
    }

    /// `irq_work_queue` of an event whose reader is to be woken: the list is the CPU's.
    pub const fn queue_wakeup(&mut self) {
        self.raised = true;
    }

    /// Whether the self-interrupt is on its way.
    pub const fn is_raised(self) -> bool {
        self.raised
    }

    /// `irq_work_run`: all items.
    pub const fn run(&mut self) {
        self.raised = false;
        self.nmi_resume = false;
        self.interrupts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_queued_once() {
        let mut work = IrqWork::default();
        work.queue_nmi_resume();
        work.queue_nmi_resume();
        assert!(work.is_raised());
        work.run();
        assert!(!work.is_raised());
        work.queue_nmi_resume();
        assert!(work.is_raised());
        assert_eq!(work.interrupts, 1);
    }
}
