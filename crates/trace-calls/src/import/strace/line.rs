//! One line: thread and time, then a call, half of one, a signal or an end.

use super::super::Ret;
use super::super::lex::{Arg, LexError, Lexer, number};
use esker_base::Errno;

/// What is said of a line without a time.
pub(super) const NO_TIME: &str = "a time";

/// What does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineError {
    /// From 1.
    pub column: usize,
    /// What was expected.
    pub what: &'static str,
}

impl From<LexError> for LineError {
    fn from(error: LexError) -> LineError {
        LineError { column: error.at + 1, what: error.what }
    }
}

/// Thread and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLine {
    /// The thread; 1 where strace did not follow forks and so names none.
    pub tid: u32,
    /// In ns; never before that of an earlier line.
    pub at: u64,
    /// Whether the line's own time was.
    pub is_backwards: bool,
}

/// What follows.
#[derive(Debug)]
pub(super) enum Body {
    /// A whole call: what is between the bracket after its name and the end of the line.
    Call { name: String, args: Vec<u8> },
    /// The first half of one.
    Begun { name: String, args: Vec<u8> },
    /// The second half.
    Resumed { name: String, args: Vec<u8> },
    /// A signal, or a stop.
    Signal,
    /// The thread ended.
    End,
    /// The thread, a leader, goes on as the one that called exec.
    Superseded { by: u32 },
}

/// Keeps times in order, across midnight where a line has no date.
#[derive(Debug, Default)]
pub(super) struct Clock {
    last: u64,
    days: u64,
}

const DAY_NS: u64 = 86_400 * 1_000_000_000;

impl Clock {
    /// The time of a line, and whether it was set to that of the line before.
    fn at(&mut self, time: Stamp) -> (u64, bool) {
        let at = match time {
            Stamp::Epoch(ns) => ns,
            Stamp::OfDay(ns) => {
                if ns + self.days * DAY_NS + DAY_NS / 2 < self.last {
                    self.days += 1;
                }
                ns + self.days * DAY_NS
            }
        };
        let is_backwards = at < self.last;
        self.last = self.last.max(at);
        (self.last, is_backwards)
    }
}

enum Stamp {
    Epoch(u64),
    OfDay(u64),
}

/// Cuts a line.
///
/// # Errors
/// It is none of strace's.
pub(super) fn parse(line: &[u8], clock: &mut Clock) -> Result<(CallLine, Body), LineError> {
    let mut rest = line.trim_ascii();
    let tid = leading_tid(&mut rest);
    let (at, is_backwards) = clock.at(leading_time(&mut rest).ok_or(LineError { column: 1, what: NO_TIME })?);
    let head = CallLine { tid: tid.unwrap_or(1), at, is_backwards };
    let column = line.len() - rest.len() + 1;
    let body = body(rest).ok_or(LineError { column, what: "a call, a signal or an exit" })?;
    Ok((head, body))
}

/// `[pid 12]` or `12`, unless what comes is the time already.
fn leading_tid(rest: &mut &[u8]) -> Option<u32> {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (from, closing) = match rest.strip_prefix(b"[pid") {
        Some(inner) => (inner.trim_ascii_start(), &b"]"[..]),
        None => (*rest, &b" "[..]),
    };
    let (word, after) = from.split_at(digits(from));
    let after = after.strip_prefix(closing)?.trim_ascii_start();
    let tid = std::str::from_utf8(word).ok()?.parse().ok()?;
    *rest = after;
    Some(tid)
}

/// `1699999999.123456`, `12:34:56` or `12:34:56.789`.
fn leading_time(rest: &mut &[u8]) -> Option<Stamp> {
    let end = memchr::memchr(b' ', rest)?;
    let word = std::str::from_utf8(&rest[..end]).ok()?;
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let nanos = fraction_ns(fraction)?;
    let stamp = match whole.split(':').collect::<Vec<_>>()[..] {
        [seconds] if !fraction.is_empty() => {
            Stamp::Epoch(seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?)
        }
        [hours, minutes, seconds] => {
            let part = |text: &str, below: u64| text.parse::<u64>().ok().filter(|n| *n < below);
            let seconds = (part(hours, 24)? * 60 + part(minutes, 60)?) * 60 + part(seconds, 61)?;
            Stamp::OfDay(seconds * 1_000_000_000 + nanos)
        }
        _ => return None,
    };
    *rest = rest[end..].trim_ascii_start();
    Some(stamp)
}

