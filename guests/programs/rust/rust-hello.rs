//! rust-hello: a Rust program that uses the standard library.
//!
//! Sorts a vector, counts in a `HashMap`, formats strings, calls through trait
//! objects and recursion, and catches a panic that unwinds through frames with
//! destructors. The output is always the same.

use std::collections::HashMap;
use std::fmt;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

/// xorshift
struct Random(u64);

impl Iterator for Random {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
}

#[inline(never)]
fn sort_numbers() -> u64 {
    let mut numbers: Vec<u64> = Random(88172645463325252).take(20_000).collect();
    numbers.sort_by(|a, b| b.cmp(a));
    assert!(numbers.windows(2).all(|w| w[0] >= w[1]));
    numbers.iter().enumerate().fold(0, |sum, (i, n)| sum ^ n.rotate_left(i as u32 % 64))
}

#[inline(never)]
fn count_words(text: &str) -> Vec<(String, usize)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut list: Vec<_> = counts.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

struct Table(Vec<(String, usize)>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, count) in &self.0 {
            write!(f, "{:<6}{:>3}|", word, count)?;
        }
        Ok(())
    }
}

trait Tree {
    fn sum(&self) -> u64;
}

struct Leaf(u64);
struct Fork(Box<dyn Tree>, Box<dyn Tree>);

impl Tree for Leaf {
    fn sum(&self) -> u64 {
        self.0
    }
}

impl Tree for Fork {
    #[inline(never)]
    fn sum(&self) -> u64 {
        self.0.sum() + self.1.sum()
    }
}

#[inline(never)]
fn grow(depth: u64) -> Box<dyn Tree> {
    if depth == 0 {
        Box::new(Leaf(1))
    } else {
        Box::new(Fork(grow(depth - 1), grow(depth - 1)))
    }
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[inline(never)]
fn descend(depth: u32) -> u32 {
    let _guard = Guard;
    if depth == 0 {
        panic!("the bottom is reached");
    }
    descend(depth - 1) + 1
}

fn main() {
    println!("sorted: {:016x}", sort_numbers());
    let text = "the cat and the dog and the bird saw The fox".repeat(50) + " end";
    println!("words: {}", Table(count_words(&text)));
    println!("tree: {}", grow(12).sum());

    panic::set_hook(Box::new(|info| {
        let line = info.location().map_or(0, |l| l.line());
        println!("hook: a panic in line {line}");
    }));
    match panic::catch_unwind(|| descend(50)) {
        Ok(n) => println!("no panic, {n}"),
        Err(e) => {
            let what = e.downcast_ref::<&str>().copied().unwrap_or("something else");
            println!("caught {:?}, {} dropped", what, DROPPED.load(Ordering::Relaxed));
        }
    }
}
