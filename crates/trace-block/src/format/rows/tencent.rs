//! Tencent (SNIA IOTTA): `Timestamp,Offset,Size,IOType,VolumeID`, s and sectors.

use super::{Column, Layout, Volume, Words};
use crate::format::info::{About, FormatInfo, SECOND, Signs};
use crate::input::Unit;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "Tencent cloud block storage CSV",
        form: "text",
        times: "s",
        operations: "read, write",
        volumes: "by number",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".tencent", ".csv"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_volumes: true,
    is_absolute: true,
    sorting_advice: Some("sort it first: sort -t, -k1,1n"),
    ..FormatInfo::of("tencent", Unit::Line, SECOND, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b',',
    header: b"Timestamp,Offset,",
    columns: &[
        Column::Time { digits: 9, is_fractional: false },
        Column::Offset(SECTOR),
        Column::Length(SECTOR),
        Column::Op(Words { read: "0", write: "1", expected: "0 (read) or 1 (write)" }),
        Column::Volume(Volume::Number),
    ],
    needed: 5,
};
