//! A program from bytes. Nothing is believed: checksums first, then every number against what it counts.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use esker_base::codec::{Reader, Short};
use esker_trace_calls::FinalTree;
use esker_trace_calls::action::ProcessId;
use esker_trace_calls::name::{PathBytes, Word};
use esker_trace_calls::snapshot::Snapshot;
use esker_trace_calls::trace::Platform;
use esker_trace_calls::wire::{Decoder, Field, Malformed};

use crate::model::compile::THREADS_MAX;
use crate::model::resource::{Resource, ResourceKind};
use crate::rules::{Instant, Looks, Outline};

use super::about::{Losses, RepairKind, RepairTally};
use super::layout::{ACTION, BEGINS, LOOKS_SHIFT, MAGIC, PREFIX, ROW, Section, VERSION, VERSION_OF_AFTER, WAITS};
use super::{About, Opened, Player, Program, Slot, Step};

/// Longest name in bytes.
const NAME_MAX: usize = 1 << 20;

/// Bytes that are no compiled trace, or one that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompiledError {
    /// Too short to say what it is.
    #[error("{len} bytes are too few for a compiled trace")]
    TooShort {
        /// How many there are.
        len: usize,
    },
    /// Another kind of file.
    #[error("not a compiled trace: it begins with \"{}\"; make one with `esker trace compile`", .found.escape_ascii())]
    OtherFormat {
        /// Its first bytes.
        found: [u8; 8],
    },
    /// Another version.
    #[error("a compiled trace of version {found}; this program reads versions 1 to {VERSION}: compile the trace again")]
    Version {
        /// Its version.
        found: u16,
    },
    /// Features that this program does not know.
    #[error("a compiled trace with unknown features {found:#06x}: compile the trace again, or use a newer program")]
    Features {
        /// Their bits.
        found: u16,
    },
    /// Header or table of sections are damaged.
    #[error("the header is damaged ({what}): compile the trace again")]
    Header {
        /// What is wrong.
        what: &'static str,
    },
    /// The file ends early.
    #[error(
        "truncated: section {section} ends at byte {end}, the file has {len}: copy it again, or compile the trace again"
    )]
    Truncated {
        /// Which section.
        section: &'static str,
        /// Where it ends.
        end: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// A section is damaged.
    #[error("section {section} is damaged: its CRC-32 is {found:#010x}, not {expected:#010x}: compile the trace again")]
    Checksum {
        /// Which.
        section: &'static str,
        /// What the table says.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// A section with the right checksum says something impossible.
    #[error("section {section}, byte {at}: {what}")]
    Malformed {
        /// Which.
        section: &'static str,
        /// Where in it.
        at: usize,
        /// What.
        what: &'static str,
    },
}

impl Program {
    /// Reads what [`Program::encode`] wrote.
    ///
    /// # Errors
    /// Says what is wrong, and where.
    pub fn decode(bytes: &[u8]) -> Result<Program, CompiledError> {
        let [names, about, players, snapshot, slots, opened, resources, actions, steps, touches, after] =
            sections(bytes)?;
        let names = read_names(names)?;
        let table = &names[..];
        let mut program = Program {
            about: parse(Section::About, about, table, get_about)?,
            players: parse(Section::Players, players, table, get_players)?,
            snapshot: parse(Section::Snapshot, snapshot, table, get_snapshot)?,
            slots: parse(Section::Slots, slots, table, |from| get_all(from, get_slot))?,
            opened: parse(Section::Opened, opened, table, |from| get_all(from, get_opened))?,
            after: parse(Section::After, after, table, get_after)?,
            ..Program::default()
        };
        let resources = parse(Section::Resources, resources, table, get_resources)?;
        program.outline = Outline::new(program.players.len(), resources);
        program.names = names;
        program.read_actions(actions, steps, touches)?;
        program.index();
        Ok(program)
    }

    fn read_actions(&mut self, rows: &[u8], steps: &[u8], touches: &[u8]) -> Result<(), CompiledError> {
        let bad = |at, what| CompiledError::Malformed { section: Section::Actions.name(), at, what };
        if !rows.len().is_multiple_of(ACTION) {
            return Err(bad(rows.len(), "a row is cut"));
        }
        let mut steps = Decoder::new(steps, &self.names);
        let mut touch_end = 0;
        for (id, row) in rows.chunks_exact(ACTION).enumerate() {
            let at = id * ACTION;
            let row = read_row(row).expect("a row has its length");
            self.steps.push(Step::get(&mut steps).map_err(malformed(Section::Steps))?);
            if steps.at() != row.step_end as usize {
                return Err(bad(at, "its step ends elsewhere"));
            }
            let touch = row.touch_end as usize;
            if touch < touch_end || touch > touches.len() {
                return Err(bad(at, "its touches lie outside their section, or before others"));
            }
            if row.instant.thread as usize >= self.players.len() {
                return Err(bad(at, "the number of no thread"));
            }
            if row.instant.leave < row.instant.enter {
                return Err(bad(at, "it returned before it was entered"));
            }
            let touched = self.outline.push_bytes(row.instant, &touches[touch_end..touch]);
            touched.map_err(|_| bad(at, "it touches what is no resource"))?;
            touch_end = touch;
        }
        match steps.is_done() && touch_end == touches.len() {
            true => Ok(()),
            false => Err(bad(rows.len(), "steps or touches of no action")),
        }
    }
}

struct Row {
    instant: Instant,
    step_end: u32,
    touch_end: u32,
}

fn read_row(row: &[u8]) -> Result<Row, Short> {
    let mut from = Reader::new(row);
    let (enter, leave, thread) = (from.le_u64()?, from.le_u64()?, from.le_u32()?);
    let (step_end, touch_end) = (from.le_u32()?, from.le_u32()?);
    let flags = from.le_u32()?;
    let (waits, begins) = (flags & WAITS != 0, flags & BEGINS != 0);
    let looks = Looks::from_bits_truncate((flags >> LOOKS_SHIFT).to_le_bytes()[0]);
    Ok(Row { instant: Instant { thread, waits, looks, begins, enter, leave }, step_end, touch_end })
}

/// Every section's bytes, after all checks of header and checksums.
fn sections(bytes: &[u8]) -> Result<[&[u8]; Section::ALL.len()], CompiledError> {
    let short = |_: Short| CompiledError::TooShort { len: bytes.len() };
    let mut from = Reader::new(bytes);
    let found: [u8; 8] = from.take(MAGIC.len()).map_err(short)?.try_into().expect("eight bytes");
    if found != MAGIC {
        return Err(CompiledError::OtherFormat { found });
    }
    let sections = match from.le_u16().map_err(short)? {
        VERSION_OF_AFTER..=VERSION => Section::ALL.len(),
        1..VERSION_OF_AFTER => Section::ALL.len() - 1,
        found => return Err(CompiledError::Version { found }),
    };
    let features = from.le_u16().map_err(short)?;
    let count = from.le_u32().map_err(short)?;
    if count as usize != sections {
        return Err(CompiledError::Header { what: "the number of sections" });
    }
    let covered = PREFIX + sections * ROW;
    let table = from.take(covered - PREFIX).map_err(short)?;
    if from.le_u32().map_err(short)? != crc32fast::hash(&bytes[..covered]) {
        return Err(CompiledError::Header { what: "its checksum" });
    }
    if features != 0 {
        return Err(CompiledError::Features { found: features });
    }
    let mut found: [&[u8]; Section::ALL.len()] = [&[]; Section::ALL.len()];
    for ((section, row), slot) in Section::ALL.into_iter().zip(table.chunks_exact(ROW)).zip(&mut found) {
        *slot = section_bytes(section, row, bytes)?;
    }
    Ok(found)
}

fn section_bytes<'a>(section: Section, row: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], CompiledError> {
    let mut from = Reader::new(row);
    let short = |_| CompiledError::Header { what: "a section's row" };
    let (number, expected) = (from.le_u32().map_err(short)?, from.le_u32().map_err(short)?);
    let (offset, len) = (from.le_u64().map_err(short)?, from.le_u64().map_err(short)?);
    if number != section as u32 {
        return Err(CompiledError::Header { what: "the order of sections" });
    }
    let end = offset.checked_add(len).ok_or(CompiledError::Header { what: "a section's end" })?;
    let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
    let Some(body) = range.and_then(|(from, to)| bytes.get(from..to)) else {
        return Err(CompiledError::Truncated { section: section.name(), end, len: bytes.len() as u64 });
    };
    match crc32fast::hash(body) {
        found if found == expected => Ok(body),
        found => Err(CompiledError::Checksum { section: section.name(), expected, found }),
    }
}

