//! Tests of recordings: the file, hostile bytes, standard input, the two hosts.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use arch::Errno;
use sha2::{Digest, Sha256};

use super::file::{MAGIC, MAX_BODY};
use super::fuzz::fuzz_recording;
use super::input::{Border, Got, InputLog, Position, Segment};
use super::manifest::{End, Expected, Failed, Output, Program, SessionExpected, Word};
use super::text::Text;
use super::*;
use crate::kernel::vfs::host::{Status, Stream};
use crate::kernel::vfs::{Host, Lookup, RealHost};

fn text(text: &str) -> Text {
    Text(text.into())
}

fn output(bytes: &[u8]) -> Output {
    let mut log = output::OutputLog::default();
    log.push(bytes);
    log.output()
}

/// A recording that has something of everything.
fn crafted() -> Recording {
    let executable = Status::Regular { len: 3, executable: true };
    let host = vec![
        Entry { path: text("/bin"), list: Some(vec!["prog".into()]), ..Entry::default() },
        Entry {
            path: text("/bin/prog"),
            lstat: Some(Ok(Status::Symlink)),
            stat: Some(Ok(executable)),
            link: Some(Ok("../prog".into())),
            canonical: Some(Ok(text("/prog"))),
            file: Some(Ok(0)),
            ..Entry::default()
        },
        Entry { path: text("/none"), stat: Some(Err(2)), file: Some(Err(13)), ..Entry::default() },
        Entry { path: Text(b"/\xff".to_vec()), lstat: Some(Err(2)), ..Entry::default() },
    ];
    let word =
        |option: &str, value: Option<&str>| Word { option: option.into(), value: value.map(text) };
    Recording {
        manifest: Manifest {
            emu: "0.1.0".into(),
            name: "prog".into(),
            arch: "x86_64".into(),
            program: Program {
                host: text("/bin/prog"),
                path: "/bin/prog".into(),
                args: vec![text("prog"), Text(b"\xfe".to_vec())],
                env: vec![text("A=b")],
                root: Some(text("/")),
                cwd: "/".into(),
            },
            boot_time: 1_700_000_000_000_000_000,
            options: vec![word("--count", Some("5")), word("--strict", None)],
            cmdline: vec![text("emu"), text("record")],
            shown: vec![("/in".into(), text("/in"))],
            host,
            input: vec![
                Segment { len: 2, end: Border::Short },
                Segment { len: 1, end: Border::Error(5) },
                Segment { len: 0, end: Border::Open },
            ],
            failed: [None, Some(Failed { after: 1, errno: 32 })],
            expected: Expected {
                end: End::Exited(3),
                instructions: 9,
                samples: vec![("cycles".into(), 1)],
                output: [output(b"hello\n"), output(&[b'x'; 5000])],
                profile: Some("00".into()),
                sessions: vec![SessionExpected {
                    samples: vec![("cycles".to_owned(), 9)],
                    profile: None,
                }],
            },
        },
        input: b"a\nb".to_vec(),
        files: vec![Arc::from(*b"ELF"), Arc::from([])],
    }
}

#[test]
fn what_is_sealed_comes_back() {
    let recording = crafted();
    let bytes = recording.seal().unwrap();
    assert_eq!(Recording::open(&bytes), Ok(recording.clone()));
    assert_eq!(recording.seal().unwrap(), bytes);
    assert_eq!(recording.contents(Path::new("/bin/prog")).unwrap()[..], *b"ELF");
    assert_eq!(
        (recording.contents(Path::new("/none")), recording.entry(Path::new("/x"))),
        (None, None)
    );
    let json = serde_json::to_string(&recording.manifest.program.args).unwrap();
    assert_eq!(json, r#"["prog",{"hex":"fe"}]"#);
}

#[test]
fn damage_is_told_apart() {
    let good = crafted().seal().unwrap();
    let error = |bytes: &[u8]| Recording::open(bytes).unwrap_err();
    for len in 0..good.len() {
        let wanted = good.len() as u64;
        match error(&good[..len]) {
            ReadError::Magic => assert!(len < MAGIC.len()),
            ReadError::Truncated { found, wanted: told } => {
                assert!(found == len as u64 && (told == wanted || len < 32), "{len}");
            }
            other => panic!("{len}: {other}"),
        }
    }
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        assert!(Recording::open(&bytes).is_err(), "{at}");
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        error(&bytes).to_string()
    };
    let last = good.len() - 1;
    assert_eq!(
        changed(8, 9),
        "is a recording of version 9, and this emu reads version 1; use a newer emu"
    );
    assert!(changed(8, 0).ends_with("use an older emu, or record it again"));
    assert!(changed(last, good[last] ^ 1).starts_with("is damaged: its SHA-256 is not the one at"));
    assert!(changed(12, 1).contains("is damaged"), "the reserved word is under the digest");
    assert!(changed(31, 0xff).starts_with("the body has "));
    assert!(changed(0, b'e').starts_with("is no recording of emu"));
    let more = [&good[..], b"x"].concat();
    assert!(error(&more).to_string().starts_with("has 1 bytes behind its end at offset"));
}

