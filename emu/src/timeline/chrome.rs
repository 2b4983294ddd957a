//! Trace events in JSON, which ui.perfetto.dev and `chrome://tracing` load.
//!
//! ```text
//! a track for each task   ┌ entry_SYSCALL_64_after_hwframe ──────────────────┐
//!                         │┌ do_syscall_64 ───────────────┐┌ exit_to_user… ─┐│
//!                         ││      ┌ asm_exc_nmi ──┐       ││  ┌ task_work… ┐││
//! steps are the leaves    │└ N4   └ … request ──┐ ┘       ┘└──└ callback ▲─┘┘┘
//! flows                                         └──── by cookie ─────────┘
//! ```
//!
//! The slices are the modelled functions on the kernel stack, so an interrupt is inside what
//! it interrupts. Times are microseconds since boot, with three digits.

use std::collections::BTreeMap;
use std::io::{self, Write};

use arch::Arch;
use serde_json::{Value, json};

use crate::kernel::symbols::Function;
use crate::perf::record::Time;
use crate::timeline::{Cookie, Line, What, Writer};

/// See the module.
#[derive(Debug)]
pub struct Chrome {
    arch: Arch,
    /// Tracks, by thread.
    tracks: BTreeMap<u32, Track>,
    /// Whether an event was written.
    some: bool,
}

/// A task's track.
#[derive(Debug)]
struct Track {
    pid: u32,
    /// Functions whose slices are open.
    open: Vec<Function>,
    /// End of the last event.
    last: Time,
    /// The last stack that was asked for, and whether it is still to come.
    flow: Option<(u64, bool)>,
}

/// The thread number of a line's track: of the idle tasks, which all are 0, that of the CPU.
const fn track_of(line: &Line<'_>) -> u32 {
    if line.tid == 0 { line.cpu } else { line.tid }
}

impl Chrome {
    /// With the function names of `arch`.
    pub const fn new(arch: Arch) -> Chrome {
        Chrome { arch, tracks: BTreeMap::new(), some: false }
    }

    fn event(&mut self, out: &mut dyn Write, event: &Value) -> io::Result<()> {
        out.write_all(if std::mem::replace(&mut self.some, true) { b",\n" } else { b"\n" })?;
        serde_json::to_writer(out, event).map_err(io::Error::from)
    }

    /// The names of a task, when it is first seen.
    fn introduce(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
        if self.tracks.contains_key(&track_of(line)) {
            return Ok(());
        }
        let track = Track { pid: line.pid, open: Vec::new(), last: line.began, flow: None };
        self.tracks.insert(track_of(line), track);
        let comm = String::from_utf8_lossy(line.comm);
        for name in ["process_name", "thread_name"] {
            let (pid, tid) = (line.pid, track_of(line));
            let event = json!({"ph": "M", "name": name, "pid": pid, "tid": tid,
                "args": {"name": comm}});
            self.event(out, &event)?;
        }
        Ok(())
    }

    /// Closes slices until `depth` are left.
    fn close(&mut self, out: &mut dyn Write, tid: u32, depth: usize, time: Time) -> io::Result<()> {
        while let Some(track) = self.tracks.get_mut(&tid)
            && track.open.len() > depth
        {
            track.open.pop();
            let event = json!({"ph": "E", "pid": track.pid, "tid": tid, "ts": micros(time)});
            self.event(out, &event)?;
        }
        Ok(())
    }

    /// Closes and opens slices until those of the functions on the stack are open; what only
    /// returns is left open.
    fn open(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
        let Some(track) = self.tracks.get(&track_of(line)) else { return Ok(()) };
        let same = track.open.iter().zip(line.functions).take_while(|(a, b)| a == b).count();
        if same == line.functions.len() && line.what != What::User {
            return Ok(());
        }
        self.close(out, track_of(line), same, line.began)?;
        for function in &line.functions[same..] {
            let event = json!({"ph": "B", "cat": "function", "name": function.name(self.arch),
                "pid": line.pid, "tid": track_of(line), "ts": micros(line.began),
                "args": {"cpu": line.cpu}});
            self.event(out, &event)?;
            if let Some(track) = self.tracks.get_mut(&track_of(line)) {
                track.open.push(*function);
            }
        }
        Ok(())
    }

    /// From the requests for a stack to the callback with it.
    fn flow(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
        let Some(track) = self.tracks.get_mut(&track_of(line)) else { return Ok(()) };
        let (phase, cookie) = match (line.cookie, track.flow) {
            (Some(Cookie::Asked(cookie)), Some((last, to_come))) if last == cookie => {
                // Asked for after it was given: nothing comes any more.
                if !to_come {
                    return Ok(());
                }
                ("t", cookie)
            }
            (Some(Cookie::Asked(cookie)), _) => {
                track.flow = Some((cookie, true));
                ("s", cookie)
            }
            (Some(Cookie::Given(cookie)), Some((last, true))) if last == cookie => {
                track.flow = Some((cookie, false));
                ("f", cookie)
            }
            _ => return Ok(()),
        };
        let mut event = json!({"ph": phase, "cat": "deferred", "name": "deferred stack",
            "id": format!("{}:{cookie:#x}", line.tid), "pid": line.pid, "tid": track_of(line),
            "ts": micros(line.began)});
        if phase == "f" {
            event["bp"] = "e".into();
        }
        self.event(out, &event)
    }
}

impl Writer for Chrome {
    fn begin(&mut self, out: &mut dyn Write, _cpus: u32) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")
    }

    fn line(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()> {
        self.introduce(out, line)?;
        self.open(out, line)?;
        let name = match line.what {
            What::User => "user code".to_owned(),
            What::Step(name) => name.to_owned(),
            What::Answer(answer) => format!("request: {}", answer.ret),
            What::Call(_) => String::new(),
        };
        if !name.is_empty() {
            let mut event = json!({"cat": "step", "name": name, "pid": line.pid, "tid": track_of(line),
                "ts": micros(line.began), "args": {"what": line.words, "cpu": line.cpu}});
            if let What::Answer(_) = line.what {
                (event["ph"], event["s"]) = ("i".into(), "t".into());
            } else {
                event["ph"] = "X".into();
                event["dur"] = micros(line.ended - line.began).into();
            }
            if let Some(number) = line.number {
                event["args"]["event"] = number.into();
            }
            if !line.changes.is_empty() {
                event["args"]["changes"] = line.changes.join(", ").into();
            }
            self.event(out, &event)?;
        }
        self.flow(out, line)?;
        self.close(out, track_of(line), line.functions.len(), line.ended)?;
        if let Some(track) = self.tracks.get_mut(&track_of(line)) {
            track.last = line.ended;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let tracks: Vec<(u32, Time)> = self.tracks.iter().map(|(tid, t)| (*tid, t.last)).collect();
        for (tid, last) in tracks {
            self.close(out, tid, 0, last)?;
        }
        out.write_all(b"\n]}\n")
    }

    fn draws_calls(&self) -> bool {
        true
    }
}

fn micros(time: Time) -> f64 {
    time as f64 / 1000.0
}
