//! The catalogue: what each guest is, shows and does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::ARCHES;
use crate::expect::{self, Expectation, Expectations, Fault};
use crate::locate::CATALOGUE_FILE;

/// Why a catalogue (or a manifest) could not be used.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// The file could not be read.
    #[error(
        "cannot read {}: {error}; it belongs to the directory `guests` of the repository, \
         run from inside the repository or name that directory",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// The file is not TOML, or not of the expected shape.
    #[error("{} is not well-formed: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong and where, over several lines.
        message: String,
    },
    /// An entry makes no sense.
    #[error("{}: entry `{entry}`: {problem}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The name in the entry.
        entry: String,
        /// What is wrong with it, and what it should be.
        problem: String,
    },
}

/// The C library a guest is linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Libc {
    /// None: the program makes its system calls itself.
    None,
    /// musl.
    Musl,
    /// The GNU C library.
    Glibc,
}

impl Libc {
    /// The name the catalogue uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Libc::None => "none",
            Libc::Musl => "musl",
            Libc::Glibc => "glibc",
        }
    }
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a guest is linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// At a fixed address (`ET_EXEC`).
    #[default]
    Static,
    /// Position-independent, relocating itself (`ET_DYN` without interpreter).
    StaticPie,
}

impl Link {
    /// The name the catalogue uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Link::Static => "static",
            Link::StaticPie => "static-pie",
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where one architecture differs from the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Standard output, when it differs.
    pub stdout: Option<String>,
    /// Standard error, when it differs.
    pub stderr: Option<String>,
    /// Exit code, when it differs.
    pub exit: Option<i32>,
    /// Verdicts on single steps, by method, when they differ. Not for a [`Case`].
    #[serde(default)]
    pub check: Expectations,
    /// Verdicts on whole walks, by method, when they differ. Not for a [`Case`].
    #[serde(default)]
    pub walk: Expectations,
}

/// A further run of a guest, with other arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What this run is about, unique within the guest.
    pub name: String,
    /// Arguments, without the program's name.
    #[serde(default)]
    pub args: Vec<String>,
    /// Exact standard output.
    #[serde(default)]
    pub stdout: String,
    /// Exact standard error.
    #[serde(default)]
    pub stderr: String,
    /// Exit code, 128 + n for death by signal n.
    #[serde(default)]
    pub exit: i32,
    /// The architectures this run is for; empty: all of the guest's.
    #[serde(default)]
    pub arches: Vec<String>,
    /// Differences per architecture.
    #[serde(default)]
    pub on: BTreeMap<String, Override>,
}

/// A program of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// The name: that of its file in `bin/ARCH/`.
    pub name: String,
    /// One line: what running or profiling it is good for.
    pub shows: String,
    /// Its source below `programs/`; `ARCH` stands for the architecture.
    pub source: String,
    /// The C library it is linked with.
    pub libc: Libc,
    /// How it is linked.
    #[serde(default)]
    pub link: Link,
    /// Whether its own functions keep frame pointers (those of the C library do
    /// not, and leaf functions may not).
    pub frame_pointers: bool,
    /// Arguments of the default run, without the program's name.
    #[serde(default)]
    pub args: Vec<String>,
    /// Exact standard output of the default run.
    #[serde(default)]
    pub stdout: String,
    /// Exact standard error of the default run.
    #[serde(default)]
    pub stderr: String,
    /// Exit code of the default run, 128 + n for death by signal n.
    #[serde(default)]
    pub exit: i32,
    /// The architectures it is built for, of [`ARCHES`].
    #[serde(default = "all_arches")]
    pub arches: Vec<String>,
    /// Words to select guests by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Public faults of the kind that it shows.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// Verdicts on single steps, from each instruction to its caller, by method.
    #[serde(default)]
    pub check: Expectations,
    /// Verdicts on whole walks, from each instruction to the outermost frame, by method; by
    /// the function of that instruction.
    #[serde(default)]
    pub walk: Expectations,
    /// Differences of the default run per architecture.
    #[serde(default)]
    pub on: BTreeMap<String, Override>,
    /// Further runs.
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
}

fn all_arches() -> Vec<String> {
    ARCHES.iter().map(|a| a.to_string()).collect()
}

