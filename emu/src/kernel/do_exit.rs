//! The end of a task (`do_exit`), in its fixed order.
//!
//! ```text
//! PF_EXITING, sched_process_exit ─► perf events torn down ─► deferred unwind flushed
//!            ─► exit_mm ─► task work ─► dead
//! ```
//!
//! A stack that is pending when a task ends is therefore captured while there is memory, but
//! after the task's own events are gone: only CPU-wide events would get the record.

use crate::kernel::{Kernel, Point, State, task_work};
use crate::perf::record::Record;

/// The innermost function of the path is `do_exit`. The task does not come back.
pub async fn do_exit(k: &Kernel) {
    k.step(Point::ExitSignals, |s| {
        s.task.exiting = true;
        s.trace_process_exit();
    })
    .await;
    k.step(Point::ExitPerf, close_events).await;
    k.step(Point::ExitUnwind, |_| ()).await;
    let design = k.design();
    design.exit_flush(k).await;
    k.step(Point::ExitMm, |s| s.task.has_mm = false).await;
    k.step(Point::ExitTaskWork, |_| ()).await;
    task_work::run(k).await;
    k.step(Point::ExitDead, State::leave_kernel).await;
}

/// `perf_event_exit_task`: the EXIT record, then the task's events are gone.
pub fn close_events(state: &mut State) {
    if state.perf.closed {
        return;
    }
    state.perf.closed = true;
    let task = &state.task;
    state.perf.records.push(Record::Exit {
        pid: task.pid,
        ppid: task.ppid,
        tid: task.tid,
        ptid: task.ppid,
        time: state.cpu.clock,
    });
}