/// A file with a right digest, whatever is in it.
fn sealed(packed: &[u8], body: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((packed.len() as u64).to_le_bytes());
    bytes.extend(body.to_le_bytes());
    bytes.extend(packed);
    let digest = Sha256::digest(&bytes);
    bytes.extend(digest);
    bytes
}

#[test]
fn a_body_is_as_long_as_it_says() {
    let error = |packed: &[u8], body| Recording::open(&sealed(packed, body)).unwrap_err();
    let zeros = zstd::encode_all(&vec![0; 64 << 20][..], 1).unwrap();
    assert!(zeros.len() < 10_000);
    let longer = error(&zeros, 100).to_string();
    assert_eq!(
        longer,
        "offset 0x20: the body is no zstd frame of 100 bytes: it is longer; record it again"
    );
    assert!(error(&zeros, MAX_BODY).to_string().contains("it is shorter"));
    let too_long = ReadError::TooLong { what: "the body", found: MAX_BODY + 1, limit: MAX_BODY };
    assert_eq!(error(&zeros, MAX_BODY + 1), too_long);
    assert!(matches!(error(&[], 0), ReadError::Packed { .. }));
    assert!(matches!(error(b"no frame", 8), ReadError::Packed { .. }));
    let two = [zstd::encode_all(&b""[..], 1).unwrap(), b"x".to_vec()].concat();
    assert!(error(&two, 0).to_string().contains("bytes follow it"));
}

#[test]
fn bodies_that_make_no_sense() {
    let section =
        |tag: &[u8], bytes: &[u8]| [tag, &(bytes.len() as u64).to_le_bytes(), bytes].concat();
    let error = |body: &[u8]| Recording::of_body(body).unwrap_err().to_string();
    assert!(error(b"").starts_with("offset 0x0 of the body: the first section must be MNFT"));
    assert!(error(b"MNFT\x01").contains("ends within the length"));
    assert!(error(b"MNFT\xff\xff\xff\xff\xff\xff\xff\xff").contains("ends within a section"));
    assert!(error(&section(b"MNFT", b"{}")).starts_with("the manifest: missing field"));
    assert!(error(&section(b"MNFT", &b"[".repeat(100_000))).starts_with("the manifest: "));
    let with = |change: fn(&mut Recording)| {
        let mut recording = crafted();
        change(&mut recording);
        error(&recording.body().unwrap())
    };
    assert!(with(|r| r.input.push(0)).contains("its input has not the 4 bytes of STDN"));
    assert!(with(|r| r.manifest.input[0].len = u64::MAX).contains("its input"));
    assert!(with(|r| r.manifest.host.swap(0, 1)).contains("is not in order"));
    assert!(with(|r| r.files.clear()).contains("are not among 0 files"));
    assert!(with(|r| r.manifest.program.host = text("/x")).contains("has no contents"));
    assert!(with(|r| r.manifest.program.args.clear()).contains("are no strings of C"));
    assert!(with(|r| r.manifest.program.env = vec![text("A=\0")]).contains("are no strings of C"));
    assert!(with(|r| r.manifest.program.cwd = "x".into()).contains("does not begin with /"));
    assert!(with(|r| r.manifest.boot_time = u64::MAX).contains("boot_time is more than"));
    assert!(with(|r| r.manifest.host[1].link = Some(Ok("x".repeat(5000)))).contains("no path"));
    assert!(with(|r| r.manifest.host[1].canonical = Some(Ok(text("x")))).contains("is none"));
    assert!(with(|r| r.manifest.host[0].list = Some(vec!["a/b".into()])).contains("a name in it"));
    assert!(with(|r| r.manifest.host[2].stat = Some(Err(0))).contains("0 is no error number"));
    assert!(with(|r| r.manifest.shown[0].0 = "x".into()).contains("a file that is shown"));
    assert!(with(|r| r.manifest.input[1].end = Border::Error(0)).contains("0 is no error number"));
    let long = Status::Regular { len: u64::MAX, executable: false };
    let mut recording = crafted();
    recording.manifest.host[1].stat = Some(Ok(long));
    assert!(matches!(recording.seal(), Err(file::SealError::Manifest(_))));
    assert!(error(&recording.body().unwrap()).contains("it is longer than"));
    let mut more = crafted().body().unwrap();
    more.extend(section(b"STDN", b""));
    assert!(error(&more).contains("only FILE sections may follow"));
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/recording")
}

