//! `emu replay --extract`: the files of a recording, for tools that want to read them.
//!
//! A recording may come from anywhere, so nothing that is there already is written: the
//! directory is new or empty, files go to plain names below it, and no link is made.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::cli::replay::world;
use crate::kernel::vfs::host::Status;
use crate::kernel::vfs::{Lookup, Tree};
use crate::recording::Recording;

/// Writes the contents of all files below `dir`, where a profile names them; returns the
/// directory's full path.
///
/// # Errors
///
/// Why not, and what to do.
pub fn extract(recording: &Arc<Recording>, dir: &Path) -> Result<PathBuf, String> {
    let failed = |what: &Path, e: io::Error| format!("cannot write {}: {e}", what.display());
    fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
    if fs::read_dir(dir).map_err(|e| failed(dir, e))?.next().is_some() {
        return Err("there is something in it; name a new directory".to_owned());
    }
    let full = dir.canonicalize().map_err(|e| failed(dir, e))?;
    let files = named(recording);
    let files: Vec<_> =
        files.into_iter().filter_map(|(path, x, b)| Some((below(&path)?, x, b))).collect();
    let names: BTreeSet<&Path> = files.iter().map(|(path, ..)| path.as_path()).collect();
    if let Some((file, inner)) = file_and_folder(&names) {
        return Err(format!(
            "the recording has /{}, a file, and /{}, for which it would be a directory; there \
             were both at different times, and nothing is written",
            file.display(),
            inner.display()
        ));
    }
    for (below, executable, bytes) in files {
        let to = full.join(below);
        write(&to, executable, bytes).map_err(|e| failed(&to, e))?;
    }
    Ok(full)
}

/// The files with their names in a profile: below the root if there is one.
fn named(recording: &Arc<Recording>) -> Vec<(PathBuf, bool, &Arc<[u8]>)> {
    let program = &recording.manifest.program;
    let root = program.root.as_ref().map(|root| root.path());
    let mut files = Vec::new();
    for entry in &recording.manifest.host {
        let path = entry.path.path();
        let Some(bytes) = recording.contents(path) else { continue };
        let status = entry.stat.or(entry.lstat);
        let executable = matches!(status, Some(Ok(Status::Regular { executable: true, .. })));
        let inside = root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        files.push((inside.to_owned(), executable, bytes));
    }
    // A profile has the program's name after symbolic links.
    if let (Some(root), Some(bytes)) = (root, recording.contents(program.host.path())) {
        let (_, host) = world(recording, None);
        let (root, cwd, exe) = (root.to_owned(), program.cwd.clone(), program.path.clone());
        let tree = Tree::new(host, Some(root), cwd, exe);
        if let Ok((last, _)) = tree.lookup("", program.path.as_bytes(), Lookup::Follow) {
            files.push((last.into(), true, bytes));
        }
    }
    files
}

/// A file whose name would have to be a directory's for another, and that one.
fn file_and_folder<'n>(names: &BTreeSet<&'n Path>) -> Option<(&'n Path, &'n Path)> {
    names.iter().find_map(|inner| {
        let folder = inner.ancestors().skip(1).find_map(|folder| names.get(folder))?;
        Some((*folder, *inner))
    })
}

/// The plain names of a path; none for one that leads upwards.
fn below(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (plain != Path::new("")).then_some(plain)
}

fn write(to: &Path, executable: bool, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let mode = if executable { 0o755 } else { 0o644 };
    match OpenOptions::new().write(true).create_new(true).mode(mode).open(to) {
        Ok(mut file) => file.write_all(bytes),
        // The same file by another of its names.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_directory() {
        let found = |names: &[&'static str]| {
            file_and_folder(&names.iter().map(|name| Path::new(*name)).collect())
        };
        assert_eq!(found(&["a", "a/b/c"]), Some((Path::new("a"), Path::new("a/b/c"))));
        assert_eq!(found(&["a", "a.b", "ab/c", "d/a"]), None);
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let plain = |path| below(Path::new(path));
        assert_eq!(plain("/bin/prog"), Some("bin/prog".into()));
        assert_eq!(plain("a/./b"), Some("a/b".into()));
        for wrong in ["/../etc/passwd", "a/../../b", "..", "/", ""] {
            assert_eq!(plain(wrong), None, "{wrong}");
        }
    }
}
