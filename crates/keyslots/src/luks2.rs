//! Headers of LUKS2, in which Linux keeps the key of an encrypted volume under passphrases. They are read and never
//! written. The crate `luks` derives the key and compares it with the digest of the header, so a key that is given is
//! right.
//!
//! What the crate takes on trust is examined here first: sizes, costs, and marks of what a plain reader would spoil.
//! It keeps copies of keys in memory that it does not wipe, so only a program that ends soon reads such a header.

use std::collections::BTreeMap;
use std::io::Cursor;

use luks::{KeySlotId, Luks2Keyslot, LuksDevice, LuksHeader, UnlockKey};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{MEMORY_KIB_MAX, PASSES_MAX};

/// Leading bytes of a device that hold a header with its key slots, whatever its options: 4 MiB twice, and 128 MiB.
pub const HEADER_MAX: usize = 136 << 20;
/// First bytes of a header, of all versions.
const MAGIC: &[u8] = b"LUKS\xba\xbe";
/// Where the size of a header and its place on the device stand.
const SIZE_AT: usize = 8;
const PLACE_AT: usize = 256;
/// Bytes before the JSON text, and most bytes of both.
const BINARY: usize = 4096;
const SIZE_MAX: usize = 4 << 20;
/// Most rounds of PBKDF2.
const ROUNDS_MAX: u64 = 1 << 28;
/// The only cipher.
const CIPHER: &str = "aes-xts-plain64";
/// Pieces in which a key slot keeps a key.
const STRIPES: u64 = 4000;

/// Why a header gives no key. Texts go on a sentence that begins with the device's name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Luks2Error {
    /// Something else.
    #[error("begins with no LUKS header")]
    Absent,
    /// Version 1, or one after 2.
    #[error("has a LUKS header of version {0}; version 2 is read, and `cryptsetup convert --type luks2` makes it of 1")]
    Version(u16),
    /// The bytes end before the header.
    #[error("ends inside its LUKS header")]
    Cut,
    /// Not what a header can be.
    #[error("has a damaged LUKS header: {0}; `cryptsetup repair` may mend it")]
    Damaged(String),
    /// What this program does not read.
    #[error("has a LUKS header with {0}, which is not read; open the device with `cryptsetup open`")]
    Unsupported(String),
    /// A passphrase that is no text.
    #[error("has a LUKS header, whose passphrases are read as UTF-8 alone")]
    Text,
    /// None of the slots opens.
    #[error("has no LUKS key slot that opens with this passphrase")]
    Wrong,
}

/// A header that was examined.
pub struct Luks2 {
    device: LuksDevice,
    /// First byte of the data.
    pub start: u64,
    /// Bytes that are encrypted under one number.
    pub sector: u64,
}

impl Luks2 {
    /// Whether a device begins with a header, of any version.
    pub fn is_marked(start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }

    /// Examines the leading bytes of a device.
    ///
    /// # Errors
    /// [`Luks2Error`].
    pub fn read(bytes: &[u8]) -> Result<Luks2, Luks2Error> {
        if !Luks2::is_marked(bytes) {
            return Err(Luks2Error::Absent);
        }
        let number =
            |at: usize| bytes.get(at..at + 8).map(|word| u64::from_be_bytes(word.try_into().expect("8 bytes")));
        match bytes.get(6..8).ok_or(Luks2Error::Cut)? {
            [0, 2] => {}
            version => return Err(Luks2Error::Version(u16::from_be_bytes(version.try_into().expect("2 bytes")))),
        }
        let damaged = |what: &str| Luks2Error::Damaged(what.to_string());
        let size = number(SIZE_AT).ok_or(Luks2Error::Cut)?;
        let size = usize::try_from(size).ok().filter(|size| (BINARY + 1..=SIZE_MAX).contains(size));
        let size = size.ok_or_else(|| damaged("its size is out of range"))?;
        let json = bytes.get(BINARY..size).ok_or(Luks2Error::Cut)?;
        if number(PLACE_AT) != Some(0) {
            return Err(damaged("it belongs to another place of a device"));
        }
        let text = json.split(|byte| *byte == 0).next().unwrap_or_default();
        let json: Value = serde_json::from_slice(text).map_err(|error| Luks2Error::Damaged(error.to_string()))?;
        let (start, sector) = segment(&json)?;
        slots(&json, bytes.len() as u64)?;
        let device = LuksHeader::open(Cursor::new(bytes)).map_err(|error| Luks2Error::Damaged(error.to_string()))?;
        Ok(Luks2 { device, start, sector })
    }

