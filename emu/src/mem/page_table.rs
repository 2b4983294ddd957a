//! The tree from virtual page to frame: four levels of 512 entries, 48-bit addresses.

use crate::engine::{Frame, Mmu, Perms};
use crate::mem::PAGE;

/// A present page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pte {
    /// Where it is.
    pub frame: Frame,
    /// What the CPU may do with it.
    pub perms: Perms,
    /// The frame belongs to this page alone and is freed with it. Otherwise it is the
    /// zero page, a page of the page cache or of a special mapping.
    pub owned: bool,
    /// Since a fork another address space may have it too: it is copied at the first store, or kept
    /// if that one has let it go.
    pub cow: bool,
}

type Leaf = [Option<Pte>; 512];

#[derive(Debug)]
enum Node {
    Table(Box<[Option<Node>; 512]>),
    Leaf(Box<Leaf>),
}

/// Page tables of one address space.
#[derive(Debug)]
pub struct PageTable {
    root: Node,
    present: u64,
    nodes: u64,
}

impl Default for PageTable {
    fn default() -> PageTable {
        PageTable { root: empty_table(), present: 0, nodes: 1 }
    }
}

fn empty_table() -> Node {
    Node::Table(Box::new([const { None }; 512]))
}

/// Index into the node of `level` (3 = root, 0 = leaf).
const fn index(va: u64, level: u32) -> usize {
    (va >> (12 + 9 * level) & 511) as usize
}

impl PageTable {
    /// Number of present pages.
    pub const fn present(&self) -> u64 {
        self.present
    }

    /// Number of tables, about a page each.
    pub const fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The page at `va`.
    pub fn get(&self, va: u64) -> Option<Pte> {
        if va >> 48 != 0 {
            return None;
        }
        let mut node = &self.root;
        let mut level = 3;
        loop {
            match node {
                Node::Table(table) => node = table[index(va, level)].as_ref()?,
                Node::Leaf(leaf) => return leaf[index(va, 0)],
            }
            level -= 1;
        }
    }

    /// Puts a page at `va` (below 2^48); returns the one that was there.
    pub fn set(&mut self, va: u64, pte: Pte) -> Option<Pte> {
        let mut node = &mut self.root;
        let mut level = 3;
        loop {
            match node {
                Node::Table(table) => {
                    node = table[index(va, level)].get_or_insert_with(|| {
                        self.nodes += 1;
                        match level {
                            1 => Node::Leaf(Box::new([None; 512])),
                            _ => empty_table(),
                        }
                    });
                }
                Node::Leaf(leaf) => {
                    let old = leaf[index(va, 0)].replace(pte);
                    self.present += u64::from(old.is_none());
                    return old;
                }
            }
            level -= 1;
        }
    }

    /// Removes the page at `va`.
    pub fn remove(&mut self, va: u64) -> Option<Pte> {
        let old = self.slot(va)?.take();
        self.present -= u64::from(old.is_some());
        old
    }

    /// The page at `va`, to be changed.
    pub fn get_mut(&mut self, va: u64) -> Option<&mut Pte> {
        self.slot(va)?.as_mut()
    }

    fn slot(&mut self, va: u64) -> Option<&mut Option<Pte>> {
        if va >> 48 != 0 {
            return None;
        }
        let mut node = &mut self.root;
        let mut level = 3;
        loop {
            match node {
                Node::Table(table) => node = table[index(va, level)].as_mut()?,
                Node::Leaf(leaf) => return Some(&mut leaf[index(va, 0)]),
            }
            level -= 1;
        }
    }

    /// Addresses of the present pages in `start..end`, in order. Absent subtrees are
    /// skipped, so the time is that of the pages found.
    pub fn present_in(&self, start: u64, end: u64) -> Vec<u64> {
        let mut found = Vec::new();
        collect(&self.root, 3, 0, start, end.min(1 << 48), &mut found);
        found
    }
}

fn collect(node: &Node, level: u32, base: u64, start: u64, end: u64, found: &mut Vec<u64>) {
    let span = PAGE << (9 * level);
    let first = if start > base { ((start - base) / span) as usize } else { 0 };
    for i in first..512 {
        let at = base + i as u64 * span;
        if at >= end {
            break;
        }
        match node {
            Node::Leaf(leaf) => {
                if leaf[i].is_some() && at >= start {
                    found.push(at);
                }
            }
            Node::Table(table) => {
                if let Some(child) = &table[i] {
                    collect(child, level - 1, at, start, end, found);
                }
            }
        }
    }
}

impl Mmu for PageTable {
    fn translate(&mut self, va: u64) -> Option<(Frame, Perms)> {
        self.get(va).map(|pte| (pte.frame, pte.perms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pte(n: u32) -> Pte {
        Pte { frame: Frame(n), perms: Perms::default(), owned: true, cow: false }
    }

    #[test]
    fn pages_come_back_in_order() {
        let mut table = PageTable::default();
        let places = [0x7fff_ffff_e000, 0x1000, 0x40_0000, 0x5555_5555_4000, 0xffff_ffff_f000];
        for (i, va) in places.into_iter().enumerate() {
            assert_eq!(table.set(va, pte(i as u32)), None);
        }
        assert_eq!(table.present(), 5);
        assert_eq!(
            table.present_in(0, u64::MAX),
            [0x1000, 0x40_0000, 0x5555_5555_4000, 0x7fff_ffff_e000, 0xffff_ffff_f000]
        );
        assert_eq!(table.present_in(0x1001, 0x5555_5555_4000), [0x40_0000]);
        assert_eq!(table.remove(0x40_0000), Some(pte(2)));
        assert_eq!(table.get(0x40_0000), None);
        assert_eq!(table.get(0x5555_5555_4abc), Some(pte(3)));
        assert_eq!(table.get(1 << 48), None);
        assert_eq!(table.present(), 4);
    }
}
