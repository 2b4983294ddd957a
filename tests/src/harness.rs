//! Runs a guest in this process, through the library.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arch::Arch;
use emu::deferred;
use emu::kernel::exec::{self, Program};
use emu::kernel::state::{Config, PmuIrq, Stats};
use emu::kernel::task::Ending;
use emu::kernel::unwind::Unwind;
use emu::kernel::vfs::{Node, OpenFile};
use emu::kernel::{Kernel, State, run, symbols};
use emu::laws::report::Counts;
use emu::laws::{Handle, Settings};
use emu::perf::event::{self, Defaults};
use emu::perf::pmu::Counter;
use emu::perf::record::{Event, EventKind, Rate, Record, Sample, Session, UserStack};
use emu::symbols::Functions;

use crate::{catalogue, laws};

/// A run to be: a guest, its arguments, what is sampled.
///
/// ```no_run
/// use arch::Arch;
/// use tests::harness::Harness;
///
/// let outcome = Harness::new(Arch::X86_64, "hello").events("instructions:u", 2).run();
/// assert_eq!(outcome.samples().count(), 4);
/// ```
///
/// What the guest writes to its standard output and error is dropped: a test of that uses
/// [`crate::program`].
#[derive(Clone, Debug)]
pub struct Harness {
    arch: Arch,
    host: PathBuf,
    path: String,
    args: Vec<String>,
    events: String,
    rate: Rate,
    callchain: bool,
    exclude_callchain_user: bool,
    exclude_callchain_kernel: bool,
    defer: bool,
    user_stack: UserStack,
    design: &'static str,
    sframe: bool,
    max_stack: u16,
    seed: u64,
    pmu_irq: PmuIrq,
    max_instructions: u64,
    check_laws: bool,
    cpus: u32,
    wide: bool,
    aslr: Option<u64>,
    root: Option<PathBuf>,
}

/// What a run was.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What an exporter is told first.
    pub session: Session,
    /// All records, in the order in which they were emitted.
    pub records: Vec<Record>,
    /// Final state of the counter of each event.
    pub counters: Vec<Counter>,
    /// Counts of the whole run.
    pub stats: Stats,
    /// How the guest ended.
    pub ending: Ending,
    /// Names of things that are not supported and were asked for.
    pub unsupported: Vec<String>,
    /// The laws that were watched, and what hazards made of them.
    pub laws: Counts,
}

impl Harness {
    /// A run of the catalogue's guest `name` with its default arguments. It samples no
    /// more than a first page fault until [`Harness::events`] says what.
    pub fn new(arch: Arch, name: &str) -> Harness {
        let catalogue = catalogue();
        let guest = catalogue.find(name).unwrap_or_else(|| panic!("no guest is called {name}"));
        let run = guest.default_run(arch.name());
        let args: Vec<&str> = run.args.iter().map(String::as_str).collect();
        let host = catalogue.path(guest, arch.name());
        Harness::of_file(arch, host, &format!("/bin/{name}")).args(&args)
    }

    /// A run of the program file `host`, which the guest sees as `path`.
    pub fn of_file(arch: Arch, host: PathBuf, path: &str) -> Harness {
        Harness {
            arch,
            host,
            path: path.to_owned(),
            args: Vec::new(),
            events: "page-faults".to_owned(),
            rate: Rate::Period(u64::MAX >> 2),
            callchain: true,
            exclude_callchain_user: false,
            exclude_callchain_kernel: false,
            defer: false,
            user_stack: UserStack::default(),
            design: "mask",
            sframe: false,
            max_stack: 0,
            seed: 1,
            pmu_irq: PmuIrq::Nmi,
            max_instructions: u64::MAX,
            check_laws: true,
            cpus: 1,
            wide: false,
            aslr: None,
            root: None,
        }
    }

    /// Arguments, without the program's name.
    pub fn args(mut self, args: &[&str]) -> Harness {
        self.args = args.iter().map(|&a| a.to_owned()).collect();
        self
    }

    /// Samples `list`, in the words of `-e`, each every `period` occurrences.
    pub fn events(mut self, list: &str, period: u64) -> Harness {
        self.events = list.to_owned();
        self.rate = Rate::Period(period);
        self
    }

    /// Samples `list` about `frequency` times a second.
    pub fn frequency(mut self, list: &str, frequency: u64) -> Harness {
        self.events = list.to_owned();
        self.rate = Rate::Frequency(frequency);
        self
    }

    /// Samples carry no callchains.
    pub fn without_callchains(mut self) -> Harness {
        self.callchain = false;
        self
    }

