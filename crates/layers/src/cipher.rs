//! AES-XTS (IEEE 1619) over sectors: the keys of [`crate::crypt`] and what they do to bytes.

use aes::cipher::{Array, KeyInit};
use aes::{Aes128, Aes256};
use esker_rt::Secret;
use esker_sys::key_memory::{KeyBox, wipe_stack};
use xts_mode::{Xts128, get_tweak_default};
use zeroize::Zeroizing;

/// A sector number that no device reaches: what it encrypts to tells keys apart.
const FINGERPRINT_SECTOR: u128 = u128::MAX;

/// Why bytes are no key. Never holds a part of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// Another length.
    #[error(
        "a key has 32 or 64 bytes (AES-128 or AES-256 in XTS mode), as they are or as hexadecimal digits; this has {0} bytes"
    )]
    Length(usize),
    /// The halves are equal, which breaks the mode (FIPS 140-2 IG A.9).
    #[error("the two halves of an XTS key must differ; make a new key")]
    EqualHalves,
}

/// A key that is ready for use. The schedules of the keys are in memory for keys, and wiped when it is dropped.
pub enum Cipher {
    /// 32 bytes of key.
    Aes128(KeyBox<Xts128<Aes128>>),
    /// 64 bytes of key.
    Aes256(KeyBox<Xts128<Aes256>>),
}

impl Cipher {
    /// Reads a key: 64 or 128 hexadecimal digits, which white space may follow, or 32 or 64 bytes.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn read(secret: &Secret) -> Result<Cipher, KeyError> {
        let read = Cipher::schedule(secret);
        wipe_stack();
        read
    }

    #[inline(never)]
    fn schedule(secret: &Secret) -> Result<Cipher, KeyError> {
        let key = key_bytes(secret);
        let (data, tweak) = key.split_at(key.len() / 2);
        match key.len() {
            32 | 64 if data == tweak => Err(KeyError::EqualHalves),
            32 => Ok(Cipher::Aes128(KeyBox::new(Xts128::new(cipher(data), cipher(tweak))))),
            64 => Ok(Cipher::Aes256(KeyBox::new(Xts128::new(cipher(data), cipher(tweak))))),
            other => Err(KeyError::Length(other)),
        }
    }

    /// Encrypts whole sectors of `sector` bytes in place; `first` is the number of the first, which is its tweak.
    #[inline(never)]
    pub fn encrypt(&self, bytes: &mut [u8], sector: usize, first: u128) {
        match self {
            Cipher::Aes128(xts) => xts.encrypt_area(bytes, sector, first, get_tweak_default),
            Cipher::Aes256(xts) => xts.encrypt_area(bytes, sector, first, get_tweak_default),
        }
    }

    /// Undoes [`Cipher::encrypt`].
    #[inline(never)]
    pub fn decrypt(&self, bytes: &mut [u8], sector: usize, first: u128) {
        match self {
            Cipher::Aes128(xts) => xts.decrypt_area(bytes, sector, first, get_tweak_default),
            Cipher::Aes256(xts) => xts.decrypt_area(bytes, sector, first, get_tweak_default),
        }
    }

    /// Eight digits that tell this key from others and say nothing else about it.
    pub fn fingerprint(&self) -> String {
        let mut block = [0; 16];
        self.encrypt(&mut block, 16, FINGERPRINT_SECTOR);
        wipe_stack();
        block[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The bytes of a key that may be written as hexadecimal digits.
pub fn key_bytes(secret: &Secret) -> Zeroizing<Vec<u8>> {
    let bytes = secret.bytes();
    from_hex(bytes.trim_ascii_end()).unwrap_or_else(|| Zeroizing::new(bytes.to_vec()))
}

fn cipher<C: KeyInit>(key: &[u8]) -> C {
    C::new(&Array::try_from(key).expect("the length was looked at"))
}

/// The bytes of 64 or 128 hexadecimal digits.
fn from_hex(digits: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if ![64, 128].contains(&digits.len()) {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(&pair[0])? * 16 + digit(&pair[1])?) as u8);
    // Of the right size at once: a vector that grows leaves its bytes behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.chunks_exact(2) {
        bytes.push(byte(pair)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(bytes: &[u8]) -> Secret {
        Secret::new(bytes.to_vec())
    }

    fn refused(bytes: &[u8]) -> KeyError {
        Cipher::read(&secret(bytes)).err().expect("no key")
    }

    /// IEEE 1619-2007, annex B, vector 2.
    #[test]
    fn encrypts_as_the_standard_says() {
        let key = [[0x11; 16], [0x22; 16]].concat();
        let mut bytes = [0x44; 32];
        Cipher::read(&secret(&key)).unwrap().encrypt(&mut bytes, 32, 0x3333333333);
        let expected = "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0";
        assert_eq!(bytes.to_vec(), *from_hex(expected.as_bytes()).unwrap());
    }

    #[test]
    fn digits_and_bytes_are_one_key_and_each_key_has_its_fingerprint() {
        let key: Vec<u8> = (0..64).collect();
        let digits: String = key.iter().map(|byte| format!("{byte:02X}")).collect();
        let value = |bytes: &[u8]| Cipher::read(&secret(bytes)).unwrap().fingerprint();
        assert_eq!(value(&key), value(format!("{digits}\n").as_bytes()));
        assert_ne!(value(&key), value(&key[..32]));
        assert_eq!(value(&key).len(), 8);
    }

    #[test]
    fn what_is_no_key_is_refused_without_showing_it() {
        assert_eq!(refused(b"swordfish"), KeyError::Length(9));
        assert_eq!(refused(&[7; 64]), KeyError::EqualHalves);
        assert_eq!(refused(b""), KeyError::Length(0));
        assert!(!KeyError::Length(9).to_string().contains("swordfish"));
    }
}