/// A command line of a guest and what comes of it on one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The name of the [`Case`]; none for the default run.
    pub case: Option<&'a str>,
    /// Arguments, without the program's name.
    pub args: &'a [String],
    /// Exact standard output.
    pub stdout: &'a str,
    /// Exact standard error.
    pub stderr: &'a str,
    /// Exit code, 128 + n for death by signal n.
    pub exit: i32,
}

impl<'a> Run<'a> {
    fn with(mut self, difference: Option<&'a Override>) -> Run<'a> {
        if let Some(d) = difference {
            self.stdout = d.stdout.as_deref().unwrap_or(self.stdout);
            self.stderr = d.stderr.as_deref().unwrap_or(self.stderr);
            self.exit = d.exit.unwrap_or(self.exit);
        }
        self
    }

    /// The signal this run dies of.
    pub fn signal(&self) -> Option<i32> {
        (self.exit > 128).then_some(self.exit - 128)
    }
}

impl Guest {
    /// Whether it is built for `arch`.
    pub fn has_arch(&self, arch: &str) -> bool {
        self.arches.iter().any(|a| a == arch)
    }

    /// Whether it carries `tag`.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }

    /// The default run on `arch`. Ask [`has_arch`](Self::has_arch) first whether
    /// there is one.
    pub fn default_run(&self, arch: &str) -> Run<'_> {
        Run {
            case: None,
            args: &self.args,
            stdout: &self.stdout,
            stderr: &self.stderr,
            exit: self.exit,
        }
        .with(self.on.get(arch))
    }

    /// All runs on `arch`: the default run, then those of the cases. None when
    /// the guest is not built for `arch`.
    pub fn runs<'a>(&'a self, arch: &'a str) -> impl Iterator<Item = Run<'a>> {
        let cases = self
            .cases
            .iter()
            .filter(move |c| c.arches.is_empty() || c.arches.iter().any(|a| a == arch))
            .map(move |c| {
                Run {
                    case: Some(&c.name),
                    args: &c.args,
                    stdout: &c.stdout,
                    stderr: &c.stderr,
                    exit: c.exit,
                }
                .with(c.on.get(arch))
            });
        std::iter::once(self.default_run(arch)).chain(cases).filter(move |_| self.has_arch(arch))
    }

    /// What is expected on `arch` of single steps by `method`, if anything.
    pub fn check(&self, arch: &str, method: &str) -> Option<&Expectation> {
        let different = self.on.get(arch).and_then(|o| o.check.get(method));
        different.or_else(|| self.check.get(method))
    }

    /// What is expected on `arch` of whole walks by `method`, if anything.
    pub fn walk(&self, arch: &str, method: &str) -> Option<&Expectation> {
        let different = self.on.get(arch).and_then(|o| o.walk.get(method));
        different.or_else(|| self.walk.get(method))
    }

    fn validate(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.shows.trim().is_empty() || self.shows.contains('\n') {
            return Err("`shows` has to be one line".into());
        }
        if !is_relative(&self.source) {
            return Err(format!(
                "`source` is {:?}, but has to be a path below programs/",
                self.source
            ));
        }
        if self.arches.is_empty() {
            return Err("`arches` is empty; leave it out for all architectures".into());
        }
        check_arches(self.arches.iter().chain(self.on.keys()))?;
        check_exit(self.exit, &self.on)?;
        self.faults.iter().try_for_each(Fault::check)?;
        expect::check(&self.check)?;
        expect::check(&self.walk)?;
        for different in self.on.values() {
            expect::check(&different.check)?;
            expect::check(&different.walk)?;
        }
        let mut names = BTreeSet::new();
        for case in &self.cases {
            if case.name.is_empty() || !names.insert(&case.name) {
                return Err(format!("case name {:?} is empty or not unique", case.name));
            }
            check_arches(case.arches.iter().chain(case.on.keys()))?;
            check_exit(case.exit, &case.on)?;
            if case.on.values().any(|o| !o.check.is_empty() || !o.walk.is_empty()) {
                return Err(format!("case {:?}: verdicts are those of the default run", case.name));
            }
        }
        Ok(())
    }
}

