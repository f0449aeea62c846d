//! Files of key slots: what is taken is written back alike, and opens with no other passphrase. Each input is tried as
//! it is, and with a right checksum. Headers of LUKS2 are only read: what is taken has a place for data.

use esker_framing::superblock::reseal;
use esker_keyslots::luks2::Luks2;
use esker_keyslots::{Cost, FILE_BYTES, KeySlots, KeySlotsError};

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut random = |bytes: &mut [u8]| bytes.fill(5);
    let one = KeySlots::new(&[7; 64], b"one", Cost::tiny(), &mut random).expect("the key is sound");
    let mut two = one.clone();
    two.add(b"one", b"two", Cost::tiny(), &mut random).expect("a slot is free");
    vec![one.encode(), two.encode(), luks_header()]
}

/// A header without slots, and with a right checksum.
fn luks_header() -> Vec<u8> {
    const TEXT: &str = r#"{"keyslots":{},"tokens":{},"segments":{"0":{"type":"crypt","offset":"16384","size":"dynamic",
        "iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512}},"digests":{},
        "config":{"json_size":"1024","keyslots_size":"0"}}"#;
    let mut bytes = vec![0; 5 << 10];
    bytes[..8].copy_from_slice(b"LUKS\xba\xbe\0\x02");
    bytes[8..16].copy_from_slice(&(5u64 << 10).to_be_bytes());
    bytes[72..78].copy_from_slice(b"sha256");
    bytes[168..172].copy_from_slice(b"abcd");
    bytes[4096..4096 + TEXT.len()].copy_from_slice(TEXT.as_bytes());
    let sum = ring::digest::digest(&ring::digest::SHA256, &bytes);
    bytes[448..480].copy_from_slice(sum.as_ref());
    bytes
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let as_it_is = try_file(input)? | try_luks(input)?;
    let mut mended = input.to_vec();
    if let Some(file) = mended.get_mut(..FILE_BYTES) {
        reseal(file);
    }
    Ok(try_file(&mended)? || as_it_is)
}

fn try_luks(bytes: &[u8]) -> Result<bool, String> {
    match Luks2::read(bytes) {
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
        Ok(header) if header.sector.is_power_of_two() => Ok(true),
        Ok(header) => Err(format!("sectors of {} bytes", header.sector)),
    }
}

fn try_file(bytes: &[u8]) -> Result<bool, String> {
    match KeySlots::decode(bytes) {
        Err(error) if error.to_string().is_empty() => Err("refused without a reason".to_string()),
        Err(_) => Ok(false),
        Ok(slots) if KeySlots::decode(&slots.encode()) != Ok(slots.clone()) => {
            Err("it reads otherwise when it is written back".to_string())
        }
        // What a forged file asks for may be a lot: only cheap ones are opened.
        Ok(slots) if slots.cost_max_kib() > 1024 => Ok(true),
        Ok(slots) => match slots.open(b"three") {
            Err(KeySlotsError::Wrong | KeySlotsError::Cost(_)) => Ok(true),
            other => Err(format!("a passphrase that was never given opens it: {}", other.is_ok())),
        },
    }
}
