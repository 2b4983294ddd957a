//! The format of each tracepoint, as tracefs shows it (`events/SYSTEM/NAME/format`).
//!
//! Fields and print formats are those of Linux 7.3. Arguments of system calls have the names
//! of the manual pages and one of four C types, where the kernel has those of its own sources.

use arch::strace::{ArgKind, signature};
use arch::{Arch, Sysno};

use crate::perf::record::EventKind;
use crate::perf::toggle::Toggle;

/// Ids are numbered at the boot of a kernel; the modelled kernel's never change.
const FPU_ID: u16 = 62;
const SIGNAL_DELIVER_ID: u16 = 192;
const SIGNAL_GENERATE_ID: u16 = 193;
const PROCESS_EXIT_ID: u16 = 320;
const PROCESS_FORK_ID: u16 = 317;
const PROCESS_EXEC_ID: u16 = 316;
const SWITCH_ID: u16 = 323;
const WAKING_ID: u16 = 326;
/// The first of four.
const PREEMPTIRQ_ID: u16 = 330;
const SYS_EXIT_ID: u16 = 385;
const SYS_ENTER_ID: u16 = 386;
/// The first of those of the system calls, two for each: exit, enter.
const SYSCALLS_ID: u16 = 1000;

/// The first of those of kernel functions, of user probes, of returns.
const KPROBES_ID: u16 = 4000;
const UPROBES_ID: u16 = 8000;
const URETPROBES_ID: u16 = 16000;

/// The fields that every tracepoint starts with (`struct trace_entry`).
const COMMON_FIELDS: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its group.
    pub system: &'static str,
    /// Its name.
    pub name: String,
    /// `perf_event_attr.config`, and `common_type` of a payload.
    pub id: u16,
    /// The text of its own fields.
    fields: String,
    /// How a reader prints them.
    print: String,
}

impl Format {
    fn new(system: &'static str, name: impl Into<String>, id: u16) -> Format {
        let (fields, print) = Default::default();
        Format { system, name: name.into(), id, fields, print }
    }

