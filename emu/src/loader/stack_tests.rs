//! Tests of [`super`]: against a stack that Linux made, and at the limits.

use super::*;
use crate::loader::auxv::{HWCAP_AARCH64, MINSIGSTKSZ_AARCH64};

/// The whole stack of a program that writes it out, started on Linux 6.18, x86_64, by
/// `setarch -R env -i A=1 BB=two ./dump one "" three`.
const LINUX: &[u8] = include_bytes!("testdata/stack-linux-6.18-x86_64.bin");

const TOP: u64 = 0x7fff_ffff_f000;

fn strings(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|s| s.as_bytes().to_vec()).collect()
}

fn aux() -> Aux {
    Aux {
        vdso: Some(0x7fff_f7ff_d000),
        minsigstksz: 3376,
        hwcap: 0x178b_fbff,
        hwcap2: 2,
        phdr: 0x40_0040,
        phent: 56,
        phnum: 4,
        entry: 0x40_1000,
        ids: [0; 4],
        rseq: Some((28, 32)),
    }
}

fn input<'a>(argv: &'a [Vec<u8>], envp: &'a [Vec<u8>]) -> Input<'a> {
    Input {
        arch: Arch::X86_64,
        top: TOP,
        skew: 0,
        stack_limit: 8 << 20,
        argv,
        envp,
        execfn: b"./dump",
        random: *b"0123456789abcdef",
        aux: aux(),
    }
}

fn word(stack: &Stack, index: usize) -> u64 {
    u64::from_le_bytes(*stack.bytes[8 * index..].first_chunk().unwrap())
}

fn string(stack: &Stack, address: u64) -> &[u8] {
    stack.bytes[(address - stack.sp) as usize..].split(|&b| b == 0).next().unwrap()
}

#[test]
fn the_stack_is_linuxs_byte_for_byte() {
    let (argv, envp) = (strings(&["./dump", "one", "", "three"]), strings(&["A=1", "BB=two"]));
    let random = *LINUX[0x1b9..].first_chunk().unwrap();
    let stack = build(&Input { random, ..input(&argv, &envp) }).unwrap();
    assert_eq!(stack.sp, TOP - LINUX.len() as u64);
    let differences: Vec<usize> =
        (0..LINUX.len()).filter(|&i| stack.bytes[i] != LINUX[i]).collect();
    assert_eq!(differences, Vec::<usize>::new());
    assert_eq!(string(&stack, stack.args.0), b"./dump");
    assert_eq!(string(&stack, stack.env.0), b"A=1");
    assert_eq!((stack.args.1, stack.env.1), (stack.env.0, TOP - 15));
}

#[test]
fn every_size_keeps_the_alignment_and_the_order() {
    for n in 0..40 {
        for skew in [0, 16, 8176] {
            let argv = vec![vec![b'a'; n]; n];
            let envp = vec![vec![b'e'; 3]; n / 2];
            let aux = Aux {
                vdso: None,
                rseq: None,
                hwcap: HWCAP_AARCH64,
                minsigstksz: MINSIGSTKSZ_AARCH64,
                ..aux()
            };
            let input =
                Input { arch: Arch::Aarch64, skew, top: 1 << 48, aux, ..input(&argv, &envp) };
            let stack = build(&input).unwrap();
            assert_eq!(stack.sp % 16, 0);
            assert_eq!(stack.sp + stack.bytes.len() as u64, 1 << 48);
            let argc = n.max(1);
            assert_eq!(word(&stack, 0), argc as u64);
            let expected = if n == 0 { &b""[..] } else { &argv[0] };
            for i in 0..argc {
                assert_eq!(string(&stack, word(&stack, 1 + i)), expected);
            }
            assert_eq!(word(&stack, 1 + argc), 0);
            let auxv = 3 + argc + envp.len();
            assert_eq!(word(&stack, auxv - 1), 0);
            for (i, &(kind, value)) in stack.auxv.iter().enumerate() {
                assert_eq!(
                    (word(&stack, auxv + 2 * i), word(&stack, auxv + 2 * i + 1)),
                    (kind, value)
                );
            }
            let value = |kind| stack.auxv.iter().find(|e| e.0 == kind).map(|e| e.1);
            assert_eq!(string(&stack, value(at::PLATFORM).unwrap()), b"aarch64");
            assert_eq!(string(&stack, value(at::EXECFN).unwrap()), b"./dump");
            assert!(
                stack.bytes[(value(at::RANDOM).unwrap() - stack.sp) as usize..]
                    .starts_with(&input.random)
            );
            assert_eq!((value(at::SYSINFO_EHDR), value(at::RSEQ_ALIGN)), (None, None));
            assert_eq!(stack.auxv.last(), Some(&(at::NULL, 0)));
        }
    }
}

#[test]
fn the_kernels_limits_hold() {
    let none = [];
    let argv = [vec![b'x'; MAX_ARG_STRLEN - 1]];
    assert!(build(&input(&argv, &none)).is_ok());
    let argv = [vec![b'x'; MAX_ARG_STRLEN]];
    let error = build(&input(&none, &argv)).unwrap_err();
    assert_eq!(error, StackError::StringTooLong { what: "envp[0]".into(), len: MAX_ARG_STRLEN });
    let error = build(&Input { execfn: b"a\0b", ..input(&none, &none) }).unwrap_err();
    assert_eq!(error.to_string(), "the path contains a NUL byte");

    // 8 MiB of stack: a quarter. 12 pages of stack: ARG_MAX. No limit: 6 MiB.
    for (stack_limit, limit) in [(8 << 20, 2 << 20), (48 << 10, ARG_MAX), (u64::MAX, 6 << 20)] {
        let one = vec![b'x'; 1015];
        let fits = (limit as usize - "./dump".len() - 1) / (1015 + 1 + 8);
        let argv = vec![one.clone(); fits];
        assert!(build(&Input { stack_limit, ..input(&argv, &none) }).is_ok());
        let envp = [one];
        let error = build(&Input { stack_limit, ..input(&argv, &envp) }).unwrap_err();
        assert_eq!(error, StackError::TooBig { needed: 7 + 1024 * (fits as u64 + 1), limit });
    }
}
