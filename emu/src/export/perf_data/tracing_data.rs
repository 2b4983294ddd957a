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

use crate::perf::record::{EventKind, Raw, Session};

/// Tracepoint id of `raw_syscalls:sys_exit`. Ids are numbered at the boot of a
/// kernel; the modelled kernel's never change.
pub const SYS_EXIT_ID: u16 = 385;
/// Tracepoint id of `raw_syscalls:sys_enter`.
pub const SYS_ENTER_ID: u16 = 386;

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

/// The fields that every tracepoint starts with (`struct trace_entry`).
const COMMON_FIELDS: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;
";

const SYS_ENTER_FIELDS: &str = "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n";
const SYS_ENTER_PRINT: &str = "\"NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)\", REC->id, \
    REC->args[0], REC->args[1], REC->args[2], REC->args[3], REC->args[4], REC->args[5]";
const SYS_EXIT_FIELDS: &str = "\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n";
const SYS_EXIT_PRINT: &str = "\"NR %ld = %ld\", REC->id, REC->ret";

/// `common_preempt_count` inside a tracepoint: its handler disables preemption.
const PREEMPT_COUNT: u8 = 1;

/// The section for the tracepoints of `session`, or `None` without any.
pub fn section(session: &Session) -> Option<Vec<u8>> {
    let has = |kind| session.events.iter().any(|e| e.kind == kind);
    let mut formats = Vec::new();
    if has(EventKind::SysExit) {
        formats.push(format("sys_exit", SYS_EXIT_ID, SYS_EXIT_FIELDS, SYS_EXIT_PRINT));
    }
    if has(EventKind::SysEnter) {
        formats.push(format("sys_enter", SYS_ENTER_ID, SYS_ENTER_FIELDS, SYS_ENTER_PRINT));
    }
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
    b.extend(1u32.to_le_bytes()); // systems
    b.extend(b"raw_syscalls\0");
    b.extend((formats.len() as u32).to_le_bytes());
    for text in &formats {
        push_text(&mut b, text);
    }
    b.extend(0u32.to_le_bytes()); // kallsyms
    b.extend(0u32.to_le_bytes()); // printk formats
    b.extend(0u64.to_le_bytes()); // saved command lines
    Some(b)
}

/// One tracepoint's `format` file of tracefs.
fn format(name: &str, id: u16, fields: &str, print: &str) -> String {
    format!("name: {name}\nID: {id}\nformat:\n{COMMON_FIELDS}{fields}\nprint fmt: {print}\n")
}

fn push_text(b: &mut Vec<u8>, text: &str) {
    b.extend((text.len() as u64).to_le_bytes());
    b.extend(text.as_bytes());
}

/// The bytes of a tracepoint sample that the format texts describe.
pub fn payload(raw: &Raw, tid: u32) -> Vec<u8> {
    let mut b = Vec::with_capacity(64);
    let mut head = |id: u16, number: i64| {
        b.extend(id.to_le_bytes());
        b.extend([0, PREEMPT_COUNT]); // common_flags, common_preempt_count
        b.extend(tid.to_le_bytes());
        b.extend(number.to_le_bytes());
    };
    match raw {
        Raw::SysEnter { id, args } => {
            head(SYS_ENTER_ID, *id);
            b.extend(args.iter().flat_map(|a| a.to_le_bytes()));
        }
        Raw::SysExit { id, ret } => {
            head(SYS_EXIT_ID, *id);
            b.extend(ret.to_le_bytes());
        }
    }
    b
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::export::testing::{event, session};
    use arch::Arch;

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
    }
}