/// Names become file names, so they are plain.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
        return Err("names are made of the characters a-z, 0-9 and -".into());
    }
    Ok(())
}

pub(crate) fn check_arches<'a>(arches: impl Iterator<Item = &'a String>) -> Result<(), String> {
    for arch in arches {
        if !ARCHES.contains(&arch.as_str()) {
            return Err(format!(
                "unknown architecture {arch:?}, known are {}",
                ARCHES.join(" and ")
            ));
        }
    }
    Ok(())
}

pub(crate) fn is_relative(path: &str) -> bool {
    use std::path::Component;
    !path.is_empty() && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
}

fn check_exit(exit: i32, on: &BTreeMap<String, Override>) -> Result<(), String> {
    for exit in on.values().filter_map(|o| o.exit).chain([exit]) {
        if !(0..=255).contains(&exit) {
            return Err(format!("`exit` is {exit}, but has to be within 0 and 255"));
        }
    }
    Ok(())
}

/// The guests of a directory.
#[derive(Clone, Debug)]
pub struct Catalogue {
    dir: PathBuf,
    guests: Vec<Guest>,
}

impl Catalogue {
    /// Reads `catalogue.toml` of the guests directory `dir`.
    ///
    /// Whether the programs themselves exist is not looked at.
    pub fn load(dir: &Path) -> Result<Catalogue, CatalogueError> {
        let path = dir.join(CATALOGUE_FILE);
        let text = read(&path)?;
        Catalogue::parse(&text, dir)
    }

    /// Makes a catalogue of the text of a `catalogue.toml` in `dir`.
    pub fn parse(text: &str, dir: &Path) -> Result<Catalogue, CatalogueError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            guest: Vec<Guest>,
        }

        let path = dir.join(CATALOGUE_FILE);
        let file: File = parse(text, &path)?;
        let mut names = BTreeSet::new();
        for guest in &file.guest {
            let problem = match guest.validate() {
                Ok(()) if names.insert(guest.name.as_str()) => continue,
                Ok(()) => "there is another entry of this name".into(),
                Err(problem) => problem,
            };
            return Err(CatalogueError::Entry { path, entry: guest.name.clone(), problem });
        }
        Ok(Catalogue { dir: dir.to_path_buf(), guests: file.guest })
    }

    /// The directory of this catalogue.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All guests, in the order of the file.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// The guest called `name`.
    pub fn find(&self, name: &str) -> Option<&Guest> {
        self.guests.iter().find(|g| g.name == name)
    }

    /// Where the program of `guest` for `arch` is: `DIR/bin/ARCH/NAME`.
    pub fn path(&self, guest: &Guest, arch: &str) -> PathBuf {
        self.dir.join("bin").join(arch).join(&guest.name)
    }

    /// Where the source of `guest` for `arch` is: `DIR/programs/...`.
    pub fn source(&self, guest: &Guest, arch: &str) -> PathBuf {
        self.dir.join("programs").join(guest.source.replace("ARCH", arch))
    }
}

