//! The head: what a map is, and from where its journal counts. It has the common header, whose generation is the epoch.
//! Byte rows and trust: `docs/reference/formats/slot-map.md`.
//!
//! A head is longer than what a power cut leaves whole. A torn one is damaged, and then the older one serves: the
//! journal leads from it to the same state, or proves it stale. All content of the first head lies in its first 512
//! bytes. So a power cut while a map is made leaves a blank device or a map.

use std::ops::RangeInclusive;

use esker_base::Bits;
use esker_framing::{Features, HEADER, Header, SLOT, Superblock};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NOTE_BYTES;
use super::layout::{Doubt, SlotKind, SlotLayout};

/// Bytes for the bits of zones.
const ZONE_BYTES: usize = SLOT - HEADER - 192;
/// Zones at most.
pub(super) const ZONES_MAX: usize = ZONE_BYTES * 8;

/// The bytes behind the common header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Body {
    kind: u8,
    is_clean: u8,
    doubt: u8,
    reserved: u8,
    zones: U32,
    unit: U64,
    keys: U64,
    slots: U32,
    here: U32,
    journal: U64,
    before: U64,
    first: U64,
    next: U64,
    note: [u8; NOTE_BYTES],
    touched: [u8; ZONE_BYTES],
}

/// What a head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotHead {
    /// The map, drawn when it was made.
    pub set: u128,
    /// Which half and which image count.
    pub epoch: u64,
    /// Which kind of layer it belongs to.
    pub kind: SlotKind,
    /// Where everything lies.
    pub layout: SlotLayout,
    /// Whether nothing has changed since: the layer was stopped.
    pub is_clean: bool,
    /// Which entries are doubtful if the layer stops without a clean head.
    pub doubt: Doubt,
    /// Number of the first sector of the half before.
    pub before: u64,
    /// Number of the first sector of its own half.
    pub first: u64,
    /// All sectors with lower numbers were durable.
    pub next: u64,
    /// The owner's bytes.
    pub note: [u8; NOTE_BYTES],
    /// Zones that were touched.
    pub touched: Bits,
}

impl SlotHead {
    fn check(&self) -> Result<(), &'static str> {
        self.layout.check()?;
        let rules = [
            ("epoch", (1..u64::MAX).contains(&self.epoch)),
            ("number of a sector", self.before <= self.first && self.first <= self.next),
            ("zones", !self.is_clean || self.touched.is_empty()),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
    }
}

impl Superblock for SlotHead {
    const MAGIC: [u8; 8] = crate::media::SLOTS;
    const VERSION: u16 = 1;
    /// The half of the older head has sectors of a later epoch, or leads with the next half to the same state.
    const DETECTS_STALE: bool = true;
    const NAME: &'static str = "a map of slots";
    const LENGTHS: RangeInclusive<usize> = SLOT..=SLOT;

    fn header(&self) -> Header {
        Header { id: self.set, generation: self.epoch, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let layout = &self.layout;
        let mut body = Body {
            kind: self.kind.number(),
            is_clean: u8::from(self.is_clean),
            doubt: u8::from(self.doubt == Doubt::All),
            reserved: 0,
            zones: layout.zones.into(),
            unit: layout.unit.into(),
            keys: layout.keys.into(),
            slots: layout.slots.into(),
            here: layout.here.into(),
            journal: layout.journal.into(),
            before: self.before.into(),
            first: self.first.into(),
            next: self.next.into(),
            note: self.note,
            touched: [0; ZONE_BYTES],
        };
        self.touched.write(&mut body.touched);
        body.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<SlotHead, &'static str> {
        let body = Body::ref_from_bytes(body).map_err(|_| "length")?;
        let flag = |byte: u8, what| if byte <= 1 { Ok(byte == 1) } else { Err(what) };
        let layout = SlotLayout {
            unit: body.unit.get(),
            keys: body.keys.get(),
            slots: body.slots.get(),
            here: body.here.get(),
            journal: body.journal.get(),
            zones: body.zones.get(),
        };
        let kind = SlotKind::ALL.into_iter().find(|kind| kind.number() == body.kind).ok_or("kind")?;
        let head = SlotHead {
            set: header.id,
            epoch: header.generation,
            kind,
            is_clean: flag(body.is_clean, "clean mark")?,
            doubt: if flag(body.doubt, "doubt")? { Doubt::All } else { Doubt::Zones },
            before: body.before.get(),
            first: body.first.get(),
            next: body.next.get(),
            note: body.note,
            touched: Bits::read(&body.touched, layout.zones.min(ZONES_MAX as u32) as usize),
            layout,
        };
        head.check().map(|()| head)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use esker_framing::superblock::reseal;
    use esker_framing::{Newest, SuperblockError, seal, unseal};

    use super::*;

    fn head() -> SlotHead {
        let layout = SlotLayout { unit: 65_536, keys: 1000, slots: 100, here: 100, journal: 1 << 20, zones: 10 };
        let mut touched = Bits::new(10);
        touched.set(3);
        let note = std::array::from_fn(|at| at as u8);
        let (kind, doubt) = (SlotKind::Reorg, Doubt::Zones);
        SlotHead {
            set: 77,
            epoch: 5,
            kind,
            layout,
            is_clean: false,
            doubt,
            before: 20,
            first: 30,
            next: 31,
            note,
            touched,
        }
    }

    #[test]
    fn the_layout_is_that_of_the_page() {
        let at = [
            offset_of!(Body, kind),
            offset_of!(Body, is_clean),
            offset_of!(Body, doubt),
            offset_of!(Body, zones),
            offset_of!(Body, unit),
            offset_of!(Body, keys),
            offset_of!(Body, slots),
            offset_of!(Body, here),
            offset_of!(Body, journal),
            offset_of!(Body, before),
            offset_of!(Body, first),
            offset_of!(Body, next),
            offset_of!(Body, note),
            offset_of!(Body, touched),
        ];
        assert_eq!(at.map(|at| HEADER + at), [64, 65, 66, 68, 72, 80, 88, 92, 96, 104, 112, 120, 128, 256]);
        assert_eq!((HEADER + size_of::<Body>(), ZONES_MAX), (SLOT, 30_720));
        assert_eq!(SlotKind::ALL.map(SlotKind::number), [1, 2, 3, 4]);
    }

    #[test]
    fn heads_keep_the_promises_of_the_common_header() {
        esker_framing::conformance::check(&head(), &SlotHead { epoch: 6, ..head() });
    }

    #[test]
    fn what_no_esker_writes_is_refused_under_a_right_checksum() {
        let with = |at: usize, value: u8| {
            let mut bytes = seal(&head());
            bytes[at] = value;
            reseal(&mut bytes);
            unseal(&bytes).and_then(Newest::<SlotHead>::writable)
        };
        assert_eq!(with(8, 1), Ok(head()));
        let range = |field| Err(SuperblockError::Range(field));
        assert_eq!((with(64, 0), with(64, 5)), (range("kind"), range("kind")));
        assert_eq!((with(65, 2), with(66, 2)), (range("clean mark"), range("doubt")));
        assert_eq!((with(65, 1), with(68, 101)), (range("zones"), range("number of zones")));
        assert_eq!((with(72, 1), with(84, 1)), (range("unit"), range("number of units")));
        assert_eq!((with(88, 0), with(92, 101)), (range("number of slots"), range("number of slots")));
        assert_eq!((with(96, 1), with(104, 31)), (range("journal"), range("number of a sector")));
        assert_eq!((with(112, 32), with(48, 0)), (range("number of a sector"), range("epoch")));
    }
}
