//! hfplayer's CSV of a storage controller: a line for each arrival (`RD_IN`, `WR_IN`) and, in some, for each
//! completion.
//!
//! Times are µs with a fraction; the clock's ticks stand beside them. The first line of some traces has 0 µs at a tick
//! that is not 0: its time is computed from the ticks of the line after it.

use super::Yield;
use super::fields::{request, scaled, time, whole};
use super::info::{About, FormatInfo, Signs};
use super::named::{Table, Wanted};
use crate::fault::Reason;
use crate::input::Unit;
use crate::names::Names;
use crate::record::{Op, Record};
use esker_base::Nanos;
use esker_base::units::SECTOR;

pub(crate) static INFO: FormatInfo = FormatInfo {
    about: About {
        file: "hfplayer CSV",
        form: "text",
        times: "µs with a fraction",
        operations: "read, write",
        volumes: "by number",
        addresses: "512 bytes",
    },
    signs: Signs { header: Some(|line| COLUMNS.is_header(line)), ..Signs::NONE },
    has_volumes: true,
    is_absolute: true,
    ..FormatInfo::of("hfplayer", Unit::Line, 1, |_| Box::new(Parser::default()))
};

static COLUMNS: Wanted<6> = Wanted {
    separator: b',',
    names: ["ELAPSED_USECS.D", "CMD.S", "LUN_SSID.I", "LBA.I", "NBLKS.I", "ELAPSED_TICKS.I"],
    needed: 5,
    loose: None,
    example: "#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,...,LUN_SSID.I,...,LBA.I,NBLKS.I",
};

#[derive(Debug)]
struct Parser {
    table: Table<6>,
    start: Start,
}

/// What counts as time 0.
#[derive(Clone, Copy, Debug)]
enum Start {
    Unknown,
    /// The first line has this tick and no time.
    Tick(u64),
    At(Nanos),
}

impl Default for Parser {
    fn default() -> Parser {
        Parser { table: Table::new(&COLUMNS), start: Start::Unknown }
    }
}

impl super::Parser for Parser {
    fn parse(&mut self, line: &[u8], names: &mut Names) -> Result<Yield, Reason> {
        self.request(line, names).map(Yield::from)
    }

    fn missing_mark(&self) -> Option<Reason> {
        self.table.missing_mark()
    }
}

impl Parser {
    fn request(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Record>, Reason> {
        let Some(columns) = self.table.columns(line)? else { return Ok(None) };
        let [micros, command, volume, block, blocks, ticks] = columns;
        let op = match command.trim_ascii() {
            b"RD_IN" => Op::Read,
            b"WR_IN" => Op::Write,
            b"RD_OUT" | b"WR_OUT" => return Ok(None),
            _ => return Err(Reason::UnknownOp("RD_IN, WR_IN, RD_OUT or WR_OUT")),
        };
        let raw = time(micros, 3, "ELAPSED_USECS")?;
        let ticks = if ticks.is_empty() { 0 } else { whole(ticks, "ELAPSED_TICKS")? };
        let (offset, len) = (scaled(whole(block, "LBA")?, SECTOR, "LBA")?, whole(blocks, "NBLKS")?);
        let mut record = request(Nanos::ZERO, 0, op, offset, scaled(len, SECTOR, "NBLKS")?)?;
        whole(volume, "LUN_SSID")?;
        record.volume = names.number(volume.trim_ascii(), str::to_string)?;
        record.at = self.since_start(raw, ticks);
        Ok(Some(record))
    }

    fn since_start(&mut self, raw: Nanos, ticks: u64) -> Nanos {
        self.start = match self.start {
            Start::Unknown if raw == Nanos::ZERO && ticks > 0 => Start::Tick(ticks),
            Start::Unknown => Start::At(raw),
            Start::Tick(first) if raw > Nanos::ZERO && ticks >= first => {
                let start = u128::from(raw.0) * u128::from(first) / u128::from(ticks);
                Start::At(Nanos(u64::try_from(start).expect("no later than the record")))
            }
            known @ (Start::Tick(_) | Start::At(_)) => known,
        };
        match self.start {
            Start::At(start) => raw.saturating_sub(start),
            Start::Unknown | Start::Tick(_) => Nanos::ZERO,
        }
    }
}
