//! The superblock of each member: which set it belongs to, which members are in sync, and where members may differ.
//!
//! It has the common header, whose generation is called the sequence here. A superblock is written whole, with force
//! unit access, to all members that take writes. Byte rows and trust: see the format's page. Invariants: `in_sync` is
//! never empty; a bit stands as long as members may differ in its region.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::ops::RangeInclusive;

use esker_base::{Bits, digest::mix};
use esker_framing::{Features, Header, Newest, SuperblockError, newest, seal, slot, slots, unseal};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a superblock.
pub const PAGE: usize = esker_framing::SLOT;
/// First byte of data, behind the two slots.
pub const DATA_START: u64 = 2 * PAGE as u64;
/// Members of a mirror at most.
pub const MEMBERS_MAX: usize = 16;
/// Regions at most.
pub const REGIONS_MAX: u64 = 8 * BITS_BYTES as u64;

/// Generations whose lineage a superblock knows.
const PAST: usize = 64;
const BITS_BYTES: usize = 3472;

/// The bytes behind the common header. All that the first superblock of a set says lies in the first 512 bytes, which a
/// power cut leaves whole: a member on which it was torn is blank.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Body {
    data: U64,
    region: U64,
    generation: U64,
    base: U64,
    member: U16,
    members: U16,
    in_sync: U16,
    detached: U16,
    reserved: [u8; 8],
    past: [U64; PAST],
    bits: [u8; BITS_BYTES],
}

/// What a superblock says. All members that take part have equal ones, but for their own number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The set, drawn when it was made.
    pub set: u128,
    /// Numbers of members that were given out: those below it.
    pub members: u16,
    /// Bit `i`: member `i` was detached, and its number is free.
    pub detached: u16,
    /// Bytes of data.
    pub data: u64,
    /// Bytes of a region: one bit stands for as many.
    pub region: u64,
    /// Rises with each change of `in_sync`.
    pub generation: u64,
    /// `dirty` covers all changes since the superblock of this sequence: a member whose superblock is as new needs only
    /// those regions.
    pub base: u64,
    /// Rises with each superblock.
    pub sequence: u64,
    /// Bit `i`: member `i` holds all that was acknowledged.
    pub in_sync: u16,
    /// A word for each of the last generations, made of all before it: tells ancestors from strangers.
    pub(crate) past: [u64; PAST],
    /// Regions in which members may differ.
    pub dirty: Bits,
}

impl Superblock {
    /// The first superblock of a set of `members` members, all of which are in sync.
    pub fn new(set: u128, members: u16, data: u64, region: u64) -> Superblock {
        let regions = data.div_ceil(region);
        debug_assert!(regions <= REGIONS_MAX && usize::from(members) <= MEMBERS_MAX, "checked by the builder");
        let in_sync = all_of(members);
        let mut past = [0; PAST];
        let [low, high] = zerocopy::transmute!(set.to_le_bytes());
        past[1] = mix(u64::from_le_bytes(low) ^ mix(u64::from_le_bytes(high)));
        let dirty = Bits::new(count(regions));
        Superblock {
            set,
            members,
            detached: 0,
            data,
            region,
            generation: 1,
            base: 0,
            sequence: 0,
            in_sync,
            past,
            dirty,
        }
    }

    /// Whether member `member` holds all that was acknowledged.
    pub fn has(&self, member: usize) -> bool {
        self.in_sync >> member & 1 != 0
    }

    /// Changes which members are in sync: a new generation. `sequence` must be that of the last superblock that all
    /// members got.
    pub fn change(&mut self, in_sync: u16) {
        debug_assert!(in_sync != 0, "a member holds the data");
        let everyone = self.all();
        let word = mix(self.past[place_of(self.generation)] ^ mix(u64::from(in_sync) << 32 | self.sequence));
        if self.in_sync == everyone {
            self.base = self.sequence;
        }
        self.generation += 1;
        self.in_sync = in_sync;
        self.past[place_of(self.generation)] = word;
    }

    /// All members of the set.
    pub fn all(&self) -> u16 {
        all_of(self.members) & !self.detached
    }

    /// The number that the next member gets, if `taken` have members already; none if there are too many members.
    pub fn free(&self, taken: u16) -> Option<u16> {
        (0..u16::MAX).take(MEMBERS_MAX).find(|number| taken >> number & 1 == 0)
    }

    /// Member `number` belongs to the set from now on, and holds nothing yet: a new generation.
    pub fn attach(&mut self, number: u16) {
        self.change(self.in_sync);
        self.members = self.members.max(number + 1);
        self.detached &= !(1 << number);
        self.dirty.set_all();
    }

    /// Member `number`, which is not in sync, belongs to the set no more: a new generation.
    pub fn detach(&mut self, number: u16) {
        debug_assert!(!self.has(usize::from(number)), "a member in sync is taken out of use first");
        self.change(self.in_sync);
        self.detached |= 1 << number;
    }