/// Reads a whole section, to its last byte.
fn parse<T>(
    section: Section,
    bytes: &[u8],
    names: &[PathBytes],
    get: impl FnOnce(&mut Decoder<'_>) -> Result<T, Malformed>,
) -> Result<T, CompiledError> {
    let mut from = Decoder::new(bytes, names);
    let value = get(&mut from).and_then(|value| match from.is_done() {
        true => Ok(value),
        false => Err(from.malformed("bytes behind the last value")),
    });
    value.map_err(malformed(section))
}

fn malformed(section: Section) -> impl Fn(Malformed) -> CompiledError {
    move |Malformed { at, what }| CompiledError::Malformed { section: section.name(), at, what }
}

fn read_names(bytes: &[u8]) -> Result<Vec<PathBytes>, CompiledError> {
    parse(Section::Names, bytes, &[], |from| {
        let mut names = Vec::new();
        for _ in 0..from.unsigned()? {
            names.push(PathBytes::from(from.bytes(NAME_MAX)?));
        }
        Ok(names)
    })
}

fn get_all<T>(from: &mut Decoder<'_>, get: fn(&mut Decoder<'_>) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
    let count = from.unsigned()?;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(get(from)?);
    }
    Ok(all)
}

fn get_about(from: &mut Decoder<'_>) -> Result<About, Malformed> {
    let platform = match from.byte()? {
        1 => Platform::Linux,
        2 => Platform::Mac,
        _ => return Err(from.malformed("no platform")),
    };
    let mut about = About { platform, source: Word::get(from)?, elapsed_ns: from.unsigned()?, ..About::default() };
    for _ in 0..from.unsigned()? {
        let code = from.byte()?;
        let kind = RepairKind::ALL.get(usize::from(code)).ok_or(from.malformed("no kind of repair"))?;
        let mut tally = RepairTally { count: from.unsigned()?, places: Vec::new() };
        for _ in 0..from.unsigned()? {
            let action = u32::get(from)?;
            tally.places.push((action, String::from_utf8_lossy(&Word::get(from)?).into_owned()));
        }
        about.repairs.tallies.insert(*kind, tally);
    }
    if !from.is_done() {
        about.lost = Losses { events: from.unsigned()?, records: from.unsigned()?, ends: from.unsigned()? };
    }
    Ok(about)
}