/// Digits behind the point, in ns.
fn fraction_ns(digits: &str) -> Option<u64> {
    if digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

const UNFINISHED: &[u8] = b"<unfinished ...>";

fn body(rest: &[u8]) -> Option<Body> {
    if rest.starts_with(b"--- ") {
        return Some(Body::Signal);
    }
    if let Some(end) = rest.strip_prefix(b"+++ ") {
        return ended(end);
    }
    if let Some(resumed) = rest.strip_prefix(b"<... ") {
        let end = memchr::memmem::find(resumed, b" resumed>")?;
        let name = String::from_utf8(resumed[..end].to_vec()).ok()?;
        let args = &resumed[end + b" resumed>".len()..];
        return Some(match args.trim_ascii_end().strip_suffix(UNFINISHED) {
            // A thread that was killed inside the call: its first half is dropped when the thread ends.
            Some(_) => Body::Signal,
            None => Body::Resumed { name, args: args.to_vec() },
        });
    }
    let open = memchr::memchr(b'(', rest)?;
    let name = std::str::from_utf8(&rest[..open]).ok().filter(|name| is_call_name(name))?.to_string();
    let args = &rest[open + 1..];
    Some(match args.strip_suffix(UNFINISHED) {
        Some(args) => Body::Begun { name, args: args.to_vec() },
        None => Body::Call { name, args: args.to_vec() },
    })
}

fn is_call_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'?' | b'#'))
}

/// What stands between `+++`.
fn ended(text: &[u8]) -> Option<Body> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(by) = text.strip_prefix("superseded by execve in pid ") {
        let by = by.split(' ').next()?.parse().ok()?;
        return Some(Body::Superseded { by });
    }
    (text.starts_with("exited with ") || text.starts_with("killed by ")).then_some(Body::End)
}

/// The arguments of a call and its end.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its arguments.
    pub args: Vec<Arg>,
    /// How it ended.
    pub ret: Ret,
    /// How long it took in ns, where that was recorded.
    pub duration: Option<u64>,
    /// Whether strace delayed it on purpose.
    pub is_delayed: bool,
}

/// Parses `args) = result <duration>`.
///
/// # Errors
/// A part is malformed or missing.
pub(super) fn parse_call(text: &[u8]) -> Result<Ended, LineError> {
    let mut lexer = Lexer::new(text);
    let args = lexer.list(b')', 0)?;
    lexer.skip_blank();
    if !lexer.skip(b"=") {
        return Err(LineError { column: lexer.at + 1, what: "= and the result" });
    }
    lexer.skip_blank();
    let start = lexer.at;
    let (rest, duration) = without_duration(lexer.rest());
    let ret = result(rest).ok_or(LineError { column: start + 1, what: "a result" })?;
    let is_delayed = memchr::memmem::find(rest, b"(DELAYED)").is_some();
    Ok(Ended { args, ret, duration, is_delayed })
}

/// Takes `<0.000123>` off the end.
fn without_duration(rest: &[u8]) -> (&[u8], Option<u64>) {
    let rest = rest.trim_ascii_end();
    let found = || {
        let inner = rest.strip_suffix(b">")?;
        let start = memchr::memrchr(b'<', inner)?;
        let (seconds, fraction) = std::str::from_utf8(&inner[start + 1..]).ok()?.split_once('.')?;
        let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
        Some((&rest[..start], seconds.checked_add(fraction_ns(fraction)?)?))
    };
    match found() {
        Some((rest, duration)) => (rest, Some(duration)),
        None => (rest, None),
    }
}

/// `3</path>`, `-1 ENOENT (…)`, `? ERESTARTSYS (…)`, `0x7f…`, `?`.
fn result(rest: &[u8]) -> Option<Ret> {
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'<')).unwrap_or(rest.len());
    let (word, mut after) = rest.split_at(end);
    let value = match word {
        b"?" => None,
        _ => Some(i64_of(number(std::str::from_utf8(word).ok()?)?)?),
    };
    let mut note = None;
    if after.starts_with(b"<") {
        let mut lexer = Lexer::new(after);
        note = lexer.note().ok();
        after = lexer.rest();
    }
    let symbol = after.trim_ascii_start().split(|byte| *byte == b' ').next().unwrap_or_default();
    let symbol = std::str::from_utf8(symbol).unwrap_or_default();
    let errno = Errno::from_name(symbol);
    let errno = errno.or_else(|| numbered(after)).filter(|_| matches!(value, None | Some(-1)));
    Some(Ret { value, errno, note })
}

/// `(errno 134)`, as strace writes a number without a name.
fn numbered(after: &[u8]) -> Option<Errno> {
    let text = std::str::from_utf8(after.trim_ascii()).ok()?;
    text.strip_prefix("(errno ")?.strip_suffix(')')?.parse().ok().map(Errno)
}

/// A result as the signed number that the kernel returned; addresses use all bits.
fn i64_of(value: i128) -> Option<i64> {
    i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(|value| value as i64))
}
