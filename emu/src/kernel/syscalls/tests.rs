#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
//! System calls of a program that does not run: the handlers on a machine.

use std::os::unix::fs::symlink;

use arch::syscalls::Sysno;
use arch::{Arch, Errno};
use tempfile::TempDir;

use super::call;
use crate::export::testing;
use crate::kernel::exec::{Program, exec};
use crate::kernel::state::{Config, PmuIrq, State};
use crate::kernel::task::rlimit;
use crate::loader::crafted::Elf;
use crate::mem::PAGE;
use crate::perf::record::EventKind;

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
        let host = root.path().join("program");
        std::fs::write(&host, Elf::exec(arch).build()).unwrap();
        let program = Program {
            host,
            path: "/program".into(),
            args: vec![b"program".to_vec()],
            env: Vec::new(),
            root: Some(root.path().to_owned()),
            cwd: "/".into(),
            seed: 0,
            aslr: None,
            stdout_is_taken: true,
        };
        let config = Config {
            pmu_irq: PmuIrq::Nmi,
            strict: false,
            strace: false,
            boot_time: 0,
            max_instructions: u64::MAX,
        };
        let events = vec![testing::event(EventKind::Instructions, "instructions:u")];
        let state = exec(&program, config, |arch| testing::session(arch, events)).unwrap();
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
