//! The label at the head of each half: which set it belongs to, who is in sync, and where halves may differ.
//!
//! Two slots of one page, written in turn; the valid one with the higher sequence counts, so a torn write leaves the one
//! before. A label is written whole, with force unit access, to all halves that take writes. Byte rows and trust: see the
//! format's page. Invariants: `in_sync` is never empty; a bit stands as long as halves may differ in its region.

use esker_base::digest::mix;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bits::Bits;

/// Bytes of a label.
pub const PAGE: usize = 4096;
/// Slots of labels; data follows them.
pub const SLOTS: u64 = 2;
/// First byte of data.
pub const DATA_START: u64 = SLOTS * PAGE as u64;
/// Halves of a mirror at most.
pub const MEMBERS_MAX: usize = 16;
/// Regions at most.
pub const REGIONS_MAX: u64 = 8 * BITS_BYTES as u64;

const MAGIC: [u8; 8] = esker_layer_kit::media::MIRROR;
const VERSION: u16 = 1;
/// Generations whose lineage a label knows.
const PAST: usize = 64;
const BITS_BYTES: usize = 3484;
/// What a power cut leaves whole at least.
const SECTOR: usize = 512;

/// The bytes.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Page {
    magic: [u8; 8],
    version: U16,
    member: U16,
    features: U32,
    set: [u8; 16],
    data: U64,
    region: U64,
    generation: U64,
    base: U64,
    sequence: U64,
    members: U16,
    in_sync: U16,
    reserved: [u8; 20],
    past: [U64; PAST],
    bits: [u8; BITS_BYTES],
    checksum: U32,
}

/// What a label says. All halves that take part have equal ones, but for their own number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The set, drawn when it was made.
    pub set: u128,
    /// Halves of the set.
    pub members: u16,
    /// Bytes of data.
    pub data: u64,
    /// Bytes of a region: one bit stands for as many.
    pub region: u64,
    /// Rises with each change of `in_sync`.
    pub generation: u64,
    /// `dirty` covers all changes since the label of this sequence: a half whose label is as new needs only those regions.
    pub base: u64,
    /// Rises with each label.
    pub sequence: u64,
    /// Bit `i`: half `i` holds all that was acknowledged.
    pub in_sync: u16,
    /// A word for each of the last generations, made of all before it: tells ancestors from strangers.
    pub(crate) past: [u64; PAST],
    /// Regions in which halves may differ.
    pub dirty: Bits,
}

/// Why a slot holds no label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LabelError {
    /// Only zeroes.
    #[error("is blank")]
    Blank,
    /// Zeroes but for a part of a first label: a crash while a mirror was made.
    #[error("holds a part of a first label")]
    Unmade,
    /// Something else.
    #[error("holds no label of a mirror")]
    Foreign,
    /// A torn or damaged label.
    #[error("its checksum is wrong")]
    Checksum,
    /// A sound label in the slot of the other one.
    #[error(
        "holds a label 4096 bytes from where it was written, so it begins at another byte than it did; give it the `offset` that \
         it had"
    )]
    Shifted,
    /// From a later esker.
    #[error("has version {0} and features {1:#x}, which this esker does not know; use a newer one")]
    Newer(u16, u32),
    /// Numbers that no esker writes, under a right checksum.
    #[error("its {0} is out of range")]
    Range(&'static str),
}

impl Label {
    /// The first label of a set of `members` halves, all of which are in sync.
    pub fn new(set: u128, members: u16, data: u64, region: u64) -> Label {
        let regions = data.div_ceil(region);
        debug_assert!(regions <= REGIONS_MAX && usize::from(members) <= MEMBERS_MAX, "checked by the builder");
        let in_sync = all_of(members);
        let mut past = [0; PAST];
        past[1] = mix(set as u64 ^ mix((set >> 64) as u64));
        let dirty = Bits::new(regions as usize);
        Label { set, members, data, region, generation: 1, base: 0, sequence: 0, in_sync, past, dirty }
    }

    /// Whether half `member` holds all that was acknowledged.
    pub fn has(&self, member: usize) -> bool {
        self.in_sync >> member & 1 != 0
    }

    /// Changes who is in sync: a new generation. `sequence` must be that of the last label that all halves got.
    pub fn change(&mut self, in_sync: u16) {
        debug_assert!(in_sync != 0, "somebody holds the data");
        let everyone = all_of(self.members);
        let word = mix(self.past[self.generation as usize % PAST] ^ mix(u64::from(in_sync) << 32 | self.sequence));
        if self.in_sync == everyone {
            self.base = self.sequence;
        }
        self.generation += 1;
        self.in_sync = in_sync;
        self.past[self.generation as usize % PAST] = word;
    }

    /// How this label stands to a later one of the same set.
    pub fn is_ancestor_of(&self, later: &Label) -> bool {
        let at = self.generation as usize % PAST;
        let is_known = later.generation - self.generation < PAST as u64;
        // What is too old to be known is no stranger for certain, and is copied anew as a whole.
        !is_known || self.past[at] == later.past[at]
    }

