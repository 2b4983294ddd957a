//! Task work: what a task does for others on its way back to user mode.
//!
//! ```text
//! add     head is `Exited`: -ESRCH;  else pushed in front, then the notification
//! run     swap the list with an empty one, call newest first, again until it is empty;
//!         of a task that ends: `Exited` is put in place of an empty list
//! cancel  unlinks an item that has not been taken
//! ```

use arch::Errno;

use crate::kernel::symbols::Named;
use crate::kernel::task::Task;
use crate::kernel::unwind::WorkId;
use crate::kernel::{Kernel, Point, State};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskWork {
    /// The task's own item of the deferred unwinder.
    Unwind,
    /// The item inside a tracer's work, where a design has it there.
    UnwindOf(WorkId),
}

/// How the task learns of it (`enum task_work_notify_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notify {
    /// `TWA_RESUME`: `TIF_NOTIFY_RESUME`. For the current task nothing more.
    Resume,
    /// `TWA_NMI_CURRENT`: the same, and a self-interrupt that goes through an exit loop.
    NmiCurrent,
}

/// The list, newest first in the kernel; here the newest is last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaskWorks {
    /// Items that wait.
    List(Vec<TaskWork>),
    /// `work_exited`: nothing is taken any more.
    Exited,
}

impl Default for TaskWorks {
    fn default() -> TaskWorks {
        TaskWorks::List(Vec::new())
    }
}

impl TaskWorks {
    /// Whether something waits.
    pub const fn is_pending(&self) -> bool {
        matches!(self, TaskWorks::List(list) if !list.is_empty())
    }

    /// Takes all items, newest first; `exiting` closes an empty list.
    fn take(&mut self, exiting: bool) -> Vec<TaskWork> {
        match self {
            TaskWorks::List(list) if list.is_empty() && exiting => {
                *self = TaskWorks::Exited;
                Vec::new()
            }
            TaskWorks::List(list) => std::mem::take(list).into_iter().rev().collect(),
            TaskWorks::Exited => Vec::new(),
        }
    }

    /// Unlinks the newest such item; whether there was one.
    pub fn cancel(&mut self, work: TaskWork) -> bool {
        let TaskWorks::List(list) = self else { return false };
        let found = list.iter().rposition(|w| *w == work);
        found.map(|at| list.remove(at)).is_some()
    }

    /// The tracer's work whose item came last.
    pub fn newest_unwind(&self) -> Option<WorkId> {
        let TaskWorks::List(list) = self else { return None };
        list.iter().rev().find_map(|item| match item {
            TaskWork::UnwindOf(work) => Some(*work),
            TaskWork::Unwind => None,
        })
    }

    /// Pushes an item.
    ///
    /// # Errors
    ///
    /// `ESRCH` once the task has run its last.
    pub fn push(&mut self, work: TaskWork) -> Result<(), Errno> {
        match self {
            TaskWorks::List(list) => {
                list.push(work);
                Ok(())
            }
            TaskWorks::Exited => Err(Errno::ESRCH),
        }
    }
}

impl Task {
    /// Whether a walk of its user stack makes sense: no thread of the kernel, not ending.
    pub const fn is_user(&self) -> bool {
        self.mm.is_some() && !self.exiting
    }
}

impl State {
    /// `task_work_add` for the current task.
    ///
    /// # Errors
    ///
    /// See [`TaskWorks::push`].
    pub fn add_task_work(&mut self, work: TaskWork, notify: Notify) -> Result<(), Errno> {
        self.task.works.push(work)?;
        self.task.work.notify_resume = true;
        if notify == Notify::NmiCurrent {
            self.cpu.irq_work.queue_nmi_resume();
        }
        Ok(())
    }
}

/// `task_work_run`: until nothing is left.
pub async fn run(k: &Kernel) {
    k.call(Named::TaskWorkRun.into()).await;
    loop {
        let items = k
            .step(Point::TaskWorkTake, |s| {
                let exiting = s.task.exiting;
                s.held_up();
                s.task.works.take(exiting)
            })
            .await;
        if items.is_empty() {
            break;
        }
        for item in items {
            let design = k.design();
            design.task_work(k, item).await;
        }
    }
    k.ret().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_first_until_the_task_has_exited() {
        let mut works = TaskWorks::default();
        let (a, b) = (TaskWork::Unwind, TaskWork::UnwindOf(WorkId(3)));
        assert!(!works.is_pending() && !works.cancel(a));
        assert_eq!((works.push(a), works.push(b)), (Ok(()), Ok(())));
        assert_eq!(works.take(true), [b, a], "a list with items stays open");
        assert_eq!(works.push(a), Ok(()));
        assert!(works.cancel(a) && !works.is_pending());
        assert_eq!(works.take(false), []);
        assert_eq!(works.push(a), Ok(()));
        assert_eq!(works.take(false), [a]);
        assert_eq!(works.take(true), []);
        assert_eq!(works.push(a), Err(Errno::ESRCH));
        assert_eq!(works, TaskWorks::Exited);
    }
}
