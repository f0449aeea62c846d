//! Tells a trace's format by its first bytes, then by its name.

use super::Format;
use super::fields::is_remark;
use super::info::Fits;
use memchr::memchr;

/// Endings of packed files.
const PACKINGS: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];

/// Lines in which a header is looked for: some programs greet first.
const HEADER_LINES: usize = 20;

/// The format of a trace called `name` that begins with `head` (unpacked, a few KiB), or `None` if unsure.
///
/// oracleGeneral and block numbers have no mark: the one is recognised by `oraclegeneral` in the name alone, the others
/// by a name like `w106.trace` if the bytes could be numbers.
pub fn detect(name: &str, head: &[u8]) -> Option<Format> {
    by_marks(head).or_else(|| by_lines(head)).or_else(|| by_name(name, head)).or_else(|| by_records(head))
}

/// The formats that a file to be written may have by its name alone: several if the name fits several.
pub fn named(name: &str) -> Vec<Format> {
    let file = file_name(name).to_ascii_lowercase();
    if let Some(format) = Format::written().find(|format| format.info().is_called.is_some_and(|is| is(&file))) {
        return vec![format];
    }
    let fits = |format: &Format| format.info().endings.iter().any(|ending| file.ends_with(ending));
    Format::written().filter(fits).collect()
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn by_marks(head: &[u8]) -> Option<Format> {
    first(|format| fits(format.info().signs.mark, head))
}

fn by_lines(head: &[u8]) -> Option<Format> {
    let lines: Vec<&[u8]> = lines_of(head).collect();
    let top = *lines.first()?;
    let told = first(|format| format.info().signs.first_line.is_some_and(|line| line.as_bytes() == top));
    let any = |sign: Option<Fits>, lines: &[&[u8]]| sign.is_some_and(|fits| lines.iter().any(|line| fits(line)));
    let greeting = &lines[..lines.len().min(HEADER_LINES)];
    let names_columns = |format: Format| any(format.info().signs.header, greeting);
    if let Some(format) = told.or_else(|| first(names_columns)) {
        return Some(format);
    }
    let significant = lines.iter().find(|line| !is_remark(line))?;
    let told = first(|format| fits(format.info().signs.line, significant));
    told.or_else(|| first(|format| any(format.info().signs.below_comment, &lines)))
}

/// The lines of `head` without blanks around them; the last one may be empty.
fn lines_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(head);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let end = memchr(b'\n', bytes);
        rest = end.map(|end| &bytes[end + 1..]);
        Some(bytes[..end.unwrap_or(bytes.len())].trim_ascii())
    })
}

/// By a name that tells one format alone.
fn by_name(name: &str, head: &[u8]) -> Option<Format> {
    let file = file_name(name).to_ascii_lowercase();
    let bare = PACKINGS.iter().find_map(|packing| file.strip_suffix(packing)).unwrap_or(&file);
    let called = first(|format| format.info().signs.name.is_some_and(|fits| fits(bare, head)));
    called.or_else(|| match named(bare)[..] {
        [format] if format.info().signs.by_ending => Some(format),
        _ => None,
    })
}

fn by_records(head: &[u8]) -> Option<Format> {
    Format::ALL.into_iter().rev().find(|format| fits(format.info().signs.records, head))
}

/// The first format for which `is` holds.
fn first(is: impl Fn(Format) -> bool) -> Option<Format> {
    Format::ALL.into_iter().find(|format| is(*format))
}

/// Whether `bytes` bear a sign that the format has.
fn fits(sign: Option<Fits>, bytes: &[u8]) -> bool {
    sign.is_some_and(|fits| fits(bytes))
}
