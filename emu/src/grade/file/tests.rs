//! What is written is read again, and anything else gets one line.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;

use super::fuzz::fuzz_truth_file;
use super::*;

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn header(arch: Arch) -> Header {
    Header {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        arch: arch.name().to_owned(),
        methods: vec!["fp".to_owned(), "dwarf".to_owned()],
        root: None,
    }
}

fn sample(arch: Arch, n: u64) -> Sample {
    let sp = 0x7fff_0000;
    let tail_caller = TailCaller { address: Hex(0x40_3456), entry: None, elided: 7 };
    let frame = |address, kind, cfa: Option<u64>| Frame {
        address: Hex(address),
        kind,
        cfa: cfa.map(Hex),
        entry: cfa.map(|_| Hex(0x40_1000)),
        tail_callers: cfa.map(|_| tail_caller.clone()).into_iter().collect(),
    };
    let piece = |address, bytes: &[u8]| Piece { address: Hex(address), bytes: Bytes(bytes.into()) };
    Sample {
        n,
        pc: Hex(0x40_1234),
        kernel: if n == 2 { vec!["do_nanosleep".to_owned()] } else { Vec::new() },
        point: ProgramPoint::SyscallStub,
        registers: (0..registers(arch) as u64).map(Hex).collect(),
        depth: (n > 1).then_some(2),
        frames: vec![
            frame(0x40_1234, FrameKind::Current, Some(sp + 16)),
            frame(0x40_2345, FrameKind::Interrupted, None),
        ],
        verdicts: BTreeMap::from([
            ("fp".to_owned(), Verdict::MissingFrame),
            ("dwarf".to_owned(), Verdict::Exact),
        ]),
        memory: vec![piece(sp - 8, &[1; 24]), piece(u64::MAX, &[0xff])],
    }
}

/// A truth file with so many samples.
fn written(arch: Arch, samples: u64) -> Vec<u8> {
    let out = Shared::default();
    let mut writer = Writer::new(Box::new(out.clone()), header(arch));
    for vdso in [false, true] {
        let path = if vdso { VDSO } else { "/bin/a \"b\"" }.to_owned();
        let build_id = (!vdso).then(|| "00ff".to_owned());
        writer.module(MappedFile { path, build_id, bias: Hex(0x5555_0000_0000), vdso });
    }
    // The last one is undecided.
    (1..samples).for_each(|n| writer.sample(sample(arch, n)));
    if samples > 0 {
        writer.undecided(undecided(arch, samples));
    }
    writer.finish().unwrap();
    out.0.take()
}

fn undecided(arch: Arch, n: u64) -> Undecided {
    let Sample { pc, kernel, point, registers, .. } = sample(arch, n);
    Undecided { n, pc, kernel, point, registers, why: Doubt::BetweenStacks }
}

fn find(bytes: &[u8], n: u64) -> Result<Answer, ReadError> {
    Reader::new(bytes)?.find(n)
}

fn graded(bytes: &[u8], n: u64) -> Found {
    match find(bytes, n) {
        Ok(Answer::Graded(found)) => found,
        other => panic!("{other:?}"),
    }
}

fn error(bytes: &[u8], n: u64) -> String {
    find(bytes, n).unwrap_err().to_string()
}

/// Of frames with very many tail callers the inner ones keep theirs.
#[test]
fn frames_and_their_tail_callers() {
    let of = |address, physical| LogicalFrame {
        address: ReturnAddress(address).into(),
        cfa: Some(address),
        entry: None,
        physical,
        elided: u64::from(!physical),
    };
    let each = 60;
    let frames = 2 * MAX_SAMPLE_FRAMES as u64;
    let logical = (0..frames * (each + 1)).map(|n| of(n, n % (each + 1) == 0));
    let list = Frame::list(logical);
    assert_eq!(list.len(), MAX_SAMPLE_FRAMES);
    assert!(list.iter().all(|frame| frame.address.0 % (each + 1) == 0));
    let counts: Vec<usize> = list.iter().map(|frame| frame.tail_callers.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), MAX_TAIL_CALLERS);
    let full = MAX_TAIL_CALLERS / each as usize;
    assert!(
        counts[..full].iter().all(|n| *n == each as usize)
            && counts[full + 1..].iter().all(|n| *n == 0)
    );
    let first = TailCaller { address: Hex(1), entry: None, elided: 1 };
    assert_eq!(list[0].tail_callers[0], first);
}

#[test]
fn what_is_written_is_read() {
    for arch in Arch::ALL {
        let bytes = written(arch, 3);
        let found = graded(&bytes, 2);
        assert_eq!((found.arch, &found.header), (arch, &header(arch)));
        assert_eq!(found.sample, sample(arch, 2));
        assert_eq!(found.modules.len(), 2);
        assert_eq!(found.sample.regs(arch).sp(), arch.sp() as u64);
        let Ok(Answer::Undecided(found)) = find(&bytes, 3) else { panic!("it has a stack") };
        assert_eq!((found.sample, found.modules.len()), (undecided(arch, 3), 2));
        assert_eq!(error(&bytes, 4), "there is no sample 4: the file has 1 to 3");
        assert_eq!(error(&written(arch, 0), 1), "there is no sample 1: the run took none");
    }
}

