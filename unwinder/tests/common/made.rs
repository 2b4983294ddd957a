//! A made-up x86_64 module of any size: functions that push, reserve and return.

use std::ops::Range;

use arch::Arch;
use unwinder::dwarf::Section;
use unwinder::elf::{Image, Slice};
use unwinder::module::Sections;

use crate::stacks::{Site, Xorshift, row_ends};

const TEXT: u64 = 0x1000_0000;
const SIZE: u64 = 64;
const HEADER: u64 = 0x4000_0000;
const FRAME: u64 = 0x5000_0000;
const SFRAME: u64 = 0x8000_0000;

type Bytes = &'static [u8];

/// Offsets of a function's rows, and their CFAs: `push rbp; push rbx; sub rsp, n; ...; add;
/// pop; pop; ret`.
fn rows(n: u64) -> [(u8, u32); 7] {
    let frame = 24 + 16 * (n % 7 + 1) as u32;
    [(0, 8), (1, 16), (2, 24), (6, frame), (56, 24), (57, 16), (58, 8)]
}

pub fn module(functions: u64) -> (Image<Bytes>, Vec<Site>) {
    let (frame, header) = eh_frame(functions);
    let whole = |bytes: Vec<u8>| {
        let len = bytes.len();
        Slice::new(&*bytes.leak(), 0..len)
    };
    let section = |address, bytes| Some(Section { address, bytes: whole(bytes) });
    let sections = Sections {
        eh_frame: section(FRAME, frame),
        eh_frame_hdr: section(HEADER, header),
        sframe: section(SFRAME, sframe(functions)),
        ..Sections::default()
    };
    let text: Vec<Range<u64>> = std::iter::once(TEXT..TEXT + functions * SIZE).collect();
    let image = Image { arch: Arch::X86_64, text, sections };
    (image.clone(), sites(&image))
}

/// Calls, in the middle of functions. A random part of them, in random order.
fn sites(image: &Image<Bytes>) -> Vec<Site> {
    let Image { arch, text, sections } = image.clone();
    let module = unwinder::Module::new("", arch, 0, text, sections);
    assert_eq!(module.problems(), []);
    let mut sites = row_ends(&module);
    sites.retain(|site| site.address % SIZE == 56);
    for site in &mut sites {
        site.address -= 26;
    }
    let mut random = Xorshift(7);
    (0..sites.len().min(20_000)).map(|_| random.pick(&sites)).collect()
}

fn eh_frame(functions: u64) -> (Vec<u8>, Vec<u8>) {
    let mut frame = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
    frame.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
    let mut header = vec![1, 0x1b, 3, 0x3b];
    header.extend((FRAME.wrapping_sub(HEADER + 4) as u32).to_le_bytes());
    header.extend((functions as u32).to_le_bytes());
    for n in 0..functions {
        let start = TEXT + n * SIZE;
        let at = FRAME + frame.len() as u64;
        header.extend((start.wrapping_sub(HEADER) as u32).to_le_bytes());
        header.extend((at.wrapping_sub(HEADER) as u32).to_le_bytes());
        let mut code = Vec::new();
        let mut before = 0;
        for (offset, cfa) in rows(n).into_iter().skip(1) {
            code.extend([0x40 | (offset - before), 0x0e]);
            let saved: &[u8] = match offset {
                1 => &[0x86, 2],
                2 => &[0x83, 3],
                57 => &[0xc3],
                58 => &[0xc6],
                _ => &[],
            };
            if cfa < 128 {
                code.push(cfa as u8);
            } else {
                code.extend([cfa as u8 | 0x80, (cfa >> 7) as u8]);
            }
            code.extend(saved);
            before = offset;
        }
        code.resize((code.len() + 1).next_multiple_of(4) - 1, 0);
        frame.extend((code.len() as u32 + 13).to_le_bytes());
        frame.extend(((at + 4 - FRAME) as u32).to_le_bytes());
        frame.extend((start.wrapping_sub(at + 8) as u32).to_le_bytes());
        frame.extend((SIZE as u32).to_le_bytes());
        frame.push(0);
        frame.extend(code);
    }
    frame.extend([0; 4]);
    (frame, header)
}

/// Version 3, with starts that are relative to themselves.
fn sframe(functions: u64) -> Vec<u8> {
    let (mut list, mut data) = (Vec::new(), Vec::new());
    for n in 0..functions {
        let field = SFRAME + 28 + 16 * n;
        list.extend((TEXT + n * SIZE).wrapping_sub(field).to_le_bytes());
        list.extend((SIZE as u32).to_le_bytes());
        list.extend((data.len() as u32).to_le_bytes());
        data.extend([7, 0, 0, 0, 0]);
        for (offset, cfa) in rows(n) {
            // The CFA from the stack pointer, and where the frame pointer is saved.
            match (1..58).contains(&offset) {
                true if cfa < 128 => data.extend([offset, 1 | 2 << 1, cfa as u8, 0xf0]),
                true => {
                    data.extend([
                        offset,
                        1 | 2 << 1 | 1 << 5,
                        cfa as u8,
                        (cfa >> 8) as u8,
                        0xf0,
                        0xff,
                    ]);
                }
                false => data.extend([offset, 1 | 1 << 1, cfa as u8]),
            }
        }
    }
    let mut all = vec![0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0];
    for number in [functions as u32, 7 * functions as u32, data.len() as u32, 0, list.len() as u32]
    {
        all.extend(number.to_le_bytes());
    }
    all.extend(list);
    all.extend(data);
    all
}
