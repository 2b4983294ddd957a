//! Files that people name: opened without waiting, and only if they are of the kind that is
//! wanted.
//!
//! To open a named pipe waits for its other end, to read a terminal or a device may wait for
//! ever, and a directory opens but cannot be read.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

// Linux's values, the same on all hosts that the emulator runs on.
const O_NONBLOCK: i32 = 0o4000;
const O_NOCTTY: i32 = 0o400;

/// Opens a regular file for reading.
///
/// # Errors
///
/// Why not, and what to do; the path is the caller's to tell.
pub fn open(path: &Path) -> Result<File, String> {
    let words = |e: io::Error| e.to_string();
    regular(fs::metadata(path).map_err(words)?.file_type())?;
    // The path may lead elsewhere by now: do not wait, and look again.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK | O_NOCTTY)
        .open(path)
        .map_err(words)?;
    regular(file.metadata().map_err(words)?.file_type())?;
    Ok(file)
}

/// Opens a file for writing, with what it holds. A named pipe must have a reader.
///
/// # Errors
///
/// Why not, and what to do.
pub fn open_output(path: &Path) -> Result<File, String> {
    if let Some(pipe) = open_pipe(path)? {
        return Ok(pipe);
    }
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    opened.map_err(|e| e.to_string())
}

/// Checks that a regular file can be made, or is there, to be overwritten.
///
/// # Errors
///
/// What is there instead, and what to do.
pub fn check_output(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            Err(format!("it is {}; remove it, or choose another -o", kind(meta.file_type())))
        }
        _ => Ok(()),
    }
}

/// Opens a named pipe for writing, if `path` is one. One that nobody reads is refused:
/// opening it would wait, perhaps for ever.
///
/// # Errors
///
/// That nobody reads it, and what to do.
pub fn open_pipe(path: &Path) -> Result<Option<File>, String> {
    if !fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo()) {
        return Ok(None);
    }
    let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(path);
    // The first open tells whether there is a reader, and keeps it while the second, whose
    // writes wait for it, is made.
    let out = open(O_NONBLOCK).and_then(|_reader| open(0));
    out.map(Some).map_err(|e| format!("nobody reads this pipe ({e}); start its reader first"))
}

fn regular(found: FileType) -> Result<(), String> {
    match found.is_file() {
        true => Ok(()),
        false => Err(format!("it is {}; name a regular file", kind(found))),
    }
}

/// What a file is that is not regular.
fn kind(found: FileType) -> &'static str {
    if found.is_dir() {
        "a directory"
    } else if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = |path: &Path| open(path).unwrap_err();
        assert_eq!(error(&pipe), "it is a pipe; name a regular file");
        assert_eq!(error(dir.path()), "it is a directory; name a regular file");
        assert_eq!(error(Path::new("/dev/zero")), "it is a device; name a regular file");
        assert!(error(&dir.path().join("none")).starts_with("No such file"));
        assert!(open_output(&pipe).unwrap_err().starts_with("nobody reads this pipe"));
        assert!(check_output(&pipe).unwrap_err().starts_with("it is a pipe; remove it"));
        assert!(check_output(dir.path()).is_err());
        let file = dir.path().join("file");
        assert_eq!(check_output(&file), Ok(()));
        open_output(&file).unwrap();
        assert_eq!(check_output(&file), Ok(()));
        assert!(open(&file).is_ok());
        // With a reader, and the end of the reader held here.
        let both = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        assert!(open_output(&pipe).is_ok());
        drop(both);
    }
}