/// Files of others may have as many as they like.
#[test]
fn very_many_modules() {
    let mapped = |bias| MappedFile {
        path: "/bin/a".to_owned(),
        build_id: None,
        bias: Hex(bias),
        vdso: false,
    };
    let text = String::from_utf8(written(Arch::X86_64, 2)).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let (same, other) = rest.split_once('\n').unwrap();
    let again = format!("{header}\n{}{other}", format!("{same}\n").repeat(5000));
    assert_eq!(graded(again.as_bytes(), 1).modules.len(), 2);
    let line = |n: u64| serde_json::to_string(&Line::Module(mapped(n << 12))).unwrap();
    let many: Vec<String> = (0..300).map(line).collect();
    let many = error(format!("{header}\n{}\n", many.join("\n")).as_bytes(), 1);
    assert!(many.starts_with("line 258: more than 256 modules; "), "{many}");
    let damaged = error(format!("{header}\n{{\"module\":7}}\n").as_bytes(), 1);
    assert!(damaged.starts_with("line 2: ") && damaged.matches("line").count() == 1, "{damaged}");
}

#[test]
fn other_files() {
    let good = String::from_utf8(written(Arch::X86_64, 2)).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from));
        error(good.replacen(from, to, 1).as_bytes(), 1)
    };
    assert!(error(b"", 1).starts_with("the file is empty"));
    assert!(error(b"PERFILE2", 1).starts_with("not a truth file"));
    let version = changed("\"version\":2", "\"version\":1");
    assert_eq!(version, "schema \"emu-truth\", version 1: this emu reads \"emu-truth\", version 2");
    assert!(changed("x86_64", "riscv64").starts_with("line 1: unknown architecture"));
    assert!(changed("\"n\":1", "\"n\":7").starts_with("line 4: sample 7 where 1 should be"));
    assert!(changed("\"0x0\",", "").starts_with("line 4: 15 registers, x86_64 has 16"));
    assert!(changed("0xffffffffffffffff", "0x0").contains("out of order"));
    assert!(changed(":\"ff\"", ":\"ffff\"").contains("ends behind the address space"));
    assert!(changed("0x401234", "401234").starts_with("line 4: not a 64-bit number"));
    assert!(changed(":\"ff\"", ":\"f\"").starts_with("line 4: not bytes in hexadecimal"));
    assert!(changed("syscall-stub", "nowhere").starts_with("line 4: unknown variant"));
    let undecided = |from: &str, to: &str| error(good.replace(from, to).as_bytes(), 2);
    assert!(undecided("\"n\":2", "\"n\":7").starts_with("line 5: sample 7 where 2 should be"));
    assert!(undecided("\"0x0\",", "").starts_with("line 5: 15 registers, x86_64 has 16"));
    assert!(undecided("between-stacks", "so").starts_with("line 5: unknown variant"));
    // Cut anywhere.
    for len in 0..good.len() - 1 {
        let line = error(&good.as_bytes()[..len], 2);
        assert!(!line.contains('\n'), "{line}");
    }
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/truth_file")
}

#[test]
fn the_corpus_is_what_is_written() {
    for arch in Arch::ALL {
        for samples in [0, 2] {
            let path = corpus().join(format!("{arch}-{samples}"));
            let bytes = written(arch, samples);
            if std::env::var_os("EMU_BLESS").is_some() {
                fs::create_dir_all(corpus()).unwrap();
                fs::write(&path, &bytes).unwrap();
            }
            let stored = fs::read(&path).unwrap_or_default();
            let name = path.display();
            assert!(stored == bytes, "{name} is not up to date: run the test with EMU_BLESS=1");
        }
    }
}

/// Seeded mutations: bits, bytes, cuts, lines twice and in another order.
#[test]
fn mutations_get_an_answer() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    for entry in fs::read_dir(corpus()).unwrap() {
        let good = fs::read(entry.unwrap().path()).unwrap();
        fuzz_truth_file(&good);
        for _ in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..1 + below(4) {
                let at = below(bytes.len());
                match below(5) {
                    0 => bytes[at] ^= 1 << below(8),
                    1 => bytes[at] = b"0123456789abcdef\"{}[],:-x\n"[below(25)],
                    2 => bytes.truncate(at.max(1)),
                    3 => {
                        let mut lines: Vec<&[u8]> =
                            bytes.split_inclusive(|b| *b == b'\n').collect();
                        let (a, b) = (below(lines.len()), below(lines.len()));
                        lines.swap(a, b);
                        lines.push(lines[a]);
                        bytes = lines.concat();
                    }
                    _ => {
                        let piece = bytes[at..(at + below(64)).min(bytes.len())].to_vec();
                        let to = below(bytes.len());
                        bytes.splice(to..to, piece);
                    }
                }
            }
            fuzz_truth_file(&bytes);
        }
    }
}
