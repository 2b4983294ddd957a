//! Where a method parts from the truth, and why, in words.

use unwinder::{InstructionPointer, Memory};

use crate::explain::{By, Explained, Replay, Slot, Source, register_name};
use crate::grade::ProgramPoint;
use crate::grade::file::FrameKind;
use crate::numbers::grouped;

/// Sentences about a method, the first of which says what is wrong.
pub fn why(e: &Explained, replay: &Replay) -> Vec<String> {
    if let Some(why) = &replay.impossible {
        return vec![format!("cannot be repeated: {why}")];
    }
    let parting = replay.parting();
    let found = replay.frames.len();
    if replay.is_right(e.sample()) {
        let s = if found == 1 { "the only frame is" } else { "frames are" };
        return vec![if found == 1 {
            format!("{s} right")
        } else {
            format!("all {found} {s} right")
        }];
    }
    let Some(here) = parting.checked_sub(1) else {
        return vec!["it begins at another address".to_owned()];
    };
    let mut said = vec![what(e, replay, parting)];
    match replay.by {
        By::Table | By::Other => said.extend(rule(e, replay, here)),
        By::Record if replay.end.is_some() || replay.frames[here].source.is_some() => {
            said.extend(record(e, replay, here));
        }
        By::Record => {}
    }
    said.extend(again(replay));
    said
}

/// What is wrong from the frame `parting` on.
fn what(e: &Explained, replay: &Replay, parting: usize) -> String {
    let truth = e.sample().frames.len();
    let here = e.frame_name(parting - 1);
    let left_out = |to: usize| match to - parting {
        1 => format!("{} is left out", e.frame_name(parting)),
        n => format!("{n} frames are left out, {} the first", e.frame_name(parting)),
    };
    match replay.frames.get(parting) {
        None => {
            let why = replay.end.as_deref().unwrap_or("it gives no further frame");
            format!("it ends at {here}: {why}; {}", left_out(truth))
        }
        Some(told) => match told.truth {
            Some(index) if index > parting => {
                format!("from {here} it goes to {}: {}", e.frame_name(index), left_out(index))
            }
            _ if parting >= truth => {
                let address = e.places.name(told.address);
                format!("it goes on behind the outermost frame, to {address}")
            }
            _ => {
                let (address, right) = (e.places.name(told.address), e.frame_name(parting));
                format!("from {here} it goes to {address}, where {right} is right")
            }
        },
    }
}

/// That it does not come to an end.
pub fn again(replay: &Replay) -> Option<String> {
    let repeats = replay.repeats?;
    let count = replay.frames.len() - replay.distinct();
    let s = if count == 1 { "" } else { "s" };
    let count = grouped(count as u64);
    Some(format!("the record at {:#x} {repeats}: {count} frame{s} more", repeats.record))
}

/// What the table's row, or an unwinder that tells no rule, did at the frame `here`.
fn rule(e: &Explained, replay: &Replay, here: usize) -> Vec<String> {
    if let Some(said) = hidden(e, replay, here) {
        return vec![said];
    }
    let told = &replay.frames[here];
    let mut said = Vec::new();
    if let (By::Table, Some(rule)) = (replay.by, &told.rule) {
        said.push(format!("the row in force there says {rule}"));
        said.extend((here == 0).then(|| behind_its_function(e)).flatten());
    }
    let truth = e.sample().frames.get(here).and_then(|frame| frame.cfa);
    let (Some(cfa), Some(truth)) = (told.cfa, truth) else { return said };
    match replay.by {
        _ if cfa == truth.0 => said.extend(overwritten(e, replay, here, "the CFA is right")),
        By::Table => {
            said.push(format!("that makes the CFA {cfa:#x}; the true one is {:#x}", truth.0));
        }
        _ => said.push(format!(
            "the stack pointer that it tells for the caller is {cfa:#x}; the true one is {:#x}",
            truth.0
        )),
    }
    said
}

/// That the innermost frame's address is in another function than its system call.
fn behind_its_function(e: &Explained) -> Option<String> {
    let function = |at: u64| e.places.function(InstructionPointer(at).into());
    let (of_call, behind) = (function(e.system_call()?), function(e.sample().pc.0));
    (of_call != behind).then(|| {
        format!("that is {behind}'s: the system call is the last instruction of {of_call}")
    })
}

