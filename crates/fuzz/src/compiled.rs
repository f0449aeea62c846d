//! Compiled traces, and the compiler: what is read can be scheduled and written again; what a recording claims is
//! repaired, never believed to the point of a panic, and edges lead forward.

use esker_trace_calls::Trace;
use esker_trace_calls::etrace::{self, Limits};
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_calls::import::{OnBad, read_trace, strace};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;
use esker_trace_order::rules::schedule::for_each;
use esker_trace_order::rules::{Order, Rules};

use crate::etrace::{sealed as sealed_blocks, unpacked};
use crate::trace::{mapped, strace_corpus, written};

/// Where the table of sections begins, behind the number of its rows; most rows, and the length of one.
const TABLE: usize = 16;
const ROWS_MAX: usize = 11;
const ROW: usize = 24;

/// What a recording may claim to hold.
const LIMITS: Limits = Limits { unpacked_max: 16 << 20 };

fn program(seed: u64) -> Program {
    compile(apple_desktop(Shape { seed, threads: 3, scripts: 4 }), &mut |_| {}).expect("made traces are sound")
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mapped = compile(mapped(), &mut |_| {}).expect("the sample is sound");
    (1..4).map(program).chain([mapped]).map(|program| program.encode()).collect()
}

pub(crate) fn recordings() -> Vec<Vec<u8>> {
    let trace = |seed| apple_desktop(Shape { seed, threads: 3, scripts: 6 });
    let recorded = (1..4).map(trace).chain([mapped()]).map(|trace| unpacked(&written(&trace)));
    recorded.chain(strace_corpus()).collect()
}

/// The input with right checksums, so that damage comes past them.
fn sealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let rows = bytes.get(TABLE - 4..TABLE).map_or(0, |count| u32::from_le_bytes(count.try_into().expect("four bytes")));
    let end = TABLE + (rows as usize).min(ROWS_MAX) * ROW;
    if bytes.len() < end + 4 {
        return bytes;
    }
    for row in (TABLE..end).step_by(ROW) {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (offset, len) = (number(row + 8), number(row + 16));
        let body = offset.checked_add(len).and_then(|end| bytes.get(offset as usize..end as usize));
        if let Some(sum) = body.map(crc32fast::hash) {
            bytes[row + 4..row + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc32fast::hash(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(crate) fn try_compiled(input: &[u8]) -> Result<bool, String> {
    let sealed = sealed(input);
    // As it comes, and with checksums made right.
    if let (Ok(_), true) = (Program::decode(input), sealed != input) {
        return Err("a wrong checksum was not noticed".to_string());
    }
    let Ok(program) = Program::decode(&sealed) else { return Ok(false) };
    check(&program)?;
    let again = Program::decode(&program.encode()).map_err(|error| format!("what was written is refused: {error}"))?;
    if again.len() != program.len() || again.outline() != program.outline() {
        return Err("what was written is read otherwise".to_string());
    }
    Ok(true)
}

pub(crate) fn try_recording(input: &[u8]) -> Result<bool, String> {
    let Some(trace) = read(input) else { return Ok(false) };
    let actions = trace.actions.len();
    let Ok(program) = compile(trace, &mut |_| {}) else { return Ok(false) };
    if program.len() != actions {
        return Err(format!("{} of {actions} actions were kept", program.len()));
    }
    check(&program)?;
    Program::decode(&program.encode()).map_err(|error| format!("what was written is refused: {error}"))?;
    Ok(true)
}

/// A recording, or the text of strace, which damage leaves readable more often.
pub(crate) fn read(input: &[u8]) -> Option<Trace> {
    match etrace::is_etrace(input) {
        true => etrace::read(&*sealed_blocks(input), LIMITS).ok(),
        false => read_trace(&mut strace::Strace::new(input, OnBad::Skip), OnBad::Skip).ok(),
    }
}

/// Edges lead forward, and asking for anything is answered.
fn check(program: &Program) -> Result<(), String> {
    let mut backwards = None;
    for_each(program.outline(), Order::Root(Rules::all() - Rules::TRACE_ORDER), |to, candidates| {
        backwards = backwards.or(candidates.iter().find(|one| one.edge.from >= to).map(|one| (one.edge.from, to)));
    });
    if let Some((from, to)) = backwards {
        return Err(format!("an edge leads from action {from} back to {to}"));
    }
    program.schedule(Order::Temporal);
    Ok(())
}