    fn field(mut self, what: &str, offset: usize, size: usize, signed: bool) -> Format {
        let signed = u8::from(signed);
        self.fields +=
            &format!("\tfield:{what};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        self
    }

    fn print(mut self, text: impl Into<String>) -> Format {
        self.print = text.into();
        self
    }

    /// The `format` file.
    pub fn text(&self) -> String {
        let Format { name, id, fields, print, .. } = self;
        format!("name: {name}\nID: {id}\nformat:\n{COMMON_FIELDS}{fields}\nprint fmt: {print}\n")
    }
}

/// The id of a tracepoint, `None` for other events.
pub const fn id(kind: EventKind) -> Option<u16> {
    Some(match kind {
        EventKind::SysEnter => SYS_ENTER_ID,
        EventKind::SysExit => SYS_EXIT_ID,
        EventKind::SysEnterOf(call) => SYSCALLS_ID + 2 * call as u16 + 1,
        EventKind::SysExitOf(call) => SYSCALLS_ID + 2 * call as u16,
        EventKind::SignalGenerate => SIGNAL_GENERATE_ID,
        EventKind::SignalDeliver => SIGNAL_DELIVER_ID,
        EventKind::ProcessExit => PROCESS_EXIT_ID,
        EventKind::ProcessFork => PROCESS_FORK_ID,
        EventKind::ProcessExec => PROCESS_EXEC_ID,
        EventKind::SchedSwitch => SWITCH_ID,
        EventKind::SchedWaking => WAKING_ID,
        EventKind::Preemptirq(toggle) => PREEMPTIRQ_ID + toggle as u16,
        EventKind::FpuRegsActivated => FPU_ID,
        EventKind::Kprobe(function) => KPROBES_ID + function,
        EventKind::Uprobe(place) => UPROBES_ID.saturating_add(place),
        EventKind::Uretprobe(place) => URETPROBES_ID.saturating_add(place),
        _ => return None,
    })
}

/// The tracepoint of this id that `arch` has.
pub fn by_id(arch: Arch, wanted: u64) -> Option<EventKind> {
    const OTHERS: [EventKind; 10] = [
        EventKind::FpuRegsActivated,
        EventKind::SysEnter,
        EventKind::SysExit,
        EventKind::SignalGenerate,
        EventKind::SignalDeliver,
        EventKind::ProcessExit,
        EventKind::ProcessFork,
        EventKind::ProcessExec,
        EventKind::SchedSwitch,
        EventKind::SchedWaking,
    ];
    let calls = Sysno::ALL.iter().filter(|call| call.nr(arch).is_some());
    let calls = calls.flat_map(|&call| [EventKind::SysEnterOf(call), EventKind::SysExitOf(call)]);
    let toggles = Toggle::ALL.map(EventKind::Preemptirq);
    OTHERS
        .into_iter()
        .chain(toggles)
        .chain(calls)
        .find(|&kind| id(kind).map(u64::from) == Some(wanted))
}

/// The format of a tracepoint, `None` for other events.
pub fn of(kind: EventKind) -> Option<Format> {
    let id = id(kind)?;
    if let Some(fixed) = fixed(kind) {
        return Some(fixed.with_id(id));
    }
    let call = |name| Format::new("syscalls", name, id).field("int __syscall_nr", 8, 4, true);
    Some(match kind {
        EventKind::SysEnterOf(sysno) => arguments(call(format!("sys_enter_{sysno}")), sysno),
        EventKind::SysExitOf(sysno) => call(format!("sys_exit_{sysno}"))
            .field("long ret", 16, 8, true)
            .print("\"0x%lx\", REC->ret"),
        EventKind::Preemptirq(toggle) => Format::new("preemptirq", toggle.name(), id)
            .field("s32 caller_offs", 8, 4, true)
            .field("s32 parent_offs", 12, 4, true)
            .print(
                "\"caller=%pS parent=%pS\", (void *)((unsigned long)(_stext) + \
                 REC->caller_offs), (void *)((unsigned long)(_stext) + REC->parent_offs)",
            ),
        EventKind::Kprobe(function) => probe("kprobes", format!("function_{function}"), id),
        EventKind::Uprobe(place) => probe("uprobes", format!("place_{place}"), id),
        EventKind::Uretprobe(place) => Format::new("uprobes", format!("place_{place}__return"), id)
            .field("unsigned long __probe_func", 8, 8, false)
            .field("unsigned long __probe_ret_ip", 16, 8, false)
            .print("\"(%lx <- %lx)\", REC->__probe_func, REC->__probe_ret_ip"),
        _ => return None,
    })
}

/// A tracepoint that is one of a kind: no part of its format depends on what it is of.
struct Fixed {
    system: &'static str,
    name: &'static str,
    /// Declaration, offset and size in bytes, whether it is signed.
    fields: &'static [(&'static str, usize, usize, bool)],
    print: &'static str,
}

impl Fixed {
    fn with_id(&self, id: u16) -> Format {
        let format = Format::new(self.system, self.name, id).print(self.print);
        let with = |format: Format, field: &(&str, usize, usize, bool)| {
            let &(what, offset, size, signed) = field;
            format.field(what, offset, size, signed)
        };
        self.fields.iter().fold(format, with)
    }
}

/// The tracepoint of an event, if it is one of a kind.
const fn fixed(kind: EventKind) -> Option<&'static Fixed> {
    Some(match kind {
        EventKind::SysEnter => &SYS_ENTER,
        EventKind::SysExit => &SYS_EXIT,
        EventKind::SignalGenerate => &SIGNAL_GENERATE,
        EventKind::SignalDeliver => &SIGNAL_DELIVER,
        EventKind::ProcessExit => &PROCESS_EXIT,
        EventKind::ProcessFork => &PROCESS_FORK,
        EventKind::ProcessExec => &PROCESS_EXEC,
        EventKind::SchedSwitch => &SWITCH,
        EventKind::SchedWaking => &WAKING,
        EventKind::FpuRegsActivated => &FPU,
        _ => return None,
    })
}

const SYS_ENTER: Fixed = Fixed {
    system: "raw_syscalls",
    name: "sys_enter",
    fields: &[("long id", 8, 8, true), ("unsigned long args[6]", 16, 48, false)],
    print: "\"NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)\", REC->id, REC->args[0], REC->args[1], \
        REC->args[2], REC->args[3], REC->args[4], REC->args[5]",
};

