//! The text that strace writes, as `strace -f -ttt -T -y -s 4096 -o FILE` (versions 4 to 6).
//!
//! What a line is, [`line`] says; here halves of split calls are joined and interrupted calls continued.

mod line;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use super::lex::Arg;
use super::text::{Line, Lines, shown};
use super::{OnBad, ParseError, RawCall, TraceSource};
use crate::trace::Platform;
use crate::warning::{WarningKind, Warnings};
use esker_base::Errno;
use line::{Body, CallLine, Clock, LineError};

/// The first half of a call.
#[derive(Debug)]
struct Begun {
    tid: u32,
    line: u64,
    enter: u64,
    name: String,
    text: Vec<u8>,
}

/// A call that a signal interrupted and that the kernel may begin again.
#[derive(Debug)]
struct Interrupted {
    call: RawCall,
    /// Whether a signal handler ended since.
    handled: bool,
}

/// Reads strace's text.
pub struct Strace<R> {
    lines: Lines<R>,
    on_bad: OnBad,
    clock: Clock,
    begun: BTreeMap<u32, Begun>,
    interrupted: BTreeMap<u32, Interrupted>,
    ready: VecDeque<RawCall>,
    is_done: bool,
}

impl<R: BufRead> Strace<R> {
    /// Reads `input`.
    pub fn new(input: R, on_bad: OnBad) -> Strace<R> {
        Strace {
            lines: Lines::new(input),
            on_bad,
            clock: Clock::default(),
            begun: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            ready: VecDeque::new(),
            is_done: false,
        }
    }

    fn take_line(&mut self, line: &Line, warnings: &mut Warnings) -> Result<(), ParseError> {
        let trimmed = line.bytes.trim_ascii();
        if trimmed.is_empty() || trimmed.starts_with(b"strace: ") {
            return Ok(());
        }
        let taken = match line.is_long {
            true => Err(LineError { column: 1, what: "a line of at most 1 MiB" }),
            false => self.take_parts(line, warnings),
        };
        match taken {
            Ok(()) => Ok(()),
            Err(error) => self.bad_line(line, error, warnings),
        }
    }

    /// The last line may be cut; any other that is malformed is an error, or counted if the user wants that.
    fn bad_line(&self, line: &Line, error: LineError, warnings: &mut Warnings) -> Result<(), ParseError> {
        let text = shown(&line.bytes);
        if !line.is_whole {
            warnings.add(WarningKind::CutLine, line.number, text);
            return Ok(());
        }
        match self.on_bad {
            OnBad::Skip => warnings.add(WarningKind::BadLine, line.number, format!("{}: {text}", error.what)),
            OnBad::Fail if error.what == line::NO_TIME => {
                return Err(ParseError::NoTime { line: line.number, text });
            }
            OnBad::Fail => {
                return Err(ParseError::BadLine { line: line.number, column: error.column, what: error.what, text });
            }
        }
        Ok(())
    }

    fn take_parts(&mut self, line: &Line, warnings: &mut Warnings) -> Result<(), LineError> {
        let (head, body) = line::parse(&line.bytes, &mut self.clock)?;
        if head.is_backwards {
            warnings.add(WarningKind::TimeBackwards, line.number, shown(&line.bytes));
        }
        match body {
            Body::Call { name, args } => {
                let begun = Begun { tid: head.tid, line: line.number, enter: head.at, name, text: args };
                self.finish_call(&head, begun, warnings)
            }
            Body::Begun { name, args } => {
                let begun = Begun { tid: head.tid, line: line.number, enter: head.at, name, text: args };
                self.drop_begun(head.tid, warnings);
                self.begun.insert(head.tid, begun);
                Ok(())
            }
            Body::Resumed { name, args } => self.resume(&head, line, &name, &args, warnings),
            Body::Signal => Ok(()),
            Body::End => {
                self.drop_begun(head.tid, warnings);
                self.give_up_interrupted(head.tid);
                Ok(())
            }
            Body::Superseded { by } => {
                self.drop_begun(head.tid, warnings);
                if let Some(begun) = self.begun.remove(&by) {
                    self.begun.insert(head.tid, begun);
                }
                Ok(())
            }
        }
    }

    fn resume(
        &mut self,
        head: &CallLine,
        line: &Line,
        name: &str,
        rest: &[u8],
        warnings: &mut Warnings,
    ) -> Result<(), LineError> {
        let begun = self.begun.remove(&head.tid);
        let Some(mut begun) = begun.filter(|begun| begun.name == name) else {
            warnings.add(WarningKind::ResumedWithoutStart, line.number, shown(&line.bytes));
            return Ok(());
        };
        begun.text.extend_from_slice(rest);
        self.finish_call(head, begun, warnings)
    }

