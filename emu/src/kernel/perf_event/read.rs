//! `read` of an event: its count, or its group's (`perf_read`).

use std::rc::Rc;

use arch::Errno;

use crate::kernel::State;
use crate::perf::abi::read_format;
use crate::perf::opened::Opened;

/// What `read` gives, by `read_format`; nothing if the event is in the error state.
///
/// ```text
/// alone:  value, [enabled], [running], [id], [lost]
/// GROUP:  number, [enabled], [running], (value, [id], [lost])…
/// ```
///
/// # Errors
///
/// `ENOSPC` if it has more than `room` bytes.
pub fn read(s: &State, event: &Rc<Opened>, room: u64) -> Result<Vec<u8>, Errno> {
    if event.failed.get() {
        return Ok(Vec::new());
    }
    let bytes = values(s, event);
    if bytes.len() as u64 > room { Err(Errno::ENOSPC) } else { Ok(bytes) }
}

/// The same without a limit, as `PERF_SAMPLE_READ` has it.
pub fn values(s: &State, event: &Rc<Opened>) -> Vec<u8> {
    let format = event.attr.read_format;
    let has = |bit| format & bit != 0;
    let group = match has(read_format::GROUP) {
        true => event.group_leader().group(),
        false => vec![event.clone()],
    };
    let totals: Vec<_> = group.iter().map(|event| s.event_totals(event)).collect();
    let mut words = Vec::new();
    let tail = |words: &mut Vec<u64>, event: &Opened| {
        if has(read_format::ID) {
            words.push(event.id);
        }
        if has(read_format::LOST) {
            words.push(event.lost.get());
        }
    };
    words.push(if has(read_format::GROUP) { group.len() as u64 } else { totals[0].count });
    if has(read_format::TIME_ENABLED) {
        words.push(totals[0].enabled);
    }
    if has(read_format::TIME_RUNNING) {
        words.push(totals[0].running);
    }
    match has(read_format::GROUP) {
        true => {
            for (event, totals) in group.iter().zip(&totals) {
                words.push(totals.count);
                tail(&mut words, event);
            }
        }
        false => tail(&mut words, event),
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