    /// How this superblock stands to a later one of the same set.
    pub fn is_ancestor_of(&self, later: &Superblock) -> bool {
        let at = place_of(self.generation);
        let is_known = later.generation - self.generation < PAST as u64;
        // What is too old to be known is no stranger for certain, and is copied anew as a whole.
        !is_known || self.past[at] == later.past[at]
    }

    /// The bytes of member `member`'s superblock.
    pub fn encode(&self, member: u16) -> Vec<u8> {
        seal(&OnMember { superblock: self.clone(), member })
    }

    /// First byte of the slot that this superblock goes to.
    pub fn at(&self) -> u64 {
        (slot(self.sequence) * PAGE) as u64
    }

    /// Reads one slot: the superblock and the number of the member on which it lies.
    ///
    /// # Errors
    /// [`SuperblockError`].
    pub fn decode(bytes: &[u8]) -> Result<(Superblock, u16), SuperblockError> {
        unseal(bytes).and_then(OnMember::opened)
    }

    /// The superblock of a member, and the number of that member, given its first 8 KiB.
    ///
    /// # Errors
    /// [`SuperblockError`]. A damaged slot counts only where the other one does not help.
    pub fn newest(start: &[u8]) -> Result<(Superblock, u16), SuperblockError> {
        newest(&[slots(start)]).and_then(OnMember::opened)
    }

    /// Whether no superblock but the first one was ever written to all members, so that no write was answered yet.
    pub fn is_first(&self) -> bool {
        self.sequence <= 1
    }
}

/// The set of the first `members` members.
pub fn all_of(members: u16) -> u16 {
    1u16.checked_shl(u32::from(members)).map_or(u16::MAX, |above| above - 1)
}

/// Where the word of a generation lies among the last ones.
fn place_of(generation: u64) -> usize {
    count(generation % PAST as u64)
}

/// A number of things that memory holds.
fn count(number: u64) -> usize {
    usize::try_from(number).expect("esker needs addresses of 64 bits")
}

/// A superblock as it lies on one member.
#[derive(PartialEq, Eq, Debug)]
struct OnMember {
    superblock: Superblock,
    member: u16,
}

/// Magic and version of superblocks.
pub const FORMAT: ([u8; 8], u16) = <OnMember as esker_framing::Superblock>::FORMAT;

impl OnMember {
    fn opened(found: Newest<OnMember>) -> Result<(Superblock, u16), SuperblockError> {
        found.writable().map(|found| (found.superblock, found.member))
    }
}

impl esker_framing::Superblock for OnMember {
    const MAGIC: [u8; 8] = esker_layer_kit::media::MIRROR;
    const VERSION: u16 = 2;
    /// The superblocks of the other members have higher sequences.
    const DETECTS_STALE: bool = true;
    const NAME: &'static str = "a mirror";
    const LENGTHS: RangeInclusive<usize> = PAGE..=PAGE;

    fn header(&self) -> Header {
        Header { id: self.superblock.set, generation: self.superblock.sequence, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let Superblock { members, detached, data, region, generation, base, in_sync, past, dirty, .. } =
            &self.superblock;
        let mut body = Body {
            data: (*data).into(),
            region: (*region).into(),
            generation: (*generation).into(),
            base: (*base).into(),
            member: self.member.into(),
            members: (*members).into(),
            in_sync: (*in_sync).into(),
            detached: (*detached).into(),
            reserved: [0; 8],
            past: past.map(U64::new),
            bits: [0; BITS_BYTES],
        };
        dirty.write(&mut body.bits);
        body.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<OnMember, &'static str> {
        let body = Body::read_from_bytes(body).map_err(|_| "length")?;
        check(header, &body)?;
        let superblock = Superblock {
            set: header.id,
            members: body.members.get(),
            detached: body.detached.get(),
            data: body.data.get(),
            region: body.region.get(),
            generation: body.generation.get(),
            base: body.base.get(),
            sequence: header.generation,
            in_sync: body.in_sync.get(),
            past: body.past.map(U64::get),
            dirty: Bits::read(&body.bits, count(body.data.get().div_ceil(body.region.get()))),
        };
        Ok(OnMember { superblock, member: body.member.get() })
    }
}

/// The first rule that does not hold.
fn check(header: &Header, body: &Body) -> Result<(), &'static str> {
    let (members, region, data) = (body.members.get(), body.region.get(), body.data.get());
    let (generation, detached) = (body.generation.get(), body.detached.get());
    let rules = [
        ("number of members", (1..=MEMBERS_MAX).contains(&usize::from(members))),
        ("own number", body.member < body.members && detached >> body.member.get() & 1 == 0),
        ("set of detached members", detached & !all_of(members.min(16)) == 0),
        ("region", region.is_power_of_two()),
        ("size", data > 0 && data.checked_add(DATA_START).is_some() && data.div_ceil(region.max(1)) <= REGIONS_MAX),
        (
            "set of members in sync",
            body.in_sync != 0 && body.in_sync.get() & (detached | !all_of(members.min(16))) == 0,
        ),
        ("generation", generation > 0 && generation < u64::MAX),
        ("sequence", header.generation < u64::MAX && body.base.get() <= header.generation),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(what, _)| Err(*what))
}

#[cfg(test)]
mod tests;
