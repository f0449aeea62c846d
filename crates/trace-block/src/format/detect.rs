//! Tells a trace's format by its first bytes, then by its name.

use super::fields::is_remark;
use super::{
    Family, Format, biosnoop, blkparse, blktrace, cachelib, ebt, fio, hfplayer, ids, load, measured, octf, vscsi,
};

/// Endings of packed files.
const PACKINGS: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];

/// Lines in which a header is looked for: some programs greet first.
const HEADER_LINES: usize = 20;

/// The format of a trace called `name` that begins with `head` (unpacked, a few KiB), or `None` if unsure.
///
/// oracleGeneral and block numbers have no mark: the one is recognised by `oraclegeneral` in the name alone, the others by
/// a name like `w106.trace` if the bytes could be numbers.
pub fn detect(name: &str, head: &[u8]) -> Option<Format> {
    by_marks(head).or_else(|| by_lines(head)).or_else(|| by_name(name, head)).or_else(|| by_records(head))
}

/// The formats that a file to be written may have by its name alone: several if the name fits several.
pub fn named(name: &str) -> Vec<Format> {
    let file = file_name(name).to_ascii_lowercase();
    if file.contains("oraclegeneral") {
        return vec![Format::OracleGeneral];
    }
    let fits = |format: &Format| endings(*format).iter().any(|ending| file.ends_with(ending));
    Format::written().filter(fits).collect()
}

/// How files in a format are called.
fn endings(format: Format) -> &'static [&'static str] {
    match format {
        Format::Load => &[".load"],
        Format::Vscsi1 => &[".vscsi1", ".vscsi"],
        Format::Vscsi2 => &[".vscsi2", ".vscsi"],
        Format::OracleGeneral => &[".oracle-general"],
        Format::Msr => &[".msr", ".csv"],
        Format::Fio2 => &[".fio2"],
        Format::Fio3 => &[".fio3", ".iolog"],
        Format::Alibaba => &[".alibaba", ".csv"],
        Format::Tencent => &[".tencent", ".csv"],
        Format::Fiu => &[".fiu"],
        Format::Mqsim => &[".mqsim", ".trace"],
        Format::Disksim => &[".disksim", ".trace"],
        Format::Arc => &[".arc", ".lis"],
        Format::Blkparse => &[".blkparse"],
        Format::Blktrace => &[".blktrace", ".blktrace.0"],
        Format::Octf => &[".octf", "octf.trace.0"],
        Format::Ebt => &[".ebt"],
        Format::DisksimMeasured | Format::Ids | Format::Biosnoop | Format::Cachelib | Format::Hfplayer => &[],
    }
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn by_marks(head: &[u8]) -> Option<Format> {
    if head.starts_with(&ebt::MAGIC) {
        return Some(Format::Ebt);
    }
    blktrace::fits(head).then_some(Format::Blktrace)
}

fn by_lines(head: &[u8]) -> Option<Format> {
    let lines = || head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines().next()?;
    for (version, format) in [(fio::Version::V2, Format::Fio2), (fio::Version::V3, Format::Fio3)] {
        if first == version.first_line().as_bytes() {
            return Some(format);
        }
    }
    let names_columns = |format: &Format| lines().take(HEADER_LINES).any(|line| is_header(*format, line));
    if let Some(format) = Format::ALL.into_iter().find(names_columns) {
        return Some(format);
    }
    let first = lines().find(|line| !is_remark(line))?;
    if let Some(format) = Format::ALL.into_iter().find(|format| is_line(*format, first)) {
        return Some(format);
    }
    lines().any(load::is_header).then_some(Format::Load)
}

/// Whether `line` names the columns of a format in which they differ.
fn is_header(format: Format, line: &[u8]) -> bool {
    match format.family() {
        Family::Biosnoop => biosnoop::is_header(line),
        Family::Cachelib => cachelib::is_header(line),
        Family::Hfplayer => hfplayer::is_header(line),
        Family::Load | Family::Vscsi(_) | Family::Oracle | Family::Rows(_) | Family::Fio(_) | Family::Measured => false,
        Family::Ids | Family::Blkparse | Family::Blktrace | Family::Octf | Family::Ebt => false,
    }
}

/// Whether `line` is one of a format that a line tells.
fn is_line(format: Format, line: &[u8]) -> bool {
    match format.family() {
        Family::Rows(layout) => layout.fits(line),
        Family::Blkparse => blkparse::fits(line),
        Family::Measured => measured::fits(line),
        Family::Load | Family::Vscsi(_) | Family::Oracle | Family::Fio(_) | Family::Ids | Family::Blktrace => false,
        Family::Octf | Family::Biosnoop | Family::Cachelib | Family::Hfplayer | Family::Ebt => false,
    }
}

/// By a name that tells one format alone.
fn by_name(name: &str, head: &[u8]) -> Option<Format> {
    let file = file_name(name).to_ascii_lowercase();
    let bare = PACKINGS.iter().find_map(|packing| file.strip_suffix(packing)).unwrap_or(&file);
    if ids::is_name(bare) && ids::fits(head) {
        return Some(Format::Ids);
    }
    let told = match named(bare)[..] {
        [format] => format,
        _ => return None,
    };
    matches!(told, Format::OracleGeneral | Format::Load | Format::Vscsi1 | Format::Vscsi2).then_some(told)
}

fn by_records(head: &[u8]) -> Option<Format> {
    let versions = [(vscsi::Version::V2, Format::Vscsi2), (vscsi::Version::V1, Format::Vscsi1)];
    // Two events of OCTF say more than two version bytes.
    let octf = octf::fits(head).then_some(Format::Octf);
    octf.or_else(|| versions.into_iter().find(|(version, _)| vscsi::fits(*version, head)).map(|(_, format)| format))
}
