//! `make bench`: ratios against baselines measured in the same run.
//!
//! Every row is the minimum of five interleaved runs, so that a busy moment of the host
//! hits all contestants alike. The table goes to standard output, the numbers to
//! `target/bench.json`. Words after the program's name choose parts of it (`speed start
//! samples memory regions`), and architectures.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arch::Arch;
use emu::engine::baseline::{self, Piece, Translation};
use emu::engine::{Arena, Engine, Perms};
use emu::export::{Format, Images, Output, Sink};
use emu::grade::Watch;
use emu::kernel::exec::{self, Program};
use emu::kernel::state::{Config, PmuIrq};
use emu::kernel::{Kernel, run, symbols};
use emu::loader::auxv::Aux;
use emu::loader::{self, stack};
use emu::mem::ops::Place;
use emu::mem::{AreaFlags, Backing, Mm, MmLayout, Prot};
use emu::perf::event::{self, Defaults};
use emu::perf::record::{Rate, Session};
use guests::Catalogue;
use serde::Serialize;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs of each contestant; the minimum counts.
const RUNS: usize = 5;
/// Period of the benchmark's profile, in instructions.
const PERIOD: u64 = 1_000_000;

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    bench: String,
    arch: String,
    what: String,
    value: f64,
    unit: &'static str,
    /// Value of this run's baseline by value, or the other way round: see `what`.
    ratio: Option<f64>,
    /// The bound that the project promises for the ratio or the value.
    promise: Option<String>,
    kept: Option<bool>,
}

/// The rows so far. A row is printed when it is known: the whole takes minutes.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
}

