//! The guest and its world: from words on the command line to a [`Program`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use arch::Arch;
use guests::{Catalogue, Guest};

use crate::cli::options::WorldOptions;
use crate::cli::output::{Failure, status};
use crate::cli::values::Variable;
use crate::export::Images;
use crate::kernel::State;
use crate::kernel::exec::Program;
use crate::kernel::vfs::{Host, RealHost};
use crate::loader::vdso::Vdso;
use crate::loader::{LoadError, file};
use crate::recording::Recording;
use crate::spelling;

/// The guest that runs when none is named.
pub const DEMO: &str = "demo";

/// `CLOCK_REALTIME` at boot: 2023-11-14 22:13:20 UTC.
const BOOT_TIME: u64 = 1_700_000_000_000_000_000;

/// A guest's world, ready to be started.
#[derive(Clone, Debug)]
pub struct World {
    /// What to run.
    pub program: Program,
    /// The guest's name for people, as typed.
    pub name: String,
    /// Files that the guest sees: its path, the host's path.
    pub files: Vec<(String, PathBuf)>,
    /// `CLOCK_REALTIME` at boot, nanoseconds since the epoch.
    pub boot_time: u64,
    /// Where the guest's files and input come from.
    pub host: Rc<dyn Host>,
    /// The recording that it is of, if it is a replay.
    pub recording: Option<Arc<Recording>>,
    /// Folder of the host where the files of the recording were written.
    pub extracted: Option<PathBuf>,
}

impl World {
    /// Folder of the host that the paths of a profile of `state` are below, if not `/`.
    pub fn root<'a>(&'a self, state: &'a State) -> Option<&'a Path> {
        self.extracted.as_deref().or(state.vfs.tree.root())
    }

    /// The images of the code in a profile of `state`, a machine in this world.
    pub fn images(&self, state: &State) -> Images {
        let (arch, vdso, root) = (state.arch, state.config.vdso, state.vfs.tree.root());
        let Some(recording) = self.recording.clone() else { return images(arch, vdso, root) };
        let root = root.map(Path::to_owned);
        let (exe, program) = (state.vfs.tree.exe.clone(), self.program.host.clone());
        let files = Images::new(move |path| {
            let host = match &root {
                // Its path may be another after symbolic links.
                Some(_) if path == exe => program.clone(),
                Some(root) => root.join(path.trim_start_matches('/')),
                None => PathBuf::from(path),
            };
            recording.contents(&host).cloned()
        });
        files.with("[vdso]", Arc::from(vdso.image(arch)))
    }
}

/// A program file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Located {
    /// Host path.
    host: PathBuf,
    /// The same file as the guest sees it.
    path: String,
    /// Its arguments in the catalogue.
    args: Vec<String>,
    /// It was named by a path relative to the working directory.
    relative: bool,
}

/// Finds the guest `command[0]` and builds its world. `command[1..]` are its arguments.
///
/// # Errors
///
/// [`Failure`] if there is no such guest or a path cannot be shown to a guest.
pub fn build(
    command: &[OsString],
    options: &WorldOptions,
    arch: Arch,
    cwd: Option<&Path>,
) -> Result<World, Failure> {
    let demo = OsString::from(DEMO);
    let (guest, args) = command.split_first().unwrap_or((&demo, &[]));
    let root = options.root.as_deref().map(check_root).transpose()?;
    let located = locate(guest, arch, root.as_deref(), cwd)?;
    let mut words: Vec<OsString> = vec![guest.clone()];
    words.extend(args.iter().cloned());
    if args.is_empty() {
        words.extend(located.args.iter().map(OsString::from));
    }
    // With a root, names are the guest's own business.
    let mut named =
        if root.is_none() { named_files(&words[1..], cwd) } else { NamedFiles::default() };
    // The guest may open its own file by its first argument.
    if root.is_none() && located.relative {
        named.cwd = named.cwd.or_else(|| cwd.and_then(Path::to_str).map(str::to_owned));
    }
    let program = Program {
        host: located.host,
        path: located.path,
        args: words.into_iter().map(OsStringExt::into_vec).collect(),
        env: environment(&options.env),
        root,
        cwd: named.cwd.unwrap_or_else(|| "/".to_owned()),
        seed: 0,
        aslr: None,
        stdout_is_taken: false,
    };
    let name = guest.to_string_lossy().into_owned();
    let host = Rc::new(RealHost::default());
    let (files, boot_time) = (named.files, BOOT_TIME);
    Ok(World { program, name, files, boot_time, host, recording: None, extracted: None })
}

