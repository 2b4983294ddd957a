#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
//! System calls of a program that does not run: the handlers on a machine.

use std::os::unix::fs::symlink;

use arch::syscalls::Sysno;
use arch::{Arch, Errno};
use tempfile::TempDir;

use super::call;
use crate::kernel::exec::{Program, exec};
use crate::kernel::state::{Config, State};
use crate::kernel::task::rlimit;
use crate::loader::crafted::{BUILD_ID, Elf, NOTE_AT};
use crate::mem::PAGE;
use crate::perf::record::{EventKind, FileId};
use crate::perf::testing;

/// Two pages for arguments; what is above them is not mapped.
const AT: u64 = 0x10_0000_0000;
const BUFFER: u64 = AT + PAGE;
const END: u64 = AT + 2 * PAGE;

const O_RDWR: u64 = 2;
const O_CREAT: u64 = 0o100;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const AT_FDCWD: u64 = -100i64 as u64;

pub(super) struct Lab {
    pub state: State,
    root: TempDir,
}

impl Lab {
    pub fn new() -> Lab {
        Lab::of(Arch::X86_64)
    }

    pub fn of(arch: Arch) -> Lab {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("program"), Elf::exec(arch).build()).unwrap();
        Lab::of_program(root, "/program")
    }

    fn of_program(root: TempDir, path: &str) -> Lab {
        let host = root.path().join(&path[1..]);
        let program = Program {
            host,
            path: path.into(),
            args: vec![b"program".to_vec()],
            env: Vec::new(),
            root: Some(root.path().to_owned()),
            cwd: "/".into(),
            seed: 0,
            aslr: None,
            stdout_is_taken: true,
        };
        let events = vec![testing::event(EventKind::Instructions, "instructions:u")];
        let state =
            exec(&program, Config::default(), |arch| testing::session(arch, events)).unwrap();
        let mut lab = Lab { state, root };
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        lab.ok(Sysno::Mmap, [AT, 2 * PAGE, 3, flags, u64::MAX, 0]);
        lab
    }

    pub fn call<const N: usize>(&mut self, sysno: Sysno, args: [u64; N]) -> Result<u64, Errno> {
        let mut six = [0; 6];
        six[..N].copy_from_slice(&args);
        let value = call(&mut self.state, sysno, six);
        Errno::from_ret(value).map_or(Ok(value), Err)
    }

    pub fn ok<const N: usize>(&mut self, sysno: Sysno, args: [u64; N]) -> u64 {
        self.call(sysno, args).unwrap_or_else(|e| panic!("{}: {e}", sysno.name()))
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) -> u64 {
        self.state.write_user(at, bytes).unwrap();
        at
    }

    pub fn get<const N: usize>(&mut self, at: u64) -> [u8; N] {
        self.state.read_array(at).unwrap()
    }

    fn path(&mut self, path: &str) -> u64 {
        self.put(AT, format!("{path}\0").as_bytes())
    }

    fn open(&mut self, path: &str, flags: u64) -> Result<u64, Errno> {
        let at = self.path(path);
        self.call(Sysno::Openat, [AT_FDCWD, at, flags, 0o600])
    }

    fn file(&mut self, path: &str) -> u64 {
        self.open(path, O_RDWR | O_CREAT).unwrap()
    }

    fn map(&mut self, fd: u64, flags: u64) -> u64 {
        self.ok(Sysno::Mmap, [0, PAGE, 3, flags, fd, 0])
    }

    fn iovec(&mut self, pieces: &[(u64, u64)]) -> [u64; 2] {
        let words = pieces.iter().flat_map(|&(at, len)| [at, len]);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        [self.put(AT, &bytes), pieces.len() as u64]
    }

    fn names(&self) -> Vec<(FileId, String)> {
        self.state.mm.areas().filter(|a| a.prot.exec).map(|a| self.state.vfs.identify(a)).collect()
    }

    /// Inode number, links and size.
    fn stat(&mut self, fd: u64) -> (u64, u64, u64) {
        self.ok(Sysno::Fstat, [fd, BUFFER]);
        let word = |lab: &mut Lab, at| u64::from_le_bytes(lab.get(BUFFER + at));
        (word(self, 8), word(self, 16), word(self, 48))
    }
}

