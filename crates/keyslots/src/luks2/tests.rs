use ring::digest::{SHA256, digest};
use serde_json::json;

use super::*;

/// A header as cryptsetup makes it, with `change` made to its JSON text and a right checksum; zeroes are its slots.
fn header(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let salt = "A".repeat(43) + "=";
    let mut json = json!({
        "keyslots": { "0": {
            "type": "luks2", "key_size": 64,
            "af": { "type": "luks1", "stripes": 4000, "hash": "sha256" },
            "area": { "type": "raw", "offset": "32768", "size": "258048", "encryption": CIPHER, "key_size": 64 },
            "kdf": { "type": "argon2id", "time": 1, "memory": 32, "cpus": 1, "salt": salt },
        } },
        "tokens": {},
        "segments": { "0": {
            "type": "crypt", "offset": "1048576", "size": "dynamic", "iv_tweak": "0", "encryption": CIPHER,
            "sector_size": 4096,
        } },
        "digests": { "0": {
            "type": "pbkdf2", "keyslots": ["0"], "segments": ["0"], "hash": "sha256", "iterations": 1000, "salt": salt,
            "digest": salt,
        } },
        "config": { "json_size": "12288", "keyslots_size": "262144" },
    });
    change(&mut json);
    let mut bytes = vec![0; 1 << 20];
    bytes[..6].copy_from_slice(MAGIC);
    bytes[7] = 2;
    bytes[8..16].copy_from_slice(&16384u64.to_be_bytes());
    bytes[72..78].copy_from_slice(b"sha256");
    bytes[168..172].copy_from_slice(b"abcd");
    let text = json.to_string();
    bytes[BINARY..BINARY + text.len()].copy_from_slice(text.as_bytes());
    sealed(bytes)
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[448..512].fill(0);
    let sum = digest(&SHA256, &bytes[..16384]);
    bytes[448..480].copy_from_slice(sum.as_ref());
    bytes
}

#[test]
fn a_header_tells_where_the_data_is_and_a_wrong_passphrase_opens_none_of_its_slots() {
    let mut read = Luks2::read(&header(|_| ())).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((read.start, read.sector), (1 << 20, 4096));
    assert_eq!(read.unlock(b"swordfish").unwrap_err(), Luks2Error::Wrong);
    assert_eq!(read.unlock(&[0xff]).unwrap_err(), Luks2Error::Text);
}

/// What is refused of a header in which `value` stands at a place.
fn refused(place: &str, value: impl Into<Value>, words: &str) {
    let value = value.into();
    let bytes = header(|json| {
        let (parent, key) = place.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap()[key] = value;
    });
    let error = Luks2::read(&bytes).err().unwrap_or_else(|| panic!("{place} was taken")).to_string();
    assert!(error.contains(words), "{place}: {error}");
}

#[test]
fn what_a_plain_reader_would_spoil_is_refused() {
    refused(
        "/config/requirements",
        json!({ "mandatory": ["online-reencrypt"] }),
        "the requirement \"online-reencrypt\"",
    );
    refused("/segments/1", json!({ "type": "linear" }), "2 segments");
    refused("/segments/0/integrity", json!({ "type": "hmac(sha256)" }), "checksums of sectors");
    refused("/segments/0/encryption", "aes-cbc-essiv:sha256", "the cipher \"aes-cbc-essiv:sha256\"");
    refused("/segments/0/iv_tweak", "8", "a first number of sectors");
    refused("/segments/0/size", "4096", "an end of the data");
    refused("/segments/0/sector_size", 8192, "its data has no place");
}

#[test]
fn sizes_and_costs_that_no_header_needs_are_refused_before_they_are_paid() {
    refused("/keyslots/0/kdf/memory", u32::MAX, "more memory or time");
    refused("/keyslots/0/kdf/time", 65, "more memory or time");
    refused("/keyslots/0/kdf/cpus", 0, "more memory or time");
    refused("/keyslots/0/area/size", "4096", "slot 0 is too short");
    refused("/keyslots/0/area/offset", "1048576", "ends inside");
    refused("/keyslots/0/area/offset", u64::MAX.to_string(), "slot 0 is too short");
    refused("/keyslots/0/key_size", 1 << 20, "no key of up to 64 bytes");
    refused("/digests/0/iterations", u32::MAX, "digest 0 asks for more time");
}

#[test]
fn what_is_no_header_says_so() {
    let good = header(|_| ());
    let check = |change: &dyn Fn(&mut Vec<u8>), words: &str| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let error = Luks2::read(&bytes).err().unwrap_or_else(|| panic!("{words}: it was taken")).to_string();
        assert!(error.contains(words), "{words}: {error}");
    };
    check(&|bytes| bytes[0] = 0, "no LUKS header");
    check(&|bytes| bytes[7] = 1, "version 1");
    check(&|bytes| bytes.truncate(7), "ends inside");
    check(&|bytes| bytes.truncate(9000), "ends inside");
    check(&|bytes| bytes.truncate(40000), "ends inside");
    check(&|bytes| bytes[8] = 1, "its size is out of range");
    check(&|bytes| bytes[PLACE_AT] = 1, "another place");
    check(&|bytes| bytes[BINARY] = b'?', "damaged");
    // A changed letter inside a text, which only the checksum shows.
    check(&|bytes| bytes[168] = b'b', "hecksum");
}