    /// `--call-graph fp,defer --deferred DESIGN`
    pub fn deferred(mut self, design: &'static str) -> Harness {
        (self.defer, self.design) = (true, design);
        self
    }

    /// `--call-graph sframe,defer`
    pub fn sframe(mut self) -> Harness {
        (self.defer, self.sframe) = (true, true);
        self
    }

    /// `--call-graph dwarf` or `sframe`
    pub fn user_stack(mut self, how: UserStack) -> Harness {
        self.user_stack = how;
        self.sframe = how == UserStack::Sframe;
        self
    }

    /// `--user-callchains`
    pub fn user_callchains(mut self) -> Harness {
        self.exclude_callchain_kernel = true;
        self
    }

    /// `--kernel-callchains`
    pub fn kernel_callchains(mut self) -> Harness {
        self.exclude_callchain_user = true;
        self
    }

    /// `--max-stack`
    pub fn max_stack(mut self, addresses: u16) -> Harness {
        self.max_stack = addresses;
        self
    }

    /// `--cpus`
    pub fn cpus(mut self, cpus: u32) -> Harness {
        self.cpus = cpus;
        self
    }

    /// `-a`
    pub fn wide(mut self) -> Harness {
        self.wide = true;
        self
    }

    /// `--aslr`
    pub fn aslr(mut self, seed: u64) -> Harness {
        self.aslr = Some(seed);
        self
    }

    /// `--root`
    pub fn root(mut self, dir: PathBuf) -> Harness {
        self.root = Some(dir);
        self
    }

    /// `--seed`
    pub fn seed(mut self, seed: u64) -> Harness {
        self.seed = seed;
        self
    }

    /// `--pmu-irq`
    pub fn pmu_irq(mut self, how: PmuIrq) -> Harness {
        self.pmu_irq = how;
        self
    }

    /// `--max-instructions`
    pub fn max_instructions(mut self, most: u64) -> Harness {
        self.max_instructions = most;
        self
    }

    /// Runs of millions of samples are quicker if nobody watches the laws at each step.
    pub fn without_laws(mut self) -> Harness {
        self.check_laws = false;
        self
    }

    /// Runs the guest and keeps all records.
    ///
    /// # Panics
    ///
    /// If the guest cannot be started, the emulator fails or a law is broken.
    pub fn run(&self) -> Outcome {
        let mut records = Vec::new();
        let mut outcome = self.run_with(|_, record| records.push(record.clone()));
        outcome.records = records;
        if self.check_laws {
            laws::check(&outcome);
        }
        outcome
    }

    /// Runs the guest, shows each record to `see` and keeps none. The machine is then at
    /// the user instruction that comes next.
    ///
    /// # Panics
    ///
    /// As [`Harness::run`].
    pub fn run_with(&self, see: impl FnMut(&Kernel, &Record)) -> Outcome {
        self.run_prepared(|_| {}, see)
    }

    /// [`Harness::run_with`] of a machine to which `prepare` has done something.
    ///
    /// # Panics
    ///
    /// As [`Harness::run`].
    pub fn run_prepared(
        &self,
        prepare: impl FnOnce(&mut State),
        mut see: impl FnMut(&Kernel, &Record),
    ) -> Outcome {
        let what = format!("{} {} on {}", self.host.display(), self.args.join(" "), self.arch);
        let kernel = self.start(&what);
        kernel.with(prepare);
        let stop = Arc::default();
        let watch = self.check_laws.then(|| LawWatch::start(&kernel, Arc::clone(&stop), 0));
        let ending = run::run(&kernel, &stop, |_, records| {
            if self.check_laws {
                // Records also come while a task is switched out, and at the end of the first.
                kernel.with(|s| {
                    if s.cpu.kernel.is_none() {
                        laws::check_user_mode(s);
                    }
                });
            }
            records.iter().for_each(|r| see(&kernel, r));
            Ok::<(), std::convert::Infallible>(())
        });
        let laws = watch.as_ref().map(|w| w.handle.counts()).unwrap_or_default();
        if let Some(law) = watch.and_then(|w| w.handle.fatal()) {
            panic!("{what}: {law}\n{}", self.story_of_a_break(&what));
        }
        kernel.with(|s| Outcome {
            session: s.perf.main.session.clone(),
            records: Vec::new(),
            counters: s.perf.main.totals.clone(),
            stats: s.stats,
            ending: ending.unwrap_or_else(|e| panic!("{what}: {e}")),
            unsupported: s.unsupported.keys().cloned().collect(),
            laws,
        })
    }

