//! Every refusal of `perf_event_open`'s attributes, and any bytes.

use std::path::Path;

use super::*;

const USER: Rights = Rights::USER;
const ROOT: Rights = Rights { capable: true, ..Rights::USER };

/// Attributes as bytes: cycles of user code, every 1000.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn cycles() -> Bytes {
        Bytes(vec![0; SIZE])
            .set(4, &(SIZE as u32).to_le_bytes())
            .long(16, 1000)
            .long(40, flag::EXCLUDE_KERNEL | flag::EXCLUDE_CALLCHAIN_KERNEL)
    }

    fn set(mut self, at: usize, bytes: &[u8]) -> Bytes {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn long(self, at: usize, value: u64) -> Bytes {
        self.set(at, &value.to_le_bytes())
    }

    fn word(self, at: usize, value: u32) -> Bytes {
        self.set(at, &value.to_le_bytes())
    }

    fn flags(self, more: u64) -> Bytes {
        self.long(40, flag::EXCLUDE_KERNEL | flag::EXCLUDE_CALLCHAIN_KERNEL | more)
    }

    fn open(&self, arch: Arch, rights: Rights) -> Result<(Attr, EventKind), AttrError> {
        let attr = Attr::parse(&self.0, arch, rights)?;
        attr.check_rights(rights)?;
        let kind = attr.event_kind(arch, rights, true)?;
        attr.clock(kind)?;
        Ok((attr, kind))
    }

    /// The error number on x86_64.
    fn errno(&self) -> Option<Errno> {
        self.open(Arch::X86_64, USER).err().map(AttrError::errno)
    }
}

#[test]
fn sizes() {
    let size = |size: u32| {
        let mut head = [0; 8];
        head[4..].copy_from_slice(&size.to_le_bytes());
        Attr::size(&head)
    };
    assert_eq!(size(0), Ok(64));
    for good in [64, 65, 112, 144, 4096] {
        assert_eq!(size(good), Ok(good as usize));
    }
    for bad in [1, 63, 4097, u32::MAX] {
        assert_eq!(size(bad).map_err(AttrError::errno), Err(Errno::E2BIG), "{bad}");
    }
    let mut longer = Bytes::cycles();
    longer.0.resize(200, 0);
    assert_eq!(longer.errno(), None);
    longer.0[144] = 1;
    assert_eq!(longer.errno(), Some(Errno::E2BIG));
    let shorter = Bytes(Bytes::cycles().0[..64].to_vec());
    assert_eq!(shorter.open(Arch::X86_64, USER).unwrap().0.max_stack, MAX_STACK);
}

#[test]
fn what_is_einval() {
    let all: [(&str, Bytes); 23] = [
        ("flag 40", Bytes::cycles().flags(1 << 40)),
        ("flag 63", Bytes::cycles().flags(1 << 63)),
        ("reserved_2", Bytes::cycles().set(110, &[1])),
        ("reserved_3", Bytes::cycles().word(116, 8)),
        ("sample_type", Bytes::cycles().long(24, 1 << 25)),
        ("read_format", Bytes::cycles().long(32, 1 << 5)),
        ("branch bits", Bytes::cycles().long(24, 1 << 11).long(72, 1 << 20)),
        ("no branch type", Bytes::cycles().long(24, 1 << 11).long(72, 1)),
        ("no registers", Bytes::cycles().long(24, 1 << 12)),
        ("a segment", Bytes::cycles().long(24, 1 << 12).long(80, 1 << 12)),
        ("stack of 65535", Bytes::cycles().long(24, 1 << 13).word(88, 65535)),
        ("stack of 12", Bytes::cycles().long(24, 1 << 13).word(88, 12)),
        ("register 24", Bytes::cycles().long(24, 1 << 18).long(96, 1 << 24)),
        ("two weights", Bytes::cycles().long(24, 1 << 14 | 1 << 24)),
        ("inherit_thread", Bytes::cycles().flags(flag::INHERIT_THREAD)),
        ("exec", Bytes::cycles().flags(flag::REMOVE_ON_EXEC | flag::ENABLE_ON_EXEC)),
        ("sigtrap", Bytes::cycles().flags(flag::SIGTRAP)),
        ("frequency", Bytes::cycles().flags(flag::FREQ).long(16, 100_001)),
        ("period", Bytes::cycles().long(16, 1 << 63)),
        ("inherited read", Bytes::cycles().flags(flag::INHERIT).long(24, 1 << 4)),
        ("clock", Bytes::cycles().flags(flag::USE_CLOCKID).word(92, 99)),
        ("clock in NMI", Bytes::cycles().flags(flag::USE_CLOCKID).word(92, 0)),
        ("hardware 10", Bytes::cycles().long(8, 10)),
    ];
    for (what, bytes) in all {
        assert_eq!(bytes.errno(), Some(Errno::EINVAL), "{what}");
    }
    let tracepoint = Bytes::cycles().word(0, 2).long(8, 1);
    assert_eq!(tracepoint.errno(), Some(Errno::EINVAL), "no such tracepoint");
}