#[test]
fn a_new_file_at_an_old_path_is_another_file() {
    let mut lab = Lab::new();
    let old = lab.file("/tmp/a");
    lab.put(BUFFER, b"A");
    lab.ok(Sysno::Write, [old, BUFFER, 1]);
    let first = lab.map(old, MAP_SHARED);
    assert_eq!(lab.get(first), *b"A");
    let path = lab.path("/tmp/a");
    lab.ok(Sysno::Unlink, [path]);
    assert_eq!(lab.stat(old).1, 0);
    let new = lab.file("/tmp/a");
    lab.put(BUFFER, b"B");
    lab.ok(Sysno::Write, [new, BUFFER, 1]);
    let second = lab.map(new, MAP_PRIVATE);
    assert_eq!((lab.get(first), lab.get(second)), (*b"A", *b"B"));
    assert_ne!(lab.stat(old).0, lab.stat(new).0);
}

#[test]
fn a_store_to_a_shared_mapping_is_read_and_a_write_is_seen() {
    let mut lab = Lab::new();
    std::fs::write(lab.root.path().join("host"), b"host file").unwrap();
    let fd = lab.open("/host", O_RDWR).unwrap();
    let reader = lab.open("/host", 0).unwrap();
    let at = lab.map(fd, MAP_SHARED);
    assert_eq!(lab.get(at), *b"host");
    lab.put(at, b"HO");
    assert_eq!(lab.ok(Sysno::Pread64, [reader, BUFFER, 100, 0]), 9);
    assert_eq!(lab.get(BUFFER), *b"HOst file");
    lab.put(BUFFER, b"x");
    lab.ok(Sysno::Pwrite64, [fd, BUFFER, 1, 4]);
    assert_eq!(lab.get(at), *b"HOstxfile");
    assert_eq!(std::fs::read(lab.root.path().join("host")).unwrap(), b"host file");
    // Shared, but not open for writing.
    let flags = [0, PAGE, 1, MAP_SHARED, reader, 0];
    let at = lab.ok(Sysno::Mmap, flags);
    assert_eq!(lab.call(Sysno::Mprotect, [at, PAGE, 3]), Err(Errno::EACCES));
}

#[test]
fn offsets_beyond_all_files_overflow() {
    let mut lab = Lab::new();
    let fd = lab.open("/program", 0).unwrap();
    let offset = 0u64.wrapping_sub(PAGE);
    let mmap = |flags, len, offset| [0, len, 1, flags, fd, offset];
    let huge = mmap(MAP_PRIVATE, 2 * PAGE, offset);
    assert_eq!(lab.call(Sysno::Mmap, huge), Err(Errno::EOVERFLOW));
    let unaligned = mmap(MAP_PRIVATE, PAGE, 1);
    assert_eq!(lab.call(Sysno::Mmap, unaligned), Err(Errno::EINVAL));
    let stack = mmap(MAP_PRIVATE | 0x100, PAGE, 0);
    assert_eq!(lab.call(Sysno::Mmap, stack), Err(Errno::EINVAL));
    let validate = mmap(3 | MAP_ANONYMOUS, PAGE, 0);
    assert_eq!(lab.call(Sysno::Mmap, validate), Err(Errno::EINVAL));
    assert!(lab.call(Sysno::Mmap, mmap(3, PAGE, 0)).is_ok());
}

#[test]
fn a_buffer_that_ends_early_gives_a_short_count() {
    let mut lab = Lab::new();
    let fd = lab.file("/tmp/f");
    lab.put(END - 10, b"0123456789");
    assert_eq!(lab.call(Sysno::Write, [fd, END - 10, 100]), Ok(10));
    assert_eq!(lab.call(Sysno::Write, [fd, END, 100]), Err(Errno::EFAULT));
    lab.ok(Sysno::Lseek, [fd, 0, 0]);
    assert_eq!(lab.call(Sysno::Read, [fd, END - 4, 100]), Ok(4));
    assert_eq!(lab.get(END - 4), *b"0123");
    assert_eq!(lab.call(Sysno::Read, [fd, END - 6, 100]), Ok(6));
    assert_eq!(lab.get(END - 6), *b"456789");
    let zero = lab.open("/dev/zero", 0).unwrap();
    for (sysno, args) in
        [(Sysno::Read, [zero, END - 10, 100]), (Sysno::Getrandom, [END - 10, 100, 0])]
    {
        assert_eq!(lab.call(sysno, args), Ok(10), "{}", sysno.name());
    }
    assert_eq!(lab.call(Sysno::Getrandom, [END, 100, 0]), Err(Errno::EFAULT));
    let [iov, n] = lab.iovec(&[(END - 5, 5), (END, 5)]);
    assert_eq!(lab.call(Sysno::Writev, [fd, iov, n]), Ok(5));
}

