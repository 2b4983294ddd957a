//! Who gets the counters of the PMU (`ctx_sched_in`).
//!
//! ```text
//! order: CPU pinned, task pinned, CPU flexible, task flexible; a group gets all or none
//! pinned     does not fit: error state, until it is enabled again, and so are all behind it
//! flexible   from the one whose turn it is, round; one does not fit: all behind it wait
//! exclusive  fits only where no other group counts, and no other fits beside it
//! ```
//!
//! Events that need no counter follow their group's leader; a group of such alone always counts.
//! A session's event is a flexible group of one.

use crate::perf::abi::flag;
use crate::perf::context::{Context, Instance};
use crate::perf::record::Time;

/// Which of the groups of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Those with `pinned`.
    Pinned,
    /// All others.
    Flexible,
}

/// What is left of a CPU's PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Free {
    counters: usize,
    /// A group has some.
    used: bool,
    /// A group with `exclusive` has some.
    closed: bool,
}

impl Free {
    /// A PMU with so many counters, all of them free.
    pub const fn new(counters: usize) -> Free {
        Free { counters, used: false, closed: false }
    }

    /// A group gets what it needs, if it is there.
    fn give(&mut self, group: &Group) -> bool {
        if group.needs > self.counters || self.closed || group.exclusive && self.used {
            return false;
        }
        self.counters -= group.needs;
        (self.used, self.closed) = (true, group.exclusive);
        true
    }
}

/// Events that count together.
#[derive(Debug)]
struct Group {
    /// Their places in the context, the leader's first.
    members: Vec<usize>,
    /// How many counters they need.
    needs: usize,
    exclusive: bool,
}

impl Context {
    /// Gives counters to the groups of a class. Whether one of the flexible ones got none.
    pub fn assign(&mut self, class: Class, free: &mut Free, now: Time) -> bool {
        let (mut groups, others): (Vec<_>, Vec<_>) =
            self.groups(class).into_iter().partition(|group| group.needs > 0);
        if class == Class::Flexible && !groups.is_empty() {
            let first = self.rotation % groups.len();
            groups.rotate_left(first);
        }
        // `can_add_hw` of `merge_sched_in`: behind one that does not fit none is tried.
        let mut full = false;
        for group in &groups {
            let fits = !full && free.give(group);
            full |= !fits;
            if !fits && class == Class::Pinned {
                self.fail(group, now);
            }
            self.schedule(group, fits, now);
        }
        for group in &others {
            self.schedule(group, true, now);
        }
        full && class == Class::Flexible
    }

    fn schedule(&mut self, group: &Group, scheduled: bool, now: Time) {
        for &member in &group.members {
            self.instances[member].schedule(scheduled, now);
        }
    }

    /// A pinned group is in the error state from now on: its leader is, and its siblings count no
    /// more, until the leader is enabled again.
    fn fail(&mut self, group: &Group, now: Time) {
        let Some((&leader, siblings)) = group.members.split_first() else { return };
        self.instances[leader].fail(now);
        siblings.iter().for_each(|&sibling| self.instances[sibling].follow_failed(now));
    }

    /// The groups of a class whose leaders are enabled on this CPU, in the order in which they were
    /// opened.
    fn groups(&self, class: Class) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let wanting = self.instances.iter().enumerate().filter(|(_, i)| i.wants_to_count());
        for (place, instance) in wanting {
            let needs = usize::from(instance.event.kind.is_hardware());
            let leads = |group: &&mut Group| {
                let leader = group.members.first().map(|&first| &self.instances[first]);
                leader.is_some_and(|leader| leader.is_grouped_with(instance))
            };
            match groups.iter_mut().find(leads) {
                Some(group) => {
                    group.members.push(place);
                    group.needs += needs;
                }
                None => {
                    let exclusive = has(instance, flag::EXCLUSIVE);
                    groups.push(Group { members: vec![place], needs, exclusive });
                }
            }
        }
        groups.retain(|group| self.class_of(group) == class);
        groups
    }

    fn class_of(&self, group: &Group) -> Class {
        let pinned = group.members.first().is_some_and(|&m| has(&self.instances[m], flag::PINNED));
        if pinned { Class::Pinned } else { Class::Flexible }
    }
}

fn has(instance: &Instance, bit: u64) -> bool {
    instance.opened().is_some_and(|opened| opened.attr.has(bit))
}
