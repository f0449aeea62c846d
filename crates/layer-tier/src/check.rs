//! How the media of a tier are checked while no stack uses them: the map of the first end, the labels of the others.

use std::error::Error;
use std::io;

use esker_block::{Fact, Media, MediaCheck, MediaVerdict, ReadMedium};
use esker_framing::Superblock as _;
use esker_layer_kit::media;
use esker_layer_kit::slots::{SlotKind, check};

use crate::label::{Label, label_of};

pub(crate) const MEDIA: MediaCheck = MediaCheck {
    holds: "tier",
    media: "ends of tiers",
    formats: &[check::FORMAT, Label::FORMAT],
    is_set: false,
    is_marked,
    check: verdict,
};

fn start_of(medium: &dyn ReadMedium) -> io::Result<Vec<u8>> {
    let mut start = vec![0; media::HEAD as usize];
    medium.read_at(0, &mut start)?;
    Ok(start)
}

/// Whether a medium has a label, sound or damaged.
fn is_labelled(medium: &dyn ReadMedium) -> io::Result<bool> {
    Ok(label_of(&start_of(medium)?).err().is_none_or(|error| !error.is_unmarked()))
}

fn is_marked(medium: &dyn ReadMedium) -> io::Result<bool> {
    Ok(check::is_marked(medium, SlotKind::Tier)? || is_labelled(medium)?)
}

/// What there is to tell of the first medium.
fn verdict(media: Media<'_>) -> Result<MediaVerdict, Box<dyn Error>> {
    if !is_labelled(&*media[0])? {
        return check::media_verdict(media);
    }
    let label = label_of(&start_of(&*media[0])?)?;
    let text = format!(
        "end {} of a tier of {} ends: {} slots of {} bytes; its label is sound",
        label.end, label.ends, label.slots, label.extent
    );
    let facts: Vec<(&'static str, Fact)> = vec![
        ("end", u64::from(label.end).into()),
        ("ends", u64::from(label.ends).into()),
        ("slots", u64::from(label.slots).into()),
    ];
    Ok(MediaVerdict { is_sound: true, text, facts })
}