#[test]
fn one_call_moves_no_more_than_the_kernel_allows() {
    let mut lab = Lab::new();
    let null = lab.open("/dev/null", O_RDWR).unwrap();
    assert_eq!(lab.call(Sysno::Write, [null, 0, 100]), Ok(100));
    assert_eq!(lab.call(Sysno::Write, [null, 0, 1 << 40]), Ok(0x7fff_f000));
    let [iov, n] = lab.iovec(&[(BUFFER, 1 << 31); 1]);
    assert_eq!(lab.call(Sysno::Writev, [null, iov, n]), Ok(0x7fff_f000));
    let [iov, n] = lab.iovec(&[(BUFFER, 0x7fff_0000); 8]);
    assert_eq!(lab.call(Sysno::Writev, [null, iov, n]), Ok(0x7fff_f000));
    let [iov, n] = lab.iovec(&[(BUFFER, 1), (u64::MAX - 10, 5)]);
    assert_eq!(lab.call(Sysno::Writev, [null, iov, n]), Err(Errno::EFAULT));
    let [iov, n] = lab.iovec(&[(BUFFER, u64::MAX)]);
    assert_eq!(lab.call(Sysno::Writev, [null, iov, n]), Err(Errno::EINVAL));
    assert_eq!(lab.call(Sysno::Pwritev2, [null, iov, 0, 0, 0, 0x40]), Err(Errno::EOPNOTSUPP));
}

#[test]
fn positions_and_lengths_are_checked() {
    let mut lab = Lab::new();
    let fd = lab.file("/tmp/f");
    let minus = |n: i64| n as u64;
    assert_eq!(lab.call(Sysno::Ftruncate, [fd, minus(-1)]), Err(Errno::EINVAL));
    assert_eq!(lab.call(Sysno::Fallocate, [fd, 0, 0, 0]), Err(Errno::EINVAL));
    let last = 0x7fff_ffff_ffff_fff8;
    assert_eq!(lab.call(Sysno::Pread64, [fd, BUFFER, 100, last]), Err(Errno::EINVAL));
    lab.put(BUFFER, b"abc");
    assert_eq!(lab.call(Sysno::Write, [fd, BUFFER, 3]), Ok(3));
    let [iov, n] = lab.iovec(&[(BUFFER + 8, 1)]);
    lab.ok(Sysno::Lseek, [fd, 1, 0]);
    assert_eq!(lab.call(Sysno::Preadv2, [fd, iov, n, u64::MAX, 0, 0]), Ok(1));
    assert_eq!((lab.get(BUFFER + 8), lab.ok(Sysno::Lseek, [fd, 0, 1])), (*b"b", 2));
    let path = lab.path("/tmp/f");
    lab.ok(Sysno::Truncate, [path, 1 << 50]);
    assert_eq!(lab.stat(fd).2, 1 << 50);
    lab.state.task.limits[rlimit::FSIZE].0 = 10;
    assert_eq!(lab.call(Sysno::Pwrite64, [fd, BUFFER, 3, 8]), Ok(2));
    assert_eq!(lab.call(Sysno::Pwrite64, [fd, BUFFER, 3, 10]), Err(Errno::EFBIG));
    assert!(lab.state.task.work.signal_pending);
}

