//! Opening: whether the ends are those of one tier, in their order, and what the map says.
//!
//! A label follows the first head of the map, so an end with a label has a first end with a map. A fresh map, which was
//! never begun, gets the labels that are missing.

use esker_block::{BioError, Buf, KindError};
use esker_framing::SuperblockError;
use esker_layer_kit::slots::{Found, MapError, NOTE_BYTES, SlotMap};
use esker_layer_kit::{Io, media};

use crate::config::{TierConfig, label_bytes};
use crate::label::{self, Label, label_of};
use crate::placing::{EndSlots, Places, Placing};

/// What was opened.
pub(crate) struct Opening {
    pub(crate) map: SlotMap,
    pub(crate) placing: Placing,
    /// Whether nothing has to be flushed.
    pub(crate) is_clean: bool,
}

/// Opens the map, and makes a new tier of blank ends.
///
/// # Errors
/// An end is missing, is another one or cannot be used; the map is damaged or another one.
pub(crate) async fn open(config: &TierConfig, io: &Io) -> Result<Opening, KindError> {
    let outside = |what: String| KindError::Outside(format!("{}: {what}", config.name));
    let fails = |end: usize, error: BioError| outside(format!("end {end} cannot be used: {error}"));
    let mut labels = Vec::new();
    for end in 1..config.ends.len() {
        let start = start_of(io, end).await.map_err(|error| fails(end, error))?;
        labels.push(label_at(config, end, &start).map_err(outside)?);
    }
    let start = start_of(io, 0).await.map_err(|error| fails(0, error))?;
    if start.iter().all(|byte| *byte == 0)
        && let Some(end) = labels.iter().position(Option::is_some)
    {
        let end = end + 1;
        return Err(outside(format!(
            "end 0 is blank, but end {end} belongs to a tier; name the device with the map of this tier as the first one"
        )));
    }
    let opened = SlotMap::open(io, 0, &config.shape, &config.ends[0].limits).await;
    let refused = |error: MapError| {
        KindError::of_medium(error.is_damage(), format!("{}: {}", config.name, map_error(config, &error)))
    };
    let (map, found) = opened.map_err(refused)?;
    let places = places(config, &map);
    for (end, label) in (1..).zip(&labels) {
        let own = own_label(config, &map, &places, end);
        match label {
            Some(label) if *label == Label { generation: label.generation, ..own } => {}
            Some(_) => {
                return Err(outside(format!("end {end} belongs to another tier; name the devices of one tier")));
            }
            None if found == Found::Fresh => label::write(io, &own).await.map_err(|error| fails(end, error))?,
            None => {
                return Err(outside(format!(
                    "end {end} is blank, and this tier has data there; name the device that holds it"
                )));
            }
        }
    }
    let placing = Placing::of(places, config.extents, |slot| map.get(slot));
    let placing = placing.map_err(|what| outside(format!("the map {what}; restore the first end from a copy")))?;
    map.begin(io, &[0; NOTE_BYTES]).await.map_err(|error| outside(format!("the first end {error}")))?;
    Ok(Opening { map, placing, is_clean: matches!(found, Found::Clean { .. }) })
}

async fn start_of(io: &Io, end: usize) -> Result<Vec<u8>, BioError> {
    let buf: Buf = io.read(io.lower(end), 0, media::HEAD as usize).await?;
    Ok(buf.to_vec())
}

/// The label of an end; none if it is blank.
///
/// # Errors
/// In words, that it holds something else, or is another end.
fn label_at(config: &TierConfig, end: usize, start: &[u8]) -> Result<Option<Label>, String> {
    let (ends, extent) = (config.ends.len(), config.extent);
    let label = match (label_of(start), media::name_of(start)) {
        (Ok(label), _) => label,
        (Err(SuperblockError::Blank), _) => return Ok(None),
        (Err(SuperblockError::Foreign(_)), Some(name)) => {
            return Err(format!("end {end} holds {name}, and is no further end of a tier; name another device"));
        }
        (Err(error), _) => return Err(format!("end {end} {error}")),
    };
    if label.ends as usize != ends {
        return Err(format!(
            "end {end} belongs to a tier of {} ends, and {ends} are named; name all of them",
            label.ends
        ));
    }
    if label.end as usize != end {
        return Err(format!("end {end} is end {} of its tier; name the devices in their order", label.end));
    }
    if label.extent != extent {
        return Err(format!("end {end} has extents of {} bytes; write extent={}", label.extent, label.extent));
    }
    Ok(Some(label))
}

/// The label that an end must have.
fn own_label(config: &TierConfig, map: &SlotMap, places: &Places, end: usize) -> Label {
    Label {
        map: map.id(),
        generation: 0,
        end: end as u32,
        ends: config.ends.len() as u32,
        slots: places.slots_of(end),
        extent: config.extent,
    }
}

fn map_error(config: &TierConfig, error: &MapError) -> String {
    let MapError::Other { unit, keys, slots } = error else { return format!("end 0 {error}") };
    format!(
        "end 0 holds the map of a tier with {keys} extents of {unit} bytes in {slots} slots, and the stack text says {} in {}; \
         name all ends, each with the size that it had, and write the same `extent` and `size`",
        config.extents,
        config.shape.slots.unwrap_or(0)
    )
}

/// The slots of all ends, as the map counts them.
fn places(config: &TierConfig, map: &SlotMap) -> Places {
    let layout = map.layout();
    let mut ends = vec![EndSlots { slots: layout.here, data: layout.data() }];
    let mut left = layout.slots - layout.here;
    for end in &config.ends[1..] {
        let slots = end.slots.min(left);
        left -= slots;
        ends.push(EndSlots { slots, data: label_bytes(config.extent) });
    }
    Places::new(ends, config.extent)
}
