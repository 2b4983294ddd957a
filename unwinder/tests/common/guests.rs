//! Programs and dumps of programs whose tables the tests read.

use std::fs;
use std::path::{Path, PathBuf};

use arch::Arch;
use object::{Object, ObjectSection};
use unwinder::dwarf::{Section, Sections};

/// The call-frame sections of one program.
pub struct Guest {
    pub name: String,
    pub arch: Arch,
    pub path: PathBuf,
    pub eh_frame: Option<(u64, Vec<u8>)>,
    pub eh_frame_hdr: Option<(u64, Vec<u8>)>,
    pub debug_frame: Option<(u64, Vec<u8>)>,
}

impl Guest {
    fn slot(&mut self, section: &str) -> &mut Option<(u64, Vec<u8>)> {
        match section {
            ".eh_frame" => &mut self.eh_frame,
            ".eh_frame_hdr" => &mut self.eh_frame_hdr,
            ".debug_frame" => &mut self.debug_frame,
            other => panic!("no call-frame section: {other}"),
        }
    }

    /// The tables to test: `.eh_frame` with and without its header, `.debug_frame`.
    pub fn sections(&self) -> Vec<Sections<&[u8]>> {
        let mut all = Vec::new();
        if let Some(frame) = section(&self.eh_frame) {
            all.push(Sections::EhFrame { frame, header: None, text: None, got: None });
            if let header @ Some(_) = section(&self.eh_frame_hdr) {
                all.push(Sections::EhFrame { frame, header, text: None, got: None });
            }
        }
        if let Some(Section { bytes, .. }) = section(&self.debug_frame) {
            all.push(Sections::DebugFrame { bytes });
        }
        all
    }
}

fn section(section: &Option<(u64, Vec<u8>)>) -> Option<Section<&[u8]>> {
    section.as_ref().map(|(address, bytes)| Section { address: *address, bytes: &bytes[..] })
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The guests of the emulator, each built for both architectures.
pub fn programs() -> Vec<Guest> {
    let mut all = Vec::new();
    for arch in Arch::ALL {
        let mut paths: Vec<_> = fs::read_dir(folder("../guests/bin").join(arch.name()))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        all.extend(paths.into_iter().map(|path| program(arch, path)));
    }
    assert!(all.len() > 50);
    all
}

fn program(arch: Arch, path: PathBuf) -> Guest {
    let bytes = fs::read(&path).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let section = |name| {
        let section = file.section_by_name(name)?;
        Some((section.address(), section.data().unwrap().to_vec()))
    };
    Guest {
        name: format!("{arch} {}", path.file_name().unwrap().to_string_lossy()),
        arch,
        eh_frame: section(".eh_frame"),
        eh_frame_hdr: section(".eh_frame_hdr"),
        debug_frame: section(".debug_frame"),
        path,
    }
}

/// Dumps of dynamic and other programs (`data/cfi/make.sh`); `path` is readelf's output.
pub fn dumps() -> Vec<Guest> {
    let folder = folder("tests/data/cfi");
    let manifest = fs::read_to_string(folder.join("manifest")).unwrap();
    let mut all: Vec<Guest> = Vec::new();
    for line in manifest.lines().filter(|line| !line.starts_with('#')) {
        let [name, arch, section, address] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if all.last().is_none_or(|guest| guest.name != name) {
            all.push(Guest {
                name: name.into(),
                arch: arch.parse().unwrap(),
                path: folder.join(format!("{name}.txt")),
                eh_frame: None,
                eh_frame_hdr: None,
                debug_frame: None,
            });
        }
        let address = u64::from_str_radix(&address[2..], 16).unwrap();
        let bytes = fs::read(folder.join(format!("{name}{section}"))).unwrap();
        *all.last_mut().unwrap().slot(section) = Some((address, bytes));
    }
    assert!(all.len() > 20);
    all
}
