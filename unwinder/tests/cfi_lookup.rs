//! How entries are found: with and without `.eh_frame_hdr`, and what is wrong with either.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use arch::Arch::{Aarch64, X86_64};
use common::{CODE, Cie, FRAME, Frame, HEADER, PCREL, at, cfa, eh_frame, header, one};
use unwinder::dwarf::{Context, ErrorKind, Section, Sections, Table, Warning};
use unwinder::row::{CfaRule, Miss};

/// Three functions, the middle one first in the section, each with a CFA of its own.
fn three() -> (Frame, [(u64, usize); 3]) {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    let middle = frame.fde(cie, CODE + 0x100, 0x80, &[0x0e, 2]);
    let low = frame.fde(cie, CODE, 0x100, &[0x0e, 1]);
    let high = frame.fde(cie, CODE + 0x200, 0x100, &[0x0e, 3]);
    frame.terminator();
    (frame, [(CODE, low), (CODE + 0x100, middle), (CODE + 0x200, high)])
}

/// The CFA offsets at the interesting addresses of [`three`].
const EXPECTED: [(u64, Option<i64>); 9] = [
    (CODE - 1, None),
    (CODE, Some(1)),
    (CODE + 0xff, Some(1)),
    (CODE + 0x100, Some(2)),
    (CODE + 0x17f, Some(2)),
    (CODE + 0x180, None),
    (CODE + 0x200, Some(3)),
    (CODE + 0x2ff, Some(3)),
    (CODE + 0x300, None),
];

fn check(sections: Sections<&[u8]>) -> (bool, Vec<Warning>) {
    let (table, warnings) = Table::new(X86_64, sections).unwrap();
    let context = &mut Context::new();
    for (address, offset) in EXPECTED {
        let row = table.row(at(address), context);
        let found = row.map(|row| row.cfa);
        let expected = offset.map(|offset| cfa(7, offset)).ok_or(Miss::NotCovered);
        assert_eq!(found, expected, "at {address:#x}");
    }
    (table.uses_header(), warnings)
}

/// The only warning about [`three`] with this header.
fn refused(bytes: &[u8]) -> (u64, ErrorKind) {
    let (frame, _) = three();
    let (used, warnings) = check(eh_frame(&frame.bytes, Some(bytes)));
    let [warning] = warnings[..] else { panic!("{warnings:?}") };
    assert!(!used && warning.section.name() == ".eh_frame_hdr");
    (warning.offset, warning.kind)
}

#[test]
fn without_a_header() {
    assert_eq!(check(three().0.sections()), (false, vec![]));
}

#[test]
fn with_a_header() {
    let (frame, entries) = three();
    let bytes = header(FRAME, &entries);
    assert_eq!(check(eh_frame(&frame.bytes, Some(&bytes))), (true, vec![]));
}

#[test]
fn header_encodings() {
    let (frame, entries) = three();
    let fixed: Vec<_> = entries.iter().map(|&(start, fde)| [start, FRAME + fde as u64]).collect();
    let absolute = |size: usize, encoding: u8| {
        let mut all = bytes![[1, 0, 4, encoding], FRAME.to_le_bytes(), 3u64.to_le_bytes()];
        for value in fixed.iter().flatten() {
            all.extend(&value.to_le_bytes()[..size]);
        }
        all
    };
    for bytes in [absolute(8, 0), absolute(8, 4), absolute(8, 0xc), absolute(4, 3)] {
        assert_eq!(check(eh_frame(&frame.bytes, Some(&bytes))), (true, vec![]));
    }
    let mut relative = absolute(8, 0x1c);
    for (n, value) in relative[20..].chunks_mut(8).zip(fixed.iter().flatten()).enumerate() {
        let field = HEADER + 20 + 8 * n as u64;
        value.0.copy_from_slice(&value.1.wrapping_sub(field).to_le_bytes());
    }
    assert_eq!(check(eh_frame(&frame.bytes, Some(&relative))), (true, vec![]));
    // ULEB128 has no fixed size, text-relative has no base; indirect ones are in memory.
    assert_eq!(refused(&absolute(8, 1)), (3, ErrorKind::PointerEncoding(1)));
    assert_eq!(refused(&absolute(8, 0x2b)), (3, ErrorKind::PointerEncoding(0x2b)));
    assert_eq!(refused(&absolute(8, 0x8b)), (3, ErrorKind::IndirectPointer));
}

#[test]
fn omitted_search_tables() {
    let (_, entries) = three();
    let mut bytes = header(FRAME, &entries);
    bytes[3] = 0xff;
    assert_eq!(refused(&bytes), (2, ErrorKind::NoSearchTable));
    bytes[2] = 0xff;
    assert_eq!(refused(&bytes[..8]), (2, ErrorKind::NoSearchTable));
    assert_eq!(refused(&header(FRAME, &[])), (8, ErrorKind::NoSearchTable));
}

