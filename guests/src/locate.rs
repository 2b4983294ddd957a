//! Where the guests are.

use std::path::{Path, PathBuf};

/// The file that makes a directory a guests directory.
pub const CATALOGUE_FILE: &str = "catalogue.toml";

/// The directories in which to look for the guests, in order:
///
/// 1. `guests` in the current directory and in each directory above it;
/// 2. `guests` beside the executable and in each directory above it, so that
///    an executable that was moved together with its `guests` finds them;
/// 3. `built_in`, where the guests were when this crate was built.
///
/// Relative directories are skipped for `cwd` and `exe`: there is nothing to
/// walk up from.
pub fn candidates(cwd: Option<&Path>, exe: Option<&Path>, built_in: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = Vec::new();
    let above_cwd = cwd.into_iter().flat_map(Path::ancestors);
    let above_exe = exe.into_iter().flat_map(|e| e.ancestors().skip(1));
    for dir in above_cwd.chain(above_exe).filter(|d| d.is_absolute()) {
        list.push(dir.join("guests"));
    }
    list.push(built_in.to_path_buf());
    let mut seen = std::collections::HashSet::new();
    list.retain(|dir| seen.insert(dir.clone()));
    list
}

/// The first of `candidates` for which `is_guests` holds, or else the last one,
/// so that an error message names a directory that once held the guests.
pub fn choose(candidates: &[PathBuf], is_guests: impl Fn(&Path) -> bool) -> PathBuf {
    candidates
        .iter()
        .find(|dir| is_guests(dir))
        .or(candidates.last())
        .cloned()
        .unwrap_or_else(|| PathBuf::from("guests"))
}

/// The guests directory: the first of [`candidates`] that holds a
/// [catalogue](CATALOGUE_FILE), or else where the guests were when this crate
/// was built.
pub fn default_dir() -> PathBuf {
    let cwd = std::env::current_dir().ok();
    let exe = std::env::current_exe().ok();
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = candidates(cwd.as_deref(), exe.as_deref(), built_in);
    choose(&list, |dir| dir.join(CATALOGUE_FILE).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn walks_up_from_both_places() {
        let list = candidates(
            Some(Path::new("/a/b")),
            Some(Path::new("/opt/emu/bin/emu")),
            Path::new("/src/guests"),
        );
        assert_eq!(
            list,
            paths(&[
                "/a/b/guests",
                "/a/guests",
                "/guests",
                "/opt/emu/bin/guests",
                "/opt/emu/guests",
                "/opt/guests",
                "/src/guests",
            ])
        );
    }

    #[test]
    fn without_places_only_the_built_in_one_is_left() {
        assert_eq!(candidates(None, None, Path::new("/src/guests")), paths(&["/src/guests"]));
        assert_eq!(
            candidates(
                Some(Path::new("relative")),
                Some(Path::new("emu")),
                Path::new("/src/guests")
            ),
            paths(&["/src/guests"])
        );
    }

    #[test]
    fn chooses_the_first_that_exists_and_else_the_last() {
        let list = paths(&["/a", "/b", "/c"]);
        assert_eq!(choose(&list, |p| p == Path::new("/b")), PathBuf::from("/b"));
        assert_eq!(choose(&list, |_| false), PathBuf::from("/c"));
        assert_eq!(choose(&[], |_| true), PathBuf::from("guests"));
    }

    #[test]
    fn the_default_directory_has_a_catalogue() {
        assert!(default_dir().join(CATALOGUE_FILE).is_file());
    }
}