    /// The key of the data.
    ///
    /// # Errors
    /// [`Luks2Error`].
    pub fn unlock(&mut self, passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, Luks2Error> {
        let passphrase = std::str::from_utf8(passphrase).map_err(|_| Luks2Error::Text)?;
        let LuksHeader::V2(header) = &self.device.header else { return Err(Luks2Error::Absent) };
        let is_key = |slot: &Luks2Keyslot| matches!(slot, Luks2Keyslot::Luks2 { .. });
        let slots = header.metadata.keyslots.iter().filter(|(_, slot)| is_key(slot));
        let slots: BTreeMap<String, KeySlotId> = slots.map(|(id, _)| (id.to_string(), id.clone())).collect();
        for id in slots.values() {
            let key = UnlockKey::from_passphrase(passphrase.to_string());
            // A slot of another passphrase, or one with a hash that the crate lacks: another one may open.
            if self.device.unlock(id, &key).is_ok() {
                let key = self.device.unlocked_key.take().expect("it was unlocked");
                return Ok(Zeroizing::new(key.expose_bytes().to_vec()));
            }
        }
        Err(Luks2Error::Wrong)
    }
}

fn unsupported(what: impl Into<String>) -> Luks2Error {
    Luks2Error::Unsupported(what.into())
}

/// A number that the format keeps as text.
fn in_text(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

/// Where the data begins, and its sectors: if all of it is encrypted in the one way that is read.
fn segment(json: &Value) -> Result<(u64, u64), Luks2Error> {
    let needs = &json["config"]["requirements"]["mandatory"];
    if let Some(need) = needs.as_array().and_then(|all| all.first()) {
        return Err(unsupported(format!("the requirement {need}")));
    }
    let segments: Vec<&Value> = json["segments"].as_object().into_iter().flat_map(|all| all.values()).collect();
    let [one] = segments[..] else { return Err(unsupported(format!("{} segments", segments.len()))) };
    let cipher = one["encryption"].as_str().unwrap_or_default();
    match () {
        () if !one["integrity"].is_null() => Err(unsupported("checksums of sectors (integrity)")),
        () if one["type"] != "crypt" || cipher != CIPHER => Err(unsupported(format!("the cipher \"{cipher}\""))),
        () if in_text(&one["iv_tweak"]) != Some(0) => Err(unsupported("a first number of sectors")),
        () if one["size"] != "dynamic" => Err(unsupported("an end of the data before that of the device")),
        () => {
            let (start, sector) = (in_text(&one["offset"]), one["sector_size"].as_u64());
            let sector = sector.filter(|sector| sector.is_power_of_two() && (512..=4096).contains(sector));
            start.zip(sector).ok_or_else(|| Luks2Error::Damaged("its data has no place".to_string()))
        }
    }
}

/// Refuses slots that are not inside `bytes`, or that cost more than a key may.
fn slots(json: &Value, bytes: u64) -> Result<(), Luks2Error> {
    for (id, slot) in json["keyslots"].as_object().into_iter().flatten() {
        let (area, kdf) = (&slot["area"], &slot["kdf"]);
        let damaged = |what: &str| Luks2Error::Damaged(format!("slot {id} {what}"));
        let (start, len) =
            in_text(&area["offset"]).zip(in_text(&area["size"])).ok_or_else(|| damaged("has no place"))?;
        let key = slot["key_size"]
            .as_u64()
            .filter(|key| *key <= 64)
            .ok_or_else(|| damaged("has no key of up to 64 bytes"))?;
        let end = start.checked_add(len).filter(|_| len >= key * STRIPES).ok_or_else(|| damaged("is too short"))?;
        let cost = |key: &str, most: u64| kdf[key].as_u64().is_none_or(|cost| (1..=most).contains(&cost));
        let lanes = kdf["cpus"].as_u64().unwrap_or(1);
        let is_cheap =
            cost("memory", MEMORY_KIB_MAX.into()) && cost("time", PASSES_MAX.into()) && cost("iterations", ROUNDS_MAX);
        if end > bytes {
            return Err(Luks2Error::Cut);
        }
        if !is_cheap || !(1..=64).contains(&lanes) {
            return Err(damaged("asks for more memory or time than a key may"));
        }
    }
    for (id, digest) in json["digests"].as_object().into_iter().flatten() {
        if !digest["iterations"].as_u64().is_none_or(|rounds| (1..=ROUNDS_MAX).contains(&rounds)) {
            return Err(Luks2Error::Damaged(format!("digest {id} asks for more time than a key may")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
