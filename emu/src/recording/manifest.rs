//! What a recording says of its run, besides the bytes of files.

use serde::{Deserialize, Serialize};

use super::input::Segment;
use super::text::Text;
use crate::kernel::task::Ending;
use crate::kernel::vfs::host::Status;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the emulator that recorded.
    pub emu: String,
    /// The guest's name for people, as typed.
    pub name: String,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// What was run.
    pub program: Program,
    /// `CLOCK_REALTIME` at boot, nanoseconds since the epoch.
    pub boot_time: u64,
    /// Options of sampling and machine in effect, defaults included.
    pub options: Vec<Word>,
    /// The command line as the profile has it.
    pub cmdline: Vec<Text>,
    /// Without a root: paths of the guest, and the host files that they show.
    pub shown: Vec<(String, Text)>,
    /// What the host answered, ascending by path.
    pub host: Vec<Entry>,
    /// How standard input was read.
    pub input: Vec<Segment>,
    /// Standard output and standard error, where they could no longer be written.
    pub failed: [Option<Failed>; 2],
    /// What came of it.
    pub expected: Expected,
}

/// What was run, and in which world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Path of the program on the host.
    pub host: Text,
    /// The same file as the guest sees it.
    pub path: String,
    /// Arguments, the first being the program's name.
    pub args: Vec<Text>,
    /// Environment, `NAME=value`.
    pub env: Vec<Text>,
    /// Folder of the host that is the guest's `/`.
    pub root: Option<Text>,
    /// Working directory in the guest.
    pub cwd: String,
}

/// An option of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// With its dashes: `--count`.
    pub option: String,
    /// None of an option that is only there or not.
    pub value: Option<Text>,
}

/// What the host said: a value or an error number.
pub type Answer<T> = Result<T, u16>;

/// What the host answered about a path. What it was not asked is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// On the host.
    pub path: Text,
    /// `lstat`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lstat: Option<Answer<Status>>,
    /// `stat`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stat: Option<Answer<Status>>,
    /// Where a symbolic link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Answer<String>>,
    /// Names in the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<String>>,
    /// The path after all symbolic links; `ENOENT` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<Answer<Text>>,
    /// The file was opened: the number of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Answer<u32>>,
}

/// A stream that could no longer be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Writes before the first that failed.
    pub after: u64,
    /// With this error number, as all later ones.
    pub errno: u16,
}

/// What came of a run: the same whenever it is replayed with the same options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// How the guest ended.
    pub end: End,
    /// User instructions.
    pub instructions: u64,
    /// Samples of each event.
    pub samples: Vec<(String, u64)>,
    /// Standard output and standard error.
    pub output: [Output; 2],
    /// SHA-256 of the profile, see [`profile`](super::profile); none if the run was interrupted.
    pub profile: Option<String>,
    /// The sessions beside the main one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionExpected>,
}

/// What came of a session beside the main one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionExpected {
    /// Samples of each event.
    pub samples: Vec<(String, u64)>,
    /// SHA-256 of its profile; none if the run was interrupted.
    pub profile: Option<String>,
}

/// How a guest ended: [`Ending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// `exit_group` with this status.
    Exited(u8),
    /// A signal without a handler.
    Signalled(u8),
    /// `--max-instructions`, or Ctrl-C while it was recorded.
    Limit,
    /// Something unsupported under `--strict`.
    Strict,
    /// Every thread waited for something that could not come.
    Deadlock,
    /// The kernel did not get back to user mode.
    Livelock,
}

impl From<Ending> for End {
    fn from(ending: Ending) -> End {
        match ending {
            Ending::Exited(status) => End::Exited(status),
            Ending::Signalled(signal) => End::Signalled(signal),
            Ending::Limit | Ending::Interrupted => End::Limit,
            Ending::Strict => End::Strict,
            Ending::Deadlock => End::Deadlock,
            Ending::Livelock => End::Livelock,
        }
    }
}

/// Everything that was written to a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Bytes.
    pub len: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// The bytes, if they are few.
    pub text: Option<Text>,
}
