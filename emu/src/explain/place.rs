//! Where an address is: file, function, line, assembly.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arch::Arch;
use unwinder::CodeAddress;

use crate::show::{self, Line};
use crate::symbols::{Code, Image};

/// The files of a process.
#[derive(Debug)]
pub struct Places {
    arch: Arch,
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    /// Without its folder.
    name: String,
    bytes: Arc<[u8]>,
    bias: u64,
    code: Code,
    image: Image,
}

impl Places {
    /// No file yet.
    pub fn new(arch: Arch) -> Places {
        Places { arch, files: Vec::new() }
    }

    /// A file that is `bias` bytes above where it was linked.
    pub fn add(&mut self, path: &str, bytes: Arc<[u8]>, bias: u64) {
        let name = Path::new(path)
            .file_name()
            .map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned());
        let Some(code) = Code::new(bytes.clone()) else { return };
        let image = Image::from_bytes(name.as_str(), bytes.clone());
        self.files.push(File { name, bytes, bias, code, image });
    }

    /// The file of a code address, and where it was linked there.
    fn find(&self, at: u64) -> Option<(&File, u64)> {
        self.files.iter().find_map(|file| {
            let vaddr = at.wrapping_sub(file.bias);
            (!file.code.bytes_from(vaddr).is_empty()).then_some((file, vaddr))
        })
    }

    /// `main+0x1e`, or the address where nothing has a name.
    pub fn name(&self, address: CodeAddress) -> String {
        match self.symbol(address) {
            Some((name, 0)) => name,
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => address.to_string(),
        }
    }

    /// `main`, or the address where nothing has a name.
    pub fn function(&self, address: CodeAddress) -> String {
        self.symbol(address).map_or_else(|| address.to_string(), |(name, _)| name)
    }

    /// The function, and how far the address is from its start.
    fn symbol(&self, address: CodeAddress) -> Option<(String, u64)> {
        let (file, vaddr) = self.find(address.lookup().value())?;
        let (name, range) = file.code.function(vaddr)?;
        let offset = address.value().wrapping_sub(file.bias).wrapping_sub(range.start);
        Some((name.to_string(), offset))
    }

    /// The name of the file.
    pub fn file(&self, address: CodeAddress) -> Option<&str> {
        self.find(address.lookup().value()).map(|(file, _)| file.name.as_str())
    }

    /// `fib.c:12`, if there is debug information.
    pub fn line(&self, address: CodeAddress) -> Option<String> {
        let (file, vaddr) = self.find(address.lookup().value())?;
        let source = file.image.source(file.code.offset(vaddr)?).into_iter().next()?;
        let name = source.file?;
        let name = name.rsplit('/').next().unwrap_or(&name);
        Some(format!("{name}:{}", source.line?))
    }

    /// The range of the function, in the process.
    fn range(&self, at: u64) -> Option<Range<u64>> {
        let (file, vaddr) = self.find(at)?;
        let (_, range) = file.code.function(vaddr)?;
        Some(range.start.wrapping_add(file.bias)..range.end.wrapping_add(file.bias))
    }

    /// The system call instruction before `pc`, if the `kernel`'s functions, innermost first, say
    /// that one was made there.
    pub fn system_call(&self, kernel: &[String], pc: u64) -> Option<u64> {
        let (outermost, mnemonic, len) = match self.arch {
            Arch::X86_64 => ("entry_SYSCALL_64_after_hwframe", "syscall", 2),
            // A fault has the same outermost functions.
            Arch::Aarch64 => ("el0_svc", "svc", 4),
        };
        let at = kernel.iter().any(|name| name == outermost).then(|| pc.checked_sub(len))??;
        let (file, vaddr) = self.find(at)?;
        let line = show::Code::new(self.arch, &file.bytes).around(Some(vaddr), vaddr, 0);
        line.first().is_some_and(|line| line.text.starts_with(mnemonic)).then_some(at)
    }

    /// Instructions around `pc`, up to `count` before it and behind it.
    pub fn code(&self, pc: u64, count: usize) -> Vec<Line> {
        let Some((file, vaddr)) = self.find(pc) else { return Vec::new() };
        let range = self.range(pc);
        let start = range.as_ref().map(|range| range.start.wrapping_sub(file.bias));
        let mut lines = show::Code::new(self.arch, &file.bytes).around(start, vaddr, count);
        for line in &mut lines {
            line.address = line.address.wrapping_add(file.bias);
        }
        lines.retain(|line| range.as_ref().is_none_or(|range| range.contains(&line.address)));
        lines
    }
}
