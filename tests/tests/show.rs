//! `emu show`: code beside the rows of CFI and SFrame.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};

use arch::Arch;
use tests::program::{Finished, emu, finish, raw};
use tests::{bless, catalogue, scratch};

fn show(words: &[&str]) -> Finished {
    let mut all = vec!["show"];
    all.extend(words);
    finish(&mut emu(&all))
}

/// What is printed, if nothing is wrong.
fn text(words: &[&str]) -> String {
    let out = show(words);
    assert_eq!((out.status, &*out.stderr), (0, ""), "{words:?}");
    out.stdout
}

/// Refused with one line that has `what` in it.
fn refused(words: &[&str], status: i32, what: &str) {
    let out = show(words);
    assert_eq!((out.status, &*out.stdout), (status, ""), "{words:?}: {out:?}");
    let single = out.stderr.lines().count() == 1 && out.stderr.starts_with("emu: ");
    assert!(single && out.stderr.contains(what), "{words:?}: {what:?} is not in {}", out.stderr);
}

/// A program with both tables; its relative path is the same for everyone.
fn both(arch: Arch) -> String {
    format!("data/show/{arch}/both-tables.elf")
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn both_bytes(arch: Arch) -> Vec<u8> {
    std::fs::read(here().join(both(arch))).unwrap()
}

#[test]
fn listings_are_as_they_were() {
    for arch in Arch::ALL {
        let guest = text(&["leaf", "--arch", arch.name()]);
        bless::compare(&format!("golden/{arch}/show-leaf.txt"), &guest);
        let recursion = ["recursion", "--arch", arch.name(), "--function", "descend"];
        bless::compare(&format!("golden/{arch}/show-descend.txt"), &text(&recursion));
        let file = here().join(both(arch));
        let whole = text(&[file.to_str().unwrap()]);
        bless::compare(&format!("golden/{arch}/show-both.txt"), &whole);
        let wide = text(&[file.to_str().unwrap(), "--width", "160", "--function", "main"]);
        bless::compare(&format!("golden/{arch}/show-both-wide.txt"), &wide);
    }
}

/// The linker's row for `.plt.got` has the CFA of a stub that has pushed something.
#[test]
fn a_disagreement_is_marked_and_counted() {
    let file = here().join(both(Arch::X86_64));
    let out = text(&[file.to_str().unwrap(), "--pc", "0x1040"]);
    let marked: Vec<&str> = out.lines().filter(|l| l.contains(" ! ")).collect();
    assert!(marked[0].starts_with("=>    1040  jmp "), "{out}");
    assert!(marked[0].ends_with("! cfa=rsp+8 ra=c-8             cfa=rsp+16 ra=c-8"), "{out}");
    assert!(out.lines().any(|l| l.trim() == "CFA differs"), "{out}");
    let count = "the tables disagree in 1 place (2 instructions): CFA differs: 1";
    assert!(out.trim_end().ends_with(count), "{out}");
}

/// In a lazy PLT, CFI computes from the program counter what SFrame tells by rows that repeat.
#[test]
fn an_expression_is_compared_by_its_value() {
    let file = here().join(both(Arch::X86_64));
    let out = text(&[file.to_str().unwrap(), "--pc", "1036"]);
    assert!(out.contains("cfa=rsp+8+(((rip&15)>=11)<<3)"), "{out}");
    assert!(out.contains("cfa=rsp+16 ra=c-8") && out.ends_with("the tables agree\n"), "{out}");
    let realigned = text(&[file.to_str().unwrap(), "--function", "do_drap"]);
    assert!(realigned.contains("cfa=[rbp-40] ra=c-8"), "{realigned}");
    assert!(realigned.ends_with("the tables agree\n"), "{realigned}");
}

#[test]
fn an_address_shows_its_function() {
    for arch in Arch::ALL {
        let words = |pc| ["recursion", "--arch", arch.name(), "--pc", pc];
        let named = text(&["recursion", "--arch", arch.name(), "--function", "fib"]);
        let addresses: Vec<&str> = named
            .lines()
            .skip(3)
            .map_while(|l| l.split_whitespace().next())
            .filter(|w| u64::from_str_radix(w, 16).is_ok())
            .collect();
        assert!(addresses.len() > 8, "{named}");
        for pc in addresses {
            let marked = text(&words(pc));
            let line = marked.lines().find(|l| l.starts_with("=>")).unwrap();
            assert!(line[2..].trim_start().starts_with(pc), "{pc}: {line}");
            // But for the mark they are the same.
            assert_eq!(marked.replacen("=>", "  ", 1), named);
        }
    }
    // The middle of an instruction is that instruction.
    let middle = text(&["recursion", "--pc", "0x401372"]);
    assert!(middle.lines().any(|l| l.starts_with("=>  401371 ")), "{middle}");
}

#[test]
fn functions_are_found_by_either_name() {
    let plain = text(&["rust-hello", "--function", "rust_hello::main"]);
    assert!(plain.lines().nth(2).unwrap().starts_with("rust_hello::main  0x"), "{plain}");
    let catalogue = catalogue();
    let file = catalogue.path(catalogue.find("rust-hello").unwrap(), "x86_64");
    let bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(24).position(|w| w.starts_with(b"_ZN10rust_hello4main17h")).unwrap();
    let mangled = bytes[at..].split(|b| *b == 0).next().unwrap();
    let mangled = std::str::from_utf8(mangled).unwrap();
    assert_eq!(text(&["rust-hello", "--function", mangled]), plain);
    // Several functions of one name are all shown.
    let several = text(&["recursion-glibc", "--function", "free_mem"]);
    let titles = several.lines().filter(|l| l.starts_with("free_mem  0x")).count();
    assert!(titles > 1 && several.contains(&format!("\n{titles} functions, ")), "{several}");
}

#[test]
fn what_cannot_be_shown_is_said_in_one_line() {
    let dir = scratch("show-bad");
    let write = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    refused(&["./nothing-here"], 127, "./nothing-here: no such file");
    refused(&["demoo"], 127, "did you mean demo");
    refused(&["/"], 126, "is a directory");
    let words = write("words", b"just words\n");
    refused(&[words.to_str().unwrap()], 126, "not an ELF file");
    let zeros = write("zeros", &[0; 4096]);
    refused(&[zeros.to_str().unwrap()], 126, "e_ident[EI_MAG] (offset 0x0)");
    let mut bytes = both_bytes(Arch::X86_64);
    bytes[18] = 40;
    let arm = write("arm", &bytes);
    refused(&[arm.to_str().unwrap()], 126, "e_machine (offset 0x12) is 40");
    bytes[18] = 62;
    bytes[16] = 1;
    let object = write("object", &bytes);
    refused(&[object.to_str().unwrap()], 126, "e_type (offset 0x10) is 1 (an object file");
    let file = here().join(both(Arch::X86_64));
    refused(&[file.to_str().unwrap(), "--arch", "aarch64"], 126, "e_machine (offset 0x12)");
    refused(&["recursion", "--pc", "10"], 125, "its code is from 0x401000 to ");
    refused(&["recursion", "--function", "fibb"], 125, "did you mean fib");
    refused(&["recursion", "--function", "no such thing"], 125, "`emu show recursion` shows all");
    refused(&["recursion", "--pc", "fib"], 125, "0x401370; see `emu show --help`");
    refused(&["recursion", "--pc", "10", "--function", "f"], 125, "cannot be used with");
    refused(&[], 125, "FILE");
}

/// A 16-bit field of the ELF header.
fn clear(bytes: &mut [u8], fields: &[std::ops::Range<usize>]) {
    for field in fields {
        bytes[field.clone()].fill(0);
    }
}

/// Without section headers, only segments tell where code and tables are.
#[test]
fn stripped_files_are_shown_by_their_tables() {
    let dir = scratch("show-stripped");
    for arch in Arch::ALL {
        let mut bytes = both_bytes(arch);
        clear(&mut bytes, &[0x28..0x30, 0x3c..0x3e, 0x3e..0x40]);
        let path = dir.join(arch.name());
        std::fs::write(&path, &bytes).unwrap();
        let out = text(&[path.to_str().unwrap()]);
        assert!(out.contains("\nSegment  0x") && out.contains("(no symbol)  0x"), "{out}");
        let whole = text(&[here().join(both(arch)).to_str().unwrap()]);
        let counts = |text: &str| {
            let last = text.lines().last().unwrap().to_owned();
            last.split("; ").nth(1).unwrap().to_owned()
        };
        assert_eq!(counts(&out), counts(&whole));
        // The same rows at the same addresses.
        let rows = |text: &str| -> Vec<(u64, String)> {
            let row = |line: &str| {
                let (code, row) = line.split_once(" cfa=")?;
                let address = u64::from_str_radix(code.split_whitespace().next()?, 16).ok()?;
                Some((address, row.to_owned()))
            };
            text.lines().filter_map(row).collect()
        };
        let (all, ours) = (rows(&whole), rows(&out));
        assert!(all.len() > 20 && all.iter().all(|row| ours.contains(row)), "{out}");
    }
    // The guests of the catalogue have no table that a segment leads to.
    let catalogue = catalogue();
    let file = catalogue.path(catalogue.find("recursion").unwrap(), "x86_64");
    let mut bytes = std::fs::read(file).unwrap();
    clear(&mut bytes, &[0x28..0x30, 0x3c..0x3e, 0x3e..0x40]);
    let path = dir.join("bare");
    std::fs::write(&path, &bytes).unwrap();
    let out = text(&[path.to_str().unwrap(), "--pc", "0x401370"]);
    assert!(out.lines().any(|l| l.starts_with("=>  401370  push rbp")), "{out}");
    assert!(out.ends_with("no unwind tables\n") && out.lines().count() < 60, "{out}");
}

/// The place of a section in the file: offset and size.
fn section(bytes: &[u8], name: &str) -> std::ops::Range<usize> {
    let elf = goblin::elf::Elf::parse(bytes).unwrap();
    let header =
        elf.section_headers.iter().find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(name));
    header.unwrap().file_range().unwrap()
}

