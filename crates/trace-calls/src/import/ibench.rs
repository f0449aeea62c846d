//! The layout of the iBench archive: a folder with `init.txt`, the files before the trace, and `sorted.txt`, its calls.
//!
//! The archive's own syntax is not published, so this is a definition, documented in
//! `docs/reference/formats/program-traces.md`. A line of `sorted.txt` is eight columns, split by tabs: when the call
//! began and when it returned (ns), process, thread, name, arguments as C would write them, split by commas, result,
//! and the name of the error or 0. A line of `init.txt` is type (`f`, `d`, `l`, `p`), size, path in quotes, and for
//! links the target in quotes. `#` begins a comment.

use std::io::BufRead;

use super::lex::{Arg, Lexer};
use super::text::{Line, Lines, shown};
use super::{OnBad, ParseError, RawCall, Ret, TraceSource};
use crate::name::PathBytes;
use crate::snapshot::{Entry, EntryKind, Snapshot};
use crate::trace::Platform;
use crate::warning::{WarningKind, Warnings};
use esker_base::Errno;

/// Reads `sorted.txt`.
pub struct Ibench<R> {
    lines: Lines<R>,
    on_bad: OnBad,
    last: u64,
}

/// What does not fit: the column in bytes, and what was expected.
type Misfit = (usize, &'static str);

impl<R: BufRead> Ibench<R> {
    /// Reads `input`.
    pub fn new(input: R, on_bad: OnBad) -> Ibench<R> {
        Ibench { lines: Lines::new(input), on_bad, last: 0 }
    }

    /// The call of a line; `None` for an empty one or a comment.
    fn call(&mut self, line: &Line, warnings: &mut Warnings) -> Result<Option<RawCall>, Misfit> {
        if line.bytes.trim_ascii().is_empty() || line.bytes.starts_with(b"#") {
            return Ok(None);
        }
        if line.is_long {
            return Err((1, "a line of at most 1 MiB"));
        }
        let mut call = columns(&line.bytes)?;
        call.line = line.number;
        if call.enter < self.last {
            warnings.add(WarningKind::TimeBackwards, line.number, shown(&line.bytes));
        }
        self.last = self.last.max(call.enter);
        call.enter = self.last;
        call.leave = call.leave.max(call.enter);
        Ok(Some(call))
    }
}

fn columns(bytes: &[u8]) -> Result<RawCall, Misfit> {
    let columns: Vec<&[u8]> = bytes.split(|byte| *byte == b'\t').collect();
    let [enter, leave, pid, tid, name, args, value, errno] = columns[..] else {
        return Err((1, "eight columns, split by tabs"));
    };
    let place = |column: &[u8]| column.as_ptr() as usize - bytes.as_ptr() as usize + 1;
    let text = |column: &[u8]| std::str::from_utf8(column).ok().map(|text| text.trim().to_string());
    let number =
        |column: &[u8], what| text(column).and_then(|text| text.parse::<u64>().ok()).ok_or((place(column), what));
    let id = |column, what| number(column, what).and_then(|id| u32::try_from(id).map_err(|_| (place(column), what)));
    let errno = match text(errno).as_deref() {
        Some("0") => None,
        Some(symbol) => Some(Errno::from_name(symbol).ok_or((place(errno), "the name of an error, or 0"))?),
        None => return Err((place(errno), "the name of an error, or 0")),
    };
    let value = text(value).and_then(|text| super::lex::number(&text)).ok_or((place(value), "a result"))?;
    let name_text = text(name).filter(|name| !name.is_empty()).ok_or((place(name), "the name of a call"))?;
    Ok(RawCall {
        line: 0,
        pid: Some(id(pid, "a process")?),
        tid: id(tid, "a thread")?,
        enter: number(enter, "a time in ns")?,
        leave: number(leave, "a time in ns")?,
        name: name_text,
        args: arguments(args).map_err(|(at, what)| (place(args) + at, what))?,
        ret: Ret { value: Some(value as i64), errno, note: None },
    })
}

fn arguments(column: &[u8]) -> Result<Vec<Arg>, Misfit> {
    let mut lexer = Lexer::new(column);
    let mut args = Vec::new();
    loop {
        lexer.skip_blank();
        if lexer.rest().is_empty() {
            return Ok(args);
        }
        args.push(lexer.value(0).map_err(|error| (error.at, error.what))?);
        lexer.skip_blank();
        if !lexer.rest().is_empty() && !lexer.skip(b",") {
            return Err((lexer.at, "a comma"));
        }
    }
}

/// Counts a bad line, or refuses the trace.
fn bad_line(line: &Line, misfit: Misfit, on_bad: OnBad, warnings: &mut Warnings) -> Result<(), ParseError> {
    let ((column, what), text) = (misfit, shown(&line.bytes));
    match on_bad {
        _ if !line.is_whole => warnings.add(WarningKind::CutLine, line.number, text),
        OnBad::Skip => warnings.add(WarningKind::BadLine, line.number, format!("{what}: {text}")),
        OnBad::Fail => return Err(ParseError::BadLine { line: line.number, column, what, text }),
    }
    Ok(())
}

impl<R: BufRead> TraceSource for Ibench<R> {
    fn next_call(&mut self, warnings: &mut Warnings) -> Result<Option<RawCall>, ParseError> {
        while let Some(line) = self.lines.next_line()? {
            match self.call(&line, warnings) {
                Ok(Some(call)) => return Ok(Some(call)),
                Ok(None) => {}
                Err(misfit) => bad_line(&line, misfit, self.on_bad, warnings)?,
            }
        }
        Ok(None)
    }

    fn platform(&self) -> Platform {
        Platform::Mac
    }

    fn name(&self) -> &'static str {
        "ibench"
    }

    fn lines(&self) -> u64 {
        self.lines.count
    }
}

