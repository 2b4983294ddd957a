//! The small state that steps change, as it was after the last one.

use crate::kernel::State;
use crate::kernel::task::{Task, WorkBits};
use crate::kernel::task_work::TaskWorks;
use crate::numbers::grouped;
use crate::perf::session::Written;

/// Of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuFacts {
    /// Interrupts are on.
    pub irqs_on: bool,
    /// 0 task, 1 softirq, 2 hardirq, 3 NMI.
    pub level: u8,
    /// The self-interrupt of irq_work is on its way.
    pub irq_work: bool,
    /// Behind the handler of an NMI a counter has overflowed (E-11).
    pub latched: bool,
    /// The count of the last cookie.
    pub count: u32,
}

impl CpuFacts {
    /// As it is now.
    pub fn of(state: &State) -> CpuFacts {
        let cpu = &state.cpu;
        let latches = cpu.nmi_masked && cpu.counting;
        CpuFacts {
            latched: latches && state.overflowed(false).is_some(),
            irqs_on: cpu.irqs_on,
            level: cpu.level(),
            irq_work: cpu.irq_work.is_raised(),
            count: cpu.unwind_ctx_ctr,
        }
    }

    /// What became of `self`.
    fn changes(self, now: CpuFacts, all: &mut Vec<String>) {
        if self.irqs_on != now.irqs_on {
            all.push(format!("interrupts {}", if now.irqs_on { "on" } else { "off" }));
        }
        if self.level != now.level {
            let context = ["task", "softirq", "interrupt", "NMI"][usize::from(now.level.min(3))];
            all.push(format!("context {context}"));
        }
        if !self.irq_work && now.irq_work {
            all.push("irq_work raised".to_owned());
        }
        if !self.latched && now.latched {
            all.push("another NMI is latched".to_owned());
        }
        if self.count != now.count {
            all.push(format!("count of the CPU {}", now.count));
        }
    }
}

/// Of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// See [`crate::kernel::unwind::TaskInfo`].
    pub mask: u64,
    /// Likewise.
    pub id: u64,
    /// Likewise.
    pub pending: bool,
    /// Entries in the cache and works served from it, if there is a cache.
    pub cache: Option<(usize, u64)>,
    /// Items of task work; `None` after the last ran.
    pub works: Option<usize>,
    /// What the exit loop has to do.
    pub work: WorkBits,
}

impl TaskFacts {
    /// As it is now.
    pub fn of(task: &Task) -> TaskFacts {
        let unwind = &task.unwind;
        TaskFacts {
            mask: unwind.mask,
            id: unwind.id,
            pending: unwind.pending,
            cache: unwind.cache.as_ref().map(|c| (c.entries.len(), c.completed)),
            works: match &task.works {
                TaskWorks::List(list) => Some(list.len()),
                TaskWorks::Exited => None,
            },
            work: task.work,
        }
    }

    fn changes(&self, now: &TaskFacts, all: &mut Vec<String>) {
        if self.mask != now.mask {
            all.push(format!("mask {}", bits(now.mask)));
        }
        if self.id != now.id {
            all.push(if now.id == 0 { "id 0".to_owned() } else { format!("id {:#x}", now.id) });
        }
        if self.pending != now.pending {
            all.push(if now.pending { "pending" } else { "not pending" }.to_owned());
        }
        self.cache_changes(now, all);
        if self.works != now.works {
            all.push(match now.works {
                Some(n) => format!("task work: {}", counted(n as u64, "item")),
                None => "task work closed".to_owned(),
            });
        }
        for ((name, was), (_, is)) in names(self.work).into_iter().zip(names(now.work)) {
            if was != is {
                all.push(format!("{name} {}", if is { "set" } else { "cleared" }));
            }
        }
    }

