//! Disks from DiskSim's files: `.diskspecs` (controller and buffer), `.model` (mechanics and layout), `.seek` (measured
//! curve) and `.parv` (only the bus of it). `docs/reference/formats/disksim.md` says which fields count.
//!
//! DiskSim 4.0 (J. Bucy, G. Ganger and others, Carnegie Mellon University) defines the format; its source is what the
//! meaning of the fields was taken from.

use esker_base::Nanos;
use esker_base::units::SECTOR;

use super::geometry::{Backwards, Geometry, Layout};
use super::parts::{BufferSpec, DiskParts, Interface, ReadsOn};
use super::seek::SeekCurve;
use super::zone::{Sparing, ZoneSpec};
use crate::meter::{Bill, Rest};

pub mod text;

use text::{Block, Value, Wrong, blocks};

/// A file by its name, without its folder.
pub type File = (String, String);

/// What cannot be a disk, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiskSimError {
    /// A line.
    #[error("{file}, line {line}: {text}")]
    Line {
        /// File.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
    /// A file.
    #[error("{0}")]
    Files(String),
}

/// Begins the line with a file's name.
const MARK: &str = "== ";

/// A block with the file that it is from.
struct NamedBlock<'a> {
    file: &'a str,
    block: Block,
}

/// A disk as its files describe it. What DiskSim does not know, power and price, comes from outside.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskSimSpec {
    /// Zones.
    pub layout: Layout,
    /// Turns a minute.
    pub rpm: u32,
    /// Arm.
    pub seek: SeekCurve,
    /// Time to change heads.
    pub head_switch: Nanos,
    /// What positioning takes longer before a write.
    pub write_settle: Nanos,
    /// Controller and bus.
    pub interface: Interface,
    /// Buffer.
    pub buffer: BufferSpec,
}

impl DiskSimSpec {
    /// What the disk is made of.
    pub fn parts(&self, bill: Bill, rest: Option<Rest>) -> DiskParts {
        let step = self.seek.time(1).max(self.head_switch);
        let geometry = Geometry::new(&self.layout, self.rpm, self.head_switch, step);
        DiskParts {
            capacity: geometry.capacity(),
            geometry,
            seek: self.seek.clone(),
            head_switch: self.head_switch,
            write_settle: self.write_settle,
            interface: self.interface,
            buffer: self.buffer,
            bill,
            rest,
        }
    }
}

/// The disk that the files of one folder describe.
///
/// # Errors
/// A missing or second disk, and what cannot be read or makes no disk, with file and line.
pub fn load(files: &[File]) -> Result<DiskSimSpec, DiskSimError> {
    let disks = find(files, ".diskspecs", "disksim_disk")?;
    let model = match disks.as_slice() {
        [] => one(find(files, ".model", "dm_disk")?, ".model with a dm_disk")?,
        [spec] => spec.part(files, "Model", ".model", "dm_disk")?,
        _ => return Err(DiskSimError::Files("several disks in .diskspecs files; give each its own folder".into())),
    };
    let mechanics = model.part(files, "Mechanical Model", ".model", "dm_mech_g1")?;
    let layout = model.part(files, "Layout Model", ".model", "dm_layout_g1")?;
    let rpm = mechanics.number("Rotation speed (in rpms)")?;
    if !(1.0..=100_000.0).contains(&rpm) {
        return mechanics.wrong("Rotation speed (in rpms)", "expected 1 to 100000 turns a minute");
    }
    let (interface, buffer) = match disks.first() {
        Some(spec) => (interface(spec, bus_rate(files)?)?, buffer(spec)?),
        None => (Interface::plain(0, Nanos::ZERO), BufferSpec::NONE),
    };
    Ok(DiskSimSpec {
        layout: read_layout(&layout, model.count("Number of data surfaces", 1000)? as u32)?,
        rpm: rpm.round() as u32,
        seek: seek_curve(&mechanics, files)?,
        head_switch: mechanics.millis("Head switch time")?,
        write_settle: mechanics.millis("Add. write settling delay")?,
        interface,
        buffer,
    })
}