/// Reads `init.txt`.
///
/// # Errors
/// It cannot be read, or with [`OnBad::Fail`] a line is malformed.
pub fn read_snapshot(input: impl BufRead, on_bad: OnBad, warnings: &mut Warnings) -> Result<Snapshot, ParseError> {
    let mut lines = Lines::new(input);
    let mut snapshot = Snapshot::default();
    while let Some(line) = lines.next_line()? {
        if line.bytes.trim_ascii().is_empty() || line.bytes.starts_with(b"#") {
            continue;
        }
        match entry(&line.bytes) {
            Ok((path, entry)) => drop(snapshot.entries.insert(path, entry)),
            Err(misfit) => bad_line(&line, misfit, on_bad, warnings)?,
        }
    }
    Ok(snapshot)
}

fn entry(bytes: &[u8]) -> Result<(PathBytes, Entry), Misfit> {
    let (kind, rest) = bytes.split_first().ok_or((1, "a type: f, d, l or p"))?;
    let digits = rest.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let size = std::str::from_utf8(&digits[..end]).ok().and_then(|digits| digits.parse().ok());
    let size: u64 = size.ok_or((2, "a size"))?;
    let mut lexer = Lexer::new(&digits[end..]);
    let path = quoted(&mut lexer)?;
    if !path.starts_with(b"/") {
        return Err((2, "an absolute path"));
    }
    let kind = match kind {
        b'f' => EntryKind::File { size },
        b'd' => EntryKind::Directory,
        b'p' => EntryKind::Fifo,
        b'l' => EntryKind::Symlink { target: quoted(&mut lexer)? },
        _ => return Err((1, "a type: f, d, l or p")),
    };
    Ok((path, Entry::plain(kind)))
}

