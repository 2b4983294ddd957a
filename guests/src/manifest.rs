//! The manifest: how each prebuilt program was made, and its hash.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::catalogue::{CatalogueError, check_arches, check_name, is_relative, parse, read};

/// The manifest's file name.
pub const MANIFEST_FILE: &str = "MANIFEST.toml";

/// A program that took part in a build.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name entries refer to it by.
    pub name: String,
    /// Debian package.
    pub package: String,
    /// Version of that package.
    pub version: String,
    /// Source package and its version.
    pub source: String,
}

/// A library that is part of a program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The name entries refer to it by.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Debian package.
    pub package: String,
    /// Version of that package.
    pub version: String,
    /// Source package and its version.
    pub source: String,
    /// Licence, as an SPDX expression.
    pub licence: String,
}

/// A prebuilt program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binary {
    /// Name of the guest.
    pub name: String,
    /// Architecture.
    pub arch: String,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Sources, relative to the guests directory.
    pub sources: Vec<String>,
    /// The command that made it, without the directories of the machine.
    pub command: String,
    /// Names of its [`Tool`]s.
    pub tools: Vec<String>,
    /// Ids of its [`Library`] entries.
    pub libraries: Vec<String>,
}

/// All of the manifest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What compiled.
    #[serde(default, rename = "tool")]
    pub tools: Vec<Tool>,
    /// What is linked in.
    #[serde(default, rename = "library")]
    pub libraries: Vec<Library>,
    /// The programs.
    #[serde(default, rename = "binary")]
    pub binaries: Vec<Binary>,
}

impl Manifest {
    /// Reads `MANIFEST.toml` of the guests directory `dir`.
    pub fn load(dir: &Path) -> Result<Manifest, CatalogueError> {
        let path = dir.join(MANIFEST_FILE);
        Manifest::parse(&read(&path)?, &path)
    }

    /// Makes a manifest of its text; `path` is what errors name.
    pub fn parse(text: &str, path: &Path) -> Result<Manifest, CatalogueError> {
        let manifest: Manifest = parse(text, path)?;
        for b in &manifest.binaries {
            manifest.check(b).map_err(|problem| CatalogueError::Entry {
                path: PathBuf::from(path),
                entry: format!("{}/{}", b.arch, b.name),
                problem,
            })?;
        }
        Ok(manifest)
    }

    /// The program of the guest `name` for `arch`.
    pub fn find(&self, name: &str, arch: &str) -> Option<&Binary> {
        self.binaries.iter().find(|b| b.name == name && b.arch == arch)
    }

    fn check(&self, b: &Binary) -> Result<(), String> {
        check_name(&b.name)?;
        check_arches(std::iter::once(&b.arch))?;
        let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if b.sha256.len() != 64 || !b.sha256.chars().all(hex) {
            return Err("`sha256` has to be 64 lower-case hexadecimal digits".into());
        }
        if let Some(s) = b.sources.iter().find(|s| !is_relative(s)) {
            return Err(format!("source {s:?} has to be relative to the guests directory"));
        }
        if let Some(t) = b.tools.iter().find(|t| !self.tools.iter().any(|x| x.name == **t)) {
            return Err(format!("there is no [[tool]] named {t:?}"));
        }
        if let Some(l) = b.libraries.iter().find(|l| !self.libraries.iter().any(|x| x.id == **l)) {
            return Err(format!("there is no [[library]] with the id {l:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../MANIFEST.toml");

    fn parse(text: &str) -> Result<Manifest, CatalogueError> {
        Manifest::parse(text, Path::new("M.toml"))
    }

    #[test]
    fn finds_by_name_and_architecture() {
        let m = parse(TEXT).unwrap();
        for arch in crate::ARCHES {
            assert_eq!(m.find("hello", arch).unwrap().arch, arch);
        }
        assert!(m.find("hello", "m68k").is_none());
        assert!(m.find("nothing", "x86_64").is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, says) in [
            ("sha256 = \"", "sha256 = \"Z", "hexadecimal"),
            ("tools = [\"", "tools = [\"un", "[[tool]]"),
            ("libraries = [\"", "libraries = [\"un", "[[library]]"),
            ("[\"programs/", "[\"../programs/", "relative"),
            ("size = ", "size = -", "not well-formed"),
        ] {
            assert!(TEXT.contains(from));
            let e = parse(&TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(e.contains("M.toml") && e.contains(says), "{e}");
        }
    }
}