impl Table {
    fn push(&mut self, row: Row) {
        if self.rows.last().is_none_or(|l| (&l.bench, &l.arch) != (&row.bench, &row.arch)) {
            println!("{} ({})", row.bench, row.arch);
        }
        let ratio = row.ratio.map_or(String::new(), |r| format!("{r:6.2}×"));
        let promise = match (&row.promise, row.kept) {
            (Some(p), Some(true)) => format!("  promised {p}: kept"),
            (Some(p), Some(false)) => format!("  promised {p}: NOT KEPT"),
            _ => String::new(),
        };
        println!("  {:48} {:10.3} {:3} {ratio:>8}{promise}", row.what, row.value, row.unit);
        self.rows.push(row);
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let catalogue = Catalogue::load(&guests::default_dir())?;
    if let [_, mode, name] = &args[..]
        && mode == "--resident"
    {
        return resident(&catalogue, name);
    }
    println!("minima of {RUNS} interleaved runs; × are ratios within this run\n");
    let mut table = Table::default();
    let only = |kind: &[&str], word: &str| {
        let mut chosen = args[1..].iter().filter(|a| kind.contains(&a.as_str())).peekable();
        chosen.peek().is_none() || chosen.any(|a| a == word)
    };
    const PARTS: [&str; 5] = ["speed", "start", "samples", "memory", "regions"];
    let arches = Arch::ALL.map(Arch::name);
    for arch in Arch::ALL.into_iter().filter(|a| only(&arches, a.name())) {
        if only(&PARTS, "speed") {
            speed(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "start") {
            start(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "samples") {
            samples(&catalogue, arch, &mut table)?;
        }
    }
    if only(&PARTS, "memory") {
        memory(&mut table)?;
    }
    if only(&PARTS, "regions") {
        regions(&mut table)?;
    }
    let out = target_dir().join("bench.json");
    std::fs::write(&out, serde_json::to_vec_pretty(&table.rows)?)?;
    println!("\nnumbers in {}.", out.display());
    Ok(())
}

fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let release = exe.parent().map(Path::to_path_buf).unwrap_or_default();
    release.parent().map(Path::to_path_buf).unwrap_or(release)
}

fn guest(catalogue: &Catalogue, name: &str, arch: Arch) -> Result<PathBuf> {
    let guest = catalogue.find(name).ok_or_else(|| format!("no guest {name}"))?;
    Ok(std::fs::canonicalize(catalogue.path(guest, arch.name()))?)
}

/// Runs a guest under the emulator with a profile of `period`; returns the samples.
fn emulate(path: &Path, args: &[&str], period: u64) -> Result<u64> {
    emulate_with(path, args, period, false)
}

/// The same, with the true stack kept and every sample graded if `truth`.
fn emulate_with(path: &Path, args: &[&str], period: u64, truth: bool) -> Result<u64> {
    let shown = path.to_string_lossy().into_owned();
    let words = std::iter::once(shown.as_str()).chain(args.iter().copied());
    let program = Program {
        host: path.to_owned(),
        path: shown.clone(),
        args: words.map(|w| w.as_bytes().to_vec()).collect(),
        env: Vec::new(),
        root: None,
        cwd: "/".to_owned(),
        seed: 1,
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
    let defaults =
        Defaults { rate: Rate::Period(period), explicit: true, callchain: true, max_stack: 0 };
    let events = event::parse("cycles", defaults)?;
    let session = |arch| Session {
        arch,
        events,
        cpus: 1,
        cmdline: vec!["bench".to_owned()],
        kernel_symbols: symbols::all(arch),
    };
    let mut state = exec::exec(&program, config, session)?;
    // Standard streams are the harness's.
    for fd in 0..3 {
        state.vfs.fds.close(fd).map_err(|e| e.to_string())?;
    }
    if truth {
        Watch::start(&mut state, Images::of_host())?;
    }
    let output = Output::Stream { out: Box::new(std::io::sink()), name: "nowhere".to_owned() };
    let mut sink: Box<dyn Sink> =
        emu::export::open(Format::PerfData, &state.perf.session, output, Images::of_host())?;
    let kernel = Kernel::new(state);
    run::run(&kernel, &AtomicBool::new(false), |records| {
        records.iter().try_for_each(|r| sink.record(r))
    })?;
    sink.finish()?;
    Ok(kernel.with(|s| s.perf.counters.iter().map(|c| c.samples).sum()))
}

/// Runs a guest on the bare engine.
fn bare(path: &Path, arch: Arch, translation: Translation) -> Result<()> {
    let bytes = std::fs::read(path)?;
    let image = loader::parse(&bytes)?;
    let options = loader::Options { aslr: None, stack_limit: 8 << 20, vdso_size: 0 };
    let plan = loader::plan(&image, &options)?;
    let pieces: Vec<Piece> = image
        .segments
        .iter()
        .map(|s| Piece {
            addr: s.vaddr,
            len: s.memsz,
            bytes: bytes[s.file_offset as usize..][..s.filesz as usize].to_vec(),
            perms: Perms { read: s.read, write: s.write, exec: s.execute },
        })
        .collect();
    let (status, syscalls) = baseline::run(arch, translation, &pieces, image.entry, |top| {
        let built = stack::build(&stack::Input {
            arch,
            top,
            skew: 0,
            stack_limit: 8 << 20,
            argv: &[b"bench".to_vec()],
            envp: &[],
            execfn: b"bench",
            random: [7; 16],
            aux: Aux::new(&image, &plan, 1000, 1000),
        });
        built.map_or((Vec::new(), top), |stack| (stack.bytes, stack.sp))
    })?;
    if status != 0 || syscalls == 0 {
        return Err(format!("the bare run of {} ended with {status}", path.display()).into());
    }
    Ok(())
}

fn timed<T>(f: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    black_box(f()?);
    Ok(start.elapsed())
}

/// A program on the host that runs the guest, if it is installed.
fn external(command: &[&str], path: &Path) -> Option<Command> {
    let found = std::env::var_os("PATH")
        .map(|paths| std::env::split_paths(&paths).any(|d| d.join(command[0]).is_file()))?;
    let mut run = Command::new(command[0]);
    run.args(&command[1..]).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    found.then_some(run)
}

fn speed(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "bench", arch)?;
    let qemu = format!("qemu-{}", arch.name());
    let callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let mut best = [f64::INFINITY; 6];
    let host = std::env::consts::ARCH == arch.name();
    for round in 0..RUNS {
        let mut note = |slot: usize, time: Duration| {
            best[slot] = f64::min(best[slot], time.as_secs_f64());
        };
        note(0, timed(|| emulate(&path, &[], PERIOD))?);
        note(1, timed(|| bare(&path, arch, Translation::Virtual))?);
        note(2, timed(|| bare(&path, arch, Translation::Default))?);
        note(5, timed(|| emulate_with(&path, &[], PERIOD, true))?);
        if let Some(mut run) = external(&[&qemu], &path) {
            note(3, timed(|| Ok(run.status()?))?);
        }
        eprint!("\r{arch}: round {} of {RUNS} ", round + 1);
        // Callgrind takes most of a minute: once is enough for a ratio of this size.
        if round == 0
            && host
            && let Some(mut run) = external(&callgrind, &path)
        {
            note(4, timed(|| Ok(run.status()?))?);
        }
    }
    eprintln!();
    let mut add = |what: &str, slot: usize, ratio: Option<f64>, promise: Option<(&str, bool)>| {
        if best[slot].is_finite() {
            table.push(Row {
                bench: "benchmark guest".to_owned(),
                arch: arch.name().to_owned(),
                what: what.to_owned(),
                value: best[slot],
                unit: "s",
                ratio,
                promise: promise.map(|p| p.0.to_owned()),
                kept: promise.map(|p| p.1),
            });
        }
    };
    let emu = best[0];
    let to_bare = emu / best[1];
    let to_default = best[2] / emu;
    add("emu run, period 10^6", 0, None, None);
    add(
        "bare engine, virtual TLB: emu takes × of it",
        1,
        Some(to_bare),
        Some(("<= 1.3", to_bare <= 1.3)),
    );
    add(
        "bare engine, default TLB: × of emu",
        2,
        Some(to_default),
        Some((">= 2", to_default >= 2.0)),
    );
    let truth = best[5] / emu;
    add("emu run --truth: × of emu", 5, Some(truth), Some(("<= 1.5", truth <= 1.5)));
    add("qemu-user: emu takes × of it", 3, Some(emu / best[3]), None);
    add("valgrind --tool=callgrind: × of emu", 4, Some(best[4] / emu), None);
    Ok(())
}

/// Start to exit of the smallest guest, beyond the engine's own start.
fn start(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "hello", arch)?;
    let (mut whole, mut engine) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS * 4 {
        whole = whole.min(timed(|| emulate(&path, &[], PERIOD))?.as_secs_f64());
        engine = engine.min(timed(|| Ok(Engine::new(arch, &mut Arena::new()?)?))?.as_secs_f64());
    }
    let beyond = (whole - engine) * 1e3;
    table.push(Row {
        bench: "start to exit of hello".to_owned(),
        arch: arch.name().to_owned(),
        what: format!("beyond the engine's own start ({:.1} ms)", engine * 1e3),
        value: beyond,
        unit: "ms",
        ratio: None,
        promise: Some("<= 40 ms".to_owned()),
        kept: Some(beyond <= 40.0),
    });
    Ok(())
}

/// Cost of a sample, as their number doubles.
fn samples(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "bench", arch)?;
    let mut base = f64::INFINITY;
    for _ in 0..RUNS {
        base = base.min(timed(|| emulate(&path, &["1"], u64::MAX / 4))?.as_secs_f64());
    }
    for doubling in 0..5 {
        let period = 16_000 >> doubling;
        let (mut best, mut count) = (f64::INFINITY, 0);
        for _ in 0..RUNS {
            best = best.min(
                timed(|| {
                    count = emulate(&path, &["1"], period)?;
                    Ok(())
                })?
                .as_secs_f64(),
            );
        }
        table.push(Row {
            bench: "cost per sample".to_owned(),
            arch: arch.name().to_owned(),
            what: format!("{count} samples"),
            value: (best - base) / count.max(1) as f64 * 1e6,
            unit: "µs",
            ratio: None,
            promise: None,
            kept: None,
        });
    }
    Ok(())
}

