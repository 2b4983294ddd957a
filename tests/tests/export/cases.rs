//! Sessions that the tests export, and what a reader must find in them.

use std::path::{Path, PathBuf};

use arch::Arch;
use emu::perf::record::{
    CpuMode, Event, EventKind, FileId, KernelSymbol, Rate, Raw, Record, Sample, Session, UserStack,
    context,
};

use crate::elf;

/// A session with its records.
pub struct Case {
    pub name: &'static str,
    pub session: Session,
    pub records: Vec<Record>,
}

/// Functions of the crafted executable.
pub const FUNCTIONS: [(&str, u64, u64); 4] = [
    ("_start", 0x40_1000, 0x40),
    ("main", 0x40_1040, 0x100),
    ("middle", 0x40_1140, 0xc0),
    ("leaf", 0x40_1200, 0x20),
];

/// The kernel's functions, low and high parts of an address space.
fn kernel(arch: Arch) -> Vec<KernelSymbol> {
    let base: u64 = match arch {
        Arch::X86_64 => 0xffff_ffff_8100_0000,
        Arch::Aarch64 => 0xffff_8000_8001_0000,
    };
    let symbol = |at, len, name: &str| KernelSymbol { addr: base + at, len, name: name.into() };
    vec![
        symbol(0x0, 0x1000, "_stext"),
        symbol(0x1000, 0x80, "el_entry"),
        symbol(0x1080, 0x80, "do_syscall"),
        symbol(0x5_0000, 0x200, "ksys_read"),
        symbol(0x10_0000, 0x40, "vfs_read"),
    ]
}

/// Kernel frames of a system call, innermost first, as addresses and names.
pub fn kernel_frames(arch: Arch) -> Vec<(u64, &'static str)> {
    let k = kernel(arch);
    let at = |i: usize, offset| k[i].addr + offset;
    vec![
        (at(4, 0x10), "vfs_read"),
        (at(3, 0x1ff), "ksys_read"),
        (at(2, 0x20), "do_syscall"),
        (at(1, 0x7f), "el_entry"),
    ]
}

/// User frames, innermost first.
pub const USER_FRAMES: [(u64, &str); 4] =
    [(0x40_1210, "leaf"), (0x40_1150, "middle"), (0x40_1048, "main"), (0x40_1010, "_start")];

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
        user_stack: UserStack::FramePointer,
        max_stack: 0,
    }
}

pub fn session(arch: Arch, events: Vec<Event>) -> Session {
    let cmdline = ["emu", "run", "-g", "a guest"].map(String::from).to_vec();
    Session {
        arch,
        events,
        cpus: 2,
        wide: 0,
        switches: false,
        no_inherit: false,
        cmdline,
        kernel_symbols: kernel(arch),
    }
}

fn exec(pid: u32, time: u64, path: &Path, file: FileId) -> Vec<Record> {
    let path = path.to_str().unwrap().to_owned();
    let comm = path.rsplit('/').next().unwrap().chars().take(15).collect();
    vec![
        Record::Comm { pid, tid: pid, time, cpu: 0, comm, exec: true },
        Record::Mmap2 {
            pid,
            tid: pid,
            time: time + 1,
            cpu: 0,
            addr: elf::TEXT_ADDR,
            len: elf::TEXT_SIZE,
            pgoff: elf::TEXT_OFFSET,
            file,
            prot: 5,
            flags: 2,
            path,
        },
        Record::Mmap2 {
            pid,
            tid: pid,
            time: time + 2,
            cpu: 0,
            addr: 0x7fff_f7ff_0000,
            len: 0x2000,
            pgoff: 0,
            file: FileId::None,
            prot: 5,
            flags: 2,
            path: "[vdso]".into(),
        },
    ]
}

/// A sample of user code.
fn user(arch: Arch, event: usize, tid: u32, time: u64) -> Sample {
    let mut callchain = vec![context::USER];
    callchain.extend(USER_FRAMES.iter().map(|f| f.0));
    Sample {
        event,
        mode: CpuMode::User,
        ip: USER_FRAMES[0].0,
        pid: 100,
        tid,
        time,
        cpu: tid % 2,
        period: 1000,
        callchain,
        user_lr: (arch == Arch::Aarch64).then_some(USER_FRAMES[1].0),
        dump: None,
        raw: None,
    }
}

/// A sample inside a system call.
fn kernel_sample(arch: Arch, event: usize, tid: u32, time: u64) -> Sample {
    let frames = kernel_frames(arch);
    let mut s = user(arch, event, tid, time);
    let user_part = std::mem::take(&mut s.callchain);
    s.callchain.push(context::KERNEL);
    s.callchain.extend(frames.iter().map(|f| f.0));
    s.callchain.extend(user_part);
    s.mode = CpuMode::Kernel;
    s.ip = frames[0].0;
    s
}

/// All cases for one architecture. Their executables are written below `dir`.
pub fn all(arch: Arch, dir: &Path) -> Vec<Case> {
    vec![
        single(arch, dir),
        frequency_and_user_only(arch, dir),
        several(arch, dir),
        tracepoints_alone(arch, dir),
        processes(arch, dir),
        no_callchain(arch, dir),
        no_samples(arch, dir),
    ]
}

/// Writes the crafted executable as `name`.
pub fn executable(arch: Arch, dir: &Path, name: &str) -> PathBuf {
    let dir = dir.join(arch.name());
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    std::fs::write(&path, elf::executable(arch.elf_machine(), &FUNCTIONS)).unwrap();
    path
}