#[test]
fn truncated_headers() {
    let bytes = header(FRAME, &three().1);
    for len in 0..bytes.len() {
        let (offset, kind) = refused(&bytes[..len]);
        assert!(kind == ErrorKind::Truncated && offset <= len as u64, "{len}: {kind}");
    }
}

#[test]
fn huge_counts() {
    let mut bytes = bytes![[1, PCREL, 4, 0x3b], (FRAME - HEADER - 4).to_le_bytes()[..4]];
    bytes.extend(u64::MAX.to_le_bytes());
    assert_eq!(refused(&bytes).1, ErrorKind::Truncated);
    bytes[8..].copy_from_slice(&(1u64 << 61).to_le_bytes());
    assert_eq!(refused(&bytes).1, ErrorKind::Truncated);
}

#[test]
fn unsorted_headers() {
    let (_, [low, middle, high]) = three();
    let bytes = header(FRAME, &[low, high, middle]);
    assert_eq!(refused(&bytes), (12 + 2 * 8, ErrorKind::Unsorted));
}

#[test]
fn lying_headers() {
    let (_, [low, middle, high]) = three();
    let lie = |entries: &[(u64, usize)]| refused(&header(FRAME, entries));
    let disagrees = |address| ErrorKind::Disagrees { address };
    // One missing, in the middle and at the end.
    assert_eq!(lie(&[low, high]), (20, disagrees(middle.0)));
    assert_eq!(lie(&[low, middle]), (20, disagrees(high.0)));
    // One too many, and one that splits a function.
    assert_eq!(lie(&[low, middle, high, (high.0 + 0x100, low.1)]).0, 36);
    assert_eq!(lie(&[low, (CODE + 8, high.1), middle, high]), (20, disagrees(CODE + 8)));
    // Swapped, and to where no entry is.
    assert_eq!(lie(&[(low.0, middle.1), (middle.0, low.1), high]), (12, disagrees(low.0)));
    assert_eq!(lie(&[low, (middle.0, 1), high]), (20, disagrees(middle.0)));
    assert_eq!(lie(&[low, (middle.0, 0x1000_0000), high]), (20, disagrees(middle.0)));
    assert_eq!(lie(&[(low.0 + 1, low.1), middle, high]), (12, disagrees(low.0)));
    // Of another section.
    let other = header(FRAME + 8, &[low, middle, high]);
    assert_eq!(refused(&other), (4, ErrorKind::WrongFrame(FRAME + 8)));
    let mut version = header(FRAME, &[low, middle, high]);
    version[0] = 2;
    assert_eq!(refused(&version), (0, ErrorKind::Version(2)));
}

fn warned(frame: &Frame) -> Vec<(u64, ErrorKind)> {
    frame.table().1.iter().map(|w| (w.offset, w.kind)).collect()
}

/// The CFA offsets at some distances from [`CODE`]; 0 if not covered.
fn offsets<const N: usize>(frame: &Frame, distances: [u64; N]) -> [i64; N] {
    let (table, _) = frame.table();
    distances.map(|d| match table.row(at(CODE + d), &mut Context::new()) {
        Ok(row) => match row.cfa {
            CfaRule::Register { offset, .. } => offset,
            other => panic!("{other:?}"),
        },
        Err(Miss::NotCovered) => 0,
        Err(Miss::Bad(error)) => panic!("{error}"),
    })
}

#[test]
fn the_first_of_overlapping_entries_holds() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    let a = frame.fde(cie, CODE + 0x10, 0x10, &[0x0e, 1]) as u64;
    let b = frame.fde(cie, CODE, 0x40, &[0x0e, 2]) as u64;
    let c = frame.fde(cie, CODE + 0x30, 0x20, &[0x0e, 3]) as u64;
    let d = frame.fde(cie, CODE + 0x10, 0x10, &[0x0e, 4]) as u64;
    let at = [0, 0xf, 0x10, 0x1f, 0x20, 0x3f, 0x40, 0x4f, 0x50];
    assert_eq!(offsets(&frame, at), [2, 2, 1, 1, 2, 2, 3, 3, 0]);
    let overlap = |first| ErrorKind::Overlap { first };
    assert_eq!(warned(&frame), [(b, overlap(a)), (d, overlap(a)), (c, overlap(b))]);
}

