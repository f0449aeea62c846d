//! The labels of all ends but the first: to which tier an end belongs, and as which of its ends. Byte rows and trust:
//! `docs/reference/formats/tier.md`.
//!
//! A label is written when the tier is made, behind the first head of its map, and never changes. Both slots hold it.
//! It lies in the first 512 bytes of a slot, so a power cut leaves it whole or away.

use std::ops::RangeInclusive;

use esker_block::{Bio, BioError, Buf, Class, Tag};
use esker_framing::{Features, HEADER, Header, Newest, SLOT, Superblock, SuperblockError, newest, seal, slot, slots};
use esker_layer_kit::{Io, media};

/// Bytes of the body.
const BODY: usize = 24;

/// What a label says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The map of the tier.
    pub map: u128,
    /// 0 in slot 0, 1 in slot 1.
    pub generation: u64,
    /// Number of this end, from 1.
    pub end: u32,
    /// Ends of the tier.
    pub ends: u32,
    /// Slots of this end.
    pub slots: u32,
    /// Bytes of an extent.
    pub extent: u64,
}

impl Superblock for Label {
    const MAGIC: [u8; 8] = media::END;
    const VERSION: u16 = 1;
    /// A label never changes, so the one of the other slot says the same.
    const DETECTS_STALE: bool = true;
    const NAME: &'static str = "an end of a tier";
    const LENGTHS: RangeInclusive<usize> = HEADER + BODY..=HEADER + BODY;

    fn header(&self) -> Header {
        Header { id: self.map, generation: self.generation, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(BODY);
        [self.end, self.ends, self.slots, 0].iter().for_each(|word| body.extend(word.to_le_bytes()));
        body.extend(self.extent.to_le_bytes());
        body
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<Label, &'static str> {
        let (words, extent) = body.split_at_checked(16).ok_or("length")?;
        let mut words = words.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let mut word = || words.next().ok_or("length");
        let (end, ends, slots, _) = (word()?, word()?, word()?, word()?);
        let extent = u64::from_le_bytes(extent.try_into().map_err(|_| "length")?);
        let rules = [
            ("number of an end", end >= 1 && end < ends),
            ("number of slots", slots >= 1),
            ("extent", extent.is_power_of_two()),
            ("generation", header.generation < 2),
        ];
        let label = Label { map: header.id, generation: header.generation, end, ends, slots, extent };
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(label), |(what, _)| Err(*what))
    }
}

/// The label in the first bytes of an end.
///
/// # Errors
/// Why there is none.
pub fn label_of(start: &[u8]) -> Result<Label, SuperblockError> {
    newest::<Label>(&[slots(start)]).and_then(Newest::writable)
}

/// The first bytes of an end with this label, in both slots.
pub fn head(label: &Label) -> Vec<u8> {
    let mut bytes = vec![0; media::HEAD as usize];
    for generation in 0..2 {
        let sealed = seal(&Label { generation, ..*label });
        let at = slot(generation) * SLOT;
        bytes[at..at + sealed.len()].copy_from_slice(&sealed);
    }
    bytes
}

/// Writes a label to both slots, durably.
///
/// # Errors
/// The end's.
pub(crate) async fn write(io: &Io, label: &Label) -> Result<(), BioError> {
    let buf = Buf::from_bytes(io.pool(), &head(label));
    let write = Bio::write(0, buf).fua().tagged(Tag::of(Class::Metadata)).to(io.lower(label.end as usize));
    io.submit(write).await.result.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(generation: u64) -> Label {
        Label { map: 77, generation, end: 2, ends: 3, slots: 500, extent: 1 << 20 }
    }

    #[test]
    fn labels_keep_the_promises_of_the_common_header() {
        esker_framing::conformance::check(&label(0), &label(1));
    }

    /// What version 1 wrote; it must stay readable.
    #[test]
    fn the_golden_labels_read_as_they_were_written() {
        let golden = include_bytes!("../golden/labels-v1.bin");
        assert_eq!(label_of(golden), Ok(label(1)));
        assert_eq!(label_of(&golden[..SLOT]), Ok(label(0)), "the first slot serves alone");
        assert_eq!(head(&label(0)), golden);
    }

    #[test]
    fn the_layout_is_that_of_the_page() {
        let bytes = seal(&label(1));
        assert_eq!((bytes.len(), &bytes[..8]), (88, b"\x89EskEnd\n".as_slice()));
        assert_eq!(&bytes[64..80], [2, 0, 0, 0, 3, 0, 0, 0, 0xf4, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[80..88], (1_u64 << 20).to_le_bytes());
    }

    #[test]
    fn what_no_esker_writes_is_refused_under_a_right_checksum() {
        let with = |change: fn(&mut Label)| {
            let mut label = label(1);
            change(&mut label);
            label_of(&[vec![0; SLOT], seal(&label)].concat())
        };
        let range = |what| Err(SuperblockError::Range(what));
        assert_eq!(with(|_| {}), Ok(label(1)));
        assert_eq!((with(|l| l.end = 3), with(|l| l.end = 0)), (range("number of an end"), range("number of an end")));
        assert_eq!((with(|l| l.slots = 0), with(|l| l.extent = 3)), (range("number of slots"), range("extent")));
        assert_eq!(label_of(&[0; 2 * SLOT]), Err(SuperblockError::Blank));
    }
}
