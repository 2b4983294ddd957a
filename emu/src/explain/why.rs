//! Where a method parts from the truth, and why, in words.

use crate::explain::{Explained, Replay, Source, register_name};
use crate::grade::ProgramPoint;
use crate::grade::file::FrameKind;

/// Sentences about a method, the first of which says what is wrong.
pub fn why(e: &Explained, replay: &Replay) -> Vec<String> {
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
    if replay.by_table {
        said.extend(rule(e, replay, here));
    } else if replay.end.is_some() || replay.frames[here].source.is_some() {
        said.extend(record(e, replay, here));
    }
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

/// What the table's row did at the frame `here`.
fn rule(e: &Explained, replay: &Replay, here: usize) -> Vec<String> {
    let told = &replay.frames[here];
    let Some(rule) = &told.rule else { return Vec::new() };
    let mut said = vec![format!("the row in force there says {rule}")];
    let truth = e.sample().frames.get(here).and_then(|frame| frame.cfa);
    if let (Some(cfa), Some(truth)) = (told.cfa, truth)
        && cfa != truth.0
    {
        said.push(format!("that makes the CFA {cfa:#x}; the true one is {:#x}", truth.0));
    }
    said
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
        Some(owner) if owner == here => Vec::new(),
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