/// What `--sysctl` says is the bound, above Linux's own as well as below.
#[test]
fn bounds_that_are_settings() {
    let chain = |depth: u16| Bytes::cycles().long(24, 1 << 5).set(108, &depth.to_le_bytes());
    let often = |rate| Bytes::cycles().flags(flag::FREQ).long(16, rate);
    for (max_stack, max_rate) in [(10, 500), (1000, 200_000)] {
        let rights = Rights { max_stack, max_rate, ..USER };
        let error = |bytes: Bytes| bytes.open(Arch::X86_64, rights).err();
        assert_eq!(error(chain(max_stack as u16)), None);
        assert_eq!(error(chain(max_stack as u16 + 1)), Some(AttrError::MaxStack(max_stack)));
        assert_eq!(error(often(max_rate)), None);
        assert_eq!(error(often(max_rate + 1)), Some(AttrError::MaxRate(max_rate)));
        let (attr, _) = chain(0).open(Arch::X86_64, rights).unwrap();
        assert_eq!(u32::from(attr.max_stack), max_stack, "of an event that does not say");
        let (attr, _) = often(1).open(Arch::X86_64, rights).unwrap();
        assert_eq!(attr.check_period(max_rate + 1, rights), Err(AttrError::MaxRate(max_rate)));
    }
}

#[test]
fn what_needs_a_right() {
    let kernel = Bytes::cycles().long(40, flag::EXCLUDE_CALLCHAIN_KERNEL);
    let chain = Bytes::cycles().long(24, 1 << 5).long(40, flag::EXCLUDE_KERNEL);
    let branches = Bytes::cycles().long(24, 1 << 11).long(72, 1 << 3 | 2);
    let physical = Bytes::cycles().long(24, 1 << 19);
    for bytes in [&kernel, &chain, &branches, &physical] {
        assert_eq!(bytes.errno(), Some(Errno::EACCES));
    }
    let relaxed = Rights { paranoid: 1, ..USER };
    for bytes in [&kernel, &chain, &physical] {
        assert!(
            bytes.open(Arch::X86_64, relaxed).is_ok() && bytes.open(Arch::X86_64, ROOT).is_ok()
        );
    }
    let namespaces = Bytes::cycles().flags(flag::NAMESPACES);
    assert_eq!(namespaces.errno(), Some(Errno::EACCES));
    assert!(namespaces.open(Arch::X86_64, ROOT).is_ok());
    assert_eq!(relaxed.cpu().map_err(AttrError::errno), Err(Errno::EACCES));
    // Raw data of system calls anybody may have of his own tasks, of the scheduler nobody.
    let raw = |id| Bytes::cycles().word(0, 2).long(8, id).long(24, 1 << 10);
    let id = |kind| u64::from(formats::id(kind).unwrap());
    assert_eq!(raw(id(EventKind::SysEnter)).errno(), None);
    assert_eq!(raw(id(EventKind::SchedSwitch)).errno(), Some(Errno::EPERM));
    let all = Rights { paranoid: -1, ..USER };
    assert!(raw(id(EventKind::SchedSwitch)).open(Arch::X86_64, all).is_ok());
}

