//! What a log holds, and whether it is sound: its superblock, its records, and the checksum of each payload.

use std::io;

use esker_base::ByteRange;
use esker_block::{Media, MediaCheck, MediaVerdict, ReadMedium};
use esker_framing::{Superblock as _, SuperblockError};

use crate::format::{AREA_START, Content, Record};
use crate::log::enter;
use crate::log_scan::{Damage, Replay};
use crate::map::Map;
use crate::superblock::Superblock;

/// Bytes read at once.
const WINDOW: u64 = 1 << 20;

/// How `offload` checks the device of its log.
pub const MEDIA: MediaCheck = MediaCheck {
    holds: "offload",
    media: "logs of off-loaded writes",
    formats: &[Superblock::FORMAT],
    is_set: false,
    is_marked,
    check: check_media,
};

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The superblock.
    pub superblock: Superblock,
    /// All records.
    pub records: Vec<Record>,
    /// Bytes of the volume whose newest content is in the log only.
    pub newest: u64,
    /// Bytes of payload whose checksum is right.
    pub compared: u64,
}

/// Why a log cannot be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No log.
    #[error("it {0}")]
    Superblock(#[from] SuperblockError),
    /// Records that must be there are not, or have other bytes than they were written with.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The device cannot be read.
    #[error("byte {0} cannot be read: {1}")]
    Unreadable(u64, std::io::Error),
}

/// Reads bytes of the device of the log, from this offset on.
pub type ReadLog<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> std::io::Result<()>;

/// Checks a log that no stack uses.
///
/// # Errors
/// [`CheckError`]. A log that ends with torn records without an answer is sound.
pub fn check(read: ReadLog<'_>) -> Result<Verdict, CheckError> {
    let mut bytes = |range: ByteRange| {
        let mut out = vec![0; range.len() as usize];
        read(range.start(), &mut out).map_err(|error| CheckError::Unreadable(range.start(), error))?;
        Ok::<_, CheckError>(out)
    };
    let superblocks = ByteRange::new(0, AREA_START).expect("two superblocks");
    let superblock = Superblock::newest(&bytes(superblocks)?)?;
    let mut replay = Replay::new(superblock.clone(), true, WINDOW);
    while let Some(range) = replay.wants() {
        replay.feed(&bytes(range)?);
    }
    let records = replay.end()?;
    let mut map = Map::default();
    records.iter().for_each(|record| enter(record, &superblock, &mut map));
    let payload = |record: &Record| matches!(record.content, Content::Data(_)).then_some(record.range.len());
    let compared = records.iter().filter_map(payload).sum();
    Ok(Verdict { superblock, records, newest: map.bytes(), compared })
}

fn is_marked(medium: &dyn ReadMedium) -> io::Result<bool> {
    let mut slots = vec![0; AREA_START as usize];
    medium.read_at(0, &mut slots)?;
    Ok(!Superblock::newest(&slots).is_err_and(|error| error.is_unmarked()))
}

fn check_media(media: Media<'_>) -> Result<MediaVerdict, Box<dyn std::error::Error>> {
    let found = check(&mut |at, out| media[0].read_at(at, out))?;
    let (records, newest, size) = (found.records.len() as u64, found.newest, found.superblock.home);
    let text = format!(
        "log of off-loaded writes for a volume of {size} bytes: {records} records, {newest} bytes not at home; sound"
    );
    let facts = vec![
        ("records", records.into()),
        ("newest_bytes", newest.into()),
        ("compared_bytes", found.compared.into()),
        ("volume_bytes", size.into()),
    ];
    Ok(MediaVerdict { is_sound: true, text, facts })
}
