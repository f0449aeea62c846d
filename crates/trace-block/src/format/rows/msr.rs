//! MSR Cambridge (SNIA IOTTA): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in 100 ns (Windows
//! filetime).

use super::{Column, Layout, Volume, Words};
use crate::format::info::{About, FormatInfo, Signs};
use crate::input::Unit;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "MSR Cambridge CSV",
        form: "text",
        times: "100 ns",
        operations: "read, write",
        volumes: "several disks",
        addresses: "byte",
    },
    encoder: Some(|| Box::new(&LAYOUT)),
    endings: &[".msr", ".csv"],
    signs: Signs { line: Some(|line| LAYOUT.fits(line)), ..Signs::NONE },
    has_volumes: true,
    is_absolute: true,
    ..FormatInfo::of("msr", Unit::Line, 100, |_| Box::new(&LAYOUT))
};

static LAYOUT: Layout = Layout {
    separator: b',',
    header: b"Timestamp,Hostname,",
    columns: &[
        Column::Time { digits: 2, is_fractional: false },
        Column::Volume(Volume::HostDisk),
        Column::Op(Words { read: "Read", write: "Write", expected: "Read or Write" }),
        Column::Offset(1),
        Column::Length(1),
        Column::Ignored("0"),
    ],
    needed: 6,
};