#[test]
fn holes_cost_nothing_and_are_zeros() {
    let mut lab = Lab::new();
    let used = lab.state.arena.used();
    for i in 0..100 {
        let fd = lab.file(&format!("/tmp/f{i}"));
        lab.ok(Sysno::Ftruncate, [fd, 1 << 30]);
        lab.ok(Sysno::Fallocate, [fd, 0, 0, 1 << 30]);
    }
    assert!(lab.state.arena.used() < used + 4);
    let fd = lab.file("/tmp/g");
    assert_eq!(lab.call(Sysno::Fallocate, [fd, 0, 0, 1 << 40]), Err(Errno::ENOSPC));
    lab.put(BUFFER, &[7; PAGE as usize]);
    for i in 0..3 {
        lab.ok(Sysno::Pwrite64, [fd, BUFFER, PAGE, i * PAGE]);
    }
    // Punched from the middle of the first page to the middle of the last.
    lab.ok(Sysno::Fallocate, [fd, 3, 100, 2 * PAGE]);
    for (at, byte) in [(99, 7), (100, 0), (PAGE, 0), (2 * PAGE + 99, 0), (2 * PAGE + 100, 7)] {
        lab.ok(Sysno::Pread64, [fd, BUFFER, 1, at]);
        assert_eq!(lab.get(BUFFER), [byte], "{at}");
    }
}

#[test]
fn flags_of_an_open_file() {
    for (arch, large) in [(Arch::X86_64, 0o100000), (Arch::Aarch64, 0o400000)] {
        let mut lab = Lab::of(arch);
        let fd = lab.open("/tmp/f", O_RDWR | O_CREAT | 0o1000 | 0o2000000).unwrap();
        assert_eq!(lab.call(Sysno::Fcntl, [fd, 3]), Ok(large | O_RDWR));
        lab.ok(Sysno::Fcntl, [fd, 4, 0o6000]);
        assert_eq!(lab.call(Sysno::Fcntl, [fd, 3]), Ok(large | 0o6000 | O_RDWR));
    }
}

#[test]
fn pipes_and_devices_of_the_host_are_seen_and_not_opened() {
    let mut lab = Lab::new();
    let pipe = lab.root.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("/pipe", lab.root.path().join("link")).unwrap();
    for path in ["/pipe", "/link"] {
        assert_eq!(lab.open(path, 0), Err(Errno::ENXIO), "{path}");
        assert_eq!(lab.open(path, O_RDWR | O_CREAT), Err(Errno::ENXIO), "{path}");
        let at = lab.path(path);
        lab.ok(Sysno::Stat, [at, BUFFER]);
        assert_eq!(u32::from_le_bytes(lab.get(BUFFER + 24)) & 0o170000, 0o010000);
    }
    let folder = lab.open("/", 0).unwrap();
    assert!(lab.ok(Sysno::Getdents64, [folder, BUFFER, PAGE]) > 0);
    assert!(crate::engine::FileMap::open(&pipe).is_err());
}

#[test]
fn paths_that_lead_nowhere_or_are_gone() {
    let mut lab = Lab::new();
    let target = lab.put(BUFFER, b"target\0");
    let link = lab.path("/tmp/link");
    lab.ok(Sysno::Symlink, [target, link]);
    lab.file("/tmp/link");
    assert!(lab.open("/tmp/target", 0).is_ok());
    lab.put(BUFFER, b"\0");
    let link = lab.path("/tmp/empty");
    assert_eq!(lab.call(Sysno::Symlink, [BUFFER, link]), Err(Errno::ENOENT));

    for path in ["/tmp/d", "/tmp/d/e"] {
        let at = lab.path(path);
        lab.ok(Sysno::Mkdir, [at, 0o700]);
    }
    for (path, errno) in [
        ("/tmp/d/e/.", Errno::EINVAL),
        ("/tmp/d/e/..", Errno::ENOTEMPTY),
        ("/", Errno::EBUSY),
        ("/tmp/d", Errno::ENOTEMPTY),
    ] {
        let at = lab.path(path);
        assert_eq!(lab.call(Sysno::Rmdir, [at]), Err(errno), "{path}");
    }
    let at = lab.path("/tmp/d/e");
    assert_eq!(lab.call(Sysno::Unlinkat, [AT_FDCWD, at, 1]), Err(Errno::EINVAL));
    lab.ok(Sysno::Chdir, [at]);
    lab.ok(Sysno::Rmdir, [at]);
    assert_eq!(lab.call(Sysno::Getcwd, [BUFFER, 100]), Err(Errno::ENOENT));
    assert_eq!(lab.open("new", O_RDWR | O_CREAT), Err(Errno::ENOENT));

    let fd = lab.open("/tmp", O_RDWR | 0o20200000).unwrap();
    assert_eq!(lab.stat(fd).1, 0);
    assert_eq!(lab.open("/tmp/x", O_CREAT | 0o200000), Err(Errno::EINVAL));
    assert_eq!(lab.call(Sysno::Fcntl, [fd, 5, END]), Err(Errno::EFAULT));
    lab.ok(Sysno::Fcntl, [fd, 5, BUFFER]);
    assert_eq!(lab.get(BUFFER), [2, 0]);
    assert_eq!(lab.call(Sysno::CloseRange, [100, 200, 0x100]), Err(Errno::EINVAL));
}