/// What is wrong at a frame inside of `here`, if there is: a table's row may tell the right
/// return address and a wrong CFA, which does harm one frame further out.
fn hidden(e: &Explained, replay: &Replay, here: usize) -> Option<String> {
    let frames = &e.sample().frames;
    // What the CFA of a signal's frame is, tables see differently.
    let is_call =
        |index: usize| frames.get(index).is_some_and(|f| f.kind != FrameKind::Interrupted);
    let (index, rule, cfa, truth) = (0..here).find_map(|index| {
        let told = &replay.frames[index];
        let (cfa, truth) = (told.cfa?, frames.get(index)?.cfa?.0);
        let counts = cfa != truth && is_call(index) && is_call(index + 1);
        Some((index, told.rule.as_ref()?, cfa, truth)).filter(|_| counts && replay.by == By::Table)
    })?;
    Some(format!(
        "the error is at {}, where the row in force says {rule}: that makes the CFA {cfa:#x}, the \
         true one is {truth:#x}; its return address is right all the same",
        e.frame_name(index)
    ))
}

/// Why the frame behind `here` is wrong though the method looked in the right frame.
/// `right` says what is not wrong.
fn overwritten(e: &Explained, replay: &Replay, here: usize, right: &str) -> Option<String> {
    let caller = e.sample().frames.get(here + 1)?;
    let (truth, found) = (caller.address.0, replay.frames.get(here + 1)?.address.value());
    if found == truth {
        return None;
    }
    let slot = e.slot(here);
    let read = match replay.frames[here].source {
        Some(Source::Memory(read)) => read,
        Some(Source::Register(number)) => {
            let register = register_name(e.arch(), number);
            return Some(format!("{right}; {register} leads to {found:#x}, not to {truth:#x}"));
        }
        None => match slot? {
            Slot { at: Source::Memory(slot), holds: false } => slot,
            _ => return None,
        },
    };
    let held = e.memory().word(read)?;
    let link = arch::aarch64::regs::LR;
    let in_link = here == 0
        && e.arch() == arch::Arch::Aarch64
        && e.arch().strip_pac(e.sample().regs(e.arch()).gp[link]) == truth;
    let where_it_is = match slot {
        _ if in_link => format!("is still in {}", register_name(e.arch(), link as u8)),
        Some(Slot { at: Source::Memory(slot), holds: true }) if slot != read => {
            format!("is in [{slot:x}]")
        }
        _ => "is no longer there: overwritten".to_owned(),
    };
    Some(format!(
        "{right}; [{read:x}] holds {held:#x}, the true return address {truth:#x} \
         {where_it_is}"
    ))
}

/// Whose frame record the frame pointer led to at the frame `here`.
fn record(e: &Explained, replay: &Replay, here: usize) -> Vec<String> {
    let fp = register_name(e.arch(), e.arch().fp() as u8);
    let frames = &e.sample().frames;
    if frames.get(here + 1).is_some_and(|f| f.kind == FrameKind::Interrupted) {
        return vec!["what the kernel builds for a signal is no frame record of that code".into()];
    }
    let name = e.function_name(here);
    let owner = match replay.frames[here].source {
        Some(Source::Memory(slot)) => e.owner(slot.wrapping_sub(8)),
        _ => None,
    };
    let point = if here == 0 { e.sample().point } else { ProgramPoint::Body };
    let state = match point {
        ProgramPoint::Entry => {
            format!("{name} is at its first instruction: {fp} is still its caller's")
        }
        ProgramPoint::Prologue => {
            format!("{name} is in its prologue: {fp} does not point to its own frame record yet")
        }
        ProgramPoint::Epilogue => {
            format!("{name} is in its epilogue: {fp} does not point to its frame record any more")
        }
        _ => format!("{name} has no frame record of its own"),
    };
    match owner {
        Some(owner) if owner == here => {
            let right = format!("{fp} points to the record of {name}");
            overwritten(e, replay, here, &right).into_iter().collect()
        }
        Some(owner) if replay.frames.get(here + 1).is_some_and(|f| f.truth == Some(owner + 1)) => {
            let record = e.function_name(owner);
            vec![
                state,
                format!("{fp} points to the record of {record}, which leads to #{}", owner + 1),
            ]
        }
        Some(owner) => {
            let owner = e.function_name(owner);
            vec![state, format!("{fp} points into the frame of {owner}, to no frame record")]
        }
        None if replay.frames[here].source.is_some() => {
            vec![format!("{name} uses {fp} for something else: it points into no live frame")]
        }
        None => vec![state],
    }
}
