//! The payload of a tracepoint's sample, as [`formats`] describes it.

use arch::strace::signature;

use crate::perf::formats;
use crate::perf::record::{EventKind, Raw};

/// `task_struct.prio` of every task: nice 0.
const DEFAULT_PRIO: i32 = 120;

/// `common_preempt_count` inside a tracepoint: its handler disables preemption.
const PREEMPT_COUNT: u8 = 1;

/// The bytes of a tracepoint sample, without the size before them.
pub fn payload(raw: &Raw, tid: u32) -> Vec<u8> {
    let id = formats::id(kind_of(raw)).unwrap_or_default();
    let mut b = Vec::with_capacity(64);
    b.extend(id.to_le_bytes());
    b.extend([0, PREEMPT_COUNT]); // common_flags, common_preempt_count
    b.extend(tid.to_le_bytes());
    push_fields(&mut b, raw);
    b
}

/// The event whose samples have this payload.
const fn kind_of(raw: &Raw) -> EventKind {
    match raw {
        Raw::SysEnter { .. } => EventKind::SysEnter,
        Raw::SysExit { .. } => EventKind::SysExit,
        Raw::SysEnterOf { call, .. } => EventKind::SysEnterOf(*call),
        Raw::SysExitOf { call, .. } => EventKind::SysExitOf(*call),
        Raw::SignalGenerate { .. } => EventKind::SignalGenerate,
        Raw::SignalDeliver { .. } => EventKind::SignalDeliver,
        Raw::ProcessExit { .. } => EventKind::ProcessExit,
        Raw::ProcessFork { .. } => EventKind::ProcessFork,
        Raw::ProcessExec { .. } => EventKind::ProcessExec,
        Raw::SchedSwitch { .. } => EventKind::SchedSwitch,
        Raw::SchedWaking { .. } => EventKind::SchedWaking,
        Raw::Preemptirq { toggle, .. } => EventKind::Preemptirq(*toggle),
        Raw::FpuRegsActivated { .. } => EventKind::FpuRegsActivated,
        Raw::Probe { kind, .. } | Raw::Return { kind, .. } => *kind,
    }
}

/// The tracepoint's own fields.
fn push_fields(b: &mut Vec<u8>, raw: &Raw) {
    match raw {
        Raw::SysEnter { id, args } => push_words(b, [*id as u64].iter().chain(args)),
        Raw::SysExit { id, ret } => push_words(b, &[*id as u64, *ret as u64]),
        Raw::SysEnterOf { call, nr, args } => {
            push_ints(b, &[*nr, 0]);
            push_words(b, args.iter().take(signature(*call).args.len()));
        }
        Raw::SysExitOf { nr, ret, .. } => {
            push_ints(b, &[*nr, 0]);
            push_words(b, &[*ret as u64]);
        }
        Raw::SignalGenerate { signal, errno, code, comm, pid, group, result } => {
            push_ints(b, &[*signal, *errno, *code]);
            push_comm(b, comm);
            push_ints(b, &[*pid as i32, i32::from(*group), *result as i32]);
        }
        Raw::SignalDeliver { signal, errno, code, handler, flags } => {
            push_ints(b, &[*signal, *errno, *code, 0]);
            push_words(b, &[*handler, *flags]);
        }
        Raw::ProcessExit { comm, pid, prio, group_dead } => {
            push_comm(b, comm);
            push_ints(b, &[*pid as i32, *prio, i32::from(*group_dead)]);
        }
        Raw::ProcessFork { parent_comm, parent_pid, child_comm, child_pid } => {
            push_comm(b, parent_comm);
            push_ints(b, &[*parent_pid as i32]);
            push_comm(b, child_comm);
            push_ints(b, &[*child_pid as i32]);
        }
        Raw::ProcessExec { filename, pid, old_pid } => {
            // `__data_loc`: offset from the payload's start, length with the NUL above it.
            const TEXT_AT: i32 = 20;
            push_ints(b, &[(filename.len() as i32 + 1) << 16 | TEXT_AT]);
            push_ints(b, &[*pid as i32, *old_pid as i32]);
            b.extend(filename.bytes());
            b.push(0);
        }
        Raw::SchedSwitch { prev_comm, prev_pid, prev_state, next_comm, next_pid } => {
            push_comm(b, prev_comm);
            push_ints(b, &[*prev_pid as i32, DEFAULT_PRIO]);
            push_words(b, &[*prev_state as u64]);
            push_comm(b, next_comm);
            push_ints(b, &[*next_pid as i32, DEFAULT_PRIO]);
        }
        Raw::SchedWaking { comm, pid, target_cpu } => {
            push_comm(b, comm);
            push_ints(b, &[*pid as i32, DEFAULT_PRIO, *target_cpu]);
        }
        Raw::Preemptirq { caller_offs, parent_offs, .. } => {
            push_ints(b, &[*caller_offs, *parent_offs]);
        }
        // load_fpu; without XSAVE there are no features.
        Raw::FpuRegsActivated { fpu } => push_words(b, &[*fpu, 1, 0, 0]),
        Raw::Probe { ip, .. } => push_words(b, [ip]),
        Raw::Return { function, to, .. } => push_words(b, [function, to]),
    }
}