/// The images of the code in a profile: the host's files, below `root` if there is one,
/// and the kernel's vDSO.
pub fn images(arch: Arch, vdso: Vdso, root: Option<&Path>) -> Images {
    let files = root.map_or_else(Images::of_host, |root| Images::of_root(root.to_owned()));
    files.with("[vdso]", Arc::from(vdso.image(arch)))
}

/// The host file that a word of the command line names: a path, or a guest of the catalogue.
///
/// # Errors
///
/// [`Failure`] if there is no such file or guest, or it cannot be read.
pub fn find(word: &OsStr, arch: Arch) -> Result<PathBuf, Failure> {
    Ok(locate(word, arch, None, None)?.host)
}

fn check_root(root: &Path) -> Result<PathBuf, Failure> {
    let fail = |why: String| {
        Failure::new(status::FAILURE, format!("--root {}: {why}; name a directory", root.display()))
    };
    let full = root.canonicalize().map_err(|e| fail(e.to_string()))?;
    if full.is_dir() { Ok(full) } else { Err(fail("is not a directory".to_owned())) }
}

/// Finds the program file: a word without `/` is looked for in the catalogue first.
fn locate(
    guest: &OsStr,
    arch: Arch,
    root: Option<&Path>,
    cwd: Option<&Path>,
) -> Result<Located, Failure> {
    if guest.as_bytes().contains(&b'/') {
        return by_path(guest, root, cwd);
    }
    if guest.is_empty() {
        let message = "the guest's name is empty; `emu guests` lists the guests";
        return Err(Failure::new(status::NOT_FOUND, message));
    }
    let catalogue = Catalogue::load(&guests::default_dir());
    let name = guest.to_string_lossy();
    match catalogue.as_ref().map(|c| (c, c.find(&name))) {
        Ok((catalogue, Some(guest))) => by_name(catalogue, guest, arch),
        Ok((catalogue, None)) => {
            by_path(guest, root, cwd).map_err(|e| or_not_in(catalogue, &name, e))
        }
        Err(error) => by_path(guest, root, cwd).map_err(|e| match e.status {
            status::NOT_FOUND => Failure::new(status::FAILURE, error),
            _ => e,
        }),
    }
}

fn by_name(catalogue: &Catalogue, guest: &Guest, arch: Arch) -> Result<Located, Failure> {
    if !guest.has_arch(arch.name()) {
        let message = format!(
            "guest {}: is not built for {arch}; use --arch {}",
            guest.name,
            guest.arches.join(" or ")
        );
        return Err(Failure::new(status::NOT_FOUND, message));
    }
    let host = catalogue.path(guest, arch.name());
    check(&host, &host)?;
    // The same path wherever the catalogue lies: the guest's stack holds it.
    let path = format!("/bin/{}", guest.name);
    Ok(Located { host, path, args: guest.args.clone(), relative: false })
}

fn by_path(guest: &OsStr, root: Option<&Path>, cwd: Option<&Path>) -> Result<Located, Failure> {
    let typed = Path::new(guest);
    let (host, path) = match root {
        // Components, so that errors do not show `/here/./guest`.
        None => {
            let full = cwd.map_or_else(|| typed.to_owned(), |c| c.join(typed));
            (full.components().collect(), absolute(typed, cwd))
        }
        Some(root) => below(typed, root),
    };
    check(&host, typed)?;
    let Some(path) = path.to_str().map(str::to_owned) else {
        let message = format!("{}: the path is not UTF-8; rename the file", typed.display());
        return Err(Failure::new(status::NOT_RUNNABLE, message));
    };
    Ok(Located { host, path, args: Vec::new(), relative: typed.is_relative() })
}

