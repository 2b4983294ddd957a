//! The `TRACING_DATA` section: the formats of the tracepoints, as a copy of
//! what tracefs shows.
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

use crate::perf::formats::{self, Format};
use crate::perf::record::Session;

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::EventKind;
    use crate::perf::testing::{event, session};
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
}