#[test]
fn the_upper_half_of_an_int_is_not_looked_at() {
    let mut lab = Lab::new();
    let high = 1 << 32;
    let fd = lab.file("/tmp/f");
    for (sysno, args) in [
        (Sysno::RtSigaction, [high | 10, 0, 0, 8]),
        (Sysno::RtSigprocmask, [high | 2, BUFFER, 0, 8]),
        (Sysno::Lseek, [fd, 0, high, 0]),
        (Sysno::Madvise, [BUFFER, PAGE, high | 4, 0]),
        (Sysno::Prlimit64, [0, high | 3, 0, 0]),
        (Sysno::Poll, [0, high, 0, 0]),
        (Sysno::Fcntl, [fd, high | 1, 0, 0]),
    ] {
        assert!(lab.call(sysno, args).is_ok(), "{}", sysno.name());
    }
}

#[test]
fn names_of_tasks_are_bytes() {
    let mut lab = Lab::new();
    let name = [0xff; 15];
    lab.put(BUFFER, &name);
    lab.put(BUFFER + 15, b"x\0");
    lab.ok(Sysno::Prctl, [15, BUFFER]);
    lab.ok(Sysno::Prctl, [16, BUFFER + 100]);
    assert_eq!(lab.get(BUFFER + 100), name);
    assert_eq!(lab.get(BUFFER + 115), [0]);
}

#[test]
fn waits_take_virtual_time() {
    let mut lab = Lab::new();
    let time = |lab: &mut Lab, seconds: i64, nanos: i64| {
        let bytes: Vec<u8> = [seconds, nanos].into_iter().flat_map(i64::to_le_bytes).collect();
        lab.put(BUFFER, &bytes)
    };
    for (seconds, nanos) in [(0, 1_000_000_000), (0, -1), (-1, 0)] {
        let at = time(&mut lab, seconds, nanos);
        let invalid = Err(Errno::EINVAL);
        assert_eq!(lab.call(Sysno::RtSigtimedwait, [END - 8, 0, at, 8]), invalid);
        assert_eq!(lab.call(Sysno::Futex, [END - 8, 0, 0, at]), invalid);
        assert_eq!(lab.call(Sysno::Ppoll, [0, 0, at, 0]), invalid);
    }
    let at = time(&mut lab, 2, 5);
    // How long the call waits from now on, and its result when that is over.
    let waits = |lab: &mut Lab| {
        lab.state.task.deadline = None;
        let block = lab.state.task.block.take()?;
        Some((block.until.unwrap() - lab.state.cpu.clock, Errno::from_ret(block.late)))
    };
    assert_eq!(lab.call(Sysno::RtSigtimedwait, [END - 8, 0, at, 8]), Ok(0));
    assert_eq!(waits(&mut lab), Some((2_000_000_005, Some(Errno::EAGAIN))));
    assert_eq!(lab.call(Sysno::Futex, [END - 8, 0, 1, at]), Err(Errno::EAGAIN));
    assert_eq!(waits(&mut lab), None);
    assert_eq!(lab.call(Sysno::Futex, [END - 8, 0, 0, at]), Ok(0));
    assert_eq!(waits(&mut lab), Some((2_000_000_005, Some(Errno::ETIMEDOUT))));
    assert_eq!(lab.call(Sysno::Futex, [END - 8, 9, 0, at, 0, 1]), Ok(0));
    assert_eq!(lab.state.task.block.take().unwrap().until, Some(2_000_000_005));
    assert_eq!(lab.call(Sysno::Poll, [0, 0, 7]), Ok(0));
    assert_eq!(waits(&mut lab), Some((7_000_000, None)));
    assert_eq!(lab.call(Sysno::Getpgid, [0u64.wrapping_sub(5)]), Err(Errno::ESRCH));
    assert_eq!(lab.call(Sysno::Getpriority, [99, 0]), Err(Errno::EINVAL));
}

