//! Guests, and runs of them in this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use arch::Arch;
use emu::engine::Perms;
use emu::engine::baseline::{self, Piece, Translation};
use emu::export::{Format, Images, Output, Sink};
use emu::kernel::exec::{self, Program};
use emu::kernel::state::{Config, State};
use emu::kernel::{Kernel, run, symbols};
use emu::loader::auxv::Aux;
use emu::loader::{self, stack};
use emu::perf::event::{self, Defaults};
use emu::perf::record::{Rate, Session, UserStack};
use guests::Catalogue;

use crate::Result;

pub fn guest(catalogue: &Catalogue, name: &str, arch: Arch) -> Result<PathBuf> {
    let guest = catalogue.find(name).ok_or_else(|| format!("no guest {name}"))?;
    Ok(std::fs::canonicalize(catalogue.path(guest, arch.name()))?)
}

/// How a guest is run and sampled.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Its arguments.
    pub args: &'a [&'a str],
    /// Cycles between two samples; `None`: no event is open.
    pub period: Option<u64>,
    /// The user part of callchains is recorded on the way back to user mode.
    pub defer: bool,
    /// By SFrame first, there.
    pub sframe: bool,
    /// Emulated CPUs.
    pub cpus: u32,
}

impl Setup<'_> {
    /// Sampled, with callchains by frame pointer, on one CPU.
    pub const fn sampled(period: u64) -> Setup<'static> {
        Setup { args: &[], period: Some(period), defer: false, sframe: false, cpus: 1 }
    }
}

/// Runs a guest under the emulator with a profile of `period`; returns the samples.
pub fn emulate(path: &Path, args: &[&str], period: u64) -> Result<u64> {
    run(path, &Setup { args, ..Setup::sampled(period) })
}

/// Runs a guest; returns the samples.
pub fn run(path: &Path, setup: &Setup<'_>) -> Result<u64> {
    run_with(path, setup, |_| Ok(()), |(), _| ())
}

/// The same, of a machine that `prepare` does something to before the guest runs, and `finish`
/// behind it.
pub fn run_with<T>(
    path: &Path,
    setup: &Setup<'_>,
    prepare: impl FnOnce(&mut State) -> Result<T>,
    finish: impl FnOnce(T, &mut State),
) -> Result<u64> {
    let shown = path.to_string_lossy().into_owned();
    let words = std::iter::once(shown.as_str()).chain(setup.args.iter().copied());
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
    let session = session(setup)?;
    let config = Config { cpus: setup.cpus, ..Config::default() };
    let mut state = exec::exec(&program, config, session)?;
    if setup.sframe {
        state.use_sframe();
    }
    // Standard streams are the harness's.
    for fd in 0..3 {
        state.task.fds.close(fd).map_err(|e| e.to_string())?;
    }
    let prepared = prepare(&mut state)?;
    // Without an event there is no profile.
    let mut sink = setup.period.map(|_| nowhere(&state)).transpose()?;
    let kernel = Kernel::new(state);
    run::run(&kernel, &AtomicBool::new(false), |_, records| {
        sink.iter_mut().try_for_each(|sink| records.iter().try_for_each(|r| sink.record(r)))
    })?;
    kernel.with(|state| finish(prepared, state));
    sink.iter_mut().try_for_each(|sink| sink.finish())?;
    Ok(kernel.with(|s| s.perf.main.totals.iter().map(|c| c.samples).sum()))
}

/// A profile that nobody reads.
fn nowhere(state: &State) -> Result<Box<dyn Sink>> {
    let output = Output::Stream { out: Box::new(std::io::sink()), name: "nowhere".to_owned() };
    Ok(emu::export::open(Format::PerfData, &state.perf.main.session, output, Images::of_host())?)
}

/// The events that are open, on the guest's tasks.
fn session(setup: &Setup<'_>) -> Result<impl FnOnce(Arch) -> Session + use<>> {
    let events = match setup.period {
        None => Vec::new(),
        Some(period) => {
            let defaults = Defaults {
                rate: Rate::Period(period),
                explicit: true,
                callchain: true,
                exclude_callchain_user: false,
                exclude_callchain_kernel: false,
                defer: setup.defer,
                user_stack: UserStack::default(),
                max_stack: 0,
            };
            event::parse("cycles", defaults)?
        }
    };
    let cpus = setup.cpus;
    Ok(move |arch| Session {
        arch,
        events,
        cpus,
        wide: 0,
        switches: false,
        no_inherit: false,
        cmdline: vec!["bench".to_owned()],
        kernel_symbols: symbols::all(arch),
    })
}

/// Runs a guest on the bare engine.
pub fn bare(path: &Path, arch: Arch, translation: Translation) -> Result<()> {
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