fn build_id() -> FileId {
    FileId::BuildId(elf::BUILD_ID.to_vec())
}

fn single(arch: Arch, dir: &Path) -> Case {
    let mut records = exec(100, 1_000_000, &executable(arch, dir, "guest"), build_id());
    records.push(Record::Sample(user(arch, 0, 100, 2_000_000)));
    records.push(Record::Sample(kernel_sample(arch, 0, 100, 3_000_000)));
    let session = session(arch, vec![event(EventKind::Cycles, "cycles")]);
    Case { name: "single", session, records }
}

fn frequency_and_user_only(arch: Arch, dir: &Path) -> Case {
    let mut e = event(EventKind::CpuClock, "cpu-clock:u");
    e.rate = Rate::Frequency(997);
    e.exclude_kernel = true;
    e.max_stack = 64;
    let path = executable(arch, dir, "name with  spaces");
    let mut records = exec(100, 1_000_000, &path, FileId::Inode { ino: 0x1234_5678_9abc });
    records.push(Record::Sample(user(arch, 0, 100, 2_000_000)));
    Case { name: "frequency", session: session(arch, vec![e]), records }
}

fn several(arch: Arch, dir: &Path) -> Case {
    let events = vec![
        event(EventKind::Cycles, "cycles"),
        event(EventKind::SysEnter, "raw_syscalls:sys_enter"),
        event(EventKind::SysExit, "raw_syscalls:sys_exit"),
        event(EventKind::PageFaults, "page-faults"),
        event(EventKind::Instructions, "instructions"),
        event(EventKind::Branches, "branches"),
        event(EventKind::ContextSwitches, "context-switches"),
    ];
    let mut records = exec(100, 1_000_000, &executable(arch, dir, "guest"), build_id());
    records.push(Record::Sample(user(arch, 0, 100, 2_000_000)));
    records.push(Record::Sample(kernel_sample(arch, 0, 100, 2_100_000)));
    let mut enter = kernel_sample(arch, 1, 100, 2_200_000);
    enter.raw = Some(Raw::SysEnter { id: 39, args: [1, 0xffff_ffff_ffff_fffe, 3, 4, 5, 6] });
    let mut exit = kernel_sample(arch, 2, 100, 2_300_000);
    exit.raw = Some(Raw::SysExit { id: 39, ret: -14 });
    exit.user_lr = None;
    let fault = user(arch, 3, 100, 2_400_000);
    records.extend([enter, exit, fault].map(Record::Sample));
    Case { name: "several", session: session(arch, events), records }
}

fn tracepoints_alone(arch: Arch, dir: &Path) -> Case {
    let mut records = exec(100, 1_000_000, &executable(arch, dir, "guest"), build_id());
    let mut s = kernel_sample(arch, 0, 100, 2_000_000);
    s.raw = Some(Raw::SysExit { id: -1, ret: 0 });
    records.push(Record::Sample(s));
    let events = vec![event(EventKind::SysExit, "raw_syscalls:sys_exit")];
    Case { name: "tracepoint", session: session(arch, events), records }
}

fn processes(arch: Arch, dir: &Path) -> Case {
    let (first, second) = (executable(arch, dir, "guest"), executable(arch, dir, "second"));
    let mut records = exec(100, 1_000_000, &first, build_id());
    records.push(Record::Fork {
        pid: 100,
        ppid: 100,
        tid: 101,
        ptid: 100,
        time: 1_100_000,
        cpu: 0,
    });
    let comm = String::from("worker");
    records.push(Record::Comm { pid: 100, tid: 101, time: 1_200_000, cpu: 0, comm, exec: false });
    records.push(Record::Sample(user(arch, 0, 101, 2_000_000)));
    records.push(Record::Fork {
        pid: 200,
        ppid: 100,
        tid: 200,
        ptid: 101,
        time: 2_100_000,
        cpu: 0,
    });
    let child = |time| Record::Sample(Sample { pid: 200, ..user(arch, 0, 200, time) });
    records.push(child(2_200_000));
    records.push(Record::Exit {
        pid: 100,
        ppid: 100,
        tid: 101,
        ptid: 100,
        time: 2_300_000,
        cpu: 0,
    });
    records.extend(exec(200, 2_400_000, &second, FileId::Inode { ino: 7 }));
    records.push(child(3_000_000));
    records.push(Record::Exit {
        pid: 200,
        ppid: 100,
        tid: 200,
        ptid: 100,
        time: 3_100_000,
        cpu: 0,
    });
    records.push(Record::Sample(kernel_sample(arch, 0, 100, 3_200_000)));
    let session = session(arch, vec![event(EventKind::Cycles, "cycles")]);
    Case { name: "processes", session, records }
}

fn no_callchain(arch: Arch, dir: &Path) -> Case {
    let mut records = exec(100, 1_000_000, &executable(arch, dir, "guest"), build_id());
    for s in [user(arch, 0, 100, 2_000_000), kernel_sample(arch, 0, 100, 2_100_000)] {
        records.push(Record::Sample(Sample { callchain: Vec::new(), ..s }));
    }
    let mut e = event(EventKind::Cycles, "cycles");
    e.callchain = false;
    Case { name: "plain", session: session(arch, vec![e]), records }
}

fn no_samples(arch: Arch, dir: &Path) -> Case {
    let records = exec(100, 1_000_000, &executable(arch, dir, "guest"), build_id());
    let session = session(arch, vec![event(EventKind::Cycles, "cycles")]);
    Case { name: "empty", session, records }
}