fn push_words<'a>(b: &mut Vec<u8>, words: impl IntoIterator<Item = &'a u64>) {
    b.extend(words.into_iter().flat_map(|word| word.to_le_bytes()));
}

fn push_ints(b: &mut Vec<u8>, ints: &[i32]) {
    b.extend(ints.iter().flat_map(|int| int.to_le_bytes()));
}

/// `char comm[16]`: cut, and ended by a NUL.
fn push_comm(b: &mut Vec<u8>, comm: &str) {
    let mut field = [0; 16];
    let len = comm.len().min(field.len() - 1);
    field[..len].copy_from_slice(&comm.as_bytes()[..len]);
    b.extend(field);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::record::Generated;
    use arch::Sysno;

    #[test]
    fn payload_layout() {
        let enter = payload(&Raw::SysEnter { id: 257, args: [1, 2, 3, 4, 5, 6] }, 0xf0);
        assert_eq!(enter.len(), 64);
        assert_eq!(enter[..16], [0x82, 1, 0, 1, 0xf0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(enter[56..], 6u64.to_le_bytes());
        let exit = payload(&Raw::SysExit { id: -1, ret: -2 }, 1);
        assert_eq!(exit.len(), 24);
        assert_eq!(exit[8..16], [0xff; 8]);
        let call = Sysno::Getpid;
        assert_eq!(payload(&Raw::SysEnterOf { call, nr: 39, args: [9; 6] }, 1).len(), 16);
        assert_eq!(payload(&Raw::SysExitOf { call, nr: 39, ret: 1 }, 1)[16..], 1u64.to_le_bytes());
        let (signal, errno, code) = (10, 0, -6);
        let comm = "a-name-of-sixteen".to_owned();
        let result = Generated::Ignored;
        let raw = Raw::SignalGenerate { signal, errno, code, comm, pid: 7, group: true, result };
        let generate = payload(&raw, 1);
        assert_eq!((generate.len(), &generate[34..36]), (48, &b"e\0"[..]));
        assert_eq!(generate[36..], [7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        let deliver = payload(&Raw::SignalDeliver { signal, errno, code, handler: 5, flags: 6 }, 1);
        assert_eq!((deliver.len(), deliver[24], deliver[32]), (40, 5, 6));
        let comm = "x".to_owned();
        let exit = payload(&Raw::ProcessExit { comm, pid: 7, prio: 120, group_dead: true }, 1);
        assert_eq!((exit.len(), exit[24], exit[28], exit[32]), (36, 7, 120, 1));
    }
}
