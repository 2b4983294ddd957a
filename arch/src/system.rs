//! What the system says about itself and what it passes to calls: `utsname`,
//! `sysinfo`, `rlimit64`, `iovec`, `pollfd`, `epoll_event`, `clone_args`.
//! Layouts are the same on both architectures except `epoll_event`.

use crate::Arch;
use crate::bytes::{put, put_words, u16_at, u32_at, u64_at};

/// `struct new_utsname`. Names longer than 64 bytes are cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Utsname {
    /// Operating system, `Linux`.
    pub sysname: String,
    /// Host name.
    pub nodename: String,
    /// Kernel release.
    pub release: String,
    /// Kernel version.
    pub version: String,
    /// Architecture.
    pub machine: String,
    /// NIS domain, `(none)`.
    pub domainname: String,
}

impl Utsname {
    /// Bytes of one name with its NUL.
    const FIELD: usize = 65;
    /// Bytes in memory.
    pub const SIZE: usize = 6 * Utsname::FIELD;

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; Utsname::SIZE] {
        let mut out = [0; Utsname::SIZE];
        let fields = [
            &self.sysname,
            &self.nodename,
            &self.release,
            &self.version,
            &self.machine,
            &self.domainname,
        ];
        for (slot, field) in out.chunks_exact_mut(Utsname::FIELD).zip(fields) {
            // The last byte stays NUL.
            for (to, from) in slot.iter_mut().take(Utsname::FIELD - 1).zip(field.bytes()) {
                *to = from;
            }
        }
        out
    }
}

/// `struct sysinfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sysinfo {
    /// Seconds since boot.
    pub uptime: u64,
    /// Load averages in units of 1/65536.
    pub loads: [u64; 3],
    /// Memory in units.
    pub total_ram: u64,
    /// Free memory.
    pub free_ram: u64,
    /// Shared memory.
    pub shared_ram: u64,
    /// Memory in buffers.
    pub buffer_ram: u64,
    /// Swap space.
    pub total_swap: u64,
    /// Free swap space.
    pub free_swap: u64,
    /// Tasks.
    pub procs: u16,
    /// Bytes of a unit.
    pub mem_unit: u32,
}

impl Sysinfo {
    /// Bytes in memory.
    pub const SIZE: usize = 112;

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; Sysinfo::SIZE] {
        let mut out = [0; Sysinfo::SIZE];
        put(&mut out, 0, self.uptime.to_le_bytes());
        put_words(&mut out, 8, &self.loads);
        let memory = [
            self.total_ram,
            self.free_ram,
            self.shared_ram,
            self.buffer_ram,
            self.total_swap,
            self.free_swap,
        ];
        put_words(&mut out, 32, &memory);
        put(&mut out, 80, self.procs.to_le_bytes());
        put(&mut out, 104, self.mem_unit.to_le_bytes());
        out
    }
}

/// `struct rlimit64`; `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rlimit {
    /// Soft limit.
    pub current: u64,
    /// Hard limit.
    pub maximum: u64,
}

impl Rlimit {
    /// Bytes in memory.
    pub const SIZE: usize = 16;
    /// No limit.
    pub const INFINITY: u64 = u64::MAX;

    /// The structure in memory.
    pub fn to_bytes(self) -> [u8; Rlimit::SIZE] {
        let mut out = [0; Rlimit::SIZE];
        put_words(&mut out, 0, &[self.current, self.maximum]);
        out
    }

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; Rlimit::SIZE]) -> Rlimit {
        Rlimit { current: u64_at(bytes, 0), maximum: u64_at(bytes, 8) }
    }
}

/// `struct iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iovec {
    /// Address.
    pub base: u64,
    /// Bytes.
    pub len: u64,
}

impl Iovec {
    /// Bytes in memory.
    pub const SIZE: usize = 16;
    /// Most entries of one call (`UIO_MAXIOV`).
    pub const MAX: u64 = 1024;

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; Iovec::SIZE]) -> Iovec {
        Iovec { base: u64_at(bytes, 0), len: u64_at(bytes, 8) }
    }
}

/// `struct pollfd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PollFd {
    /// The descriptor; negative ones are skipped.
    pub fd: i32,
    /// Events asked for.
    pub events: u16,
    /// Events that happened.
    pub revents: u16,
}

impl PollFd {
    /// Bytes in memory.
    pub const SIZE: usize = 8;

    /// The structure in memory.
    pub fn to_bytes(self) -> [u8; PollFd::SIZE] {
        let mut out = [0; PollFd::SIZE];
        put(&mut out, 0, self.fd.to_le_bytes());
        put(&mut out, 4, self.events.to_le_bytes());
        put(&mut out, 6, self.revents.to_le_bytes());
        out
    }

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; PollFd::SIZE]) -> PollFd {
        PollFd { fd: u32_at(bytes, 0) as i32, events: u16_at(bytes, 4), revents: u16_at(bytes, 6) }
    }
}

/// `struct epoll_event`: packed to 12 bytes on x86_64, 16 on aarch64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpollEvent {
    /// `EPOLLIN` and others.
    pub events: u32,
    /// The program's own.
    pub data: u64,
}

