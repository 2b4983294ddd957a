//! Files that a run writes: no two of them may be one, by whatever names, nor one that it reads.
//!
//! A profile is not alone. What was there before it becomes `FILE.old`; the kernel's symbols are in
//! `FILE.kallsyms`, true stacks in `FILE.truth`, and those of the profile before keep their place
//! beside `FILE.old`. A recording is written as `FILE.new` first.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::output::{Destination, Failure, kallsyms_of, status, truth_of, with_suffix};
use crate::cli::world::World;

/// Links to follow to a file that is not there yet (Linux's own limit).
const MOST_LINKS: usize = 40;

/// What a file is, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// It is there: device and inode.
    There(u64, u64),
    /// It will be: those of its directory, and its name.
    ToBe(u64, u64, PathBuf),
}

/// One of the files; of those that are only read, nothing is beside.
#[derive(Clone, Debug)]
struct Output {
    /// As people name it: `the profile FILE`.
    named: String,
    /// Itself.
    file: Identity,
    /// What else is written or renamed for it.
    beside: Vec<Identity>,
    /// It is read, not written.
    read: bool,
}

/// The files of a run that were named so far.
#[derive(Clone, Debug, Default)]
pub struct Outputs(Vec<Output>);

impl Outputs {
    /// Adds a profile, which is `what` to people.
    ///
    /// # Errors
    ///
    /// [`Failure`] if another output is the same file.
    pub fn profile(&mut self, what: &str, to: &Destination) -> Result<(), Failure> {
        let Destination::File(path) = to else { return Ok(()) };
        let old = with_suffix(path, ".old");
        let symbols = [kallsyms_of(path), kallsyms_of(&old)];
        let truth = [truth_of(path), truth_of(&old)];
        self.add(what, path, &[&symbols[..], &truth, &[old]].concat())
    }

    /// Adds a recording.
    ///
    /// # Errors
    ///
    /// As of [`Outputs::profile`].
    pub fn recording(&mut self, path: &Path) -> Result<(), Failure> {
        self.add("the recording", path, &[with_suffix(path, ".new")])
    }

    /// Adds a file with nothing beside it, which is `what` to people.
    ///
    /// # Errors
    ///
    /// As of [`Outputs::profile`].
    pub fn file(&mut self, what: &str, path: &Path) -> Result<(), Failure> {
        self.add(what, path, &[])
    }

    /// Adds a file that is read, which is `what` to people. Two names may lead to it.
    pub fn input(&mut self, what: &str, path: &Path) {
        let named = format!("{what} {}", path.display());
        if let Some(file) = Identity::of(path) {
            self.0.push(Output { named, file, beside: Vec::new(), read: true });
        }
    }

    /// Adds what a guest is made of: its program, and the files that its command line names.
    pub fn guest(&mut self, world: &World) {
        self.input("the program", &world.program.host);
        world.files.iter().for_each(|(_, host)| self.input("the guest's file", host));
    }

    fn add(&mut self, what: &str, path: &Path, beside: &[PathBuf]) -> Result<(), Failure> {
        let named = format!("{what} {}", path.display());
        let Some(file) = Identity::of(path) else { return Ok(()) };
        let beside: Vec<Identity> = beside.iter().filter_map(|path| Identity::of(path)).collect();
        let same = |other: &&Output| {
            let all = beside.contains(&other.file) || other.beside.contains(&file);
            all || other.file == file
        };
        if let Some(other) = self.0.iter().find(same) {
            let message = match other.file == file {
                true if other.read => format!("{named}: this is {}, which is read", other.named),
                false if other.read => format!(
                    "{named}: {}, which is read, would be replaced, as what was there before and \
                     what belongs to it have names that begin with its own",
                    other.named
                ),
                true => format!("{named}: this is the file of {}, too", other.named),
                false => format!(
                    "{named}: this and {} are in each other's way, as the profile before it and \
                     what belongs to it have names that begin with its own",
                    other.named
                ),
            };
            return Err(Failure::new(status::FAILURE, format!("{message}; choose another name")));
        }
        self.0.push(Output { named, file, beside, read: false });
        Ok(())
    }
}