    fn cache_changes(&self, now: &TaskFacts, all: &mut Vec<String>) {
        let Some((entries, completed)) = now.cache else { return };
        match self.cache {
            None => all.push("cache allocated".to_owned()),
            Some((old, _)) if old != entries => all.push(match entries {
                0 => "cache empty".to_owned(),
                n => format!("cache: {}", counted(n as u64, "address")),
            }),
            Some((_, old)) if old != completed => all.push(match completed {
                0 => "served nobody".to_owned(),
                served => format!("served {}", bits(served)),
            }),
            Some(_) => {}
        }
    }
}

/// Both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The CPU's.
    pub cpu: CpuFacts,
    /// The task's.
    pub task: TaskFacts,
    /// Records that were written.
    pub records: Written,
    /// Callbacks that were made to tracers.
    pub calls: usize,
}

impl Facts {
    /// As it is now.
    pub fn of(state: &State) -> Facts {
        Facts {
            cpu: CpuFacts::of(state),
            task: TaskFacts::of(&state.task),
            records: state.perf.written(),
            calls: state.unwind.calls.len(),
        }
    }

    /// What became of `self`, in words.
    pub fn changes(&self, now: &Facts) -> Vec<String> {
        let mut all = Vec::new();
        self.task.changes(&now.task, &mut all);
        self.cpu.changes(now.cpu, &mut all);
        all
    }
}

/// The exit loop's bits by name.
pub const fn names(work: WorkBits) -> [(&'static str, bool); 5] {
    [
        ("NEED_RESCHED", work.need_resched),
        ("UPROBE", work.uprobe),
        ("PATCH_PENDING", work.patch_pending),
        ("SIGPENDING", work.signal_pending),
        ("NOTIFY_RESUME", work.notify_resume),
    ]
}

/// A mask of the unwinder's: the two reserved bits, perf's, others by number.
pub fn bits(mask: u64) -> String {
    let set = (0..64).filter(|bit| mask >> bit & 1 != 0);
    let words: Vec<String> = set
        .map(|bit| match bit {
            0 => "PENDING".to_owned(),
            1 => "USED".to_owned(),
            2 => "perf".to_owned(),
            n => format!("bit {n}"),
        })
        .collect();
    if words.is_empty() { "0".to_owned() } else { words.join("|") }
}

/// `1 item`, `2 items`.
pub fn counted(n: u64, what: &str) -> String {
    let many = if what.ends_with('s') { "es" } else { "s" };
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_masks_in_words() {
        assert_eq!([1, 2].map(|n| counted(n, "item")), ["1 item", "2 items"]);
        assert_eq!([1, 2000].map(|n| counted(n, "address")), ["1 address", "2,000 addresses"]);
        assert_eq!([0, 0b111, 1 << 63 | 1].map(bits), ["0", "PENDING|USED|perf", "PENDING|bit 63"]);
    }

    #[test]
    fn only_what_changed_is_told() {
        let cpu = CpuFacts { irqs_on: true, level: 0, irq_work: false, latched: false, count: 0 };
        let task = TaskFacts {
            mask: 0,
            id: 0,
            pending: false,
            cache: Some((3, 0b100)),
            works: Some(1),
            work: WorkBits { notify_resume: true, ..WorkBits::default() },
        };
        let old = Facts { cpu, task, records: Written::default(), calls: 0 };
        assert_eq!(old.changes(&old), Vec::<String>::new());
        let new = Facts {
            cpu: CpuFacts { irqs_on: false, level: 3, irq_work: true, latched: true, count: 3 },
            task: TaskFacts {
                mask: 0b101,
                id: 3 << 32 | 1,
                pending: true,
                cache: Some((0, 0b100)),
                works: None,
                work: WorkBits { signal_pending: true, ..WorkBits::default() },
            },
            ..old
        };
        let told = [
            "mask PENDING|perf",
            "id 0x300000001",
            "pending",
            "cache empty",
            "task work closed",
            "SIGPENDING set",
            "NOTIFY_RESUME cleared",
            "interrupts off",
            "context NMI",
            "irq_work raised",
            "another NMI is latched",
            "count of the CPU 3",
        ];
        assert_eq!(old.changes(&new), told);
    }
}