/// Peak resident memory of a guest that touches 256 MiB, in a process of its own.
fn memory(table: &mut Table) -> Result<()> {
    let out = Command::new(std::env::current_exe()?).args(["--resident", "touch256"]).output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let kib: f64 = text.trim().parse().map_err(|_| format!("no figure in {text:?}"))?;
    let beyond = kib / 1024.0 - 256.0;
    table.push(Row {
        bench: "resident memory".to_owned(),
        arch: "x86_64".to_owned(),
        what: "beyond the 256 MiB that the guest touches".to_owned(),
        value: beyond,
        unit: "MiB",
        ratio: None,
        promise: Some("<= 120 MiB".to_owned()),
        kept: Some(beyond <= 120.0),
    });
    Ok(())
}

/// Child of [`memory`]: prints this process's peak in KiB.
fn resident(catalogue: &Catalogue, name: &str) -> Result<()> {
    emulate(&guest(catalogue, name, Arch::X86_64)?, &[], PERIOD)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|p| p.split_whitespace().next()).ok_or("no VmHWM")?;
    println!("{peak}");
    Ok(())
}

/// Cost of mapping, finding and unmapping a region, as their number doubles.
fn regions(table: &mut Table) -> Result<()> {
    let layout = MmLayout {
        mmap_base: 0x7fff_f000_0000,
        brk_start: 0x10_0000,
        stack_top: 0x7fff_ffff_f000,
        stack_limit: 8 << 20,
        data_limit: u64::MAX,
        address_limit: u64::MAX,
    };
    for doubling in 0..6 {
        let count = 1_000u64 << doubling;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let mut arena = Arena::new()?;
            let mut mm = Mm::new(Arch::X86_64, layout, &mut arena).ok_or("no memory")?;
            let time = timed(|| {
                for i in 0..count {
                    // Neighbours differ, so that they do not merge.
                    let prot = if i % 2 == 0 { Prot::R } else { Prot::RW };
                    let at = Place::Fixed(0x1000_0000 + i * 4096);
                    let flags = AreaFlags::default();
                    mm.map(&mut arena, at, 4096, prot, flags, Backing::Anonymous)
                        .map_err(|e| e.to_string())?;
                }
                for i in 0..count {
                    mm.unmap(&mut arena, 0x1000_0000 + i * 4096, 4096)
                        .map_err(|e| e.to_string())?;
                }
                Ok(())
            })?;
            best = best.min(time.as_secs_f64());
        }
        table.push(Row {
            bench: "cost per mapped region".to_owned(),
            arch: "both".to_owned(),
            what: format!("{count} regions"),
            value: best / count as f64 * 1e6,
            unit: "µs",
            ratio: None,
            promise: None,
            kept: None,
        });
    }
    Ok(())
}