#[test]
fn entries_behind_a_terminator() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    frame.fde(cie, CODE, 8, &[0x0e, 1]);
    frame.terminator();
    frame.terminator();
    let behind = frame.fde(cie, CODE + 8, 8, &[0x0e, 2]) as u64;
    frame.terminator();
    assert_eq!(offsets(&frame, [0, 8, 16]), [1, 2, 0]);
    assert_eq!(warned(&frame), [(behind, ErrorKind::AfterTerminator)]);
    // In .debug_frame a zero length is nothing.
    let mut frame = Frame::debug(X86_64);
    let cie = frame.usual_cie("");
    frame.terminator();
    frame.fde(cie, CODE, 8, &[0x0e, 1]);
    assert_eq!((offsets(&frame, [0, 8]), warned(&frame)), ([1, 0], vec![]));
}

#[test]
fn empty_and_endless_ranges() {
    let mut frame = Frame::debug(X86_64);
    let cie = frame.usual_cie("");
    let empty = frame.fde(cie, CODE, 0, &[]) as u64;
    let wraps = frame.fde(cie, CODE, u64::MAX - CODE + 1, &[]) as u64;
    let far = frame.fde(cie, u64::MAX, u64::MAX, &[]) as u64;
    frame.fde(cie, CODE, u64::MAX - CODE, &[0x0e, 1]);
    let expected = [
        (empty, ErrorKind::EmptyRange),
        (wraps, ErrorKind::RangeOverflow),
        (far, ErrorKind::RangeOverflow),
    ];
    assert_eq!(warned(&frame), expected);
    assert_eq!(offsets(&frame, [0, u64::MAX - CODE - 1, u64::MAX - CODE]), [1, 1, 0]);
}

#[test]
fn sixty_four_bit_entries() {
    for debug in [false, true] {
        let mut frame = Frame { wide: true, debug, ..Frame::new(Aarch64) };
        let cie = frame.usual_cie(if debug { "B" } else { "zRB" });
        frame.fde(cie, CODE, 8, &[0x0e, 1, 0x2d]);
        let row = frame.row(CODE + 7).unwrap();
        assert_eq!((row.cfa, row.signed), (cfa(31, 1), Some(unwinder::row::Key::B)));
    }
}

#[test]
fn versions_of_debug_frame() {
    for version in [1, 3, 4] {
        for augmentation in ["", "B", "G"] {
            let mut frame = Frame::debug(Aarch64);
            let cie = frame.cie(Cie {
                version,
                augmentation,
                data: &[],
                code_align: 4,
                data_align: -8,
                return_address: 30,
                instructions: &[0x0c, 31, 0],
            });
            frame.fde(cie, CODE, 8, &[0x41, 0x0e, 16]);
            assert_eq!(offsets(&frame, [0, 4]), [0, 16]);
        }
    }
}

#[test]
fn cut_off_anywhere() {
    let (frame, _) = three();
    let whole = frame.bytes.len();
    for len in 0..whole {
        let cut = Frame { bytes: frame.bytes[..len].to_vec(), ..frame.clone() };
        let (table, warnings) = cut.table();
        for warning in &warnings {
            assert!(warning.offset < len as u64, "{len}: {warning}");
        }
        let listed = table.entries().filter(Result::is_ok).count();
        let faults = table.entries().filter(Result::is_err).count();
        assert_eq!(faults, warnings.len(), "{len}");
        let covered = EXPECTED.iter().filter(|(address, offset)| {
            let row = table.row(at(*address), &mut Context::new());
            assert!(row.is_err() || row.unwrap().cfa == cfa(7, offset.unwrap()));
            row.is_ok()
        });
        assert_eq!(covered.count(), 2 * listed, "{len}");
    }
}

#[test]
fn a_broken_entry_costs_itself() {
    let mut frame = Frame::new(X86_64);
    let bad = frame.usual_cie("zQ");
    let good = frame.usual_cie("zR");
    let first = frame.fde(bad, CODE, 8, &[]);
    frame.fde(good, CODE + 8, 8, &[0x0e, 2]);
    let nowhere = frame.fde(first, CODE + 16, 8, &[]) as u64;
    frame.fde(good, CODE + 24, 8, &[0x0e, 3]);
    assert_eq!(offsets(&frame, [0, 8, 16, 24]), [0, 2, 0, 3]);
    let expected = [(bad as u64, ErrorKind::Augmentation), (first as u64, ErrorKind::CiePointer)];
    assert_eq!(warned(&frame), expected);
    let before = frame.bytes.len();
    frame.bytes.extend([8, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0]);
    assert_eq!(warned(&frame)[2], (before as u64, ErrorKind::CiePointer));
    frame.bytes.extend([0xf8, 0xff, 0xff, 0xff]);
    let end = (before as u64 + 12, ErrorKind::ReservedLength(0xffff_fff8));
    assert_eq!(warned(&frame)[3], end);
    assert!(nowhere > 0);
}

