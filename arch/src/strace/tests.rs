use super::*;

/// Memory of one page at 0x1000.
struct Memory(Vec<u8>);

impl Memory {
    fn new(parts: &[(usize, &[u8])]) -> Memory {
        let mut page = vec![0; 0x1000];
        for (at, bytes) in parts {
            page[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Memory(page)
    }

    fn read(&self, addr: u64, max: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(addr.checked_sub(0x1000)?).ok()?;
        let bytes = self.0.get(start..).filter(|b| !b.is_empty())?;
        Some(bytes[..max.min(bytes.len())].to_vec())
    }

    fn show(&self, arch: Arch, sysno: Sysno, args: &[u64], ret: i64) -> String {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        format_call(arch, sysno, &all, &|addr, max| self.read(addr, max), Some(ret as u64))
    }

    fn x86(&self, sysno: Sysno, args: &[u64], ret: i64) -> String {
        self.show(Arch::X86_64, sysno, args, ret)
    }
}

const CWD: u64 = -100i64 as u64;

#[test]
fn paths_flags_and_errors() {
    let memory = Memory::new(&[(0, b"/etc/x\0")]);
    let shown = memory.x86(Sysno::Openat, &[CWD, 0x1000, 0o2000000, 0], -2);
    let expected =
        "openat(AT_FDCWD, \"/etc/x\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)";
    assert_eq!(shown, expected);
    let shown = memory.x86(Sysno::Open, &[0x1000, 0o1101, 0o644], 3);
    assert_eq!(shown, "open(\"/etc/x\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3");
    let shown = memory.x86(Sysno::Access, &[0x1000, 0], 0);
    assert_eq!(shown, "access(\"/etc/x\", F_OK) = 0");
    let shown = memory.x86(Sysno::Access, &[0x9000, 6], -14);
    assert_eq!(shown, "access(0x9000, R_OK|W_OK) = -1 EFAULT (Bad address)");
}

#[test]
fn open_flags_differ_between_architectures() {
    let memory = Memory::new(&[(0, b".\0")]);
    let args = [CWD, 0x1000, 0o200000];
    let shown = memory.show(Arch::X86_64, Sysno::Openat, &args, 3);
    assert_eq!(shown, "openat(AT_FDCWD, \".\", O_RDONLY|O_DIRECTORY) = 3");
    let shown = memory.show(Arch::Aarch64, Sysno::Openat, &args, 3);
    assert_eq!(shown, "openat(AT_FDCWD, \".\", O_RDONLY|O_DIRECT) = 3");
    let args = [CWD, 0x1000, 0o20040000];
    let shown = memory.show(Arch::Aarch64, Sysno::Openat, &args, 3);
    assert_eq!(shown, "openat(AT_FDCWD, \".\", O_RDONLY|O_TMPFILE, 000) = 3");
}

#[test]
fn data_is_cut_and_escaped() {
    let memory = Memory::new(&[(0, b"hello\n"), (100, &[b'x'; 40]), (0xffe, b"ab")]);
    let shown = memory.x86(Sysno::Write, &[1, 0x1000, 6], 6);
    assert_eq!(shown, "write(1, \"hello\\n\", 6) = 6");
    let shown = memory.x86(Sysno::Write, &[1, 0x1000 + 100, 40], 40);
    assert_eq!(shown, format!("write(1, \"{}\"..., 40) = 40", "x".repeat(32)));
    let shown = memory.x86(Sysno::Read, &[0, 0x1000, 1024], 3);
    assert_eq!(shown, "read(0, \"hel\", 1024) = 3");
    let shown = memory.x86(Sysno::Read, &[0, 0x1000, 1024], 0);
    assert_eq!(shown, "read(0, \"\", 1024) = 0");
    let shown = memory.x86(Sysno::Read, &[0, 0x1000, 1024], -11);
    let expected = "read(0, 0x1000, 1024) = -1 EAGAIN (Resource temporarily unavailable)";
    assert_eq!(shown, expected);
    // Runs off the readable page.
    let shown = memory.x86(Sysno::Write, &[1, 0x1ffe, 4], -14);
    assert_eq!(shown, "write(1, 0x1ffe, 4) = -1 EFAULT (Bad address)");
}

#[test]
fn escapes() {
    assert_eq!(escape(b"\0\x1b\x007\t\"\\\x7f\xff"), r#"\0\33\0007\t\"\\\177\377"#);
}

#[test]
fn memory_calls() {
    let memory = Memory::new(&[]);
    let none = -1i64 as u64;
    let shown = memory.x86(Sysno::Mmap, &[0, 8192, 3, 0x22, none, 0], 0x7fff_f7fc_3000);
    let expected = "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) \
                    = 0x7ffff7fc3000";
    assert_eq!(shown, expected);
    let shown = memory.x86(Sysno::Mprotect, &[0x1000, 4096, 0], 0);
    assert_eq!(shown, "mprotect(0x1000, 4096, PROT_NONE) = 0");
    assert_eq!(memory.x86(Sysno::Brk, &[0], 0x55_5000), "brk(NULL) = 0x555000");
    let shown = memory.x86(Sysno::Madvise, &[0x1000, 4096, 99], -22);
    assert_eq!(shown, "madvise(0x1000, 4096, 0x63 /* MADV_??? */) = -1 EINVAL (Invalid argument)");
}

#[test]
fn structures_that_are_understood() {
    let words = |list: &[u64]| list.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let memory = Memory::new(&[
        (0, &words(&[5, 7])),
        (16, &words(&[0x40_1234, 0x0400_0004, 0x40_5678, 1 << 9])),
        (48, &words(&[!(1 << 8)])),
        (64, &words(&[8192 * 1024, u64::MAX])),
        (80, &words(&[0x1080, 2, 0])),
        (0x80, b"hi\0"),
        (112, &words(&[0x4_0000_0003])),
    ]);
    let shown = memory.x86(Sysno::ClockGettime, &[1, 0x1000], 0);
    assert_eq!(shown, "clock_gettime(CLOCK_MONOTONIC, {tv_sec=5, tv_nsec=7}) = 0");
    let shown = memory.x86(Sysno::RtSigaction, &[11, 0x1010, 0, 8], 0);
    let expected = "rt_sigaction(SIGSEGV, {sa_sigaction=0x401234, sa_mask=[USR1], \
                    sa_flags=SA_RESTORER|SA_SIGINFO, sa_restorer=0x405678}, NULL, 8) = 0";
    assert_eq!(shown, expected);
    let shown = memory.x86(Sysno::RtSigprocmask, &[2, 0x1030, 0, 8], 0);
    assert_eq!(shown, "rt_sigprocmask(SIG_SETMASK, ~[KILL], NULL, 8) = 0");
    let shown = memory.x86(Sysno::Prlimit64, &[0, 3, 0, 0x1040], 0);
    let expected = "prlimit64(0, RLIMIT_STACK, NULL, \
                    {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}) = 0";
    assert_eq!(shown, expected);
    let shown = memory.x86(Sysno::Writev, &[1, 0x1050, 1], 2);
    assert_eq!(shown, "writev(1, [{iov_base=\"hi\", iov_len=2}], 1) = 2");
    let shown = memory.x86(Sysno::Execve, &[0x1080, 0x1050, 0], -13);
    assert_eq!(shown, "execve(\"hi\", [\"hi\", 0x2], NULL) = -1 EACCES (Permission denied)");
    let shown = memory.x86(Sysno::Pipe2, &[0x1070, 0o2000000], 0);
    assert_eq!(shown, "pipe2([3, 4], O_CLOEXEC) = 0");
}

#[test]
fn processes_and_results() {
    let memory = Memory::new(&[]);
    let shown = memory.x86(Sysno::Clone, &[0x0120_0011, 0, 0, 0x1000, 0], 42);
    let expected = "clone(CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, NULL, NULL, 0x1000, \
                    NULL) = 42";
    assert_eq!(shown, expected);
    let shown = memory.x86(Sysno::Tgkill, &[1, 1, 6], 0);
    assert_eq!(shown, "tgkill(1, 1, SIGABRT) = 0");
    let shown = memory.x86(Sysno::Futex, &[0x1000, 0x81, 1], 0);
    assert_eq!(shown, "futex(0x1000, FUTEX_WAKE|FUTEX_PRIVATE_FLAG, 1) = 0");
    let shown = memory.x86(Sysno::Nanosleep, &[0, 0], -514);
    let expected = "nanosleep(NULL, NULL) = ? ERESTARTNOHAND (To be restarted if no handler)";
    assert_eq!(shown, expected);
    let reader = |_: u64, _: usize| None;
    let args = [3, 0, 0, 0, 0, 0];
    let shown = format_call(Arch::X86_64, Sysno::ExitGroup, &args, &reader, None);
    assert_eq!(shown, "exit_group(3) = ?");
    let shown = format_unknown(0x1234, &args, Some(-38i64 as u64));
    let expected = "syscall_0x1234(0x3, 0x0, 0x0, 0x0, 0x0, 0x0) \
                    = -1 ENOSYS (Function not implemented)";
    assert_eq!(shown, expected);
}

#[test]
fn every_call_prints_whatever_its_arguments() {
    let memory = Memory::new(&[(0, &[0x11; 64])]);
    for sysno in Sysno::ALL {
        assert!(signature(*sysno).args.len() <= 6);
        for value in [0, 1, 0x1000, 0x1fff, u64::MAX, 0x8000_0000_0000_0000] {
            for ret in [0, -1, i64::MAX] {
                let shown = memory.x86(*sysno, &[value; 6], ret);
                assert!(shown.starts_with(sysno.name()));
                assert!(shown.len() < 40_000);
            }
        }
    }
}
