//! Tracepoints of what goes off and on: interrupts and preemption.

/// What goes off or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Toggle {
    /// `irq_disable`
    IrqDisable,
    /// `irq_enable`
    IrqEnable,
    /// `preempt_disable`
    PreemptDisable,
    /// `preempt_enable`
    PreemptEnable,
}

impl Toggle {
    /// All of them.
    pub const ALL: [Toggle; 4] =
        [Toggle::IrqDisable, Toggle::IrqEnable, Toggle::PreemptDisable, Toggle::PreemptEnable];

    /// The tracepoint's name.
    pub const fn name(self) -> &'static str {
        match self {
            Toggle::IrqDisable => "irq_disable",
            Toggle::IrqEnable => "irq_enable",
            Toggle::PreemptDisable => "preempt_disable",
            Toggle::PreemptEnable => "preempt_enable",
        }
    }
}