#[test]
fn unusable_common_entries() {
    let kind = |change: fn(&mut Frame)| {
        let mut frame = Frame::debug(X86_64);
        let cie = frame.usual_cie("");
        frame.bytes[8] = 4;
        frame.bytes.splice(10..10, [8, 0]);
        frame.bytes[0] += 2;
        change(&mut frame);
        frame.fde(cie, CODE, 8, &[]);
        warned(&frame)
    };
    assert_eq!(kind(|_| {}), []);
    assert_eq!(kind(|f| f.bytes[8] = 2), [(0, ErrorKind::Version(2))]);
    assert_eq!(kind(|f| f.bytes[10] = 4), [(0, ErrorKind::AddressSize(4))]);
    assert_eq!(kind(|f| f.bytes[10] = 9), [(0, ErrorKind::AddressSize(9))]);
    assert_eq!(kind(|f| f.bytes[11] = 1), [(0, ErrorKind::SegmentSize(1))]);
}

#[test]
fn pointer_encodings() {
    let kind = |encoding: u8| {
        let mut frame = Frame::new(X86_64);
        let cie = frame.cie(Cie {
            version: 1,
            augmentation: "zR",
            data: &[encoding],
            code_align: 1,
            data_align: -8,
            return_address: 16,
            instructions: &[0x0c, 7, 8],
        });
        frame.fde(cie, CODE, 8, &[0; 16]);
        frame.table().1.first().map(|w| w.kind)
    };
    assert_eq!(kind(PCREL), None);
    assert_eq!(kind(0x2b), Some(ErrorKind::MissingBase));
    assert_eq!(kind(0x3b), Some(ErrorKind::MissingBase));
    assert_eq!(kind(0x4b), Some(ErrorKind::MissingBase));
    assert_eq!(kind(0x50), Some(ErrorKind::PointerEncoding(0x50)));
    assert_eq!(kind(0x0f), Some(ErrorKind::PointerEncoding(0x0f)));
    assert_eq!(kind(0xff), Some(ErrorKind::PointerEncoding(0xff)));
}

#[test]
fn text_and_got_relative_pointers() {
    let mut frame = Frame::new(X86_64);
    for encoding in [0x2b, 0x3b] {
        let cie = frame.cie(Cie {
            version: 1,
            augmentation: "zR",
            data: &[encoding],
            code_align: 1,
            data_align: -8,
            return_address: 16,
            instructions: &[0x0c, 7, 8],
        });
        let field = FRAME + frame.bytes.len() as u64 + 8;
        frame.fde(cie, field + 0x20, 8, &[]);
    }
    let section = Section { address: FRAME, bytes: &frame.bytes[..] };
    let sections = Sections::EhFrame {
        frame: section,
        header: None,
        text: Some(CODE),
        got: Some(CODE + 0x100),
    };
    let (table, warnings) = Table::new(X86_64, sections).unwrap();
    assert_eq!(warnings, []);
    let starts: Vec<_> = table.entries().map(|e| e.unwrap().range.0).collect();
    assert_eq!(starts, [CODE + 0x20, CODE + 0x120]);
}

#[test]
fn entries_for_tools() {
    let mut frame = Frame::new(Aarch64);
    let cie = frame.usual_cie("zRSB") as u64;
    let fde = frame.fde(cie as usize, CODE, 8, &[]) as u64;
    let (table, _) = frame.table();
    let entry = table.entries().next().unwrap().unwrap();
    assert_eq!((entry.offset, entry.cie, entry.range), (fde, cie, (CODE, CODE + 8)));
    assert_eq!((entry.augmentation, entry.signal), (&b"zRSB"[..], true));
    assert_eq!(table.section().len(), frame.bytes.len());
    assert_ne!(table.section(), frame.bytes);
}

#[test]
fn an_endless_augmentation_string_is_not_read_for_each_entry() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie(&"S".repeat(17));
    frame.fde(cie, CODE, 8, &[]);
    assert_eq!(warned(&frame), [(cie as u64, ErrorKind::Augmentation)]);
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie(&format!("zR{}", "S".repeat(14)));
    frame.fde(cie, CODE, 8, &[]);
    assert_eq!(warned(&frame), []);
}

#[test]
fn messages_have_section_and_offset() {
    let frame = one(Aarch64, &[0x2c]);
    let Err(Miss::Bad(error)) = frame.row(CODE) else { panic!() };
    assert_eq!(
        error.to_string(),
        ".eh_frame, offset 0x14: return addresses signed with the program counter are not \
         supported"
    );
}
