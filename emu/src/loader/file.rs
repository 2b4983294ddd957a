//! Opening the program file: every way in which that fails, told apart.

use std::fs::{self, File, FileType};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::error::{FileError, LoadError};

/// Opens a program file for reading.
///
/// The type is looked at before the open, which would wait for ever on a named
/// pipe. One byte is read, because some file systems refuse only then.
///
/// # Errors
///
/// [`LoadError::Missing`], [`Directory`](LoadError::Directory),
/// [`NotRegular`](LoadError::NotRegular) or [`Unreadable`](LoadError::Unreadable),
/// with the path.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_regular(path).map_err(|source| FileError { path: path.to_owned(), source })
}

fn open_regular(path: &Path) -> Result<File, LoadError> {
    let io = |e: io::Error| LoadError::from_io(&e);
    let kind = fs::metadata(path).map_err(io)?.file_type();
    if kind.is_dir() {
        return Err(LoadError::Directory);
    }
    if !kind.is_file() {
        return Err(LoadError::NotRegular(kind_name(kind)));
    }
    let mut file = File::open(path).map_err(io)?;
    file.read(&mut [0]).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    Ok(file)
}

/// What a file is that is neither regular nor a directory.
fn kind_name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn missing_is_127_and_the_rest_126() {
        let missing = open(Path::new("/nonexistent/guest\n")).unwrap_err();
        assert_eq!(missing.exit_code(), 127);
        assert_eq!(missing.to_string(), "/nonexistent/guest\\n: no such file");
        let directory = open(Path::new("/")).unwrap_err();
        assert_eq!((directory.source.clone(), directory.exit_code()), (LoadError::Directory, 126));
        assert_eq!(directory.to_string(), "/: is a directory: name a program file");
        let device = open(Path::new("/dev/null")).unwrap_err();
        assert_eq!(
            (device.source.clone(), device.exit_code()),
            (LoadError::NotRegular("device"), 126)
        );
        let denied = LoadError::from_io(&io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(
            (denied.to_string(), denied.exit_code()),
            ("cannot be read: permission denied".into(), 126)
        );
    }
}
