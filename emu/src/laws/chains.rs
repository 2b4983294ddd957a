//! The shape of callchains.

use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::Moment;
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::perf::record::{Event, Record, Sample, context};

/// A chain's parts, each with its marker. What follows the user marker are words of the guest's
/// stack, whatever they are; kernel addresses are none of the markers.
struct Parts<'a> {
    kernel: &'a [u64],
    user: &'a [u64],
}

impl Parts<'_> {
    fn of(chain: &[u64]) -> Parts<'_> {
        let marks = [context::USER, context::USER_DEFERRED];
        let user = chain.iter().position(|word| marks.contains(word)).unwrap_or(chain.len());
        let (kernel, user) = chain.split_at(user);
        Parts { kernel, user }
    }

    fn is_deferred(&self) -> bool {
        self.user.first() == Some(&context::USER_DEFERRED)
    }
}

/// Samples that the moment wrote, with their events.
fn samples<'a>(m: &'a Moment<'_>) -> impl Iterator<Item = (&'a Sample, &'a Event)> {
    m.now.sessions.iter().flat_map(|session| {
        session.records.iter().filter_map(|record| match record {
            Record::Sample(sample) => Some((sample, session.events.get(sample.event)?)),
            _ => None,
        })
    })
}

/// See its words.
pub const BUDGETS: Law = Law {
    number: 27,
    words: "words of a chain = contexts + addresses; addresses ≤ max_stack; contexts ≤ the \
            sysctl's 8",
    levels: ALL_G,
};

/// [`BUDGETS`]
#[derive(Debug, Default)]
pub struct Budgets;

impl Monitor for Budgets {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        for (sample, event) in samples(m) {
            let chain = &sample.callchain;
            let parts = Parts::of(chain);
            let begins = [parts.kernel, parts.user].map(|part| usize::from(!part.is_empty()));
            let cookie = usize::from(parts.is_deferred() && parts.user.len() > 1);
            let contexts = begins[0] + begins[1] + cookie;
            let addresses = chain.len() - contexts;
            let limits = m.now.callchains.limits;
            let max = limits.addresses(event.max_stack) as usize;
            let starts = parts.kernel.first().is_none_or(|word| *word == context::KERNEL);
            if !starts || addresses > max || contexts > limits.max_contexts as usize {
                let seen = format!("{contexts} contexts, {addresses} addresses in {chain:x?}");
                found.push(Broken::new(seen));
            }
        }
    }
}

/// See its words.
pub const ONE_USER_PART: Law = Law {
    number: 34,
    words: "a chain has USER or USER_DEFERRED, never both; behind USER_DEFERRED there is the \
            cookie, or nothing, and then the end",
    levels: ALL_G,
};

/// [`ONE_USER_PART`]
#[derive(Debug, Default)]
pub struct OneUserPart;

impl Monitor for OneUserPart {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        for (sample, _) in samples(m) {
            let parts = Parts::of(&sample.callchain);
            let id = m.now.task.id;
            // Where the guest's words cannot be meant.
            let both = match parts.user {
                [context::USER, .., context::USER_DEFERRED, cookie] => id != 0 && *cookie == id,
                _ => false,
            };
            if both || parts.is_deferred() && parts.user.len() > 2 {
                found.push(Broken::new(format!("{:x?}", sample.callchain)));
            }
        }
    }
}
