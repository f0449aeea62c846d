//! Key slots: a file that holds the key of an encrypted volume, wrapped under passphrases. Each slot opens with one
//! passphrase, so passphrases come and go while the key and the data stay. Byte rows and trust:
//! `docs/reference/formats/key-slots.md`.
//!
//! A passphrase becomes a key by Argon2id, whose cost stands in the slot. That key wraps the volume's key by
//! AES-256-GCM, so a wrong passphrase and a damaged slot are told from the right one.
//!
//! Invariant: opens no file; no text of it holds a part of a key. Keys leave in memory that is wiped when it is
//! dropped.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod luks2;

use std::ops::RangeInclusive;

use argon2::{Algorithm, Argon2, Params, Version};
use esker_framing::{Features, HEADER, Header, Newest, Superblock, SuperblockError, seal, unseal};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};
use zeroize::Zeroizing;

/// Slots of a file.
pub const SLOTS: usize = 8;
/// Bytes of a file.
pub const FILE_BYTES: usize = HEADER + size_of::<RawBody>();
const SALT: usize = 32;
const KEY_MAX: usize = 64;
const TAG: usize = 16;

/// What opening a slot costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// KiB of memory.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl Cost {
    /// About a second: 256 MiB and four passes.
    pub const PRODUCTION: Cost = Cost { memory_kib: 256 << 10, passes: 4 };

    /// For tests.
    pub fn tiny() -> Cost {
        Cost { memory_kib: 8, passes: 1 }
    }
}

/// Most memory that a file may ask for, in KiB, and most passes: a forged file must not take the machine.
const MEMORY_KIB_MAX: u32 = 4 << 20;
const PASSES_MAX: u32 = 64;

/// One passphrase.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Slot {
    cost: Cost,
    salt: [u8; SALT],
    /// The volume's key and a tag, filled up with zeroes.
    wrapped: [u8; KEY_MAX + TAG],
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySlots {
    /// Drawn when the file was made.
    id: u128,
    key_len: usize,
    slots: [Option<Slot>; SLOTS],
}

/// Why key slots cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeySlotsError {
    /// Not such a file, or a damaged one. The text goes on a sentence that begins with its name.
    #[error("{0}")]
    File(#[from] SuperblockError),
    /// A key of another length.
    #[error("a key has 32 or 64 bytes; this has {0}")]
    Length(usize),
    /// No slot opens.
    #[error("no slot opens with this passphrase")]
    Wrong,
    /// All slots are taken.
    #[error("all {SLOTS} slots are taken; remove a passphrase first")]
    Full,
    /// It would open with nothing any more.
    #[error("this is the last passphrase, without which the data is lost; add another one first")]
    Last,
    /// The passphrase opens a slot already.
    #[error("this passphrase opens a slot already")]
    Known,
    /// Nothing was typed.
    #[error("a passphrase is not empty")]
    Empty,
    /// Memory for the derivation.
    #[error("the passphrase cannot be derived: there is no memory of {0} KiB for it, or its cost is out of range")]
    Cost(u32),
}

/// The key of a volume.
pub type Key = Zeroizing<Vec<u8>>;

/// Fills bytes with random ones.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct RawSlot {
    used: U32,
    memory_kib: U32,
    passes: U32,
    lanes: U32,
    salt: [u8; SALT],
    wrapped: [u8; KEY_MAX + TAG],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawBody {
    key_len: U16,
    reserved: [u8; 6],
    slots: [RawSlot; SLOTS],
}

impl Superblock for KeySlots {
    const MAGIC: [u8; 8] = *b"\x89EskKey\n";
    const VERSION: u16 = 1;
    const NAME: &'static str = "key slots";
    const LENGTHS: RangeInclusive<usize> = FILE_BYTES..=FILE_BYTES;

    fn header(&self) -> Header {
        Header { id: self.id, generation: 0, features: Features::NONE }
    }

    fn encode_body(&self) -> Vec<u8> {
        let raw = |slot: &Option<Slot>| match slot {
            None => RawSlot::new_zeroed(),
            Some(Slot { cost, salt, wrapped }) => RawSlot {
                used: 1.into(),
                memory_kib: cost.memory_kib.into(),
                passes: cost.passes.into(),
                lanes: 1.into(),
                salt: *salt,
                wrapped: *wrapped,
            },
        };
        let slots = std::array::from_fn(|at| raw(&self.slots[at]));
        let key_len = u16::try_from(self.key_len).expect("a key has 64 bytes at most");
        RawBody { key_len: key_len.into(), reserved: [0; 6], slots }.as_bytes().to_vec()
    }

    fn decode_body(header: &Header, body: &[u8]) -> Result<KeySlots, &'static str> {
        let raw = RawBody::ref_from_bytes(body).map_err(|_| "length")?;
        let key_len = usize::from(raw.key_len.get());
        if header.generation != 0 || raw.reserved != [0; 6] || !matches!(key_len, 32 | 64) {
            return Err("length of the key");
        }
        let mut slots = [const { None }; SLOTS];
        for (slot, raw) in slots.iter_mut().zip(&raw.slots) {
            let cost = Cost { memory_kib: raw.memory_kib.get(), passes: raw.passes.get() };
            let is_payable = (8..=MEMORY_KIB_MAX).contains(&cost.memory_kib) && (1..=PASSES_MAX).contains(&cost.passes);
            *slot = match raw.used.get() {
                0 if raw.as_bytes().iter().all(|byte| *byte == 0) => None,
                1 if is_payable && raw.lanes.get() == 1 => Some(Slot { cost, salt: raw.salt, wrapped: raw.wrapped }),
                _ => return Err("slot"),
            };
        }
        match slots.iter().any(Option::is_some) {
            true => Ok(KeySlots { id: header.id, key_len, slots }),
            false => Err("number of slots"),
        }
    }
}

