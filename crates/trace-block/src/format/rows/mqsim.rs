//! MQSim, after its manual: `ns device sector sectors type`, type 0 a write and 1 a read.

use super::{Column, Layout, Volume, Words};
use crate::format::info::{About, FormatInfo, Signs};
use crate::input::Unit;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "MQSim",
        form: "text",
        times: "ns",
        operations: "read, write",
        volumes: "by number",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".mqsim", ".trace"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_volumes: true,
    ..FormatInfo::of("mqsim", Unit::Line, 1, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b' ',
    header: b"",
    columns: &[
        Column::Time { digits: 0, is_fractional: false },
        Column::Volume(Volume::Number),
        Column::Offset(SECTOR),
        Column::Length(SECTOR),
        Column::Op(Words { read: "1", write: "0", expected: "0 (write) or 1 (read)" }),
    ],
    needed: 5,
};
