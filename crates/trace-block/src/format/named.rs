//! Lines of columns that a line before them names: their order and number differ between versions of the programs that
//! write them.

use super::fields::is_remark;
use crate::fault::Reason;

/// Lines before the one that names the columns; a trace with more has none.
const PREAMBLE_LINES_MAX: u32 = 20;

/// The columns of a format that count.
#[derive(Debug)]
pub(crate) struct Wanted<const N: usize> {
    /// A comma, or a space for any run of white space.
    pub separator: u8,
    /// Their names in the header.
    pub names: [&'static str; N],
    /// So many of them, from the first on, must be there; each of the others may be missing, and is empty then.
    pub needed: usize,
    /// A column whose text may hold separators.
    pub loose: Option<&'static str>,
    /// What the header should look like, for messages.
    pub example: &'static str,
}

/// Where the columns that count stand.
#[derive(Debug)]
struct Header<const N: usize> {
    at: [Option<usize>; N],
    count: usize,
    /// The place of the loose column.
    loose: usize,
}

/// Reads the header, then the columns of each line.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    wanted: &'static Wanted<N>,
    header: Option<Header<N>>,
    preamble: u32,
}

fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let is_end = move |b: &u8| if separator == b' ' { b.is_ascii_whitespace() } else { *b == separator };
    line.split(is_end).filter(move |column| separator != b' ' || !column.is_empty())
}

impl<const N: usize> Wanted<N> {
    fn header(&self, line: &[u8]) -> Option<Header<N>> {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"#").unwrap_or(line);
        let mut header = Header { at: [None; N], count: 0, loose: usize::MAX };
        for (place, name) in split(line, self.separator).map(<[u8]>::trim_ascii).enumerate() {
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
            if let Some(found) = self.names.iter().position(|wanted| is(wanted)) {
                header.at[found].get_or_insert(place);
            }
            if self.loose.is_some_and(is) {
                header.loose = place;
            }
            header.count = place + 1;
        }
        header.at[..self.needed].iter().all(Option::is_some).then_some(header)
    }

    /// Whether `line` names the columns.
    pub(crate) fn is_header(&self, line: &[u8]) -> bool {
        self.header(line).is_some()
    }
}

impl<const N: usize> Header<N> {
    fn pick<'a>(&self, line: &'a [u8], separator: u8) -> Result<[&'a [u8]; N], Reason> {
        let found = split(line, separator).count();
        if found < self.count {
            return Err(Reason::Columns { found, needed: self.count });
        }
        let surplus = found - self.count;
        let place_of = |at: usize| if at > self.loose { at + surplus } else { at };
        let mut columns: [&[u8]; N] = [&[]; N];
        for (place, column) in split(line, separator).enumerate() {
            if let Some(wanted) = self.at.iter().position(|at| at.map(place_of) == Some(place)) {
                columns[wanted] = column;
            }
        }
        Ok(columns)
    }
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(wanted: &'static Wanted<N>) -> Table<N> {
        Table { wanted, header: None, preamble: 0 }
    }

    /// The columns of a line, or `None` if it is empty, a comment, names the columns or stands before that line.
    pub(crate) fn columns<'a>(&mut self, line: &'a [u8]) -> Result<Option<[&'a [u8]; N]>, Reason> {
        let line = line.trim_ascii();
        // Files that were joined name their columns again.
        let may_name = line.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'#');
        if may_name && let Some(header) = self.wanted.header(line) {
            self.header = Some(header);
            return Ok(None);
        }
        if is_remark(line) {
            return Ok(None);
        }
        match &self.header {
            Some(header) => header.pick(line, self.wanted.separator).map(Some),
            None if self.preamble < PREAMBLE_LINES_MAX => {
                self.preamble += 1;
                Ok(None)
            }
            None => Err(Reason::NoColumns(self.wanted.example)),
        }
    }

    /// Why a trace that ended without one record or fault is not of this format.
    pub(crate) fn missing_mark(&self) -> Option<Reason> {
        self.header.is_none().then_some(Reason::NoColumns(self.wanted.example))
    }
}