/// The body is what is written today. The file may be packed otherwise by another zstd, and
/// stays readable.
#[test]
fn the_corpus_is_what_is_written() {
    let recording = crafted();
    let (body, file) = (corpus().join("crafted-body"), corpus().join("crafted-file"));
    if std::env::var_os("EMU_BLESS").is_some() {
        fs::create_dir_all(corpus()).unwrap();
        fs::write(&body, recording.body().unwrap()).unwrap();
        fs::write(&file, recording.seal().unwrap()).unwrap();
    }
    let stored = |path: &PathBuf| fs::read(path).unwrap_or_default();
    assert!(stored(&body) == recording.body().unwrap(), "run the test with EMU_BLESS=1");
    assert_eq!(Recording::open(&stored(&file)), Ok(recording));
}

/// Seeded mutations: bits, bytes, cuts, pieces twice; of files also with a right digest.
#[test]
fn mutations_get_an_answer() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let mut inputs: Vec<Vec<u8>> =
        fs::read_dir(corpus()).unwrap().map(|e| fs::read(e.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 2);
    inputs.sort();
    for good in inputs {
        fuzz_recording(&good);
        for _ in 0..3000 {
            let mut bytes = good.clone();
            for _ in 0..1 + below(4) {
                let at = below(bytes.len());
                match below(5) {
                    0 => bytes[at] ^= 1 << below(8),
                    1 => bytes[at] = b"0123456789abcdef\"{}[],:-x\n"[below(25)],
                    2 => bytes.truncate(at.max(1)),
                    3 => bytes[at] = below(256) as u8,
                    _ => {
                        let piece = bytes[at..(at + below(64)).min(bytes.len())].to_vec();
                        let to = below(bytes.len());
                        bytes.splice(to..to, piece);
                    }
                }
            }
            fuzz_recording(&bytes);
            if let (Some(packed), true) =
                (bytes.get(32..bytes.len().saturating_sub(32)), good.starts_with(&MAGIC))
            {
                fuzz_recording(&sealed(packed, below(4000) as u64));
            }
        }
    }
}

/// What reads of these lengths get of a recorded input.
fn reads(bytes: &[u8], segments: &[Segment], lengths: &[usize]) -> Vec<Result<String, u16>> {
    let mut position = Position::default();
    let read = |&len: &usize| {
        let mut buf = vec![0; len];
        match position.read(bytes, segments, &mut buf) {
            Got::Bytes(n) => Ok(String::from_utf8(buf[..n].to_vec()).unwrap()),
            Got::Error(errno) => Err(errno),
            Got::Unknown => Ok("?".to_owned()),
        }
    };
    lengths.iter().map(read).collect()
}

