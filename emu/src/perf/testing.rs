//! Small sessions and records for the tests of the exporters.

use arch::Arch;

use crate::perf::record::{
    CpuMode, Event, EventKind, FileId, KernelSymbol, Rate, Record, Sample, Session, UserStack,
};

/// An event with callchains and a period of 1000.
pub fn event(kind: EventKind, name: &str) -> Event {
    Event {
        kind,
        name: name.into(),
        rate: Rate::Period(1000),
        exclude_user: false,
        exclude_kernel: false,
        callchain: true,
        exclude_callchain_user: false,
        exclude_callchain_kernel: false,
        defer: false,
        user_stack: UserStack::default(),
        max_stack: 0,
    }
}

/// A session on two CPUs with two kernel functions.
pub fn session(arch: Arch, events: Vec<Event>) -> Session {
    let symbol = |addr, name: &str| KernelSymbol { addr, len: 0x100, name: name.into() };
    Session {
        arch,
        events,
        cpus: 2,
        wide: 0,
        switches: false,
        no_inherit: false,
        cmdline: vec!["emu".into(), "run".into()],
        kernel_symbols: vec![symbol(0xffff_ffff_8100_1000, "do_syscall_64")],
    }
}

/// A user sample at 0x401000 by thread 101 of process 100, without callchain.
pub fn sample(event: usize, time: u64) -> Sample {
    Sample {
        event,
        mode: CpuMode::User,
        ip: 0x40_1000,
        pid: 100,
        tid: 101,
        time,
        cpu: 1,
        period: 1000,
        callchain: Vec::new(),
        user_lr: None,
        dump: None,
        raw: None,
    }
}

/// Process 100 runs `path`, mapped at 0x400000.
pub fn start(path: &str) -> Vec<Record> {
    vec![
        Record::Comm { pid: 100, tid: 100, time: 1, cpu: 0, comm: "guest".into(), exec: true },
        Record::Mmap2 {
            pid: 100,
            tid: 100,
            time: 1,
            cpu: 0,
            addr: 0x40_0000,
            len: 0x10_0000,
            pgoff: 0,
            file: FileId::None,
            prot: 5,
            flags: 2,
            path: path.into(),
        },
        Record::Fork { pid: 100, ppid: 100, tid: 101, ptid: 100, time: 1, cpu: 0 },
    ]
}
