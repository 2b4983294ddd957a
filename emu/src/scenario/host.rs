//! A host with nothing: scripted tasks have no files.

use std::io;
use std::path::{Path, PathBuf};

use arch::Errno;

use crate::engine::FileMap;
use crate::kernel::vfs::host::{Status, Stream};
use crate::kernel::vfs::{Host, Lookup};
use crate::loader::FileError;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct NoHost;

fn absent() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Host for NoHost {
    fn check_program(&self, _path: &Path) -> Result<(), FileError> {
        Ok(())
    }

    fn status(&self, _path: &Path, _how: Lookup) -> io::Result<Status> {
        Err(absent())
    }

    fn link(&self, _path: &Path) -> io::Result<String> {
        Err(absent())
    }

    fn list(&self, _path: &Path) -> Vec<String> {
        Vec::new()
    }

    fn canonical(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    fn open(&self, _path: &Path) -> io::Result<FileMap> {
        Err(absent())
    }

    fn read_input(&self, _buf: &mut [u8]) -> Result<usize, Errno> {
        Ok(0)
    }

    fn write_output(&self, _stream: Stream, _bytes: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
}
