//! Files with key slots, and the passphrases that open them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use esker_keyslots::luks2::{HEADER_MAX, Luks2, Luks2Error};
use esker_keyslots::{FILE_BYTES, KeySlots, KeySlotsError, first_line};
use esker_rt::Secret;
use esker_sys::secrecy::forbid_dumps;

use crate::failure::Failure;
use crate::secrets::{read_private, source};
use crate::target;

/// Why a file of key slots cannot be used.
#[derive(Debug, thiserror::Error)]
enum KeyFileError {
    #[error("{0} {1}")]
    Unread(String, String),
    #[error("{0}: {1}")]
    Refused(String, KeySlotsError),
    #[error("{0}: {1}")]
    Secret(String, std::io::Error),
    #[error("{0}: exists; choose another name, because a volume whose key goes is lost")]
    Exists(String),
    #[error("{0} {1}")]
    Luks(String, Luks2Error),
    #[error("the two passphrases differ; nothing was changed")]
    Differ,
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, others than its owner may use it, or it holds no key slots.
pub fn read(path: &str) -> Result<KeySlots, Failure> {
    let bytes = read_private(Path::new(path), FILE_BYTES as u64);
    let bytes = bytes.map_err(|why| KeyFileError::Unread(path.to_string(), why))?;
    KeySlots::decode(&bytes).map_err(|error| match error {
        KeySlotsError::File(why) => KeyFileError::Unread(path.to_string(), why.to_string()).into(),
        error => refused(path, error),
    })
}

/// Refuses a name that is taken.
///
/// # Errors
/// Something is there.
pub fn demand_new(path: &str) -> Result<(), Failure> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Err(KeyFileError::Exists(path.to_string()).into()),
        Err(_) => Ok(()),
    }
}

/// Writes a file, whole or not at all. Only its owner may use it.
///
/// # Errors
/// It is there already and `force` is not given, or what the system refuses.
pub fn write(path: &str, slots: &KeySlots, force: bool) -> Result<(), Failure> {
    target::write(path, force, |mut file| {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(&slots.encode())?;
        Ok(file.sync_all()?)
    })
}

/// What slots refuse about a file.
pub fn refused(path: &str, error: KeySlotsError) -> Failure {
    KeyFileError::Refused(path.to_string(), error).into()
}

/// The passphrase at a place, or one that a person types.
///
/// # Errors
/// The place has none, or there is no terminal.
pub fn passphrase(place: Option<&str>, prompt: &str) -> Result<Secret, Failure> {
    match place {
        Some(place) => Ok(Secret::new(first_line(secret(place)?.bytes()).to_vec())),
        None => Ok(Secret::new(rpassword::prompt_password(format!("{prompt}: "))?.into_bytes())),
    }
}

/// The same for a new one, which a person types twice.
///
/// # Errors
/// As for [`passphrase`], and two that differ.
pub fn new_passphrase(place: Option<&str>, prompt: &str) -> Result<Secret, Failure> {
    let typed = passphrase(place, prompt)?;
    match place.is_some() || passphrase(None, "The same again")?.bytes() == typed.bytes() {
        true => Ok(typed),
        false => Err(KeyFileError::Differ.into()),
    }
}

/// The key of a LUKS2 device.
pub struct LuksKey {
    /// The key.
    pub key: Secret,
    /// First byte of the data.
    pub start: u64,
    /// Bytes that are encrypted under one number.
    pub sector: u64,
}

/// The key that a device, or a backup of its header, holds for a passphrase.
///
/// # Errors
/// It cannot be read, has no header that is read here, or no slot that opens.
pub fn luks_key(path: &str, place: Option<&str>) -> Result<LuksKey, Failure> {
    let failed = |source| KeyFileError::Secret(path.to_string(), source);
    forbid_dumps().map_err(failed)?;
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(HEADER_MAX as u64).read_to_end(&mut start)).map_err(failed)?;
    let refused = |error| KeyFileError::Luks(path.to_string(), error);
    let mut header = Luks2::read(&start).map_err(refused)?;
    let passphrase = passphrase(place, "Passphrase of the LUKS device")?;
    let key = header.unlock(passphrase.bytes()).map_err(refused)?;
    Ok(LuksKey { key: Secret::new(key.to_vec()), start: header.start, sector: header.sector })
}

/// The secret at a place.
///
/// # Errors
/// There is none.
pub fn secret(place: &str) -> Result<Secret, Failure> {
    Ok(source()(place).map_err(|why| KeyFileError::Secret(place.to_string(), why))?)
}