/// Host path and guest path of `typed`, which is a path in the guest's root or, if there
/// is none such, a host path that leads there.
fn below(typed: &Path, root: &Path) -> (PathBuf, PathBuf) {
    let inside = absolute(typed, Some(Path::new("/")));
    let host = root.join(inside.strip_prefix("/").unwrap_or(&inside));
    if !host.exists()
        && let Ok(full) = typed.canonicalize()
        && let Ok(rest) = full.strip_prefix(root)
    {
        return (full.clone(), Path::new("/").join(rest));
    }
    (host, inside)
}

/// Refuses what is no regular, readable file; errors call it `name`.
fn check(host: &Path, name: &Path) -> Result<(), Failure> {
    file::open(host).map(drop).map_err(|mut e| {
        name.clone_into(&mut e.path);
        let hint = match e.source {
            LoadError::Missing => "; give a program's path or a name from `emu guests`",
            _ => "",
        };
        Failure::new(e.exit_code(), format!("{e}{hint}"))
    })
}

/// An absolute path without `.` and `..`, by name alone.
fn absolute(path: &Path, cwd: Option<&Path>) -> PathBuf {
    use std::path::Component;
    let mut full = PathBuf::from("/");
    for part in cwd.unwrap_or(Path::new("/")).join(path).components() {
        match part {
            Component::Normal(name) => full.push(name),
            Component::ParentDir => {
                full.pop();
            }
            _ => {}
        }
    }
    full
}

/// The error for a word that is neither a name nor a file.
fn or_not_in(catalogue: &Catalogue, name: &str, error: Failure) -> Failure {
    if error.status != status::NOT_FOUND {
        return error;
    }
    let names = catalogue.guests().iter().map(|g| g.name.as_str());
    Failure::new(status::NOT_FOUND, unknown("guest and no file", name, names))
}

/// `no WHAT is called NAME`, with those of `names` that look like it.
pub fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let hint = did_you_mean(name, names);
    format!("no {what} is called {name:?}; {hint}`emu guests` lists the guests")
}

/// `did you mean NAME? `, or nothing if none of `names` is like `name`.
pub fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = near(name, names);
    match near.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", near.join(" or ")),
    }
}

/// At most three of `names` that differ from `name` by a slip or two, or contain it.
pub fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let slips = (name.chars().count() / 3).clamp(1, 3);
    let contained = |n: &str| name.len() >= 3 && (n.contains(name) || name.contains(n));
    spelling::nearest(name, names, |distance, n| distance <= slips || contained(n))
}

/// The fixed environment, changed as `--env` says; the last of a name counts.
fn environment(changes: &[Variable]) -> Vec<Vec<u8>> {
    let fixed = [("PATH", "/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C"), ("TERM", "dumb")];
    let mut variables: Vec<Variable> = fixed.map(|(n, v)| Variable::new(n, v)).into();
    for change in changes {
        match variables.iter_mut().find(|v| v.name == change.name) {
            Some(variable) => variable.value.clone_from(&change.value),
            None => variables.push(change.clone()),
        }
    }
    variables.iter().map(Variable::entry).collect()
}

#[derive(Debug, Default)]
struct NamedFiles {
    files: Vec<(String, PathBuf)>,
    /// The host's working directory if a relative name has to resolve.
    cwd: Option<String>,
}

