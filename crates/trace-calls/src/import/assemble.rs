//! From calls to a trace: order, threads, processes, and descriptors that were open before.

mod descriptors;
mod people;

use std::mem;

use esker_base::Time;

use super::decode::{Args, Bad, Decoder, Interner, OtherReason};
use super::lex::Arg;
use super::{OnBad, ParseError, RawCall, TraceSource};
use crate::action::{Action, Outcome};
use crate::call::{Call, Fd};
use crate::name::{PathBytes, Word};
use crate::trace::Trace;
use crate::warning::{WarningKind, Warnings};
use descriptors::Descriptors;
use people::People;

/// A decoded call whose thread is only a number yet.
struct Item {
    line: u64,
    pid: Option<u32>,
    tid: u32,
    enter: u64,
    leave: u64,
    call: Call,
    outcome: Outcome,
    /// What was noted beside descriptors.
    notes: Box<[(Fd, PathBytes)]>,
}

/// Reads a whole trace. Its snapshot is empty: formats keep it elsewhere, if at all.
///
/// # Errors
/// The source refuses, or with [`OnBad::Fail`] a path was cut.
pub fn read_trace(source: &mut dyn TraceSource, on_bad: OnBad) -> Result<Trace, ParseError> {
    let mut trace = Trace::new(source.platform(), source.name());
    let mut items = read_items(source, on_bad, &mut trace.warnings)?;
    if items.is_empty() {
        return Err(ParseError::NoCalls { lines: source.lines() });
    }
    items.sort_by_key(|item| (item.enter, item.line));
    let start = items[0].enter;
    let mut people = People::default();
    let mut descriptors = Descriptors::default();
    for mut item in items {
        let thread = people.thread_of(item.tid, item.pid, item.line, &mut trace);
        descriptors.follow(&item, trace.process_of(thread), &mut trace);
        if let (Call::Clone { flags, child }, Outcome::Done(tid)) = (&mut item.call, item.outcome) {
            let born = people.born(thread, tid, *flags, &mut trace);
            descriptors.born(trace.process_of(thread), trace.process_of(born), *flags);
            *child = Some(born);
        }
        if item.call.is_polled_ring() && item.outcome.value().is_some() {
            let text = "the kernel takes requests by itself (IORING_SETUP_SQPOLL): no call shows them";
            trace.warnings.add(WarningKind::UringPolled, item.line, text);
        }
        if let (Call::Map { fd, .. }, Outcome::Done(_)) = (&item.call, item.outcome)
            && fd.0 >= 0
        {
            trace.warnings.add(WarningKind::MappedReads, item.line, format!("descriptor {}", fd.0));
        }
        let time = |ns: u64| Time(ns.saturating_sub(start));
        let (enter, leave) = (time(item.enter), time(item.leave.max(item.enter)));
        trace.actions.push(Action { thread, enter, leave, call: item.call, outcome: item.outcome });
    }
    Ok(trace)
}

fn read_items(source: &mut dyn TraceSource, on_bad: OnBad, warnings: &mut Warnings) -> Result<Vec<Item>, ParseError> {
    let decoder = Decoder::new(source.platform());
    let mut interner = Interner::default();
    let mut items = Vec::new();
    while let Some(raw) = source.next_call(warnings)? {
        items.push(item(&raw, &decoder, &mut interner, on_bad, warnings)?);
    }
    Ok(items)
}

fn item(
    raw: &RawCall,
    decoder: &Decoder,
    interner: &mut Interner,
    on_bad: OnBad,
    warnings: &mut Warnings,
) -> Result<Item, ParseError> {
    let mut args = Args::new(raw, interner);
    let decoded = decoder.decode(&mut args);
    let (mut noted, unknown) = (mem::take(&mut args.notes), mem::take(&mut args.unknown));
    let outcome = outcome(raw);
    if let (Some(note), Outcome::Done(fd)) = (&raw.ret.note, outcome) {
        noted.push(super::decode::Note { fd: Fd(fd as i32), text: note.clone() });
    }
    if let ("getcwd", Outcome::Done(_), Some(Arg::Text { bytes, cut: false })) = (&*raw.name, outcome, raw.args.first())
    {
        noted.push(super::decode::Note { fd: Fd::CWD, text: bytes.clone() });
    }
    let notes = noted.iter().map(|note| (note.fd, interner.path(&note.text))).collect();
    for word in unknown {
        warnings.add(WarningKind::UnknownFlag, raw.line, format!("{}: {word}", raw.name));
    }
    match decoded.trouble {
        None => {}
        Some(OtherReason::UnknownCall) => warnings.add(WarningKind::UnknownCall, raw.line, raw.name.clone()),
        Some(OtherReason::Bad(Bad::Argument { place, wanted })) => {
            let text = format!("{}: argument {}: {wanted} expected", raw.name, place + 1);
            warnings.add(WarningKind::BadArguments, raw.line, text);
        }
        Some(OtherReason::Bad(Bad::CutPath(text))) => match on_bad {
            OnBad::Fail => return Err(ParseError::CutPath { line: raw.line, text }),
            OnBad::Skip => warnings.add(WarningKind::CutPath, raw.line, text),
        },
    }
    let (line, enter, leave) = (raw.line, raw.enter, raw.leave);
    Ok(Item { line, pid: raw.pid, tid: raw.tid, enter, leave, call: decoded.call, outcome, notes })
}

fn outcome(raw: &RawCall) -> Outcome {
    match (raw.ret.value, raw.ret.errno) {
        (_, Some(errno)) => Outcome::Failed(errno),
        (Some(value), None) => Outcome::Done(value),
        (None, None) => Outcome::Unknown,
    }
}

/// The name of a thread or source that is unknown.
fn unnamed() -> Word {
    Word::default()
}