/// What the parameter `measured` says for these files: each one's text after a line with its name.
pub fn join(files: &[File]) -> String {
    files.iter().map(|(name, text)| format!("{MARK}{name}\n{}\n", text.trim_end())).collect()
}

/// The files that [`join`] joined.
pub fn split(text: &str) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(MARK), files.last_mut()) {
            (Some(name), _) => files.push((name.trim().to_string(), String::new())),
            (None, Some((_, text))) => text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    files
}

/// All blocks of `kind` in files whose names end in `ending`.
fn find<'a>(files: &'a [File], ending: &str, kind: &str) -> Result<Vec<NamedBlock<'a>>, DiskSimError> {
    let mut found = Vec::new();
    for (file, text) in files.iter().filter(|(name, _)| name.ends_with(ending)) {
        let all = blocks(text).map_err(|wrong| at(file, wrong))?;
        found.extend(all.into_iter().filter(|block| block.kind == kind).map(|block| NamedBlock { file, block }));
    }
    Ok(found)
}

fn one<'a>(mut found: Vec<NamedBlock<'a>>, what: &str) -> Result<NamedBlock<'a>, DiskSimError> {
    match found.len() {
        1 => Ok(found.remove(0)),
        n => Err(DiskSimError::Files(format!("expected one {what}, found {n}; give each disk its own folder"))),
    }
}

fn at(file: &str, wrong: Wrong) -> DiskSimError {
    DiskSimError::Line { file: file.to_string(), line: wrong.line, text: wrong.text }
}

fn file<'a>(files: &'a [File], name: &str) -> Option<&'a File> {
    files.iter().find(|(other, _)| other == name)
}

impl<'a> NamedBlock<'a> {
    fn wrong<T>(&self, field: &str, text: &str) -> Result<T, DiskSimError> {
        let line = self.block.fields.get(field).map_or(self.block.line, |(line, _)| *line);
        Err(at(self.file, Wrong { line, text: format!("{field}: {text}") }))
    }

    fn field(&self, name: &str) -> Result<&Value, DiskSimError> {
        match self.block.fields.get(name) {
            Some((_, value)) => Ok(value),
            None => self.wrong(name, &format!("missing in this {}", self.block.kind)),
        }
    }

    fn text(&self, name: &str) -> Result<&str, DiskSimError> {
        match self.field(name)? {
            Value::Text(text) => Ok(text),
            Value::List(_) | Value::Block(_) => self.wrong(name, "expected a word or number"),
        }
    }

