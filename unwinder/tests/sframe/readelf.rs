//! Against the installed `readelf --sframe`, for the versions that it can read.

use std::fs;
use std::process::Command;

use unwinder::row::{CfaRule, Rule};
use unwinder::sframe::Version;

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

/// `sp+16`, `c-16`, `u`, and `[s]` for signed.
fn show(cfa: CfaRule, rule: Rule, signed: bool, guest: &Guest) -> [String; 2] {
    let cfa = match cfa {
        CfaRule::Register { register, offset } => {
            let sp = usize::from(register) == guest.arch.sp();
            format!("{}{offset:+}", if sp { "sp" } else { "fp" })
        }
        other => format!("{other:?}"),
    };
    let rule = match rule {
        Rule::AtCfa(offset) => format!("c{offset:+}"),
        Rule::Same => "u".into(),
        other => format!("{other:?}"),
    };
    [cfa, rule + if signed { "[s]" } else { "" }]
}

fn compare(guest: &Guest, output: &str) -> usize {
    let table = guest.table();
    let mut compared = 0;
    let starts: Vec<_> = functions(&table).iter().map(|f| f.start).collect();
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
        let function = functions(&table).into_iter().find(|f| Some(&f.start) == theirs.last());
        if function.unwrap().info.repeats() {
            pc += theirs.last().unwrap(); // starts are printed as they are stored
        }
        let row = row(&table, pc).unwrap_or_else(|| panic!("{}: {pc:#x}", guest.name));
        let signed = row.signed.is_some();
        let [our_cfa, mut our_ra] = show(row.cfa, row.rule(row.return_address), signed, guest);
        let [_, our_fp] = show(row.cfa, row.rule(guest.arch.fp() as u8), false, guest);
        if ra == "u" && guest.arch == arch::Arch::X86_64 {
            our_ra = "u".into(); // a fixed place is not printed
        }
        assert_eq!([cfa, fp, ra], [our_cfa, our_fp, our_ra], "{}: {line}", guest.name);
        compared += 1;
    }
    assert_eq!(theirs, starts, "{}", guest.name);
    compared
}

#[test]
fn rows_are_those_of_readelf() {
    let folder = std::env::temp_dir().join(format!("sframe-readelf-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (mut compared, mut refused) = (0, 0);
    for guest in all().iter().filter(|g| g.version() != Version::V3) {
        let path = folder.join(&guest.name);
        fs::write(&path, elf(guest)).unwrap();
        let Ok(run) = Command::new("readelf").arg("--sframe=.sframe").arg(&path).output() else {
            println!("left out: readelf is not installed");
            break;
        };
        let output = String::from_utf8_lossy(&run.stdout);
        match output.contains("Function Index") {
            true => compared += compare(guest, &output),
            false => refused += 1,
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    println!("{compared} rows; {refused} sections that this readelf does not read");
}
