//! The traces of the ARC authors: `page pages ignored request`.

use super::{Column, Layout};
use crate::format::info::{About, FormatInfo, Signs};
use crate::input::Unit;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "ARC `.lis`",
        form: "text",
        times: "none",
        operations: "none: all are reads",
        volumes: "one",
        addresses: "512 bytes",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".arc", ".lis"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_times: false,
    has_operations: false,
    ..FormatInfo::of("arc", Unit::Line, 1, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b' ',
    header: b"",
    columns: &[Column::Offset(SECTOR), Column::Length(SECTOR), Column::Ignored("0"), Column::Serial],
    needed: 4,
};
