//! Where a profile may go: files, devices, streams.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use arch::Arch;
use emu::export::{ExportError, Format, Images, Output, kallsyms, open};

use crate::cases::{self, Case};
use crate::round_trip::{file, stream};

fn case(name: &str) -> (Case, std::path::PathBuf) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let case = cases::all(Arch::X86_64, &dir).remove(0);
    (case, dir)
}

fn write(case: &Case, format: Format, output: Output) -> Result<(), ExportError> {
    let mut sink = open(format, &case.session, output, Images::of_host())?;
    for record in &case.records {
        sink.record(record)?;
    }
    sink.finish()
}

#[test]
fn a_file_is_overwritten() {
    let (case, dir) = case("export-outputs-file");
    let path = dir.join("perf.data");
    std::fs::write(&path, vec![0xff; 100_000]).unwrap();
    write(&case, Format::PerfData, Output::File(path.clone())).unwrap();
    assert!(std::fs::read(path).unwrap() == file(&case));
}

#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(b)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_takes_the_stream_form() {
    let (case, _) = case("export-outputs-stream");
    let memory = Memory::default();
    let output = Output::Stream { out: Box::new(memory.clone()), name: "memory".into() };
    write(&case, Format::PerfData, output).unwrap();
    assert!(*memory.0.borrow() == stream(&case));
}

/// A device cannot be rewound: it gets a stream, whatever it is called.
#[test]
fn devices_and_errors() {
    let (case, dir) = case("export-outputs-errors");
    for format in Format::ALL {
        write(&case, format, Output::File("/dev/null".into())).unwrap();
        let error = write(&case, format, Output::File("/dev/full".into())).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot write ") && text.contains("/dev/full"), "{text}");
        let error = write(&case, format, Output::File(dir.join("no/such/folder"))).unwrap_err();
        assert!(error.to_string().starts_with("cannot create "), "{error}");
    }
}

#[test]
fn text_formats_name_functions() {
    let (case, dir) = case("export-outputs-text");
    let (folded, script) = (dir.join("folded"), dir.join("script"));
    write(&case, Format::Folded, Output::File(folded.clone())).unwrap();
    write(&case, Format::Script, Output::File(script.clone())).unwrap();
    let user = "guest;_start;main;middle;leaf";
    let kernel = "el_entry_[k];do_syscall_[k];ksys_read_[k];vfs_read_[k]";
    let want = format!("{user} 1000\n{user};{kernel} 1000\n");
    assert_eq!(std::fs::read_to_string(folded).unwrap(), want);
    let guest = dir.join("x86_64/guest");
    let want = format!(
        "guest     100 [000]     0.002000:       1000 cycles: \n\
        \t          401210 leaf+0x10 ({0})\n\
        \t          401150 middle+0x10 ({0})\n\
        \t          401048 main+0x8 ({0})\n\
        \t          401010 _start+0x10 ({0})\n\n",
        guest.display()
    );
    let text = std::fs::read_to_string(script).unwrap();
    assert!(text.starts_with(&want), "{text}");
}

#[test]
fn kallsyms_beside_the_profile() {
    let (case, dir) = case("export-outputs-kallsyms");
    let path =
        kallsyms::write_beside(&dir.join("perf.data"), &case.session.kernel_symbols).unwrap();
    assert_eq!(path, dir.join("perf.data.kallsyms"));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("ffffffff81000000 T _stext\nffffffff81001000 T el_entry\n"), "{text}");
}