    /// The bytes of half `member`'s label.
    pub fn encode(&self, member: u16) -> Vec<u8> {
        let mut page = Page {
            magic: MAGIC,
            version: VERSION.into(),
            member: member.into(),
            features: 0.into(),
            set: self.set.to_le_bytes(),
            data: self.data.into(),
            region: self.region.into(),
            generation: self.generation.into(),
            base: self.base.into(),
            sequence: self.sequence.into(),
            members: self.members.into(),
            in_sync: self.in_sync.into(),
            reserved: [0; 20],
            past: self.past.map(U64::new),
            bits: [0; BITS_BYTES],
            checksum: 0.into(),
        };
        self.dirty.write(&mut page.bits);
        page.checksum = checksum(&page).into();
        page.as_bytes().to_vec()
    }

    /// Reads one slot: the label and whose it is.
    ///
    /// # Errors
    /// [`LabelError`].
    pub fn decode(bytes: &[u8]) -> Result<(Label, u16), LabelError> {
        let Ok((page, _)) = Page::read_from_prefix(bytes) else { return Err(LabelError::Foreign) };
        if page.magic != MAGIC {
            let is_blank = bytes.iter().all(|byte| *byte == 0);
            return Err(if is_blank { LabelError::Blank } else { LabelError::Foreign });
        }
        if page.checksum.get() != checksum(&page) {
            return Err(LabelError::Checksum);
        }
        if page.version != VERSION || page.features != 0 {
            return Err(LabelError::Newer(page.version.get(), page.features.get()));
        }
        check(&page)?;
        let label = Label {
            set: u128::from_le_bytes(page.set),
            members: page.members.get(),
            data: page.data.get(),
            region: page.region.get(),
            generation: page.generation.get(),
            base: page.base.get(),
            sequence: page.sequence.get(),
            in_sync: page.in_sync.get(),
            past: page.past.map(U64::get),
            dirty: Bits::read(&page.bits, page.data.get().div_ceil(page.region.get()) as usize),
        };
        Ok((label, page.member.get()))
    }

    /// Whether no label but the first one was ever written to all halves: nobody was promised anything yet.
    pub fn is_first(&self) -> bool {
        self.sequence <= 1
    }

    /// The label of a half: the newer of the valid ones in its slots.
    ///
    /// # Errors
    /// Why there is none; a damaged slot counts only where the other one does not help.
    pub fn newest(slots: &[u8]) -> Result<(Label, u16), LabelError> {
        let (mut best, mut worst) = (None, LabelError::Blank);
        for (at, slot) in (0..).zip(slots.chunks_exact(PAGE)) {
            match Label::decode(slot) {
                // Its data would be taken for data that lies elsewhere.
                Ok((label, _)) if label.sequence % SLOTS != at => return Err(LabelError::Shifted),
                Ok(found) if best.as_ref().is_none_or(|(best, _): &(Label, u16)| best.sequence < found.0.sequence) => {
                    best = Some(found);
                }
                Ok(_) | Err(LabelError::Blank) => {}
                Err(error) => worst = error,
            }
        }
        match worst {
            // A newer esker may have written one slot: what the other says would be old.
            LabelError::Newer(..) => Err(worst),
            LabelError::Foreign | LabelError::Checksum if is_unmade(slots) => Err(LabelError::Unmade),
            _ => best.ok_or(worst),
        }
    }
}

/// The set of the first `members` halves.
pub fn all_of(members: u16) -> u16 {
    ((1u32 << members) - 1) as u16
}

fn checksum(page: &Page) -> u32 {
    crc32fast::hash(&page.as_bytes()[..PAGE - size_of::<U32>()])
}

/// Whether the slots are zeroes but for what a crash can leave of a first label: its first sector with the mark, and its
/// checksum. A first label has no bits, and all first labels go to the slot of sequence 1.
fn is_unmade(slots: &[u8]) -> bool {
    let zeroes = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let (other, first) = slots.split_at(PAGE);
    let (head, rest) = first.split_at(SECTOR);
    let is_head = zeroes(head) || head.starts_with(&MAGIC);
    zeroes(other) && is_head && rest.len() == PAGE - SECTOR && zeroes(&rest[..rest.len() - size_of::<U32>()])
}

fn check(page: &Page) -> Result<(), LabelError> {
    let (members, region, data) = (page.members.get(), page.region.get(), page.data.get());
    let generation = page.generation.get();
    let rules = [
        ("number of halves", (1..=MEMBERS_MAX as u16).contains(&members)),
        ("own number", page.member < page.members),
        ("region", region.is_power_of_two()),
        ("size", data > 0 && data.checked_add(DATA_START).is_some() && data.div_ceil(region.max(1)) <= REGIONS_MAX),
        ("set of halves in sync", page.in_sync != 0 && page.in_sync.get() & !all_of(members.min(16)) == 0),
        ("generation", generation > 0 && generation < u64::MAX),
        ("sequence", page.sequence.get() < u64::MAX && page.base.get() <= page.sequence.get()),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(LabelError::Range(what)))
}

#[cfg(test)]
mod tests;