    /// Runs again, unless it was prepared as before, for the timeline before a break.
    fn story_of_a_break(&self, what: &str) -> String {
        let kernel = self.start(what);
        let stop = Arc::default();
        let watch = LawWatch::start(&kernel, Arc::clone(&stop), 20);
        let ending = run::run(&kernel, &stop, |_, _| Ok::<(), std::convert::Infallible>(()));
        drop(ending);
        watch.told.take()
    }

    /// The machine with the guest loaded, before its first instruction; `what` names the run
    /// in messages.
    ///
    /// # Panics
    ///
    /// If the guest cannot be started.
    pub fn start(&self, what: &str) -> Kernel {
        let events = event::parse(&self.events, self.defaults());
        let events = events.unwrap_or_else(|e| panic!("{what}: {e}"));
        let session = |arch| self.session(arch, events);
        let state = exec::exec(&self.program(), self.config(), session);
        let mut state = state.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(state.arch, self.arch, "{what}");
        // Probes of user code by name are of programs that are loaded where they were linked.
        let find = |name: &str| {
            let bytes = std::fs::read(&self.host).ok()?;
            Functions::read(&bytes).named(name).first().copied()
        };
        state.place_probes(find).unwrap_or_else(|e| panic!("{what}: {e}"));
        if let Some(design) = deferred::by_name(self.design) {
            state.unwind = Unwind::new(design);
        }
        if self.sframe {
            state.use_sframe();
        }
        for fd in [1, 2] {
            let null = OpenFile::new(Node::Null, 1);
            state.task.fds.replace(fd, null, false, 3).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        Kernel::new(state)
    }

    /// What is run.
    fn program(&self) -> Program {
        Program {
            host: self.host.clone(),
            path: self.path.clone(),
            args: std::iter::once(&self.path).chain(&self.args).map(|a| a.clone().into()).collect(),
            env: ["PATH=/usr/bin:/bin", "HOME=/", "LANG=C", "TERM=dumb"].map(Vec::from).into(),
            root: self.root.clone(),
            cwd: "/".to_owned(),
            seed: self.seed,
            aslr: self.aslr,
            stdout_is_taken: false,
        }
    }

    /// On which machine.
    fn config(&self) -> Config {
        Config {
            pmu_irq: self.pmu_irq,
            boot_time: 1_700_000_000_000_000_000,
            max_instructions: self.max_instructions,
            cpus: self.cpus,
            ..Config::default()
        }
    }

    /// What holds for events that do not say.
    fn defaults(&self) -> Defaults {
        Defaults {
            rate: self.rate,
            explicit: true,
            callchain: self.callchain,
            exclude_callchain_user: self.exclude_callchain_user,
            exclude_callchain_kernel: self.exclude_callchain_kernel,
            defer: self.defer,
            user_stack: self.user_stack,
            max_stack: self.max_stack,
        }
    }

    /// What is sampled.
    fn session(&self, arch: Arch, events: Vec<Event>) -> Session {
        Session {
            arch,
            events,
            cpus: self.cpus,
            wide: if self.wide { u64::MAX >> (64 - self.cpus) } else { 0 },
            switches: false,
            no_inherit: false,
            cmdline: vec!["emu".to_owned()],
            kernel_symbols: symbols::all(arch),
        }
    }
}

/// The laws of a run, and what was said about the last of them that was broken.
struct LawWatch {
    handle: Handle,
    told: Rc<RefCell<String>>,
}

impl LawWatch {
    /// `lines` of the timeline are told with a break.
    fn start(kernel: &Kernel, stop: Arc<AtomicBool>, lines: usize) -> LawWatch {
        let told: Rc<RefCell<String>> = Rc::default();
        let text = told.clone();
        let tell = move |new: &str| new.clone_into(&mut text.borrow_mut());
        let names = |pc| format!("{pc:#x}");
        let settings = Settings { lines, names: Box::new(names), stop, tell: Box::new(tell) };
        LawWatch { handle: kernel.with(|s| Handle::start(s, settings)), told }
    }
}

impl Outcome {
    /// The samples, in order.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.records.iter().filter_map(|r| match r {
            Record::Sample(s) => Some(s),
            _ => None,
        })
    }

    /// The samples of the first event of kind `kind`.
    pub fn samples_of(&self, kind: EventKind) -> impl Iterator<Item = &Sample> {
        let index = self.session.events.iter().position(|e| e.kind == kind);
        self.samples().filter(move |s| Some(s.event) == index)
    }
}