#[test]
fn input_is_read_as_it_was_and_in_other_pieces() {
    let ok = |list: &[&str]| list.iter().map(|s| Ok((*s).to_owned())).collect::<Vec<_>>();
    // A terminal: two lines, the end, another line; then an error.
    let mut log = InputLog::default();
    for (asked, got) in [(4, "ab\n"), (2, "cd"), (9, "\n"), (9, ""), (9, "e\n")] {
        log.push(asked, Ok(got.as_bytes()));
    }
    log.push(9, Err(5));
    let lens: Vec<u64> = log.segments.iter().map(|s| s.len).collect();
    assert_eq!((lens, &log.bytes[..]), (vec![3, 3, 0, 2, 0], &b"ab\ncd\ne\n"[..]));
    let (bytes, segments) = (&log.bytes, &log.segments);
    let mut same = ok(&["ab\n", "cd", "\n", "", "e\n"]);
    same.push(Err(5));
    assert_eq!(reads(bytes, segments, &[4, 2, 9, 9, 9, 9]), same);
    // Read to the border of a line, which is no end.
    let other = ok(&["ab\n", "cd\n", "", "e", "\n"]);
    assert_eq!(reads(bytes, segments, &[3, 3, 9, 1, 1]), other);
    // A pipe that was not read to its end.
    let mut log = InputLog::default();
    log.push(2, Ok(b"ab"));
    log.push(2, Ok(b"cd"));
    assert_eq!(reads(&log.bytes, &log.segments, &[3, 3, 1]), ok(&["abc", "d", "?"]));
    // To its end, which stays the end.
    log.push(2, Ok(b""));
    assert_eq!(reads(&log.bytes, &log.segments, &[9, 9, 9]), ok(&["abcd", "", ""]));
}

#[test]
fn the_first_answer_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("file"), "before").unwrap();
    let root = dir.path().to_owned();
    let ask = |host: &dyn Host| {
        let status = |name, how| host.status(&root.join(name), how).map_err(|e| e.kind());
        let contents = |name| host.open(&root.join(name)).map(|map| map.bytes().to_vec()).ok();
        (
            [status("file", Lookup::Follow), status("late", Lookup::NoFollow)],
            [contents("file"), contents("late"), contents("")],
            host.list(&root),
            host.canonical(&root.join("late")),
        )
    };
    let host = Recorder::new(RealHost::default());
    let first = ask(&host);
    assert_eq!(first.1[0].as_deref(), Some(&b"before"[..]));
    assert_eq!((first.2.len(), &first.3), (1, &None));
    fs::write(path("file"), "and after").unwrap();
    fs::write(path("late"), "x").unwrap();
    assert_eq!(ask(&host), first);
    // And the recording says the same when all is gone.
    let recorded = host.take().unwrap();
    let mut recording = crafted();
    (recording.manifest.host, recording.files) = (recorded.host, recorded.files);
    drop(dir);
    let replayer = Replayer::new(Arc::new(recording), None);
    assert_eq!(ask(&replayer), first);
    assert_eq!(replayer.missing(), [""; 0]);
}

#[test]
fn what_is_not_recorded_is_absent_and_listed() {
    let recording = Arc::new(crafted());
    let replayer = Rc::new(Replayer::new(recording, None));
    let kind = |path| replayer.status(Path::new(path), Lookup::Follow).map_err(|e| e.kind());
    assert_eq!(kind("/bin/prog"), Ok(Status::Regular { len: 3, executable: true }));
    assert_eq!(kind("/other"), Err(std::io::ErrorKind::NotFound));
    assert_eq!(kind("/none"), Err(std::io::ErrorKind::NotFound));
    let denied = replayer.open(Path::new("/none")).map(drop).map_err(|e| e.kind());
    assert_eq!(denied, Err(std::io::ErrorKind::PermissionDenied));
    assert!(replayer.list(Path::new("/etc")).is_empty());
    assert_eq!(replayer.missing(), ["/etc", "/other"]);
    // Standard error could be written once.
    assert_eq!(replayer.write_output(Stream::Error, b"x"), Ok(()));
    assert_eq!(replayer.write_output(Stream::Error, b"x"), Err(Errno::EPIPE));
    assert_eq!(replayer.write_output(Stream::Out, b"hello\n"), Ok(()));
    assert_eq!(replayer.output(), [output(b"hello\n"), output(b"x")]);
    assert!(replayer.check_program(Path::new("/bin/prog")).is_ok());
    assert_eq!(replayer.check_program(Path::new("/x")).unwrap_err().exit_code(), 127);
}