const SYS_EXIT: Fixed = Fixed {
    system: "raw_syscalls",
    name: "sys_exit",
    fields: &[("long id", 8, 8, true), ("long ret", 16, 8, true)],
    print: "\"NR %ld = %ld\", REC->id, REC->ret",
};

const SIGNAL_GENERATE: Fixed = Fixed {
    system: "signal",
    name: "signal_generate",
    fields: &[
        ("int sig", 8, 4, true),
        ("int errno", 12, 4, true),
        ("int code", 16, 4, true),
        ("char comm[16]", 20, 16, false),
        ("pid_t pid", 36, 4, true),
        ("int group", 40, 4, true),
        ("int result", 44, 4, true),
    ],
    print: "\"sig=%d errno=%d code=%d comm=%s pid=%d grp=%d res=%d\", REC->sig, REC->errno, \
        REC->code, REC->comm, REC->pid, REC->group, REC->result",
};

const SIGNAL_DELIVER: Fixed = Fixed {
    system: "signal",
    name: "signal_deliver",
    fields: &[
        ("int sig", 8, 4, true),
        ("int errno", 12, 4, true),
        ("int code", 16, 4, true),
        ("unsigned long sa_handler", 24, 8, false),
        ("unsigned long sa_flags", 32, 8, false),
    ],
    print: "\"sig=%d errno=%d code=%d sa_handler=%lx sa_flags=%lx\", REC->sig, REC->errno, \
        REC->code, REC->sa_handler, REC->sa_flags",
};

const PROCESS_EXIT: Fixed = Fixed {
    system: "sched",
    name: "sched_process_exit",
    fields: &[
        ("char comm[16]", 8, 16, false),
        ("pid_t pid", 24, 4, true),
        ("int prio", 28, 4, true),
        ("bool group_dead", 32, 1, false),
    ],
    print: "\"comm=%s pid=%d prio=%d group_dead=%s\", REC->comm, REC->pid, REC->prio, \
        REC->group_dead ? \"true\" : \"false\"",
};

const PROCESS_FORK: Fixed = Fixed {
    system: "sched",
    name: "sched_process_fork",
    fields: &[
        ("char parent_comm[16]", 8, 16, false),
        ("pid_t parent_pid", 24, 4, true),
        ("char child_comm[16]", 28, 16, false),
        ("pid_t child_pid", 44, 4, true),
    ],
    print: "\"comm=%s pid=%d child_comm=%s child_pid=%d\", REC->parent_comm, \
        REC->parent_pid, REC->child_comm, REC->child_pid",
};

const PROCESS_EXEC: Fixed = Fixed {
    system: "sched",
    name: "sched_process_exec",
    fields: &[
        ("__data_loc char[] filename", 8, 4, false),
        ("pid_t pid", 12, 4, true),
        ("pid_t old_pid", 16, 4, true),
    ],
    print: "\"filename=%s pid=%d old_pid=%d\", __get_str(filename), REC->pid, REC->old_pid",
};