fn get_players(from: &mut Decoder<'_>) -> Result<Vec<Player>, Malformed> {
    let players = get_all(from, get_player)?;
    if players.len() > THREADS_MAX { Err(from.malformed("more threads than can be replayed")) } else { Ok(players) }
}

fn get_player(from: &mut Decoder<'_>) -> Result<Player, Malformed> {
    Ok(Player {
        tid: Field::get(from)?,
        process: ProcessId(Field::get(from)?),
        pid: Field::get(from)?,
        name: Field::get(from)?,
        parent: Field::get(from)?,
    })
}

fn get_slot(from: &mut Decoder<'_>) -> Result<Slot, Malformed> {
    Ok(Slot { number: Field::get(from)?, generation: Field::get(from)?, process: ProcessId(Field::get(from)?) })
}

fn get_opened(from: &mut Decoder<'_>) -> Result<Opened, Malformed> {
    Ok(Opened {
        slot: Field::get(from)?,
        kind: Field::get(from)?,
        path: Field::get(from)?,
        flags: Field::get(from)?,
        offset: Field::get(from)?,
        group: Field::get(from)?,
        inferred: Field::get(from)?,
    })
}

fn get_snapshot(from: &mut Decoder<'_>) -> Result<Snapshot, Malformed> {
    let mut snapshot = Snapshot::default();
    for _ in 0..from.unsigned()? {
        let path = PathBytes::get(from)?;
        snapshot.entries.insert(path, Field::get(from)?);
    }
    Ok(snapshot)
}

/// Nothing if there are no bytes.
fn get_after(from: &mut Decoder<'_>) -> Result<Option<FinalTree>, Malformed> {
    if from.is_done() {
        return Ok(None);
    }
    let (roots, without) = (get_all(from, Field::get)?, get_all(from, Field::get)?);
    Ok(Some(FinalTree { roots, without, tree: get_snapshot(from)? }))
}

fn get_resources(from: &mut Decoder<'_>) -> Result<Vec<Resource>, Malformed> {
    let count = from.unsigned()?;
    let mut all = Vec::new();
    for number in 0..count {
        let code = from.byte()?;
        let kind = ResourceKind::from_code(code).ok_or(from.malformed("no kind of resource"))?;
        let (key, generation) = (from.unsigned()?, Field::get(from)?);
        let previous = match from.unsigned()? {
            0 => None,
            at if at - 1 < number => u32::try_from(at - 1).ok(),
            _ => return Err(from.malformed("a generation before itself")),
        };
        all.push(Resource { kind, key, generation, previous });
    }
    Ok(all)
}
