//! Text like that of `perf script`, without a detour by a file.
//!
//! ```text
//! comm   tid [cpu] seconds.micros:     period event: tracepoint fields
//!         address symbol+0xoffset (file)
//! ```
//!
//! Addresses are absolute, as in perf 7 (perf 6 prints user addresses as file
//! offsets); return addresses are shown as they are but named by the call.

use std::fmt::Write as _;
use std::io::Write;

use arch::strace::signature;

use super::processes::Processes;
use super::{ExportError, Images, Sink};
use crate::perf::record::{Raw, Record, Sample, Session};
use crate::perf::session_encode::UnknownEvent;
use crate::symbols::Frame;

/// Writes a block of text for each sample.
pub struct Script<W: Write> {
    out: W,
    to: String,
    processes: Processes,
    session: Session,
    /// Width of the longest event name.
    width: usize,
    text: String,
    finished: bool,
}

impl<W: Write> Script<W> {
    /// Text into `out`, called `to` in errors.
    ///
    /// # Errors
    ///
    /// [`ExportError::NoEvents`]
    pub fn new(
        session: &Session,
        out: W,
        to: String,
        images: Images,
    ) -> Result<Script<W>, ExportError> {
        if session.events.is_empty() {
            return Err(ExportError::NoEvents);
        }
        Ok(Script {
            out,
            to,
            processes: Processes::new(&session.kernel_symbols, images),
            session: session.clone(),
            width: session.events.iter().map(|e| e.name.len()).max().unwrap_or(0),
            text: String::new(),
            finished: false,
        })
    }

    fn sample(&mut self, s: &Sample) -> Result<(), ExportError> {
        let (events, time) = (self.session.events.len(), s.time);
        let unknown = UnknownEvent { event: s.event, events, time };
        let event = self.session.events.get(s.event).ok_or(unknown)?;
        self.text.clear();
        let text = &mut self.text;
        let comm = self.processes.comm(s.tid);
        let micros = s.time / 1000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        let comm_width = if event.callchain { 0 } else { 16 };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{comm:>comm_width$} {:>7} [{:03}] {seconds:>5}.{micros:06}: ",
            s.tid, s.cpu
        );
        if s.raw.is_none() {
            let _ = write!(text, "{:>10} ", s.period);
        }
        let _ = write!(text, "{:>width$}: ", event.name, width = self.width);
        if let Some(raw) = &s.raw {
            push_raw(text, raw);
        }
        let frames = self.processes.frames(s);
        if event.callchain {
            text.push('\n');
            for f in &frames {
                text.push('\t');
                push_frame(text, &f.frame);
                text.push('\n');
            }
        } else if let Some(f) = frames.first() {
            text.push(' ');
            push_frame(text, &f.frame);
        }
        text.push('\n');
        self.write()
    }

    fn write(&mut self) -> Result<(), ExportError> {
        self.out.write_all(self.text.as_bytes()).map_err(|e| self.error(e))
    }

    fn error(&self, source: std::io::Error) -> ExportError {
        ExportError::Write { what: "a sample", to: self.to.clone(), source }
    }
}

/// Every task has nice 0.
const PRIO: i32 = 120;

/// `prev_state` as the kernel's print format shows it.
fn state_letters(state: i64) -> String {
    let letters = [(1, "S"), (2, "D"), (0x10, "X"), (0x20, "Z")];
    let set: Vec<&str> = letters.iter().filter(|(bit, _)| state & bit != 0).map(|l| l.1).collect();
    let shown = if set.is_empty() { "R".to_owned() } else { set.join("|") };
    if state & 0x100 != 0 { shown + "+" } else { shown }
}

