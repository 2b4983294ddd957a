//! The vDSO: a shared object that the kernel maps into every program.
//!
//! Built from `emu/vdso` and checked in, so that building the emulator needs no
//! compiler for the other architecture. It exports what Linux's does and reads the
//! time from the CPU counter and the [vvar page](super::vvar), one page below it.
//!
//! Not there: x86_64 `getrandom` and `sgx_enter_enclave`, arm64 `getrandom` (programs
//! then use the system calls). As in Linux since 5.8, the arm64 signal trampoline has
//! no CFI; unwinders know its two instructions ([`SIGRETURN_CODE`]).

use std::borrow::Cow;

use arch::Arch;
use goblin::elf::Elf;
use goblin::elf::program_header::{PT_GNU_EH_FRAME, PT_NOTE};

use super::note;

/// `DT_SONAME`, and the name that unwinders and debuggers show.
pub const SONAME: &str = "linux-vdso.so.1";

/// Name of the arm64 signal trampoline.
pub const RT_SIGRETURN: &str = "__kernel_rt_sigreturn";

/// The arm64 signal trampoline: `mov x8, #139; svc #0`.
pub const SIGRETURN_CODE: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// The ELF file, which is to be mapped as it is, read-only and executable; not
/// padded to whole pages.
pub fn image(arch: Arch) -> &'static [u8] {
    match arch {
        Arch::X86_64 => include_bytes!("../../vdso/x86_64/vdso.so"),
        Arch::Aarch64 => include_bytes!("../../vdso/aarch64/vdso.so"),
    }
}

/// What a program finds as its vDSO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vdso {
    /// All of it.
    #[default]
    Full,
    /// The same code without CFI, as of kernels built without it: no unwinder by tables can
    /// leave it.
    NoCfi,
    /// None, as with `vdso=0` on the kernel's command line (x86_64).
    Off,
}

impl Vdso {
    /// The ELF file, see [`image`]; empty if there is none.
    pub fn image(self, arch: Arch) -> Cow<'static, [u8]> {
        match self {
            Vdso::Full => image(arch).into(),
            Vdso::NoCfi => without_cfi(image(arch)).into(),
            Vdso::Off => Cow::Borrowed(&[]),
        }
    }
}

/// The image without `.eh_frame`, its header and what leads there. It has another build id,
/// because it is another file.
fn without_cfi(image: &[u8]) -> Vec<u8> {
    /// `sizeof(Elf64_Shdr)`, `sizeof(Elf64_Phdr)`
    const HEADERS: (usize, usize) = (64, 56);
    let mut bytes = image.to_vec();
    // The image is ours, so goblin's reader of whole files may see it.
    let Ok(elf) = Elf::parse(image) else { return bytes };
    let mut clear = |start: usize, len: usize| {
        bytes.iter_mut().skip(start).take(len).for_each(|byte| *byte = 0);
    };
    for (index, section) in elf.section_headers.iter().enumerate() {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap_or_default();
        if [".eh_frame", ".eh_frame_hdr"].contains(&name) {
            clear(section.sh_offset as usize, section.sh_size as usize);
            clear(elf.header.e_shoff as usize + index * HEADERS.0, HEADERS.0); // SHT_NULL
        }
    }
    for (index, segment) in elf.program_headers.iter().enumerate() {
        if segment.p_type == PT_GNU_EH_FRAME {
            clear(elf.header.e_phoff as usize + index * HEADERS.1, HEADERS.1); // PT_NULL
        }
    }
    let notes = elf.program_headers.iter().find(|p| p.p_type == PT_NOTE);
    let id = notes.and_then(|p| note::build_id(image.get(p.file_range())?, p.p_align));
    if let Some(id) = id
        && let Some(at) = image.windows(id.len()).position(|window| *window == *id)
        && let Some(byte) = bytes.get_mut(at)
    {
        *byte ^= 0xff;
    }
    bytes
}