impl EpollEvent {
    /// Bytes in memory.
    pub const fn size(arch: Arch) -> usize {
        EpollEvent::data_at(arch) + 8
    }

    /// Offset of `data`.
    const fn data_at(arch: Arch) -> usize {
        match arch {
            Arch::X86_64 => 4,
            Arch::Aarch64 => 8,
        }
    }

    /// The structure in memory.
    pub fn to_bytes(self, arch: Arch) -> Vec<u8> {
        let mut out = vec![0; EpollEvent::size(arch)];
        put(&mut out, 0, self.events.to_le_bytes());
        put(&mut out, EpollEvent::data_at(arch), self.data.to_le_bytes());
        out
    }

    /// Reads the structure; `None` if there are too few bytes.
    pub fn from_bytes(arch: Arch, bytes: &[u8]) -> Option<EpollEvent> {
        let bytes = bytes.get(..EpollEvent::size(arch))?;
        let data = u64_at(bytes, EpollEvent::data_at(arch));
        Some(EpollEvent { events: u32_at(bytes, 0), data })
    }
}

/// `struct clone_args`. Fields that the caller's structure lacks are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CloneArgs {
    /// `CLONE_*`, without a signal.
    pub flags: u64,
    /// Where to store the pidfd.
    pub pidfd: u64,
    /// Where to store the child's id in the child.
    pub child_tid: u64,
    /// Where to store the child's id in the parent.
    pub parent_tid: u64,
    /// Signal that tells the parent of the child's end.
    pub exit_signal: u64,
    /// Lowest address of the child's stack.
    pub stack: u64,
    /// Bytes of it.
    pub stack_size: u64,
    /// The child's thread pointer.
    pub tls: u64,
    /// Array of ids to give to the child.
    pub set_tid: u64,
    /// Its length.
    pub set_tid_size: u64,
    /// Descriptor of the child's cgroup.
    pub cgroup: u64,
}

impl CloneArgs {
    /// Bytes of the first version; fewer are `EINVAL`.
    pub const MIN_SIZE: usize = 64;
    /// Bytes of the version that is known here; what a caller adds must be
    /// zero, else `E2BIG`.
    pub const SIZE: usize = 88;

    /// Reads the structure; missing bytes are zero.
    pub fn from_bytes(bytes: &[u8]) -> CloneArgs {
        let mut full = [0; CloneArgs::SIZE];
        for (to, from) in full.iter_mut().zip(bytes) {
            *to = *from;
        }
        let word = |i: usize| u64_at(&full, 8 * i);
        CloneArgs {
            flags: word(0),
            pidfd: word(1),
            child_tid: word(2),
            parent_tid: word(3),
            exit_signal: word(4),
            stack: word(5),
            stack_size: word(6),
            tls: word(7),
            set_tid: word(8),
            set_tid_size: word(9),
            cgroup: word(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_terminated() {
        let uts = Utsname {
            sysname: "Linux".into(),
            nodename: "n".repeat(100),
            release: "7.3.4".into(),
            version: "#1".into(),
            machine: "x86_64".into(),
            domainname: "(none)".into(),
        };
        let out = uts.to_bytes();
        assert_eq!(out[..6], *b"Linux\0");
        assert_eq!((out[65 + 63], out[65 + 64]), (b'n', 0));
        assert_eq!(out[4 * 65..4 * 65 + 7], *b"x86_64\0");
    }

    #[test]
    fn sysinfo_layout() {
        let info = Sysinfo { uptime: 1, free_swap: 2, procs: 3, mem_unit: 4, ..Sysinfo::default() };
        let out = info.to_bytes();
        assert_eq!((u64_at(&out, 0), u64_at(&out, 72)), (1, 2));
        assert_eq!((u16_at(&out, 80), u32_at(&out, 104)), (3, 4));
    }

    #[test]
    fn small_structures_round_trip() {
        let limit = Rlimit { current: 1, maximum: Rlimit::INFINITY };
        assert_eq!(Rlimit::from_bytes(&limit.to_bytes()), limit);
        let poll = PollFd { fd: -1, events: 1, revents: 4 };
        assert_eq!(PollFd::from_bytes(&poll.to_bytes()), poll);
        let event = EpollEvent { events: 5, data: 6 };
        for (arch, size) in [(Arch::X86_64, 12), (Arch::Aarch64, 16)] {
            let bytes = event.to_bytes(arch);
            assert_eq!(bytes.len(), size);
            assert_eq!(EpollEvent::from_bytes(arch, &bytes), Some(event));
            assert_eq!(EpollEvent::from_bytes(arch, &bytes[1..]), None);
        }
        assert_eq!(Iovec::from_bytes(&[1; 16]).len, 0x0101_0101_0101_0101);
    }

    #[test]
    fn older_clone_args_are_extended() {
        let mut bytes = [0; CloneArgs::MIN_SIZE];
        bytes[56] = 9;
        let args = CloneArgs::from_bytes(&bytes);
        assert_eq!((args.tls, args.cgroup), (9, 0));
    }
}