/// The fields of a tracepoint, as its print format says.
fn push_raw(text: &mut String, raw: &Raw) {
    let _ = match raw {
        Raw::SysEnter { id, args: [a, b, c, d, e, f] } => {
            write!(text, "NR {id} ({a:x}, {b:x}, {c:x}, {d:x}, {e:x}, {f:x})")
        }
        Raw::SysExit { id, ret } => write!(text, "NR {id} = {ret}"),
        Raw::SysEnterOf { call, args, .. } => {
            let args = signature(*call).args.iter().zip(args);
            let args = args.map(|((name, _), value)| format!("{name}: 0x{value:08x}"));
            write!(text, "{}", args.collect::<Vec<_>>().join(", "))
        }
        Raw::SysExitOf { ret, .. } => write!(text, "{ret:#x}"),
        Raw::SignalGenerate { signal, errno, code, comm, pid, group, result } => write!(
            text,
            "sig={signal} errno={errno} code={code} comm={comm} pid={pid} grp={} res={}",
            u8::from(*group),
            *result as u8
        ),
        Raw::SignalDeliver { signal, errno, code, handler, flags } => write!(
            text,
            "sig={signal} errno={errno} code={code} sa_handler={handler:x} sa_flags={flags:x}"
        ),
        Raw::ProcessExit { comm, pid, prio, group_dead } => {
            write!(text, "comm={comm} pid={pid} prio={prio} group_dead={group_dead}")
        }
        Raw::ProcessFork { parent_comm, parent_pid, child_comm, child_pid } => write!(
            text,
            "comm={parent_comm} pid={parent_pid} child_comm={child_comm} child_pid={child_pid}"
        ),
        Raw::ProcessExec { filename, pid, old_pid } => {
            write!(text, "filename={filename} pid={pid} old_pid={old_pid}")
        }
        Raw::SchedSwitch { prev_comm, prev_pid, prev_state, next_comm, next_pid } => {
            let state = state_letters(*prev_state);
            write!(
                text,
                "prev_comm={prev_comm} prev_pid={prev_pid} prev_prio={PRIO} prev_state={state} \
                 ==> next_comm={next_comm} next_pid={next_pid} next_prio={PRIO}"
            )
        }
        Raw::SchedWaking { comm, pid, target_cpu } => {
            write!(text, "comm={comm} pid={pid} prio={PRIO} target_cpu={target_cpu:03}")
        }
        Raw::Preemptirq { caller_offs, parent_offs, .. } => {
            // For perf `_stext` is 0, and no symbol is there.
            write!(text, "caller={caller_offs:#x} parent={parent_offs:#x}")
        }
        Raw::FpuRegsActivated { fpu } => {
            write!(text, "x86/fpu: {fpu:#x} load: 1 xfeatures: 0 xcomp_bv: 0")
        }
        Raw::Probe { ip, .. } => write!(text, "({ip:x})"),
        Raw::Return { function, to, .. } => write!(text, "({function:x} <- {to:x})"),
    };
}

fn push_frame(text: &mut String, frame: &Frame) {
    let dso = frame.dso.as_deref().unwrap_or("[unknown]");
    let _ = match &frame.function {
        Some(f) => write!(text, "{:>16x} {}+{:#x} ({dso})", frame.address, f.name, f.offset),
        None => write!(text, "{:>16x} [unknown] ({dso})", frame.address),
    };
}

impl<W: Write> Sink for Script<W> {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        if self.finished {
            return Err(ExportError::Finished { what: "text" });
        }
        match record {
            Record::Sample(sample) => self.sample(sample),
            other => {
                self.processes.update(other);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.finished = true;
        self.out.flush().map_err(|e| self.error(e))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::{CpuMode, Event, EventKind, context};
    use crate::perf::testing::{event, sample, session, start};
    use arch::Arch;

    fn text(events: Vec<Event>, samples: Vec<Sample>) -> String {
        let s = session(Arch::X86_64, events);
        let mut out = Vec::new();
        let mut f = Script::new(&s, &mut out, "test".into(), Images::new(|_| None)).unwrap();
        start("/bin/guest").iter().for_each(|r| f.record(r).unwrap());
        samples.into_iter().for_each(|s| f.record(&Record::Sample(s)).unwrap());
        f.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sample_with_callchain() {
        let mut s = sample(0, 1_234_567_890);
        s.mode = CpuMode::Kernel;
        s.callchain = vec![
            context::KERNEL,
            0xffff_ffff_8100_1004,
            0xffff_ffff_8100_1100,
            context::USER,
            0x40_1000,
            0x10,
        ];
        let want = "\
guest     101 [001]     1.234567:       1000 cycles: 
\tffffffff81001004 do_syscall_64+0x4 ([kernel.kallsyms])
\tffffffff81001100 do_syscall_64+0x100 ([kernel.kallsyms])
\t          401000 [unknown] (/bin/guest)
\t              10 [unknown] ([unknown])

";
        assert_eq!(text(vec![event(EventKind::Cycles, "cycles")], vec![s]), want);
    }

    #[test]
    fn tracepoints_and_no_callchain() {
        let plain = |kind, name| Event { callchain: false, ..event(kind, name) };
        let events = vec![
            plain(EventKind::SysEnter, "raw_syscalls:sys_enter"),
            plain(EventKind::SysExit, "raw_syscalls:sys_exit"),
        ];
        let mut enter = sample(0, 1000);
        enter.raw = Some(Raw::SysEnter { id: 39, args: [0xa, 0, 0, 0, 0, 1] });
        let mut exit = sample(1, 2000);
        exit.raw = Some(Raw::SysExit { id: 39, ret: -22 });
        let want = "           guest     101 [001]     0.000001: raw_syscalls:sys_enter: \
            NR 39 (a, 0, 0, 0, 0, 1)           401000 [unknown] (/bin/guest)\n           \
            guest     101 [001]     0.000002:  raw_syscalls:sys_exit: \
            NR 39 = -22           401000 [unknown] (/bin/guest)\n";
        assert_eq!(text(events, vec![enter, exit]), want);
    }
}