/// Offset of an exported function from the image's begin in bytes, `None` when there
/// is no such function.
pub fn symbol(arch: Arch, name: &str) -> Option<u64> {
    // The image is ours, so goblin's reader of whole files may see it.
    let elf = Elf::parse(image(arch)).ok()?;
    let symbol = elf
        .dynsyms
        .iter()
        .find(|s| s.is_function() && elf.dynstrtab.get_at(s.st_name) == Some(name))?;
    Some(symbol.st_value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use goblin::elf::program_header::{PT_DYNAMIC, PT_LOAD};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::loader::{PAGE, Span};

    const EXPORTS: [(Arch, &str, &[&str]); 2] = [
        (
            Arch::X86_64,
            "LINUX_2.6",
            &[
                "__vdso_clock_getres",
                "__vdso_clock_gettime",
                "__vdso_getcpu",
                "__vdso_gettimeofday",
                "__vdso_time",
                "clock_getres",
                "clock_gettime",
                "getcpu",
                "gettimeofday",
                "time",
            ],
        ),
        (
            Arch::Aarch64,
            "LINUX_2.6.39",
            &[
                "__kernel_clock_getres",
                "__kernel_clock_gettime",
                "__kernel_gettimeofday",
                RT_SIGRETURN,
            ],
        ),
    ];

    #[test]
    fn it_is_a_shared_object_of_one_read_execute_segment() {
        for arch in Arch::ALL {
            let elf = Elf::parse(image(arch)).unwrap();
            assert_eq!(elf.header.e_machine, arch.elf_machine());
            assert_eq!((elf.soname, elf.entry), (Some(SONAME), 0));
            let kinds: Vec<u32> = elf.program_headers.iter().map(|p| p.p_type).collect();
            assert_eq!(kinds, [PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_EH_FRAME]);
            let load = &elf.program_headers[0];
            assert_eq!((load.p_offset, load.p_vaddr, load.p_flags, load.p_align), (0, 0, 5, PAGE));
            assert!(image(arch).len() as u64 <= PAGE, "plan for a second page");
            assert_eq!(elf.dynrelas.len() + elf.dynrels.len() + elf.pltrelocs.len(), 0);
            let info = elf.dynamic.unwrap().info;
            assert!(
                info.hash.is_some()
                    && info.gnu_hash.is_some()
                    && info.versym != 0
                    && info.verdef != 0
            );
            let notes = elf.program_headers.iter().find(|p| p.p_type == PT_NOTE).unwrap();
            let notes = &image(arch)[notes.file_range()];
            assert_eq!(note::build_id(notes, 4).map(|id| id.len()), Some(20));
            assert!(notes.windows(6).any(|w| w == b"Linux\0"));
        }
    }

    #[test]
    fn it_exports_what_linux_exports() {
        for (arch, version, names) in EXPORTS {
            let elf = Elf::parse(image(arch)).unwrap();
            let function = |s: &goblin::elf::Sym| s.is_function() && s.st_shndx != 0;
            let mut exports: Vec<&str> =
                elf.dynsyms.iter().filter(function).map(|s| &elf.dynstrtab[s.st_name]).collect();
            exports.sort_unstable();
            assert_eq!(exports, names);
            let versions: Vec<&str> = elf
                .verdef
                .as_ref()
                .unwrap()
                .iter()
                .flat_map(|def| {
                    def.iter().map(|aux| &elf.dynstrtab[aux.vda_name]).collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(versions, [SONAME, version]);
            for name in names {
                assert!(symbol(arch, name).is_some_and(|at| at < image(arch).len() as u64));
            }
            assert_eq!(symbol(arch, version), None);
        }
    }

    /// The same code and symbols, and nothing of the tables.
    #[test]
    fn one_without_cfi() {
        for arch in Arch::ALL {
            let (full, bare) = (image(arch), Vdso::NoCfi.image(arch));
            assert_eq!((full.len(), Vdso::Off.image(arch).len()), (bare.len(), 0));
            let elf = Elf::parse(&bare).unwrap();
            assert!(elf.program_headers.iter().all(|p| p.p_type != PT_GNU_EH_FRAME));
            let names = elf.section_headers.iter().map(|s| elf.shdr_strtab.get_at(s.sh_name));
            assert!(names.flatten().all(|name| !name.contains("eh_frame")));
            let text = |bytes: &[u8]| {
                let elf = Elf::parse(bytes).unwrap();
                let name = |s: &&goblin::elf::SectionHeader| {
                    elf.shdr_strtab.get_at(s.sh_name) == Some(".text")
                };
                let section = elf.section_headers.iter().find(name).unwrap();
                bytes[section.file_range().unwrap()].to_vec()
            };
            assert_eq!(text(full), text(&bare));
            let id = |bytes: &[u8]| {
                let elf = Elf::parse(bytes).unwrap();
                let notes = elf.program_headers.iter().find(|p| p.p_type == PT_NOTE).unwrap();
                note::build_id(&bytes[notes.file_range()], 4).unwrap().to_vec()
            };
            assert_ne!(id(full), id(&bare));
        }
    }

    /// Every function has a row from its first to its last byte, found through the
    /// header's table, but the arm64 trampoline, which has none.
    #[test]
    fn every_function_has_cfi() {
        use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, UnwindSection};
        for (arch, _, names) in EXPORTS {
            let bytes = image(arch);
            let elf = Elf::parse(bytes).unwrap();
            let section = |name| {
                let s = elf
                    .section_headers
                    .iter()
                    .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(name))
                    .unwrap();
                let span = Span {
                    vaddr: s.sh_addr,
                    memsz: 0,
                    file_offset: s.sh_offset,
                    filesz: s.sh_size,
                    align: 1,
                };
                (span.vaddr, span.bytes(bytes).unwrap())
            };
            let ((hdr_at, hdr), (eh_at, eh)) = (section(".eh_frame_hdr"), section(".eh_frame"));
            let bases = BaseAddresses::default().set_eh_frame_hdr(hdr_at).set_eh_frame(eh_at);
            let hdr = EhFrameHdr::new(hdr, LittleEndian).parse(&bases, 8).unwrap();
            let eh = EhFrame::new(eh, LittleEndian);
            let table = hdr.table().unwrap();
            let find = |pc| table.fde_for_address(&eh, &bases, pc, EhFrame::cie_from_offset);
            for name in names {
                let start = symbol(arch, name).unwrap();
                let size = elf
                    .dynsyms
                    .iter()
                    .find(|s| &elf.dynstrtab[s.st_name] == *name)
                    .unwrap()
                    .st_size;
                if *name == RT_SIGRETURN {
                    assert!((start - 4..start + size).all(|pc| find(pc).is_err()));
                    assert_eq!(bytes[start as usize - 4..][..4], [0x1f, 0x20, 0x03, 0xd5], "nop");
                    assert_eq!(bytes[start as usize..][..8], SIGRETURN_CODE);
                    continue;
                }
                for pc in start..start + size {
                    let fde =
                        find(pc).unwrap_or_else(|e| panic!("{arch} {name}+{:#x}: {e}", pc - start));
                    let mut context = gimli::UnwindContext::new();
                    assert!(fde.unwind_info_for_address(&eh, &bases, &mut context, pc).is_ok());
                }
            }
        }
    }

    /// `emu/vdso/build.sh` was run after the last change of a source.
    #[test]
    fn the_images_and_sources_are_those_of_the_manifest() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vdso");
        let manifest = std::fs::read_to_string(folder.join("MANIFEST")).unwrap();
        let files: Vec<_> = manifest.lines().filter_map(|line| line.split_once("  ")).collect();
        assert_eq!(files.len(), 12);
        for (sum, file) in files {
            let digest = Sha256::digest(std::fs::read(folder.join(file)).unwrap());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, sum, "{file} changed: run emu/vdso/build.sh");
        }
    }
}
