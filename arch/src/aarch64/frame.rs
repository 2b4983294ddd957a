//! Frames as A64 compilers make them.

use crate::frame::FrameStep;

fn word(code: &[u8]) -> Option<u32> {
    code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// See [`crate::frame::frame_step`].
pub fn frame_step(code: &[u8]) -> Option<FrameStep> {
    use FrameStep::{Landing, Setup, Teardown};
    let word = word(code)?;
    match word {
        0xd503_241f | 0xd503_245f | 0xd503_249f | 0xd503_24df => return Some(Landing), // bti
        0xd503_233f | 0xd503_237f => return Some(Setup), // paciasp, pacibsp
        0xd503_23bf | 0xd503_23ff => return Some(Teardown), // autiasp, autibsp
        _ => {}
    }
    // Pairs and single registers, relative to `sp`.
    let general = matches!(word & 31, 19..=30);
    let vector = matches!(word & 31, 8..=15);
    match word & 0xffc0_03e0 {
        0xa980_03e0 | 0x6d80_03e0 => return Some(Setup), // stp …, [sp, n]!
        0xa8c0_03e0 | 0x6cc0_03e0 => return Some(Teardown), // ldp …, [sp], n
        0xa900_03e0 | 0xf900_03e0 if general => return Some(Setup),
        0x6d00_03e0 | 0xfd00_03e0 if vector => return Some(Setup),
        0xa940_03e0 | 0xf940_03e0 if general => return Some(Teardown),
        0x6d40_03e0 | 0xfd40_03e0 if vector => return Some(Teardown),
        _ => {}
    }
    match word & 0xffe0_0fe0 {
        0xf800_0fe0 | 0xfc00_0fe0 => return Some(Setup), // str …, [sp, n]!
        0xf840_07e0 | 0xfc40_07e0 => return Some(Teardown), // ldr …, [sp], n
        _ => {}
    }
    // Additions and subtractions of constants.
    match word & 0xff80_03ff {
        0xd100_03ff | 0x9100_03fd => Some(Setup), // sub sp, sp, n; add x29, sp, n
        0x9100_03ff | 0x9100_03bf | 0xd100_03bf => Some(Teardown), // add sp, sp|x29, n
        _ => None,
    }
}

/// See [`crate::frame::plt_entry_len`]: `adrp x16, …`, `ldr x17, [x16, …]`, `add x16, x16, …`,
/// `br x17`.
pub fn plt_entry_len(code: &[u8]) -> Option<usize> {
    const ENTRY: [(u32, u32); 4] = [
        (0x9f00_001f, 0x9000_0010),
        (0xffc0_03ff, 0xf940_0211),
        (0xff80_03ff, 0x9100_0210),
        (0xffff_ffff, 0xd61f_0220),
    ];
    let words = ENTRY.iter().zip(code.as_chunks().0);
    let matching =
        words.filter(|((mask, value), bytes)| u32::from_le_bytes(**bytes) & mask == *value);
    (matching.count() == ENTRY.len()).then_some(16)
}