    /// A finite number.
    fn number(&self, name: &str) -> Result<f64, DiskSimError> {
        match self.text(name)?.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => self.wrong(name, "expected a number"),
        }
    }

    /// A number, or what holds without it.
    fn number_or(&self, name: &str, without: f64) -> Result<f64, DiskSimError> {
        if self.block.fields.contains_key(name) { self.number(name) } else { Ok(without) }
    }

    fn count(&self, name: &str, most: u64) -> Result<u64, DiskSimError> {
        let number = self.number(name)?;
        if number < 0.0 || number.fract() != 0.0 || number > most as f64 {
            return self.wrong(name, &format!("expected a whole number up to {most}"));
        }
        Ok(number as u64)
    }

    fn flag(&self, name: &str) -> Result<bool, DiskSimError> {
        Ok(self.number_or(name, 0.0)? != 0.0)
    }

    /// A time in milliseconds; none if the field is missing.
    fn millis(&self, name: &str) -> Result<Nanos, DiskSimError> {
        let number = self.number_or(name, 0.0)?;
        if !(0.0..=1e6).contains(&number) {
            return self.wrong(name, "expected milliseconds from 0 to 1000000");
        }
        Ok(Nanos::from_secs_f64(number / 1e3))
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>, DiskSimError> {
        let Value::List(items) = self.field(name)? else { return self.wrong(name, "expected a list") };
        let number = |item: &Value| match item {
            Value::Text(text) => text.parse::<f64>().ok().filter(|number| number.is_finite()),
            Value::List(_) | Value::Block(_) => None,
        };
        match items.iter().map(number).collect() {
            Some(numbers) => Ok(numbers),
            None => self.wrong(name, "expected a list of numbers"),
        }
    }

    /// The part that a field holds, or the one in the file that it names with `source`.
    fn part(&self, files: &'a [File], name: &str, ending: &str, kind: &str) -> Result<NamedBlock<'a>, DiskSimError> {
        let found = match self.field(name)? {
            Value::Block(block) => NamedBlock { file: self.file, block: block.clone() },
            Value::Text(text) => {
                let source = text.trim_start_matches("source").trim();
                let Some((file, _)) = file(files, source) else {
                    return self.wrong(name, &format!("{source} is not in the folder"));
                };
                let here = find(files, ending, kind)?.into_iter().filter(|found| found.file == file).collect();
                one(here, &format!("{kind} in {source}"))?
            }
            Value::List(_) => return self.wrong(name, "expected a block or a source"),
        };
        if found.block.kind == kind { Ok(found) } else { self.wrong(name, &format!("expected a {kind}")) }
    }
}

fn seek_curve(mechanics: &NamedBlock<'_>, files: &[File]) -> Result<SeekCurve, DiskSimError> {
    let millis = |ms: f64| ms * 1e6;
    match mechanics.text("Seek type")? {
        "extracted" => {
            let name = mechanics.text("Full seek curve")?.trim_start_matches("source").trim();
            let Some((file, text)) = file(files, name) else {
                return mechanics.wrong("Full seek curve", &format!("{name} is not in the folder"));
            };
            SeekCurve::parse_table(text).map_err(|error| DiskSimError::Files(format!("{file}: {error}")))
        }
        kind @ ("hplplus10" | "hpl") => {
            let name = "HPL seek equation values";
            let values = mechanics.numbers(name)?;
            let [split, a, b, c, d, single] = values[..] else {
                return mechanics.wrong(name, "expected six numbers");
            };
            let mut first = Vec::new();
            if kind == "hplplus10" {
                let times = mechanics.numbers("First ten seek times")?;
                first.extend(times.iter().map(|ms| Nanos::from_secs_f64(ms / 1e3)));
            } else if single >= 0.0 {
                first.push(mechanics.millis("Single cylinder seek time")?);
            }
            if [a, b, c, d].iter().any(|value| *value < 0.0) || !(0.0..=1e9).contains(&split) {
                return mechanics.wrong(name, "expected no negative time");
            }
            let (root, line) = ((millis(a), millis(b)), (millis(c), millis(d)));
            Ok(SeekCurve::RootLine { first, split: split as u32, root, line })
        }
        "const" => {
            let time = mechanics.millis("Single cylinder seek time")?.0 as f64;
            Ok(SeekCurve::Formula { a: time, b: 0.0, c: 0.0 })
        }
        _ => mechanics.wrong("Seek type", "expected extracted, hpl, hplplus10 or const"),
    }
}

fn read_layout(found: &NamedBlock<'_>, heads: u32) -> Result<Layout, DiskSimError> {
    let backwards = match found.count("LBN-to-PBN mapping scheme", 2)? {
        0 => Backwards::Never,
        1 => Backwards::OddOfZone,
        _ => Backwards::OddOfDisk,
    };
    let range = found.number_or("Rangesize for sparing", 1.0)?.clamp(1.0, 1e6) as u32;
    let sparing = match found.count("Sparing scheme used", 10)? {
        0 => Sparing::Zone(false),
        1 => Sparing::ZoneTracks,
        2 | 4 => Sparing::Cylinders(1),
        3 => Sparing::Track,
        5 | 6 => Sparing::CylinderFront,
        8 => Sparing::Cylinders(range),
        9 => Sparing::Zone(false),
        _ => Sparing::Zone(true),
    };
    let Value::List(items) = found.field("Zones")? else { return found.wrong("Zones", "expected a list") };
    let mut zones: Vec<ZoneSpec> = Vec::new();
    for item in items {
        let Value::Block(block) = item else { return found.wrong("Zones", "expected a list of blocks") };
        let zone = NamedBlock { file: found.file, block: block.clone() };
        zones.push(read_zone(&zone, zones.last(), heads, sparing)?);
    }
    if zones.is_empty() || heads == 0 {
        return found.wrong("Zones", "expected a zone and a surface");
    }
    Ok(Layout { heads, zones, sparing, backwards })
}

/// Bounds that keep all arithmetic of a zone within 64 bits.
const CYLINDERS_MAX: u64 = 10_000_000;
const SECTORS_MAX: u64 = 1_000_000;
const TRACKS_MAX: u64 = 50_000_000;

fn read_zone(
    zone: &NamedBlock<'_>,
    before: Option<&ZoneSpec>,
    heads: u32,
    at: Sparing,
) -> Result<ZoneSpec, DiskSimError> {
    let (first, last) = ("First cylinder number", "Last cylinder number");
    let spec = ZoneSpec {
        first: zone.count(first, CYLINDERS_MAX)? as u32,
        last: zone.count(last, CYLINDERS_MAX)? as u32,
        sectors: zone.count("Blocks per track", SECTORS_MAX)? as u32,
        offset: zone.number("Offset of first block")?.clamp(0.0, 1e9),
        track_skew: zone.number("Skew for track switch")?.clamp(0.0, 1e9),
        cylinder_skew: zone.number("Skew for cylinder switch")?.clamp(0.0, 1e9),
        dead: zone.count("Empty space at zone front", u64::from(u32::MAX))?,
        spares: zone.count("Number of spares", u64::from(u32::MAX))?,
        slips: ascending(zone, "slips")?,
        remaps: remaps(zone)?,
    };
    if spec.last < spec.first || before.is_some_and(|before| before.last >= spec.first) {
        return zone.wrong(first, "expected zones in order, and each with its last cylinder not before its first");
    }
    if spec.sectors == 0 || spec.track_skew >= f64::from(spec.sectors) || spec.cylinder_skew >= f64::from(spec.sectors)
    {
        return zone.wrong("Blocks per track", "expected more blocks than skew");
    }
    let tracks = u64::from(spec.last - spec.first + 1) * u64::from(heads);
    if tracks > TRACKS_MAX {
        return zone.wrong(last, &format!("expected a zone of at most {TRACKS_MAX} tracks"));
    }
    let slots = tracks * u64::from(spec.sectors);
    let taken = match at {
        Sparing::Zone(_) => spec.spares,
        Sparing::ZoneTracks => spec.spares.saturating_mul(u64::from(spec.sectors)),
        Sparing::Track => spec.spares.saturating_mul(tracks),
        Sparing::Cylinders(_) | Sparing::CylinderFront => spec.spares.saturating_mul(tracks / u64::from(heads)),
    };
    let unit = if at == Sparing::ZoneTracks { u64::from(spec.sectors) } else { 1 };
    let bad = (spec.slips.len() as u64).saturating_mul(unit);
    if taken.saturating_add(spec.dead).saturating_add(bad) >= slots {
        return zone.wrong("Number of spares", "expected room for data beside spares, slips and empty space");
    }
    if spec.remaps.iter().any(|(from, to)| (*from).max(*to) >= slots) {
        return zone.wrong("defects", "expected blocks of the zone");
    }
    Ok(spec)
}

fn ascending(zone: &NamedBlock<'_>, name: &str) -> Result<Vec<u64>, DiskSimError> {
    let mut numbers = whole(zone, name)?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn whole(zone: &NamedBlock<'_>, name: &str) -> Result<Vec<u64>, DiskSimError> {
    let numbers = zone.numbers(name)?;
    if numbers.iter().any(|number| *number < 0.0 || number.fract() != 0.0 || *number > 1e15) {
        return zone.wrong(name, "expected whole numbers");
    }
    Ok(numbers.into_iter().map(|number| number as u64).collect())
}

fn remaps(zone: &NamedBlock<'_>) -> Result<Vec<(u64, u64)>, DiskSimError> {
    let numbers = whole(zone, "defects")?;
    if !numbers.len().is_multiple_of(2) {
        return zone.wrong("defects", "expected pairs of a defect and what replaces it");
    }
    let mut pairs: Vec<(u64, u64)> = numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    Ok(pairs)
}

/// Time of a block on the slowest bus of the `.parv` files, for which `.diskspecs` files may leave room.
fn bus_rate(files: &[File]) -> Result<Nanos, DiskSimError> {
    let mut slowest = Nanos::ZERO;
    for bus in find(files, ".parv", "disksim_bus")? {
        slowest = slowest.max(bus.millis("Read block transfer time")?);
    }
    Ok(slowest)
}

fn interface(spec: &NamedBlock<'_>, bus: Nanos) -> Result<Interface, DiskSimError> {
    let scale = spec.number_or("Time scale for overheads", 1.0)?.clamp(0.0, 1e3);
    let span = |name: &str| spec.millis(name).map(|span| Nanos((span.0 as f64 * scale) as u64));
    let always = span("Per-request overhead time")?;
    let command = |kind: &str, more: Nanos| -> Result<[Nanos; 2], DiskSimError> {
        let after = |last: &str| Ok(always + more + span(&format!("{kind} over. after {last}"))?);
        Ok([after("read")?, after("write")?])
    };
    // Once the data is there, the disk takes the bus again, prepares and ends.
    let back = span("First reselect overhead")? + span("Data preparation overhead")?;
    let sector = spec.millis("Bulk sector transfer time")?.max(bus);
    let rate = if sector == Nanos::ZERO { 0 } else { (SECTOR as f64 / sector.as_secs_f64()) as u64 };
    let share = |name: &str| spec.number_or(name, 0.0).map(|share| share.clamp(0.0, 1.0));
    Ok(Interface {
        rate,
        read_hit: command("Read hit", Nanos::ZERO)?,
        read_miss: command("Read miss", back)?,
        write_hit: command("Write hit", Nanos::ZERO)?,
        write_miss: command("Write miss", Nanos::ZERO)?,
        completion: [span("Read completion overhead")?, span("Write completion overhead")?],
        watermark: [share("High (read) water mark")?, share("Low (write) water mark")?],
    })
}

fn buffer(spec: &NamedBlock<'_>) -> Result<BufferSpec, DiskSimError> {
    if !spec.flag("Enable caching in buffer")? {
        return Ok(BufferSpec::NONE);
    }
    let blocks = |name: &str| Ok(spec.count(name, u64::from(u32::MAX))? * SECTOR);
    let segment = blocks("Segment size (in blks)")?;
    let reads_on = match spec.count("Buffer continuous read", 4)? {
        1 => ReadsOn::Track,
        2 => ReadsOn::Cylinder,
        4 => ReadsOn::NextTrack,
        _ => ReadsOn::Window,
    };
    let reads_none = spec.count("Buffer continuous read", 4)? == 0;
    let written = spec.count("Maximum number of write segments", 4096)?;
    // Level 0 waits for the medium; 1 is for writes that continue others; 2 is for all.
    let fast = spec.number("Fast write level")? >= 2.0;
    Ok(BufferSpec {
        segments: spec.count("Number of buffer segments", 4096)? as usize,
        write_segments: if spec.flag("Allow read hits on write data")? { written as usize } else { 0 },
        segment,
        reads_on,
        read_ahead: if reads_none { 0 } else { blocks("Maximum read-ahead (blks)")? },
        replaces: spec.flag("Read-ahead over requested")?,
        read_on_hit: spec.flag("Read-ahead on idle hit")?,
        read_free: spec.flag("Read any free blocks")?,
        any_order: spec.flag("Immediate buffer read")?,
        write: if fast { segment * written.max(1) } else { 0 },
    })
}

#[cfg(test)]
mod tests;