/// The host files that arguments name, as the guest will find them.
fn named_files(args: &[OsString], cwd: Option<&Path>) -> NamedFiles {
    let mut named = NamedFiles::default();
    for arg in args {
        let typed = Path::new(arg);
        let host = cwd.map_or_else(|| typed.to_owned(), |cwd| cwd.join(typed));
        let path = absolute(typed, cwd);
        let (Some(path), true) = (path.to_str(), host.is_file()) else { continue };
        if typed.is_relative() {
            let Some(cwd) = cwd.and_then(Path::to_str) else { continue };
            named.cwd = Some(cwd.to_owned());
        }
        named.files.push((path.to_owned(), host));
    }
    named
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use std::fs;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    fn options() -> WorldOptions {
        WorldOptions { root: None, env: Vec::new() }
    }

    fn at(command: &[&str], options: &WorldOptions, cwd: &Path) -> Result<World, Failure> {
        build(&words(command), options, Arch::X86_64, Some(cwd))
    }

    #[test]
    fn names_that_look_alike() {
        let names = ["demo", "hello", "hello-musl", "segv", "leaf"];
        let near = |n| near(n, names.into_iter());
        assert_eq!(near("demoo"), ["demo"]);
        assert_eq!(near("hello-mus"), ["hello-musl", "hello"]);
        assert_eq!(near("HELLO"), [""; 0]);
        assert_eq!(near("x"), [""; 0]);
        let message = unknown("guest", "sgev", names.into_iter());
        assert_eq!(message, "no guest is called \"sgev\"; `emu guests` lists the guests");
    }

    #[test]
    fn a_path_is_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        fs::write(cwd.join("prog"), "x").unwrap();
        let prog = cwd.join("prog");
        let world = at(&[prog.to_str().unwrap(), "a"], &options(), &cwd).unwrap();
        assert_eq!(world.program.path, prog.to_str().unwrap());
        assert_eq!(world.program.host, prog);
        assert_eq!(world.program.args[1..], [b"a"]);
        let dotted = at(&["./prog"], &options(), &cwd).unwrap();
        assert_eq!(dotted.program.host.as_os_str(), prog.as_os_str());
        assert_eq!(Some(dotted.program.cwd.as_str()), cwd.to_str());
        assert_eq!((world.program.cwd.as_str(), world.files.len()), ("/", 0));
        let missing = at(&["./missing"], &options(), &cwd).unwrap_err();
        assert_eq!(missing.status, status::NOT_FOUND);
        let folder = at(&["/"], &options(), &cwd).unwrap_err();
        assert_eq!(folder.status, status::NOT_RUNNABLE);
    }

    #[test]
    fn paths_below_a_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        fs::write(root.join("bin/prog"), "x").unwrap();
        let mut o = options();
        o.root = Some(root.clone());
        let outside = root.join("bin/prog");
        for typed in ["/bin/prog", "bin/prog", "/bin/../bin/prog", outside.to_str().unwrap()] {
            let world = at(&[typed, "/bin/prog"], &o, Path::new("/")).unwrap();
            assert_eq!(world.program.host, outside, "{typed}");
            assert_eq!(world.program.path, "/bin/prog");
            assert_eq!((world.files.len(), world.program.cwd.as_str()), (0, "/"));
        }
        assert_eq!(at(&["/etc/passwd"], &o, Path::new("/")).unwrap_err().status, 127);
        o.root = Some(root.join("bin/prog"));
        assert!(at(&["/x"], &o, &root).unwrap_err().message.unwrap().contains("--root"));
    }

    #[test]
    fn files_that_arguments_name_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        let file = cwd.join("in.txt");
        fs::write(&file, "x").unwrap();
        let absolute = file.to_str().unwrap();
        let named = named_files(&words(&["-n", "no", absolute]), Some(&cwd));
        assert_eq!(named.files, [(absolute.to_owned(), file.clone())]);
        assert_eq!(named.cwd, None);
        let named = named_files(&words(&["./x/../in.txt", "in.txt"]), Some(&cwd));
        assert_eq!(named.files.len(), 1);
        assert_eq!(named.cwd.as_deref(), cwd.to_str());
    }

    #[test]
    fn the_environment_is_fixed_but_for_changes() {
        let env = environment(&[
            Variable::new("LANG", "de"),
            Variable::new("X", "1"),
            Variable::new("X", "2"),
        ]);
        let env: Vec<&str> = env.iter().map(|e| std::str::from_utf8(e).unwrap()).collect();
        assert_eq!(env, ["PATH=/usr/bin:/bin", "HOME=/", "LANG=de", "TERM=dumb", "X=2"]);
    }

    #[test]
    fn a_catalogue_name_is_the_same_path_everywhere() {
        let world = at(&["demo"], &options(), Path::new("/")).unwrap();
        assert_eq!((world.program.path.as_str(), world.name.as_str()), ("/bin/demo", "demo"));
        let default = build(&[], &options(), Arch::Aarch64, None).unwrap();
        assert!(default.program.host.ends_with("bin/aarch64/demo"));
        assert_eq!(default.program.args, [b"demo"]);
        let golden = at(&["golden-fp"], &options(), Path::new("/")).unwrap();
        assert_eq!(golden.program.args, [&b"golden-fp"[..], b"mix", b"10"]);
        let own = at(&["golden-fp", "cpu"], &options(), Path::new("/")).unwrap();
        assert_eq!(own.program.args.len(), 2);
    }
}