impl Identity {
    /// That of a path; `None` of one that is, or leads to, no regular file: a device or a pipe may
    /// be written to by many.
    fn of(path: &Path) -> Option<Identity> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Ok(meta) = fs::metadata(&path) {
                return meta.is_file().then(|| Identity::There(meta.dev(), meta.ino()));
            }
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).to_owned();
            match fs::read_link(&path) {
                Ok(target) => path = folder.join(target),
                Err(_) => {
                    let meta = fs::metadata(folder).ok()?;
                    let name = path.file_name()?.into();
                    return Some(Identity::ToBe(meta.dev(), meta.ino(), name));
                }
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_two_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let to = |name: &str| Destination::File(at(name));
        fs::write(at("there"), "").unwrap();
        fs::hard_link(at("there"), at("hard")).unwrap();
        symlink(at("there"), at("soft")).unwrap();
        symlink("p", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink(dir.path(), at("folder")).unwrap();
        for (profile, other, refused) in [
            ("p", "p", true),
            ("p", "./p", true),
            ("p", "folder/p", true),
            ("p", "dangling", true),
            ("p", "p.old", true),
            ("p", "p.kallsyms", true),
            ("p", "p.old.truth", true),
            ("p.old", "p", false),
            ("there", "hard", true),
            ("there", "soft", true),
            ("there", "there.new", false),
            ("p", "q", false),
            ("p", "loop", false),
            ("p", "none/p", false),
        ] {
            let mut outputs = Outputs::default();
            outputs.profile("-o", &to(profile)).unwrap();
            let added = outputs.file("--timeline-output", &at(other));
            assert_eq!(added.is_err(), refused, "{profile} {other}");
            // The other way round.
            let mut outputs = Outputs::default();
            outputs.file("--timeline-output", &at(other)).unwrap();
            assert_eq!(outputs.profile("-o", &to(profile)).is_err(), refused, "{profile} {other}");
            let mut outputs = Outputs::default();
            outputs.profile("-o", &to(profile)).unwrap();
            let both = refused || profile == "p.old";
            assert_eq!(outputs.profile("--session -o", &to(other)).is_err(), both, "{other}");
        }
        let mut outputs = Outputs::default();
        outputs.recording(&at("r")).unwrap();
        assert!(outputs.profile("--profile", &to("r.new")).is_err());
    }

    #[test]
    fn what_is_read_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["prog", "p.old", "p.truth", "r.new"] {
            fs::write(at(name), "").unwrap();
        }
        symlink(at("prog"), at("soft")).unwrap();
        let mut inputs = Outputs::default();
        for name in ["prog", "soft", "p.old", "p.truth", "r.new", "none"] {
            inputs.input("the program", &at(name));
        }
        for (profile, refused) in [("prog", true), ("soft", true), ("p", true), ("q", false)] {
            let added = inputs.clone().profile("-o", &Destination::File(at(profile)));
            assert_eq!(added.is_err(), refused, "{profile}");
            let told = added.err().and_then(|e| e.message).unwrap_or_default();
            assert_eq!(told.contains("which is read"), refused, "{told}");
        }
        assert!(inputs.clone().recording(&at("r")).is_err());
        assert!(inputs.clone().file("--svg", &at("p.truth")).is_err());
        assert!(inputs.clone().file("--svg", &at("p.svg")).is_ok());
    }

    #[test]
    fn devices_are_for_all() {
        let mut outputs = Outputs::default();
        let null = Destination::File("/dev/null".into());
        outputs.profile("-o", &null).unwrap();
        outputs.profile("--session -o", &null).unwrap();
        outputs.profile("-o", &Destination::Stdout).unwrap();
    }
}
