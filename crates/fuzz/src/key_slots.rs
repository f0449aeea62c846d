//! Files of key slots: what is taken is written back alike, and opens with no other passphrase. Each input is tried as
//! it is, and with a right checksum.

use esker_framing::superblock::reseal;
use esker_keyslots::{Cost, FILE_BYTES, KeySlots, KeySlotsError};

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut random = |bytes: &mut [u8]| bytes.fill(5);
    let one = KeySlots::new(&[7; 64], b"one", Cost::tiny(), &mut random).expect("the key is sound");
    let mut two = one.clone();
    two.add(b"one", b"two", Cost::tiny(), &mut random).expect("a slot is free");
    vec![one.encode(), two.encode()]
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let as_it_is = try_file(input)?;
    let mut mended = input.to_vec();
    if let Some(file) = mended.get_mut(..FILE_BYTES) {
        reseal(file);
    }
    Ok(try_file(&mended)? || as_it_is)
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
