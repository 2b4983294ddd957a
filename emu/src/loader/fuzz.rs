//! The oracle that fuzzing drives: what must hold for any bytes at all.

use super::auxv::Aux;
use super::elf::{Image, Kind};
use super::{MMAP_MIN_ADDR, Options, PAGE, parse, plan, stack};

/// Reads `bytes` as a program and, if they are one, plans it and builds its stack.
///
/// # Panics
///
/// When a promise of this module is broken: an error of more than one line, a
/// segment outside the file or the address space, an address outside its area.
pub fn fuzz_elf(bytes: &[u8]) {
    let image = match parse(bytes) {
        Ok(image) => image,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(['\n', '\r', '\0']), "not one line: {line:?}");
            assert!(matches!(error.exit_code(), 126 | 127));
            return;
        }
    };
    check_image(&image, bytes);
    for aslr in [None, Some(bytes.len() as u64)] {
        check_plan(&image, &Options { aslr, vdso_size: 2 * PAGE, ..Options::default() });
    }
}

fn check_image(image: &Image, bytes: &[u8]) {
    for s in &image.segments {
        assert!(s.memsz > 0 && s.filesz <= s.memsz);
        assert!(s.filesz == 0 || s.file_offset + s.filesz <= bytes.len() as u64);
        assert!(s.filesz == 0 || s.file_offset % PAGE == s.vaddr % PAGE);
        assert!(image.load_min <= s.vaddr && s.end() <= image.load_max);
        assert!(image.kind == Kind::Pie || s.vaddr >= MMAP_MIN_ADDR);
    }
    assert!(image.load_max < image.arch.task_size());
    assert!(image.alignment().is_power_of_two());
    for span in [image.relro, image.tls, image.eh_frame_hdr, image.sframe].into_iter().flatten() {
        assert!(span.bytes(bytes).is_none_or(|b| b.len() as u64 == span.filesz));
    }
}

fn check_plan(image: &Image, options: &Options) {
    let layout = match plan(image, options) {
        Ok(layout) => layout,
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    assert!((layout.image_start..layout.image_end).contains(&layout.entry));
    assert_eq!(layout.image_end - layout.image_start, image.span());
    assert!(layout.image_end < layout.stack_top && layout.mmap_base < layout.stack_top);
    for page in
        [layout.image_start, layout.image_end, layout.brk, layout.mmap_base, layout.stack_top]
    {
        assert_eq!(page % PAGE, 0);
    }
    if let Some(vvar) = layout.vvar {
        let end = vvar + PAGE + options.vdso_size;
        assert!(end <= layout.image_start || vvar >= layout.image_end);
        assert!(vvar >= MMAP_MIN_ADDR && end <= layout.mmap_base);
    }
    let aux = Aux::new(image, &layout, 1000, 1000);
    let built = stack::build(&stack::Input {
        arch: image.arch,
        top: layout.stack_top,
        skew: layout.stack_skew,
        stack_limit: options.stack_limit,
        argv: &[],
        envp: &[],
        execfn: b"guest",
        random: [0; 16],
        aux,
    });
    assert!(built.is_ok_and(|s| s.sp % 16 == 0));
}
