//! Tells a trace's format by its first bytes, then by its name.

use super::{Format, blkparse, blktrace, ebt, fio, load, octf, vscsi};

/// Endings of a name that tell the format where the bytes do not.
const ENDINGS: [(&str, Format); 3] =
    [(".load", Format::Load), (".vscsi1", Format::Vscsi1), (".vscsi2", Format::Vscsi2)];

/// Endings of packed files.
const PACKINGS: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];

/// The format of a trace called `name` that begins with `head` (unpacked, a few KiB), or `None` if unsure.
///
/// oracleGeneral has no mark: it is recognised by `oraclegeneral` in the name alone.
pub fn detect(name: &str, head: &[u8]) -> Option<Format> {
    by_marks(head).or_else(|| by_lines(head)).or_else(|| by_name(name)).or_else(|| by_records(head))
}

fn by_marks(head: &[u8]) -> Option<Format> {
    if head.starts_with(&ebt::MAGIC) {
        return Some(Format::Ebt);
    }
    blktrace::fits(head).then_some(Format::Blktrace)
}

fn by_lines(head: &[u8]) -> Option<Format> {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.next()?;
    for (version, format) in [(fio::Version::V2, Format::Fio2), (fio::Version::V3, Format::Fio3)] {
        if first == version.first_line().as_bytes() {
            return Some(format);
        }
    }
    let has_first = |format: &Format| match format {
        Format::Blkparse => blkparse::fits(first),
        _ => format.rows().is_some_and(|layout| layout.fits(first)),
    };
    if let Some(format) = Format::ALL.into_iter().find(has_first) {
        return Some(format);
    }
    lines.any(load::is_header).then_some(Format::Load)
}

fn by_name(name: &str) -> Option<Format> {
    let name = name.to_ascii_lowercase();
    let bare = PACKINGS.iter().find_map(|packing| name.strip_suffix(packing)).unwrap_or(&name);
    let file = bare.rsplit('/').next().unwrap_or(bare);
    if file.contains("oraclegeneral") {
        return Some(Format::OracleGeneral);
    }
    ENDINGS.into_iter().find(|(ending, _)| file.ends_with(ending)).map(|(_, format)| format)
}

fn by_records(head: &[u8]) -> Option<Format> {
    let versions = [(vscsi::Version::V2, Format::Vscsi2), (vscsi::Version::V1, Format::Vscsi1)];
    // Two events of OCTF say more than two version bytes.
    let octf = octf::fits(head).then_some(Format::Octf);
    octf.or_else(|| versions.into_iter().find(|(version, _)| vscsi::fits(*version, head)).map(|(_, format)| format))
}
