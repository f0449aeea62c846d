//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`, bytes and µs.

use super::{Column, Layout, Volume, Words};
use crate::format::info::{About, FormatInfo, Signs, US};
use crate::input::Unit;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "Alibaba cloud block storage CSV",
        form: "text",
        times: "µs",
        operations: "read, write",
        volumes: "by number",
        addresses: "byte",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".alibaba", ".csv"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_volumes: true,
    is_absolute: true,
    sorting_advice: Some("sort it first: sort -t, -k5,5n"),
    ..FormatInfo::of("alibaba", Unit::Line, US, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b',',
    header: b"device_id,",
    columns: &[
        Column::Volume(Volume::Number),
        Column::Op(Words { read: "R", write: "W", expected: "R or W" }),
        Column::Offset(1),
        Column::Length(1),
        Column::Time { digits: 3, is_fractional: false },
    ],
    needed: 5,
};
