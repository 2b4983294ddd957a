//! Against `readelf --sframe`, which prints what `objdump --sframe` does: stored outputs of a
//! binutils for each version (2.40, 2.44, 2.47.50), and the installed one for what it can read.
//!
//! `SFRAME_READELF=PROGRAM` stores what that program prints where there is nothing stored yet.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use unwinder::row::{CfaRule, Rule};

use crate::guests::{Guest, all, functions, row};

/// An ELF file that has nothing but the section.
fn elf(guest: &Guest) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.sframe\0.shstrtab\0";
    let data = &guest.sframe.bytes;
    let (data_at, names_at) = (64, 64 + data.len());
    let headers_at = (names_at + NAMES.len()).next_multiple_of(8);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    elf.extend(guest.arch.elf_machine().to_le_bytes());
    elf.extend(1u32.to_le_bytes());
    elf.extend([0; 16]); // entry, program headers
    elf.extend((headers_at as u64).to_le_bytes());
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
    elf.extend(data);
    elf.extend(NAMES);
    elf.resize(headers_at + 64, 0);
    let mut header = |name: u32, kind: u32, flags: u64, address: u64, at: usize, len: usize| {
        elf.extend(name.to_le_bytes());
        elf.extend(kind.to_le_bytes());
        for word in [flags, address, at as u64, len as u64, 0, 8, 0] {
            elf.extend(word.to_le_bytes());
        }
    };
    header(1, 1, 2, guest.sframe.address, data_at, data.len());
    header(9, 3, 0, 0, names_at, NAMES.len());
    elf
}

/// `sp+16`, `c-16`, `u`, `(fp-40)` for what is in memory, and `[s]` for signed.
fn show(cfa: CfaRule, rule: Rule, signed: bool, guest: &Guest) -> [String; 2] {
    let sum = |register: u8, offset: i64| match usize::from(register) {
        n if n == guest.arch.sp() => format!("sp{offset:+}"),
        n if n == guest.arch.fp() => format!("fp{offset:+}"),
        n => format!("r{n}{offset:+}"),
    };
    let cfa = match cfa {
        CfaRule::Register { register, offset } => sum(register, offset),
        CfaRule::Memory { register, offset } => format!("({})", sum(register, offset)),
        other => format!("{other:?}"),
    };
    let rule = match rule {
        Rule::AtCfa(offset) => format!("c{offset:+}"),
        Rule::Register { register, offset } => sum(register, offset),
        Rule::Memory { register, offset } => format!("({})", sum(register, offset)),
        Rule::Same => "u".into(),
        other => format!("{other:?}"),
    };
    [cfa, rule + if signed { "[s]" } else { "" }]
}

fn compare(guest: &Guest, output: &str) -> usize {
    let table = guest.table();
    let mut compared = 0;
    let functions = functions(&table);
    let starts: Vec<_> = functions.iter().map(|f| f.start).collect();
    let mut theirs = Vec::new();
    for line in output.lines() {
        if let Some(at) = line.trim().strip_prefix("func idx ") {
            let start = at.split("pc = 0x").nth(1).and_then(|r| r.split(',').next()).unwrap();
            theirs.push(u64::from_str_radix(start, 16).unwrap());
            continue;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let [start, cfa, fp, ra] = words[..] else { continue };
        let Ok(mut pc) = u64::from_str_radix(start, 16) else { continue };
        // In the order of the section; one without instructions is never looked up.
        let function = &functions[theirs.len() - 1];
        if function.size == 0 {
            continue;
        }
        if function.info.repeats() {
            pc += theirs.last().unwrap(); // starts are printed as they are stored
        }
        let row = row(&table, pc).unwrap_or_else(|| panic!("{}: {pc:#x}", guest.name));
        let signed = row.signed.is_some();
        let [our_cfa, mut our_ra] = show(row.cfa, row.rule(row.return_address), signed, guest);
        let [_, our_fp] = show(row.cfa, row.rule(guest.arch.fp() as u8), false, guest);
        let fixed = guest.arch == arch::Arch::X86_64 && our_ra == "c-8";
        // A fixed place is not printed; in a flexible row a 0 stands for it.
        if fixed && (["u", "f"].contains(&ra) || ra == "U" && function.is_flexible()) {
            our_ra = ra.into();
        }
        assert_eq!([cfa, fp, ra], [our_cfa, our_fp, our_ra], "{}: {line}", guest.name);
        compared += 1;
    }
    assert_eq!(theirs, starts, "{}", guest.name);
    compared
}

fn stored(guest: &Guest) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sframe-readelf");
    folder.join(format!("{}.txt", guest.name))
}

#[test]
fn rows_are_those_of_stored_outputs() {
    let mut compared = 0;
    for guest in all() {
        let output = fs::read_to_string(stored(&guest)).unwrap_or_else(|e| {
            panic!("{}: {e}; SFRAME_READELF=PROGRAM makes it", stored(&guest).display())
        });
        compared += compare(&guest, &output);
    }
    println!("{compared} rows");
    assert!(compared > 2000, "{compared} rows");
}

#[test]
fn rows_are_those_of_readelf() {
    let given = std::env::var_os("SFRAME_READELF");
    let program = given.clone().unwrap_or_else(|| "readelf".into());
    let folder = std::env::temp_dir().join(format!("sframe-readelf-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (mut compared, mut refused) = (0, 0);
    for guest in all() {
        let path = folder.join(&guest.name);
        fs::write(&path, elf(&guest)).unwrap();
        let Ok(run) = Command::new(&program).arg("--sframe=.sframe").arg(&path).output() else {
            println!("left out: {} is not installed", program.display());
            break;
        };
        let output = String::from_utf8_lossy(&run.stdout);
        if !output.contains("Function Index") {
            refused += 1;
            continue;
        }
        if given.is_some() && !stored(&guest).exists() {
            fs::create_dir_all(stored(&guest).parent().unwrap()).unwrap();
            fs::write(stored(&guest), output.as_bytes()).unwrap();
        }
        compared += compare(&guest, &output);
    }
    fs::remove_dir_all(&folder).unwrap();
    println!("{compared} rows; {refused} sections that this readelf does not read");
}
