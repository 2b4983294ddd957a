//! What a person sees and where the profile goes: errors, colours, `-o`.

use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::cli::files;
use crate::cli::options::{OutputOptions, is_stdout};
use crate::engine::streams;
use crate::export::{ExportError, Format, Output};

/// Exit statuses of our own.
pub mod status {
    /// A limit of ours ended the run.
    pub const LIMIT: u8 = 124;
    /// We failed, or were called wrongly.
    pub const FAILURE: u8 = 125;
    /// The guest cannot be run.
    pub const NOT_RUNNABLE: u8 = 126;
    /// There is no such guest.
    pub const NOT_FOUND: u8 = 127;
    /// Plus the number of the signal that ended the guest, or us.
    pub const SIGNAL: u8 = 128;
}

/// Why a command did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit status.
    pub status: u8,
    /// What, where, what to do; `None` if there is nobody to tell.
    pub message: Option<String>,
}

impl Failure {
    /// A failure with a message.
    pub fn new(status: u8, message: impl ToString) -> Failure {
        Failure { status, message: Some(without_numbers(&message.to_string())) }
    }

    /// The reader of our standard output has gone: what the shell shows for a program
    /// that SIGPIPE ended.
    pub fn broken_pipe() -> Failure {
        Failure { status: status::SIGNAL + 13, message: None }
    }
}

/// Whether the profile's reader, not we, ended the export.
pub fn is_broken_pipe(error: &ExportError) -> bool {
    matches!(error, ExportError::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Failure {
        if is_broken_pipe(&error) {
            return Failure::broken_pipe();
        }
        Failure::new(status::FAILURE, error)
    }
}

/// A message without the `(os error N)` that says twice what the words before say.
pub fn without_numbers(message: &str) -> String {
    let mut text = message.to_owned();
    while let Some(start) = text.find(" (os error ")
        && let Some(len) = text[start..].find(')')
    {
        text.replace_range(start..=start + len, "");
    }
    text
}

/// Text on one line: control characters are escaped, line ends become spaces.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut line = String::new();
    for c in text.chars() {
        match c {
            '\n' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line.into()
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Prints `emu: MESSAGE` on standard error, on one line.
pub fn complain(message: &str) {
    to_stderr(&format!("emu: {}\n", one_line(message)));
}

/// Prints on standard error. If that fails there is nobody left to tell.
pub fn to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints on standard output what was asked for. A reader that has gone, such as
/// `head`, has seen enough.
///
/// # Errors
///
/// [`Failure`] if it cannot be written for any other reason.
pub fn to_stdout(text: &str) -> Result<(), Failure> {
    check_stdout()?;
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What came of writing to standard output. A reader that has gone has seen enough.
///
/// # Errors
///
/// [`Failure`] if it could not be written for any other reason.
pub fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(stdout_failure(&format!("{e}; redirect it elsewhere")))
        }
        _ => Ok(()),
    }
}

/// Checks that standard output is there.
///
/// # Errors
///
/// [`Failure`] if it is closed: what is written would be lost.
pub fn check_stdout() -> Result<(), Failure> {
    match streams::stdout_was_closed() {
        true => Err(stdout_failure("it is closed; redirect it to a file")),
        false => Ok(()),
    }
}

fn stdout_failure(why: &str) -> Failure {
    Failure::new(status::FAILURE, format!("cannot write to standard output: {why}"))
}

/// Colours, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Without colours.
    pub const PLAIN: Style = Style { colour: false };
    /// With colours.
    pub const COLOUR: Style = Style { colour: true };

    /// As standard error can show them and `NO_COLOR` allows.
    pub fn of_stderr() -> Style {
        Style::of(io::stderr().is_terminal())
    }

    /// As standard output can show them and `NO_COLOR` allows.
    pub fn of_stdout() -> Style {
        Style::of(io::stdout().is_terminal())
    }

    fn of(terminal: bool) -> Style {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let refused = set("NO_COLOR").is_some() || set("TERM").is_none_or(|t| t == "dumb");
        Style { colour: terminal && !refused }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// What matters most.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What matters least.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// What went wrong.
    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Names.
    pub fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// Where the profile goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// None is wanted.
    Nowhere,
}

impl Destination {
    /// As `-o` says, or by the format's default.
    pub fn new(options: &OutputOptions) -> Destination {
        match &options.output {
            Some(path) if is_stdout(path.as_os_str()) => Destination::Stdout,
            Some(path) => Destination::File(path.clone()),
            None => Destination::File(default_file(options.format).into()),
        }
    }

    /// Makes room for the profile and opens it; `None` if none is wanted. What a file holds
    /// already is kept as `FILE.old`.
    ///
    /// # Errors
    ///
    /// [`Failure`] with the file and what the host said.
    pub fn open(&self, format: Format) -> Result<Option<Output>, Failure> {
        Ok(Some(match self {
            Destination::Nowhere => return Ok(None),
            Destination::File(path) => {
                let pipe = files::open_pipe(path).map_err(|why| {
                    Failure::new(status::FAILURE, format!("-o {}: {why}", path.display()))
                })?;
                if let Some(out) = pipe {
                    let out = Output::Stream { out: Box::new(out), name: self.name() };
                    return Ok(Some(out));
                }
                keep_old(path)?;
                Output::File(path.clone())
            }
            Destination::Stdout => {
                if format == Format::PerfData && io::stdout().is_terminal() {
                    return Err(Failure::new(
                        status::FAILURE,
                        "-o -: standard output is a terminal and a profile is binary; \
                         redirect it, or use --format script",
                    ));
                }
                check_stdout()?;
                let out = io::stdout().as_fd().try_clone_to_owned().map_err(|e| {
                    Failure::new(status::FAILURE, format!("cannot write to standard output: {e}"))
                })?;
                let out = Box::new(fs::File::from(out));
                Output::Stream { out, name: "standard output".to_owned() }
            }
        }))
    }

    /// Its name in the summary.
    pub fn name(&self) -> String {
        match self {
            Destination::File(path) => one_line(&path.to_string_lossy()).into_owned(),
            Destination::Stdout => "standard output".to_owned(),
            Destination::Nowhere => "nothing".to_owned(),
        }
    }

    /// The profile's file, unless it is standard output, a device or a pipe.
    pub fn regular_file(&self) -> Option<&Path> {
        match self {
            Destination::File(path) if is_regular(path) => Some(path),
            _ => None,
        }
    }
}

impl Destination {
    /// The name of a file beside the profile, if that is, or will be, a regular file.
    pub fn beside(&self, name: impl Fn(&Path) -> PathBuf) -> Option<PathBuf> {
        match self {
            Destination::File(path) if is_regular(path) || !path.exists() => Some(name(path)),
            _ => None,
        }
    }
}

/// The profile's name when `-o` does not give one.
pub const fn default_file(format: Format) -> &'static str {
    match format {
        Format::PerfData => "perf.data",
        Format::Folded => "perf.folded",
        Format::Script => "perf.script",
    }
}

