use super::*;

const KEY: [u8; 64] = [7; 64];

/// Bytes that only tests take for random.
fn counting() -> impl FnMut(&mut [u8]) {
    let mut next = 0u8;
    move |bytes| {
        bytes.iter_mut().for_each(|byte| {
            next = next.wrapping_add(1);
            *byte = next;
        });
    }
}

fn slots(passphrases: &[&str]) -> KeySlots {
    let mut random = counting();
    let mut made = KeySlots::new(&KEY, passphrases[0].as_bytes(), Cost::tiny(), &mut random).unwrap();
    for other in &passphrases[1..] {
        made.add(passphrases[0].as_bytes(), other.as_bytes(), Cost::tiny(), &mut random).unwrap();
    }
    made
}

fn key_of(slots: &KeySlots, passphrase: &str) -> Result<Vec<u8>, KeySlotsError> {
    slots.open(passphrase.as_bytes()).map(|(_, key)| key.to_vec())
}

#[test]
fn each_passphrase_opens_the_same_key_and_no_other_does() {
    let made = slots(&["one", "two"]);
    let read = KeySlots::decode(&made.encode()).unwrap();
    assert_eq!(read, made);
    assert_eq!((key_of(&read, "one"), key_of(&read, "two")), (Ok(KEY.to_vec()), Ok(KEY.to_vec())));
    for wrong in ["", "One", "one ", "three"] {
        assert_eq!(key_of(&read, wrong), Err(KeySlotsError::Wrong), "{wrong}");
    }
    let short = KeySlots::new(&KEY[..32], b"one", Cost::tiny(), &mut counting()).unwrap();
    assert_eq!(key_of(&short, "one"), Ok(KEY[..32].to_vec()));
}

#[test]
fn passphrases_come_and_go_and_the_last_one_stays() {
    let mut made = slots(&["one"]);
    assert_eq!(made.remove(b"one"), Err(KeySlotsError::Last));
    assert_eq!(made.add(b"none", b"two", Cost::tiny(), &mut counting()), Err(KeySlotsError::Wrong));
    assert_eq!(made.add(b"one", b"one", Cost::tiny(), &mut counting()), Err(KeySlotsError::Known));
    assert_eq!(made.add(b"one", b"", Cost::tiny(), &mut counting()), Err(KeySlotsError::Empty));
    assert_eq!(made.add(b"one", b"two", Cost::tiny(), &mut counting()), Ok(1));
    assert_eq!(made.remove(b"one"), Ok(0));
    assert_eq!((key_of(&made, "one"), key_of(&made, "two")), (Err(KeySlotsError::Wrong), Ok(KEY.to_vec())));
    let names: Vec<String> = (0..SLOTS).map(|at| format!("p{at}")).collect();
    let mut full = slots(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(full.add(b"p0", b"more", Cost::tiny(), &mut counting()), Err(KeySlotsError::Full));
    assert_eq!(KeySlots::new(&[1; 48], b"p", Cost::tiny(), &mut counting()), Err(KeySlotsError::Length(48)));
}

#[test]
fn a_slot_that_was_moved_or_changed_does_not_open() {
    let made = slots(&["one", "two"]);
    let mut moved = made.clone();
    moved.slots.swap(0, 5);
    assert_eq!(key_of(&moved, "one"), Err(KeySlotsError::Wrong));
    let other = KeySlots { id: made.id + 1, ..made.clone() };
    assert_eq!(key_of(&other, "two"), Err(KeySlotsError::Wrong));
    let mut changed = made.clone();
    changed.slots[0].as_mut().unwrap().wrapped[3] ^= 1;
    assert_eq!((key_of(&changed, "one"), key_of(&changed, "two")), (Err(KeySlotsError::Wrong), Ok(KEY.to_vec())));
}

#[test]
fn golden_bytes_open_and_every_damaged_byte_is_found() {
    let golden = include_bytes!("../golden/key-slots-v1.bin");
    assert!(slots(&["one", "two"]).encode() == golden, "the format has changed: a new version, or a mistake");
    assert_eq!(key_of(&KeySlots::decode(golden).unwrap(), "two"), Ok(KEY.to_vec()));
    assert!(is_key_slots(golden) && !is_key_slots(&[0; 64]) && !is_key_slots(&KEY));
    for at in 0..golden.len() {
        let mut damaged = golden.to_vec();
        damaged[at] ^= 0x40;
        assert!(KeySlots::decode(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn the_header_keeps_the_promises_of_the_common_header() {
    esker_framing::conformance::check_single(&slots(&["one"]));
}

#[test]
fn numbers_that_no_esker_writes_are_refused_under_a_right_checksum() {
    let check = |change: fn(&mut [u8]), what: &str| {
        let mut forged = slots(&["one"]).encode();
        change(&mut forged);
        esker_framing::superblock::reseal(&mut forged);
        let error = KeySlots::decode(&forged).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    check(|bytes| bytes[HEADER] = 48, "length of the key");
    check(|bytes| bytes[HEADER + 8] = 2, "slot");
    check(|bytes| bytes[HEADER + 12..HEADER + 16].fill(0xff), "slot");
    check(|bytes| bytes[HEADER + 16] = 0, "slot");
    check(|bytes| bytes[HEADER + 8..].fill(0), "number of slots");
    check(|bytes| bytes[HEADER + 8 + 128 + 20] = 1, "slot");
}