    /// A call whose text is whole.
    fn finish_call(&mut self, head: &CallLine, begun: Begun, warnings: &mut Warnings) -> Result<(), LineError> {
        let ended = line::parse_call(&begun.text)?;
        if ended.is_delayed {
            warnings.add(WarningKind::DelayInjected, begun.line, begun.name.clone());
        }
        let leave = match ended.duration {
            // Durations are told by another clock than instants: a long one may end before what ended it began. The
            // line on which a split call ends tells its end by the right one.
            Some(duration) => begun.enter.saturating_add(duration).max(head.at),
            None => {
                // What never returns took no time that anybody could note.
                if ended.ret.value.is_some() {
                    warnings.add(WarningKind::NoDuration, begun.line, begun.name.clone());
                }
                head.at
            }
        };
        let is_again = ended.ret.value.is_none() && ended.ret.errno == Some(Errno::EINTR);
        let call = RawCall {
            line: begun.line,
            pid: None,
            tid: begun.tid,
            enter: begun.enter,
            leave,
            name: begun.name,
            args: ended.args,
            ret: ended.ret,
        };
        self.continue_interrupted(call, is_again, warnings);
        Ok(())
    }

    /// Joins a call with the interrupted one that it continues, and keeps it if it is interrupted itself.
    fn continue_interrupted(&mut self, mut call: RawCall, is_again: bool, warnings: &mut Warnings) {
        if let Some(mut earlier) = self.interrupted.remove(&call.tid) {
            if call.name == "restart_syscall" || is_same(&earlier.call, &call) {
                warnings.add(WarningKind::Restarted, call.line, earlier.call.name.clone());
                let (leave, ret) = (call.leave, call.ret);
                call = RawCall { leave, ret, ..earlier.call };
            } else if call.name == "rt_sigreturn" || call.name == "sigreturn" {
                earlier.handled = true;
                self.interrupted.insert(call.tid, earlier);
            } else if earlier.handled {
                self.ready.push_back(interrupted_for_good(earlier.call));
            } else {
                self.interrupted.insert(call.tid, earlier);
            }
        }
        if !is_again {
            self.ready.push_back(call);
        } else if let Some(earlier) = self.interrupted.insert(call.tid, Interrupted { call, handled: false }) {
            self.ready.push_back(interrupted_for_good(earlier.call));
        }
    }

    fn drop_begun(&mut self, tid: u32, warnings: &mut Warnings) {
        if let Some(begun) = self.begun.remove(&tid) {
            warnings.add(WarningKind::Unfinished, begun.line, begun.name);
        }
    }

    fn give_up_interrupted(&mut self, tid: u32) {
        if let Some(earlier) = self.interrupted.remove(&tid) {
            self.ready.push_back(interrupted_for_good(earlier.call));
        }
    }

    fn finish(&mut self, warnings: &mut Warnings) {
        self.is_done = true;
        for tid in self.begun.keys().copied().collect::<Vec<_>>() {
            self.drop_begun(tid, warnings);
        }
        for tid in self.interrupted.keys().copied().collect::<Vec<_>>() {
            self.give_up_interrupted(tid);
        }
    }
}

/// Whether a call is an interrupted one begun again: what was only an address then may be shown now.
fn is_same(earlier: &RawCall, later: &RawCall) -> bool {
    let alike = |(before, now): (&Arg, &Arg)| match (before, now) {
        (Arg::Int { .. }, Arg::Text { .. } | Arg::List(_) | Arg::Fields(_)) => true,
        _ => before == now,
    };
    earlier.name == later.name
        && earlier.args.len() == later.args.len()
        && earlier.args.iter().zip(&later.args).all(alike)
}

/// A call that was interrupted and not begun again: the program saw EINTR.
fn interrupted_for_good(mut call: RawCall) -> RawCall {
    call.ret.value = Some(-1);
    call.ret.errno = Some(Errno::EINTR);
    call
}

impl<R: BufRead> TraceSource for Strace<R> {
    fn next_call(&mut self, warnings: &mut Warnings) -> Result<Option<RawCall>, ParseError> {
        loop {
            if let Some(call) = self.ready.pop_front() {
                return Ok(Some(call));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.lines.next_line()? {
                Some(line) => self.take_line(&line, warnings)?,
                None => self.finish(warnings),
            }
        }
    }

    fn platform(&self) -> Platform {
        Platform::Linux
    }

    fn name(&self) -> &'static str {
        "strace"
    }

    fn lines(&self) -> u64 {
        self.lines.count
    }
}