fn quoted(lexer: &mut Lexer<'_>) -> Result<PathBytes, Misfit> {
    lexer.skip_blank();
    match lexer.value(0) {
        Ok(Arg::Text { bytes, cut: false }) => Ok(PathBytes::from(bytes)),
        _ => Err((lexer.at, "a path in quotes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::read_trace;
    use crate::wire::Field;

    const CALLS: &str = "\
# synthetic\n\
1000\t1900\t5\t50\topen\t\"/a \\303\\244\", O_RDWR|O_CREAT, 0644\t3\t0\n\
2000\t2500\t5\t51\tgetattrlist\t\"/a\", 0x1, 0x2, 44, FSOPT_NOFOLLOW\t0\t0\n\
3000\t3500\t5\t50\texchangedata\t\"/a\", \"/b\", 0\t0\t0\n\
3600\t3700\t5\t50\tfcntl_nocancel\t3, F_FULLFSYNC\t0\t0\n\
3800\t3900\t5\t50\tgetxattr\t\"/a\", \"com.apple.FinderInfo\", 0x1, 32, 0, XATTR_NOFOLLOW\t-1\tENOATTR\n\
4000\t4100\t6\t60\tread_nocancel\t9, 0x1, 100\t100\t0\n";

    fn parse(text: &str, on_bad: OnBad) -> Result<crate::Trace, ParseError> {
        read_trace(&mut Ibench::new(text.as_bytes(), on_bad), on_bad)
    }

    #[test]
    fn calls_of_a_mac_are_read() {
        let trace = parse(CALLS, OnBad::Fail).expect("a trace");
        let tell = |action: &crate::Action| {
            let mut text = String::new();
            action.call.render(&mut text);
            text
        };
        let told: Vec<String> = trace.actions.iter().map(tell).collect();
        let expected = [
            r#"open(at="/a \xc3\xa4", flags=READ | WRITE | O_CREAT, mode=420, resolve=0)"#,
            r#"getattrlist(file="/a" (not followed), len=44)"#,
            r#"exchangedata(first="/a", second="/b")"#,
            "fsync(fd=3, kind=F_FULLFSYNC)",
            r#"getxattr_at(file="/a" (not followed), name=com.apple.FinderInfo, len=32, position=0)"#,
            "read(fd=9, len=100, parts=0)",
        ];
        assert_eq!(told, expected);
        assert_eq!(trace.actions[4].outcome, crate::Outcome::Failed(Errno::ENODATA));
        assert_eq!((trace.threads.len(), trace.processes.len(), trace.inherited.len()), (3, 2, 1));
        assert_eq!((trace.platform, trace.actions[1].enter.0), (Platform::Mac, 1000));
    }

    #[test]
    fn files_before_the_trace_are_read() {
        let mut warnings = Warnings::default();
        let text = "# files\nd 0 \"/a\"\nf 17 \"/a/b c\"\nl 0 \"/l\" \"a/b c\"\n";
        let snapshot = read_snapshot(text.as_bytes(), OnBad::Fail, &mut warnings).expect("a snapshot");
        let entry = |path: &str| snapshot.entries.get(path.as_bytes()).map(|entry| entry.kind.clone());
        assert_eq!(entry("/a/b c"), Some(EntryKind::File { size: 17 }));
        assert_eq!(entry("/l"), Some(EntryKind::Symlink { target: PathBytes::from("a/b c") }));
        assert_eq!(snapshot.entries.len(), 3);
    }

    #[test]
    fn bad_lines_are_refused_with_their_column_or_counted() {
        for (line, at) in [("1\t2\t3\n", 1), ("x\t2\t1\t1\tsync\t\t0\t0\n", 1), ("1\t2\t1\t1\tsync\t\t0\tEWHAT\n", 17)]
        {
            let error = parse(line, OnBad::Fail).expect_err(line);
            assert!(matches!(error, ParseError::BadLine { line: 1, column, .. } if column == at), "{line}: {error}");
            let trace = parse(&format!("{line}{CALLS}"), OnBad::Skip).expect("counted");
            assert_eq!(trace.warnings.count(WarningKind::BadLine), 1, "{line}");
        }
        let error = read_snapshot(&b"f \"/a\"\n"[..], OnBad::Fail, &mut Warnings::default()).expect_err("no size");
        assert!(matches!(error, ParseError::BadLine { line: 1, .. }), "{error}");
    }
}