/// `prev_state` is shown as letters; above them is the bit of a preemption.
const SWITCH: Fixed = Fixed {
    system: "sched",
    name: "sched_switch",
    fields: &[
        ("char prev_comm[16]", 8, 16, false),
        ("pid_t prev_pid", 24, 4, true),
        ("int prev_prio", 28, 4, true),
        ("long prev_state", 32, 8, true),
        ("char next_comm[16]", 40, 16, false),
        ("pid_t next_pid", 56, 4, true),
        ("int next_prio", 60, 4, true),
    ],
    print: "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> \
        next_comm=%s next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, \
        (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", { 0x1, \"S\" }, \
        { 0x2, \"D\" }, { 0x4, \"T\" }, { 0x8, \"t\" }, { 0x10, \"X\" }, { 0x20, \"Z\" }, \
        { 0x40, \"P\" }, { 0x80, \"I\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", \
        REC->next_comm, REC->next_pid, REC->next_prio",
};

const WAKING: Fixed = Fixed {
    system: "sched",
    name: "sched_waking",
    fields: &[
        ("char comm[16]", 8, 16, false),
        ("pid_t pid", 24, 4, true),
        ("int prio", 28, 4, true),
        ("int target_cpu", 32, 4, true),
    ],
    print: "\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, \
        REC->target_cpu",
};

const FPU: Fixed = Fixed {
    system: "x86_fpu",
    name: "x86_fpu_regs_activated",
    fields: &[
        ("struct fpu * fpu", 8, 8, false),
        ("bool load_fpu", 16, 1, false),
        ("u64 xfeatures", 24, 8, false),
        ("u64 xcomp_bv", 32, 8, false),
    ],
    print: "\"x86/fpu: %p load: %d xfeatures: %llx xcomp_bv: %llx\", REC->fpu, \
        REC->load_fpu, REC->xfeatures, REC->xcomp_bv",
};

/// What `perf probe` makes, under names of ours.
fn probe(system: &'static str, name: String, id: u16) -> Format {
    let format = Format::new(system, name, id);
    format.field("unsigned long __probe_ip", 8, 8, false).print("\"(%lx)\", REC->__probe_ip")
}

/// The arguments of a system call, a word each.
fn arguments(mut format: Format, call: Sysno) -> Format {
    let (mut shown, mut values) = (Vec::new(), String::new());
    for (at, (name, kind)) in (16..).step_by(8).zip(signature(call).args) {
        format = format.field(&format!("{} {name}", c_type(*kind)), at, 8, false);
        shown.push(format!("{name}: 0x%08lx"));
        values += &format!(", ((unsigned long)(REC->{name}))");
    }
    format.print(format!("\"{}\"{values}", shown.join(", ")))
}

const fn c_type(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Int | ArgKind::Fd | ArgKind::DirFd | ArgKind::Signal | ArgKind::Flags(_) => "int",
        ArgKind::Uint | ArgKind::Mode => "unsigned int",
        ArgKind::Path | ArgKind::Str => "const char *",
        _ => "unsigned long",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<EventKind> {
        let calls = Sysno::ALL.iter();
        let calls = calls.flat_map(|&s| [EventKind::SysEnterOf(s), EventKind::SysExitOf(s)]);
        let others = [
            EventKind::SysEnter,
            EventKind::SysExit,
            EventKind::SignalGenerate,
            EventKind::SignalDeliver,
            EventKind::ProcessExit,
            EventKind::ProcessFork,
            EventKind::ProcessExec,
            EventKind::SchedSwitch,
            EventKind::SchedWaking,
            EventKind::FpuRegsActivated,
            EventKind::Kprobe(7),
            EventKind::Uprobe(7),
            EventKind::Uretprobe(7),
        ];
        let toggles = Toggle::ALL.map(EventKind::Preemptirq);
        others.into_iter().chain(toggles).chain(calls).collect()
    }

    #[test]
    fn every_tracepoint_has_a_format_and_an_id_of_its_own() {
        let formats: Vec<Format> = all().into_iter().map(|kind| of(kind).unwrap()).collect();
        let ids: BTreeSet<u16> = formats.iter().map(|f| f.id).collect();
        let names: BTreeSet<_> = formats.iter().map(|f| (f.system, &f.name)).collect();
        assert_eq!((ids.len(), names.len()), (formats.len(), formats.len()));
        assert!(of(EventKind::Cycles).is_none() && of(EventKind::TaskClock).is_none());
    }

    /// As the kernel gives them.
    #[test]
    fn the_texts_of_system_calls() {
        let getpid = of(EventKind::SysEnterOf(Sysno::Getpid)).unwrap().text();
        let head = "name: sys_enter_getpid\nID: ";
        assert!(getpid.starts_with(head), "{getpid}");
        let end =
            "\n\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
        assert!(getpid.ends_with(end), "{getpid}");
        let lseek = of(EventKind::SysEnterOf(Sysno::Munmap)).unwrap().text();
        let end = "\tfield:unsigned long addr;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned long length;\toffset:24;\tsize:8;\tsigned:0;\n\n\
            print fmt: \"addr: 0x%08lx, length: 0x%08lx\", ((unsigned long)(REC->addr)), \
            ((unsigned long)(REC->length))\n";
        assert!(lseek.ends_with(end), "{lseek}");
    }
}
