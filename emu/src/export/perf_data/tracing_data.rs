//! The `TRACING_DATA` section: the formats of the tracepoints, as a copy of
//! what tracefs shows, and the payload of their samples.
//!
//! A reader refuses a file with a tracepoint event but without this section,
//! and prints `NR 39 (…)` from the format text, not from anything it knows.
//! The layout is `trace.dat` version 0.6 (`trace-cmd.dat.v6(5)`):
//!
//! ```text
//! 17 08 44 "tracing" "0.6\0"  endian u8  long size u8  page size u32
//! "header_page\0"  size u64  text       "header_event\0"  size u64  text
//! ftrace events u32                     (size u64, format text)…
//! systems u32                           ("name\0", events u32, (size u64, format text)…)…
//! kallsyms u32, text   printk u32, text   saved command lines u64, text
//! ```

use arch::strace::signature;

use super::formats::{self, Format};
use crate::perf::record::{EventKind, Raw, Session};

/// `events/header_page` of tracefs: the head of a ring-buffer page.
const HEADER_PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char overwrite;\toffset:8;\tsize:1;\tsigned:0;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

/// `events/header_event` of tracefs: the head of a ring-buffer entry.
const HEADER_EVENT: &str = "\
# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

/// `task_struct.prio` of every task: nice 0.
const DEFAULT_PRIO: i32 = 120;

/// `common_preempt_count` inside a tracepoint: its handler disables preemption.
const PREEMPT_COUNT: u8 = 1;

/// The section for the tracepoints of `session`, or `None` without any.
pub fn section(session: &Session) -> Option<Vec<u8>> {
    let mut formats: Vec<Format> =
        session.events.iter().filter_map(|e| formats::of(e.kind)).collect();
    // By system; in one, by id, as the kernel has them.
    formats.sort_by(|a, b| (a.system, a.id).cmp(&(b.system, b.id)));
    formats.dedup();
    if formats.is_empty() {
        return None;
    }

    let mut b = Vec::new();
    b.extend(b"\x17\x08\x44tracing0.6\0");
    b.push(0); // little endian
    b.push(8); // sizeof(long)
    b.extend(4096u32.to_le_bytes());
    b.extend(b"header_page\0");
    push_text(&mut b, HEADER_PAGE);
    b.extend(b"header_event\0");
    push_text(&mut b, HEADER_EVENT);
    b.extend(0u32.to_le_bytes()); // ftrace's own events
    let systems: Vec<&[Format]> = formats.chunk_by(|a, b| a.system == b.system).collect();
    b.extend((systems.len() as u32).to_le_bytes());
    for formats in systems {
        b.extend(formats[0].system.as_bytes());
        b.push(0);
        b.extend((formats.len() as u32).to_le_bytes());
        for format in formats {
            push_text(&mut b, &format.text());
        }
    }
    b.extend(0u32.to_le_bytes()); // kallsyms
    b.extend(0u32.to_le_bytes()); // printk formats
    b.extend(0u64.to_le_bytes()); // saved command lines
    Some(b)
}

fn push_text(b: &mut Vec<u8>, text: &str) {
    b.extend((text.len() as u64).to_le_bytes());
    b.extend(text.as_bytes());
}

/// The bytes of a tracepoint sample that the format texts describe.
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
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::export::testing::{event, session};
    use crate::perf::record::Generated;
    use arch::{Arch, Sysno};

    #[test]
    fn no_tracepoint_no_section() {
        let s = session(Arch::X86_64, vec![event(EventKind::Cycles, "cycles")]);
        assert_eq!(section(&s), None);
    }

    #[test]
    fn section_head_and_sizes() {
        let s = session(Arch::X86_64, vec![event(EventKind::SysExit, "raw_syscalls:sys_exit")]);
        let b = section(&s).unwrap();
        assert_eq!(&b[..20], b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0");
        // The sizes that the same kernel interface gives on Linux 7.3.
        assert_eq!(HEADER_PAGE.len(), 0xce);
        assert_eq!(HEADER_EVENT.len(), 0xcd);
        assert_eq!(&b[20..40], b"header_page\0\xce\0\0\0\0\0\0\0");
        assert_eq!(b[b.len() - 16..], [0; 16]);
    }

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