#[test]
fn what_no_pmu_has_or_can() {
    for (kind, config) in [(0, 2), (0, 9), (1, 4), (1, 12), (3, 0), (4, 0xc0), (77, 0)] {
        let bytes = Bytes::cycles().word(0, kind).long(8, config);
        assert_eq!(bytes.errno(), Some(Errno::ENOENT), "type {kind} config {config}");
    }
    let unsupported = [
        Bytes::cycles().long(24, 1 << 11).long(72, 1 << 3 | 1),
        Bytes::cycles().flags(1 << 15),
        Bytes::cycles().flags(flag::AUX_OUTPUT),
        Bytes::cycles().flags(flag::SIGTRAP | flag::REMOVE_ON_EXEC),
        Bytes::cycles().long(24, 1 << 12).long(80, 1 << 32),
    ];
    for bytes in unsupported {
        assert_eq!(bytes.errno(), Some(Errno::EOPNOTSUPP));
    }
    let idle = Bytes::cycles().flags(flag::EXCLUDE_IDLE);
    assert_eq!(idle.errno(), None);
    assert_eq!(idle.open(Arch::Aarch64, USER).map_err(AttrError::errno), Err(Errno::EOPNOTSUPP));
    let vector = Bytes::cycles().long(24, 1 << 12).long(80, 1 << 46);
    assert_eq!(vector.open(Arch::Aarch64, USER).map_err(AttrError::errno), Err(Errno::EINVAL));
    let deep = Bytes::cycles().long(24, 1 << 5).set(108, &128u16.to_le_bytes());
    assert_eq!(deep.errno(), Some(Errno::EOVERFLOW));
}

#[test]
fn the_bits_of_deferral_are_taken_everywhere() {
    for arch in Arch::ALL {
        let bytes =
            Bytes::cycles().long(24, 1 << 5).flags(flag::DEFER_CALLCHAIN | flag::DEFER_OUTPUT);
        let (attr, kind) = bytes.open(arch, USER).unwrap();
        let event = attr.event(kind);
        assert!(event.defer && event.callchain && event.exclude_kernel);
        assert_eq!(event.rate, Rate::Period(1000));
    }
    let counting = Bytes::cycles().long(16, 0).open(Arch::X86_64, USER).unwrap();
    assert!(!counting.0.is_sampling());
    assert_eq!(counting.0.event(counting.1).rate, Rate::Period(COUNTS_ONLY));
}

/// Files of the corpus: what is taken, and one of each refusal.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let sample = |bit: u32| Bytes::cycles().long(24, 1 << bit);
    vec![
        ("cycles", Bytes::cycles().0),
        ("first-version", Bytes::cycles().word(4, 0).0[..64].to_vec()),
        ("frequency", Bytes::cycles().flags(flag::FREQ).0),
        ("deferred", sample(5).flags(flag::DEFER_CALLCHAIN | flag::DEFER_OUTPUT).0),
        ("registers-stack", sample(12).long(24, 3 << 12).long(80, 0xff0fff).word(88, 8192).0),
        ("every-field", Bytes::cycles().long(24, SAMPLE_TYPES).0),
        ("branches", sample(11).long(72, 1 << 3 | 1).0),
        ("tracepoint", Bytes::cycles().word(0, 2).long(8, 386).long(24, 1 << 10).0),
        ("clock", Bytes::cycles().flags(flag::USE_CLOCKID).word(92, 1).0),
        ("too-short", Bytes::cycles().word(4, 8).0),
        ("longer", [Bytes::cycles().word(4, 152).0, vec![0, 0, 0, 0, 1, 0, 0, 0]].concat()),
        ("reserved", Bytes::cycles().flags(flag::RESERVED).0),
    ]
}

#[test]
fn any_bytes_are_taken_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/perf_attr");
    let bless = std::env::var_os("EMU_BLESS").is_some();
    for (name, bytes) in corpus() {
        let path = folder.join(name);
        if bless {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).ok(), Some(bytes), "{name}; set EMU_BLESS=1 to write it");
    }
    // Mutations with a seed, of everything in the folder.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for entry in std::fs::read_dir(&folder).unwrap() {
        let good = std::fs::read(entry.unwrap().path()).unwrap();
        fuzz_attr(&good);
        for cut in 0..good.len() {
            fuzz_attr(&good[..cut]);
        }
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=next() % 4 {
                let at = next() as usize % bytes.len();
                bytes[at] =
                    if next() % 2 == 0 { next() as u8 } else { bytes[at] ^ 1 << (next() % 8) };
            }
            fuzz_attr(&bytes);
        }
    }
}