#[test]
fn what_is_unsupported_has_an_end() {
    let mut lab = Lab::new();
    for nr in 0..10_000 {
        super::unknown(&mut lab.state, nr);
        lab.ok(Sysno::Getpid, []);
        assert!(lab.call(Sysno::Prctl, [10_000 + nr]).is_err());
    }
    assert!(lab.state.unsupported.len() < 300);
    let total: u64 = lab.state.unsupported.values().map(|v| v.0).sum();
    assert_eq!(total, 20_000);
}

#[test]
fn the_program_is_named_by_the_path_after_all_links() {
    let root = tempfile::tempdir().unwrap();
    let program = Elf::exec(Arch::X86_64).build();
    std::fs::create_dir(root.path().join("dir")).unwrap();
    std::fs::write(root.path().join("dir/program"), program).unwrap();
    symlink("dir/program", root.path().join("link")).unwrap();
    let mut lab = Lab::of_program(root, "/link");
    assert_eq!(lab.names()[0].1, "/dir/program");
    assert_eq!(lab.state.task.name(), "link");
    let link = lab.path("/proc/self/exe");
    assert_eq!(lab.ok(Sysno::Readlink, [link, BUFFER, 100]), 12);
    assert_eq!(lab.get(BUFFER), *b"/dir/program");
}

#[test]
fn a_file_is_identified_by_its_contents() {
    let mut lab = Lab::new();
    assert_eq!(lab.names()[0].0, FileId::BuildId(BUILD_ID.to_vec()));
    // Changed by the guest, it is no longer the host's file.
    let fd = lab.open("/program", O_RDWR).unwrap();
    lab.put(BUFFER, b"x");
    lab.ok(Sysno::Pwrite64, [fd, BUFFER, 1, NOTE_AT + 30]);
    assert!(matches!(lab.names()[0].0, FileId::Inode { .. }));
    // Without a build-id, the contents make the number.
    let number = |byte: u8| {
        let mut elf = Elf::exec(Arch::X86_64);
        elf.patches = vec![(0x300, vec![byte])];
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("program"), elf.build()).unwrap();
        Lab::of_program(root, "/program").names()[0].0.clone()
    };
    assert_ne!(number(1), number(2));
    assert_eq!(number(1), number(1));
}

#[test]
fn small_checks_of_arguments() {
    let mut lab = Lab::new();
    let kernel = 0xffff_8000_0000_1000;
    let (invalid, fault) = (Err(Errno::EINVAL), Err(Errno::EFAULT));
    for (sysno, args, expected) in [
        (Sysno::Getrandom, [kernel, 0, 0, 0], fault),
        (Sysno::Getgroups, [u64::MAX, BUFFER, 0, 0], invalid),
        (Sysno::Futex, [0, 1, 1, 0], fault),
        (Sysno::Futex, [0, 129, 1, 0], Ok(0)),
        (Sysno::Prctl, [4, 9, 0, 0], invalid),
        (Sysno::Prctl, [1, 999, 0, 0], invalid),
        (Sysno::Prctl, [38, 0, 0, 0], invalid),
        (Sysno::Prctl, [38, 1, 0, 0], Ok(0)),
        (Sysno::Rseq, [BUFFER, 32, 1, 1], invalid),
        (Sysno::ClockSettime, [99, BUFFER, 0, 0], invalid),
        (Sysno::Settimeofday, [kernel, 0, 0, 0], fault),
        // The clocks of this process and of another.
        (Sysno::ClockGettime, [!1000 << 3 | 2, BUFFER, 0, 0], Ok(0)),
        (Sysno::ClockGettime, [!1001 << 3 | 2, BUFFER, 0, 0], invalid),
        (Sysno::Msync, [BUFFER, PAGE, 5, 0], invalid),
        (Sysno::Mlockall, [4, 0, 0, 0], invalid),
        (Sysno::Membarrier, [0, 1, 0, 0], invalid),
    ] {
        assert_eq!(lab.call(sysno, args), expected, "{} {args:x?}", sysno.name());
    }
}