pub(crate) fn read(path: &Path) -> Result<String, CatalogueError> {
    std::fs::read_to_string(path)
        .map_err(|error| CatalogueError::Read { path: path.to_path_buf(), error })
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    text: &str,
    path: &Path,
) -> Result<T, CatalogueError> {
    toml::from_str(text).map_err(|error| CatalogueError::Parse {
        path: path.to_path_buf(),
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Catalogue, CatalogueError> {
        Catalogue::parse(text, Path::new("/g"))
    }

    const MINIMAL: &str = r#"
[[guest]]
name = "one"
shows = "the least an entry needs"
source = "asm/ARCH/one.S"
libc = "none"
frame_pointers = false
"#;

    #[test]
    fn defaults() {
        let c = parse(MINIMAL).unwrap();
        let g = c.find("one").unwrap();
        assert_eq!(g.link, Link::Static);
        assert_eq!(g.arches, ARCHES);
        assert_eq!(
            g.default_run("x86_64"),
            Run { case: None, args: &[], stdout: "", stderr: "", exit: 0 }
        );
        assert_eq!(c.path(g, "aarch64"), Path::new("/g/bin/aarch64/one"));
        assert_eq!(c.source(g, "aarch64"), Path::new("/g/programs/asm/aarch64/one.S"));
        assert!(c.find("two").is_none());
        assert_eq!(c.guests().len(), 1);
        assert_eq!(c.dir(), Path::new("/g"));
    }

    #[test]
    fn cases_and_differences() {
        let c = parse(&format!(
            "{MINIMAL}{}",
            r#"
stdout = "same\n"
exit = 3
on.aarch64.exit = 139

[[guest.case]]
name = "x86 only"
args = ["a", "b"]
arches = ["x86_64"]

[[guest.case]]
name = "different"
stdout = "x\n"
[guest.case.on.aarch64]
stdout = "y\n"
stderr = "z\n"
"#
        ))
        .unwrap();
        let g = c.find("one").unwrap();
        let x: Vec<_> = g.runs("x86_64").collect();
        let a: Vec<_> = g.runs("aarch64").collect();
        assert_eq!(x.len(), 3);
        assert_eq!(a.len(), 2);
        assert_eq!((x[0].exit, x[0].signal()), (3, None));
        assert_eq!((a[0].exit, a[0].signal()), (139, Some(11)));
        assert_eq!(a[0].stdout, "same\n");
        assert_eq!(x[1].args, ["a", "b"]);
        assert_eq!(x[1].case, Some("x86 only"));
        assert_eq!((x[2].stdout, x[2].stderr), ("x\n", ""));
        assert_eq!((a[1].stdout, a[1].stderr), ("y\n", "z\n"));
        assert_eq!(g.runs("riscv64").count(), 0);
    }

    #[test]
    fn mistakes_are_named() {
        let replace = |from: &str, to: &str| {
            assert!(MINIMAL.contains(from));
            parse(&MINIMAL.replace(from, to)).unwrap_err().to_string()
        };
        let e = parse("guest = 1").unwrap_err().to_string();
        assert!(e.contains("/g/catalogue.toml"), "{e}");
        let e = parse("[[guest]\n").unwrap_err().to_string();
        assert!(e.contains("not well-formed"), "{e}");
        let e = replace("name = \"one\"", "name = \"../one\"");
        assert!(e.contains("`../one`") && e.contains("a-z"), "{e}");
        let e = replace("\"none\"", "\"newlib\"");
        assert!(e.contains("newlib") && e.contains("musl"), "{e}");
        let e = replace("libc", "lib");
        assert!(e.contains("lib"), "{e}");
        let e = replace("asm/ARCH/one.S", "/etc/passwd");
        assert!(e.contains("below programs/"), "{e}");
        let e = replace("frame_pointers", "exit = 256\nframe_pointers");
        assert!(e.contains("256"), "{e}");
        let e = replace("frame_pointers", "arches = [\"m68k\"]\nframe_pointers");
        assert!(e.contains("m68k"), "{e}");
        let e = replace("frame_pointers", "arches = []\nframe_pointers");
        assert!(e.contains("empty"), "{e}");
        let e = parse(&format!("{MINIMAL}{MINIMAL}")).unwrap_err().to_string();
        assert!(e.contains("another entry"), "{e}");
        let e =
            parse(&format!("{MINIMAL}[[guest.case]]\nname=\"a\"\n[[guest.case]]\nname=\"a\"\n"))
                .unwrap_err()
                .to_string();
        assert!(e.contains("not unique"), "{e}");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let e = Catalogue::load(Path::new("/nonexistent/guests")).unwrap_err();
        assert!(matches!(e, CatalogueError::Read { .. }));
        assert!(e.to_string().contains("/nonexistent/guests/catalogue.toml"));
    }

    /// Cut and damaged texts give an error or a catalogue, never a panic.
    #[test]
    fn damaged_text() {
        let text = include_str!("../catalogue.toml");
        let step = text.len() / 200 + 1;
        for at in (0..text.len()).step_by(step) {
            let Some(cut) = text.get(..at) else { continue };
            let _ = parse(cut);
            for junk in ["\"", "[", "\u{0}", "=\n", "9999999999999999999999"] {
                let _ = parse(&format!("{cut}{junk}{}", text.get(at..).unwrap_or("")));
            }
        }
    }
}