/// The kernel's symbols beside a profile.
pub fn kallsyms_of(profile: &Path) -> PathBuf {
    with_suffix(profile, ".kallsyms")
}

/// The true stacks beside a profile.
pub fn truth_of(profile: &Path) -> PathBuf {
    with_suffix(profile, ".truth")
}

/// A path with more behind its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Renames the profile `path`, if it is a regular file, to `path.old`, and so the kernel's
/// symbols and the truth beside it, to `path.old.kallsyms` and `path.old.truth`.
fn keep_old(path: &Path) -> Result<(), Failure> {
    if !is_regular(path) {
        return Ok(());
    }
    let old = with_suffix(path, ".old");
    rename(path, &old)?;
    for beside in [kallsyms_of, truth_of] {
        if beside(path).is_file() {
            rename(&beside(path), &beside(&old))?;
        } else if beside(&old).is_file() {
            // Of the profile that is overwritten.
            remove(&beside(&old))?;
        }
    }
    Ok(())
}

/// Whether `path` is a regular file of the user's: not `/dev/stdout`, which leads to one if
/// standard output does, and must not be renamed.
fn is_regular(path: &Path) -> bool {
    path.is_file() && !["/dev", "/proc"].iter().any(|folder| path.starts_with(folder))
}

fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|e| {
        let message = format!("cannot remove {}: {e}; choose another file with -o", path.display());
        Failure::new(status::FAILURE, message)
    })
}

fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::rename(from, to).map_err(|e| {
        let (from, to) = (from.display(), to.display());
        let message = format!("cannot rename {from} to {to}: {e}; choose another file with -o");
        Failure::new(status::FAILURE, message)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let to = Destination::File(pipe.clone());
        let failure = to.open(Format::PerfData).err().unwrap();
        assert!(failure.message.unwrap().contains("start its reader first"));
        // Both ends: the open does not wait for a writer.
        let both = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        assert!(matches!(to.open(Format::PerfData), Ok(Some(Output::Stream { .. }))));
        drop(both);
    }

    #[test]
    fn messages_are_one_line() {
        assert_eq!(one_line("a\nb\x1b[1m"), "a b\\u{1b}[1m");
        let failure = Failure::new(1, format!("x: {}; y", io::Error::from_raw_os_error(2)));
        assert_eq!(failure.message.unwrap(), "x: No such file or directory; y");
    }

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("a/b.c"), "a/b.c");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_profile_before_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.data");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        let to = Destination::File(path.clone());
        assert!(to.regular_file().is_none());
        to.open(Format::PerfData).unwrap();
        fs::write(&path, "1").unwrap();
        fs::write(kallsyms_of(&path), "k1").unwrap();
        to.open(Format::PerfData).unwrap();
        assert_eq!((read("p.data"), read("p.data.old")), (None, Some("1".into())));
        assert_eq!(read("p.data.old.kallsyms"), Some("k1".into()));
        fs::write(&path, "2").unwrap();
        assert_eq!(to.regular_file(), Some(path.as_path()));
        to.open(Format::PerfData).unwrap();
        assert_eq!(read("p.data.old"), Some("2".into()));
        fs::remove_file(dir.path().join("p.data.old")).unwrap();
        fs::create_dir(dir.path().join("p.data.old")).unwrap();
        fs::write(&path, "3").unwrap();
        let failure = to.open(Format::PerfData).map(drop).unwrap_err();
        assert_eq!(failure.status, status::FAILURE);
        assert!(failure.message.unwrap().starts_with("cannot rename "));
        assert_eq!(read("p.data"), Some("3".into()));
    }

    #[test]
    fn a_link_to_standard_output_is_no_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file.as_file()));
        let to = Destination::File(path.clone().into());
        assert_eq!((to.regular_file(), to.beside(truth_of)), (None, None));
        assert!(
            matches!(to.open(Format::PerfData), Ok(Some(Output::File(p))) if p == Path::new(&path))
        );
    }

    #[test]
    fn a_reader_that_went_away_is_no_message() {
        let write = |kind: io::ErrorKind| {
            let to = "standard output".to_owned();
            Failure::from(ExportError::Write { what: "x", to, source: kind.into() })
        };
        assert_eq!(write(io::ErrorKind::BrokenPipe), Failure { status: 141, message: None });
        assert_eq!(write(io::ErrorKind::StorageFull).status, status::FAILURE);
    }
}