/// The passphrase in bytes of a file: an editor ends its line.
pub fn first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Whether bytes are those of key slots, sound or damaged.
pub fn is_key_slots(bytes: &[u8]) -> bool {
    !unseal::<KeySlots>(bytes).is_err_and(|error| error.is_unmarked())
}

impl KeySlots {
    /// Slots for a key, of which the first opens with `passphrase`.
    ///
    /// # Errors
    /// [`KeySlotsError`].
    pub fn new(key: &[u8], passphrase: &[u8], cost: Cost, random: Random<'_>) -> Result<KeySlots, KeySlotsError> {
        if !matches!(key.len(), 32 | 64) {
            return Err(KeySlotsError::Length(key.len()));
        }
        let mut id = [0; 16];
        random(&mut id);
        let mut made = KeySlots { id: u128::from_le_bytes(id), key_len: key.len(), slots: [const { None }; SLOTS] };
        made.put(0, key, passphrase, cost, random)?;
        Ok(made)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`KeySlotsError::File`].
    pub fn decode(bytes: &[u8]) -> Result<KeySlots, KeySlotsError> {
        Ok(unseal(bytes).and_then(Newest::writable)?)
    }

    /// The bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        seal(self)
    }

    /// KiB of memory that opening it takes at most.
    pub fn cost_max_kib(&self) -> u32 {
        self.slots.iter().flatten().map(|slot| slot.cost.memory_kib).max().unwrap_or_default()
    }

    /// Numbers of the slots that are taken.
    pub fn taken(&self) -> Vec<usize> {
        (0..SLOTS).filter(|at| self.slots[*at].is_some()).collect()
    }

    /// The slot that opens with a passphrase, and the key.
    ///
    /// # Errors
    /// [`KeySlotsError::Wrong`], [`KeySlotsError::Cost`].
    pub fn open(&self, passphrase: &[u8]) -> Result<(usize, Key), KeySlotsError> {
        for at in self.taken() {
            let slot = self.slots[at].as_ref().expect("it is taken");
            let mut bytes = Zeroizing::new(slot.wrapped[..self.key_len + TAG].to_vec());
            let cipher = slot.cipher(passphrase)?;
            if let Ok(key) = cipher.open_in_place(nonce(), self.bound_to(at, slot), &mut bytes) {
                return Ok((at, Zeroizing::new(key.to_vec())));
            }
        }
        Err(KeySlotsError::Wrong)
    }

    /// Takes a free slot for another passphrase: its number.
    ///
    /// # Errors
    /// [`KeySlotsError`].
    pub fn add(
        &mut self,
        passphrase: &[u8],
        another: &[u8],
        cost: Cost,
        random: Random<'_>,
    ) -> Result<usize, KeySlotsError> {
        let (_, key) = self.open(passphrase)?;
        match self.open(another) {
            Ok(_) => return Err(KeySlotsError::Known),
            Err(KeySlotsError::Wrong) => {}
            Err(error) => return Err(error),
        }
        let at = self.slots.iter().position(Option::is_none).ok_or(KeySlotsError::Full)?;
        self.put(at, &key, another, cost, random)?;
        Ok(at)
    }

    /// Clears the slot that opens with a passphrase: its number.
    ///
    /// # Errors
    /// [`KeySlotsError`].
    pub fn remove(&mut self, passphrase: &[u8]) -> Result<usize, KeySlotsError> {
        let (at, _) = self.open(passphrase)?;
        if self.taken().len() == 1 {
            return Err(KeySlotsError::Last);
        }
        self.slots[at] = None;
        Ok(at)
    }

    fn put(
        &mut self,
        at: usize,
        key: &[u8],
        passphrase: &[u8],
        cost: Cost,
        random: Random<'_>,
    ) -> Result<(), KeySlotsError> {
        if passphrase.is_empty() {
            return Err(KeySlotsError::Empty);
        }
        let mut slot = Slot { cost, salt: [0; SALT], wrapped: [0; KEY_MAX + TAG] };
        random(&mut slot.salt);
        let mut bytes = Zeroizing::new(key.to_vec());
        let cipher = slot.cipher(passphrase)?;
        let tag = cipher.seal_in_place_separate_tag(nonce(), self.bound_to(at, &slot), &mut bytes);
        slot.wrapped[..key.len()].copy_from_slice(&bytes);
        slot.wrapped[key.len()..key.len() + TAG].copy_from_slice(tag.expect("a key is short").as_ref());
        self.slots[at] = Some(slot);
        Ok(())
    }

    /// What a wrapped key is bound to: it opens in its own file, slot and cost alone.
    fn bound_to(&self, at: usize, slot: &Slot) -> Aad<Vec<u8>> {
        let numbers = [at as u32, slot.cost.memory_kib, slot.cost.passes, self.key_len as u32];
        Aad::from(self.id.to_le_bytes().into_iter().chain(numbers.into_iter().flat_map(u32::to_le_bytes)).collect())
    }
}

/// Each salt makes another key, which wraps one message: its nonce may be the same.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

impl Slot {
    /// The cipher that a passphrase makes.
    fn cipher(&self, passphrase: &[u8]) -> Result<LessSafeKey, KeySlotsError> {
        let Cost { memory_kib, passes } = self.cost;
        let mut key = Zeroizing::new([0; 32]);
        let params = Params::new(memory_kib, passes, 1, Some(key.len())).ok();
        let derived = params.and_then(|params| {
            let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            argon2.hash_password_into(passphrase, &self.salt, &mut *key).ok()
        });
        derived.ok_or(KeySlotsError::Cost(memory_kib))?;
        Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("the key has its length")))
    }
}

#[cfg(test)]
mod tests;
