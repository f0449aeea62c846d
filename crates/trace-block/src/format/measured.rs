//! DiskSim's validation traces: `R|W Hit|Miss|Doub|Trip sector sectors service_us idle_us`, one measured request to a
//! line.
//!
//! The disk had one request at a time: each came `idle_us` after the end of the one before it. Times are sums of both.

use super::Yield;
use super::fields::{fill, is_remark, request, scaled, time, whole};
use super::info::{About, FormatInfo, Signs};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use esker_base::Nanos;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "DiskSim's validation traces",
        form: "text",
        times: "service and idle times in µs",
        operations: "read, write",
        volumes: "one",
        addresses: "512 bytes",
    },
    signs: Signs { line: Some(|line| Parser::default().request(line).is_ok()), ..Signs::NONE },
    ..FormatInfo::of("disksim-measured", Unit::Line, 1, |_| Box::new(Parser::default()))
};

/// When the last request ended.
#[derive(Debug, Default)]
struct Parser(Nanos);

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], _: &mut Names) -> Result<Yield, Reason> {
        let line = line.trim_ascii();
        if is_remark(line) {
            return Ok(Yield::Nothing);
        }
        let (record, end) = self.request(line)?;
        self.0 = end;
        Ok(Yield::One(record))
    }
}

impl Parser {
    /// The request of a line, and when it ended.
    fn request(&self, line: &[u8]) -> Result<(Record, Nanos), Reason> {
        let columns = line.split(u8::is_ascii_whitespace).filter(|column| !column.is_empty());
        let [letter, class, sector, sectors, service, idle] = fill(columns)?;
        let op = match letter {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Reason::UnknownOp("R or W")),
        };
        if !matches!(class, b"Hit" | b"Miss" | b"Doub" | b"Trip") {
            return Err(Reason::Unknown("class of a request; expected Hit, Miss, Doub or Trip"));
        }
        let (service, idle) = (time(service, 3, "service time")?, time(idle, 3, "idle time")?);
        let at = self.0.0.checked_add(idle.0).ok_or(Reason::TooLarge("sum of the times"))?;
        let end = at.checked_add(service.0).ok_or(Reason::TooLarge("sum of the times"))?;
        let (offset, len) = (whole(sector, "sector")?, whole(sectors, "length")?);
        let (offset, len) = (scaled(offset, SECTOR, "sector")?, scaled(len, SECTOR, "length")?);
        Ok((request(Nanos(at), 0, op, offset, len)?, Nanos(end)))
    }
}
