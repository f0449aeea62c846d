//! DiskSim, after its manual: `ms device block blocks flags`.

use super::{Column, Layout, Volume};
use crate::format::info::{About, FormatInfo, Signs};
use crate::input::Unit;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "DiskSim ascii",
        form: "text",
        times: "ms, 6 digits of fraction",
        operations: "read, write",
        volumes: "by number",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".disksim", ".trace"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_volumes: true,
    ..FormatInfo::of("disksim", Unit::Line, 1, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b' ',
    header: b"",
    columns: &[
        Column::Time { digits: 6, is_fractional: true },
        Column::Volume(Volume::Number),
        Column::Offset(SECTOR),
        Column::Length(SECTOR),
        Column::Flags,
    ],
    needed: 5,
};