#[test]
fn a_broken_table_is_named_and_the_rest_is_shown() {
    let dir = scratch("show-broken");
    for arch in Arch::ALL {
        for (name, damage, word) in [
            (".sframe", 2, ".sframe, offset 0x2: version 238"),
            (".sframe", 8, ".sframe, offset 0x"),
            (".eh_frame", 0, ".eh_frame, offset 0x0: "),
            (".eh_frame", 0x18, ".eh_frame, offset 0x"),
        ] {
            let mut bytes = both_bytes(arch);
            let at = section(&bytes, name);
            bytes[at.start + damage] = 0xee;
            bytes[at.start + damage + 1] = 0xee;
            let path = dir.join("damaged");
            std::fs::write(&path, &bytes).unwrap();
            let out = show(&[path.to_str().unwrap()]);
            assert_eq!(out.status, 0, "{name} {damage}: {}", out.stderr);
            assert!(out.stderr.contains(word), "{arch} {name} {damage}: {}", out.stderr);
            assert!(out.stderr.lines().all(|l| l.starts_with("emu: ")), "{}", out.stderr);
            assert!(out.stdout.contains("main  0x") && out.stdout.contains(" functions, "));
        }
    }
}

/// A small generator, so that failures can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[test]
fn hostile_files_end_in_a_listing_or_a_line() {
    let dir = scratch("show-hostile");
    let path = dir.join("hostile");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for arch in Arch::ALL {
        let good = both_bytes(arch);
        let headers = goblin::elf::Elf::parse(&good).unwrap().header.e_shoff as usize;
        let mut files: Vec<Vec<u8>> = Vec::new();
        for part in 1..20 {
            files.push(good[..good.len() * part / 20].to_vec());
        }
        let spots = [0..64, 64..0x400, headers..good.len()];
        let tables = [".eh_frame", ".eh_frame_hdr", ".sframe", ".symtab", ".strtab"];
        for place in spots.into_iter().chain(tables.map(|name| section(&good, name))) {
            for _ in 0..6 {
                let mut bytes = good.clone();
                for _ in 0..8 {
                    let at = place.start + random.below(place.len());
                    bytes[at] = [0, 0xff, 0x80, 0x7f, random.below(256) as u8][random.below(5)];
                }
                files.push(bytes);
            }
        }
        for bytes in files {
            std::fs::write(&path, &bytes).unwrap();
            for more in [&[][..], &["--pc", "1060"], &["--function", "main"]] {
                let mut words = vec![path.to_str().unwrap()];
                words.extend(more);
                let out = show(&words);
                assert!([0, 125, 126].contains(&out.status), "{out:?}");
                assert!(out.stderr.lines().all(|l| l.starts_with("emu: ")), "{}", out.stderr);
                assert!(out.status == 0 || out.stdout.is_empty(), "{}", out.stderr);
            }
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::io::Read;
    use std::process::Stdio;
    let mut command = emu(&["show", "rust-hello"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begin = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*words), (Some(0), ""));
}

#[test]
fn output_is_plain_where_nobody_sees_it() {
    let out = raw(&mut emu(&["show", "leaf"]));
    assert!(!out.stdout.contains(&0x1b) && out.stdout.iter().all(|b| *b != b'\r'));
    let long = text(&["recursion-glibc"]);
    let wide = long.lines().filter(|l| l.chars().count() > 100).count();
    assert!(wide * 100 < long.lines().count(), "{wide} lines are too long");
}
