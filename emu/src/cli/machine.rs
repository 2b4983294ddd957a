//! A machine with a guest, from options; what ends its run.

use std::env;
use std::ffi::OsString;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arch::Arch;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::cli::options::{MachineOptions, Sysctl, WorldOptions};
use crate::cli::output::{Failure, status};
use crate::cli::world::{self, World};
use crate::export::ExportError;
use crate::kernel::exec::Program;
use crate::kernel::run::RunError;
use crate::kernel::state::{Config, PmuIrq};
use crate::kernel::task::Ending;
use crate::kernel::vfs::RealHost;
use crate::kernel::{State, exec, symbols};
use crate::loader::vdso::Vdso;
use crate::perf::record::{Event, Session};

/// What a guest is run with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'o> {
    /// The machine.
    pub machine: &'o MachineOptions,
    /// Its world.
    pub world: &'o WorldOptions,
    /// Standard output is ours: the guest's goes to standard error.
    pub stdout_is_taken: bool,
}

/// Whose events are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The CPUs', a bit each; 0: the guest's tasks'.
    pub wide: u64,
    /// Switches of tasks are recorded.
    pub switches: bool,
    /// Children do not get their parent's events.
    pub no_inherit: bool,
}

impl Setup<'_> {
    /// The world of the guest that `command` names.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there is no such guest.
    pub fn build(&self, command: &[OsString]) -> Result<World, Failure> {
        let arch = self.machine.arch.unwrap_or(Arch::X86_64);
        let cwd = env::current_dir().ok();
        let mut world = world::build(command, self.world, arch, cwd.as_deref())?;
        world.program.stdout_is_taken = self.stdout_is_taken;
        world.host = Rc::new(RealHost::new(self.stdout_is_taken));
        Ok(world)
    }
}

/// A session with these events on a machine of so many CPUs.
pub fn session_of(
    arch: Arch,
    cpus: u32,
    events: Vec<Event>,
    scope: Scope,
    cmdline: Vec<String>,
) -> Session {
    let kernel_symbols = symbols::all(arch);
    let Scope { wide, switches, no_inherit } = scope;
    Session { arch, events, cpus, wide, switches, no_inherit, cmdline, kernel_symbols }
}

/// A machine with the guest of `world` loaded.
///
/// # Errors
///
/// [`Failure`] if the guest cannot be run.
pub fn start(
    world: &World,
    machine: &MachineOptions,
    pmu_irq: PmuIrq,
    events: Vec<Event>,
    scope: Scope,
    cmdline: &[OsString],
) -> Result<State, Failure> {
    let mut config = Config {
        pmu_irq,
        strict: machine.strict,
        strace: machine.strace,
        boot_time: world.boot_time,
        vdso: machine.vdso,
        max_instructions: machine.max_instructions.unwrap_or(u64::MAX),
        cpus: machine.cpus,
        aslr: machine.aslr,
        pmu_counters: machine.pmu_counters,
        ..Config::default()
    };
    for setting in &machine.sysctl {
        match *setting {
            Sysctl::Paranoid(level) => config.perf_event_paranoid = level,
            Sysctl::MaxSampleRate(rate) => config.max_sample_rate = Some(rate),
            Sysctl::MaxStack(addresses) => config.callchains.max_stack = addresses,
            Sysctl::MaxContexts(markers) => config.callchains.max_contexts = markers,
        }
    }
    let cmdline = cmdline.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let session = |arch| session_of(arch, machine.cpus, events, scope, cmdline);
    let program = Program { seed: machine.seed, aslr: machine.aslr, ..world.program.clone() };
    let mut state = exec::exec_on(world.host.clone(), &program, config, session)
        .map_err(|e| Failure::new(e.exit_code(), e))?;
    if let Some(wanted) = machine.arch.filter(|a| *a != state.arch) {
        let message = format!(
            "{}: e_machine (offset 0x12) is {}; leave out --arch {wanted}, or name a program for it",
            world.program.host.display(),
            state.arch
        );
        return Err(Failure::new(status::NOT_RUNNABLE, message));
    }
    if machine.vdso == Vdso::Off && state.arch == Arch::Aarch64 {
        let message = "--vdso off: signal handlers of aarch64 return through the vDSO; \
                       use full or no-cfi";
        return Err(Failure::new(status::FAILURE, message));
    }
    for (path, host) in &world.files {
        state.vfs.tree.show(path.clone(), host.clone());
    }
    Ok(state)
}

/// What asks the run to stop: Ctrl-C or SIGTERM. The second one ends the process.
#[derive(Debug)]
pub struct Stop {
    /// Goes up when it is time.
    pub flag: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Asks at SIGINT and SIGTERM.
    ///
    /// # Errors
    ///
    /// [`Failure`] if they cannot be caught.
    pub fn on_signals() -> Result<Stop, Failure> {
        let stop = Stop { flag: Arc::default(), signal: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            let status = i32::from(status::SIGNAL) + signal;
            // In this order: the first one finds the flag down.
            flag::register_conditional_shutdown(signal, status, stop.flag.clone())
                .and_then(|_| flag::register_usize(signal, stop.signal.clone(), signal as usize))
                .and_then(|_| flag::register(signal, stop.flag.clone()))
                .map_err(|e| {
                    Failure::new(status::FAILURE, format!("cannot catch signal {signal}: {e}"))
                })?;
        }
        Ok(stop)
    }

    /// The exit status of a command that was stopped.
    pub fn status(&self) -> u8 {
        let signal = u8::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or_default();
        if signal == 0 { status::SIGNAL + 2 } else { status::SIGNAL + signal }
    }
}

/// The status that says how a guest ended.
pub fn exit_status(ending: Ending, stop: &Stop) -> u8 {
    match ending {
        Ending::Exited(status) => status,
        Ending::Signalled(signal) => status::SIGNAL.saturating_add(signal),
        Ending::Limit => status::LIMIT,
        Ending::Interrupted => stop.status(),
        Ending::Strict => status::FAILURE,
        Ending::Deadlock | Ending::Livelock => status::LIMIT,
    }
}

/// Our failure in the middle of a run; the profile was finished nevertheless.
pub fn failure_of(error: RunError<ExportError>) -> Failure {
    match error {
        RunError::Emit(error) => error.into(),
        other => Failure::new(status::FAILURE, other),
    }
}
