//! The prebuilt programs are what the catalogue and the manifest say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use goblin::elf::note::NT_GNU_BUILD_ID;
use goblin::elf::{Elf, header, program_header, section_header};
use guests::{ARCHES, Catalogue, Libc, Link, Manifest};
use sha2::{Digest, Sha256};

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn catalogue() -> Catalogue {
    Catalogue::load(&dir()).unwrap_or_else(|e| panic!("{e}"))
}

fn manifest() -> Manifest {
    Manifest::load(&dir()).unwrap_or_else(|e| panic!("{e}"))
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn catalogue_manifest_and_files_name_the_same_programs() {
    let catalogue = catalogue();
    let manifest = manifest();
    for arch in ARCHES {
        let listed: BTreeSet<_> = catalogue
            .guests()
            .iter()
            .filter(|g| g.has_arch(arch))
            .map(|g| g.name.clone())
            .collect();
        let made: BTreeSet<_> =
            manifest.binaries.iter().filter(|b| b.arch == arch).map(|b| b.name.clone()).collect();
        assert_eq!(listed, names_in(&dir().join("bin").join(arch)), "catalogue and bin/{arch}");
        assert_eq!(listed, made, "catalogue and manifest, {arch}");
    }
}

#[test]
fn every_guest_is_there_for_both_architectures() {
    for guest in catalogue().guests() {
        for arch in ARCHES {
            assert!(guest.has_arch(arch), "{} for {arch}", guest.name);
        }
    }
}

#[test]
fn hashes_sizes_and_sources() {
    let catalogue = catalogue();
    let manifest = manifest();
    for b in &manifest.binaries {
        let what = format!("{}/{}", b.arch, b.name);
        let guest = catalogue.find(&b.name).unwrap();
        let data = fs::read(catalogue.path(guest, &b.arch)).unwrap();
        assert_eq!(data.len() as u64, b.size, "{what}");
        let hash: String = Sha256::digest(&data).iter().map(|x| format!("{x:02x}")).collect();
        assert_eq!(hash, b.sha256, "{what}: not what build.sh made");
        let sources: Vec<_> = b.sources.iter().map(|s| dir().join(s)).collect();
        assert!(sources.contains(&catalogue.source(guest, &b.arch)), "{what}: {sources:?}");
        assert!(sources.iter().all(|s| s.is_file()), "{what}: {sources:?}");
        let name = format!("{}-{}", guest.libc, b.arch);
        let libc = b.libraries.iter().any(|l| l.strip_prefix("lab-").unwrap_or(l) == name);
        assert_eq!(libc, guest.libc != Libc::None, "{what}: {:?}", b.libraries);
        assert!(!b.tools.is_empty() && !b.command.is_empty(), "{what}");
    }
}

#[test]
fn elf_files() {
    let catalogue = catalogue();
    for guest in catalogue.guests() {
        for arch in &guest.arches {
            let path = catalogue.path(guest, arch);
            let what = path.display();
            let data = fs::read(&path).unwrap();
            let elf = Elf::parse(&data).unwrap_or_else(|e| panic!("{what}: {e}"));
            let machine = match arch.as_str() {
                "x86_64" => header::EM_X86_64,
                _ => header::EM_AARCH64,
            };
            assert_eq!(elf.header.e_machine, machine, "{what}: machine");
            let kind = match guest.link {
                Link::Static => header::ET_EXEC,
                Link::StaticPie => header::ET_DYN,
            };
            assert_eq!(elf.header.e_type, kind, "{what}: type");
            assert_eq!(elf.interpreter, None, "{what}: not static");
            assert!(elf.libraries.is_empty(), "{what}: needs {:?}", elf.libraries);
            let functions = elf.syms.iter().filter(|s| s.is_function()).count();
            assert!(functions > 0, "{what}: no function symbols");
            let build_id =
                elf.iter_note_headers(&data).into_iter().flatten().flatten().find(|n| {
                    n.n_type == NT_GNU_BUILD_ID && n.name.trim_end_matches('\0') == "GNU"
                });
            assert_eq!(build_id.map(|n| n.desc.len()), Some(20), "{what}: build-id");
            let stack =
                elf.program_headers.iter().find(|p| p.p_type == program_header::PT_GNU_STACK);
            assert!(stack.is_some_and(|p| !p.is_executable()), "{what}: executable stack");
            let section = |name: &str| {
                elf.section_headers.iter().find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(name))
            };
            let frame = section(".eh_frame");
            assert!(frame.is_some_and(|s| s.sh_type != section_header::SHT_NOBITS), "{what}: CFI");
            if !guest.has_tag("rust") {
                assert!(section(".debug_line").is_some(), "{what}: no line information");
            }
        }
    }
}

/// Nothing of the machine that built them: only names below `guests/programs`
/// and those that Debian's libraries carry.
#[test]
fn no_directories_of_the_build() {
    let catalogue = catalogue();
    for guest in catalogue.guests() {
        for arch in &guest.arches {
            let path = catalogue.path(guest, arch);
            let data = fs::read(&path).unwrap();
            for bad in ["/tmp/tmp.", "/home/", "/root/", "guests/bin/"] {
                let found = data.windows(bad.len()).any(|w| w == bad.as_bytes());
                assert!(!found, "{}: contains {bad}", path.display());
            }
        }
    }
}

#[test]
fn assembly_exists_for_both_architectures() {
    let [x, a] = ARCHES.map(|arch| names_in(&dir().join("programs/asm").join(arch)));
    assert_eq!(x, a);
}

/// The files of `tables/` are those that were put there, and nothing that could be run here.
#[test]
fn files_to_read_tables_from() {
    let tables = dir().join("tables");
    let sums = fs::read_to_string(tables.join("SHA256SUMS")).unwrap();
    let mut listed = BTreeSet::from(["README.md".to_owned(), "SHA256SUMS".to_owned()]);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let data = fs::read(tables.join(name)).unwrap();
        let hash: String = Sha256::digest(&data).iter().map(|x| format!("{x:02x}")).collect();
        assert_eq!(hash, sum, "{name}");
        let elf = Elf::parse(&data).unwrap();
        assert!(elf.interpreter.is_some(), "{name} is static: a guest");
        let section = |s: &section_header::SectionHeader| elf.shdr_strtab.get_at(s.sh_name);
        assert!(elf.section_headers.iter().any(|s| section(s) == Some(".sframe")), "{name}");
        listed.insert(name.to_owned());
    }
    assert_eq!(listed, names_in(&tables));
    assert!(listed.len() > 20, "{listed:?}");
}

#[test]
fn the_directory_stays_small() {
    fn size(path: &Path) -> u64 {
        let meta = fs::symlink_metadata(path).unwrap();
        if !meta.is_dir() {
            return meta.len();
        }
        fs::read_dir(path).unwrap().map(|e| size(&e.unwrap().path())).sum()
    }
    let all = size(&dir());
    assert!(all < 26 << 20, "guests/ takes {all} bytes");
}
