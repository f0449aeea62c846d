//! FIU (IODedup): `ns pid process sector sectors W|R major minor md5`.

use super::{Column, Layout, Volume, Words};
use crate::format::info::{About, FormatInfo, Signs};
use crate::input::Unit;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "FIU (IODedup)",
        form: "text",
        times: "ns",
        operations: "read, write",
        volumes: "major and minor number",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".fiu"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_volumes: true,
    is_absolute: true,
    sorting_advice: Some("sort it by time first: sort -n"),
    ..FormatInfo::of("fiu", Unit::Line, 1, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b' ',
    header: b"",
    columns: &[
        Column::Time { digits: 0, is_fractional: false },
        Column::Process,
        Column::Ignored("esker"),
        Column::Offset(SECTOR),
        Column::Length(SECTOR),
        Column::Op(Words { read: "R", write: "W", expected: "R or W" }),
        Column::Volume(Volume::MajorMinor),
        Column::Ignored("00000000000000000000000000000000"),
    ],
    needed: 8,
};
