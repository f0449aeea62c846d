use std::os::unix::fs::FileExt;
use std::rc::Rc;

use esker_rt::Secret;
use esker_rt::sim::{Sim, SimConfig};

use super::Crypt;
use crate::cipher::Cipher;
use crate::testing::{check_conforms, check_refused, open, read, run, try_open, write};
use esker_block::Bio;
use esker_keyslots::{Cost, KeySlots};

const KEY: &str = "key=file:k";

#[test]
fn a_crypt_conforms_with_sectors_of_both_sizes() {
    check_conforms(&format!("vol = memory size=256KiB defer=always | crypt {KEY}"));
    check_conforms(&format!("vol = memory size=256KiB block=4096 | crypt {KEY} sector=4KiB"));
    check_conforms(&format!("vol = memory size=256KiB block=4096 | crypt {KEY} | align | emulate"));
    // A read over several devices comes back in pieces.
    check_conforms(&format!(
        "a = memory size=64KiB; b = memory size=64KiB; vol = stripe chunk=4096 on a, b | crypt {KEY}"
    ));
}

/// Runs `body` on the device `vol` of a text, with a key of this byte (and its half turned).
fn with_key(sim: &Sim, byte: u8) {
    let key: Vec<u8> = (0..64).map(|i| if i < 32 { byte } else { !byte }).collect();
    sim.rt().set_secrets(Box::new(move |_| Ok(Secret::new(key.clone()))));
}

#[test]
fn the_device_below_holds_other_bytes_and_equal_blocks_differ() {
    let sim = Sim::new(SimConfig::seeded(1));
    with_key(&sim, 3);
    let rt = sim.rt();
    sim.block_on(async move {
        let vol = open(&rt, &format!("raw = memory size=64KiB; vol = crypt {KEY} on raw"));
        let raw = vol.stack().device("raw").unwrap();
        write(&vol, 4096, &[9; 1024]).await;
        let below = read(&raw, 4096, 1024).await;
        assert_ne!(below[..512], [9; 512]);
        assert_ne!(below[..512], below[512..], "equal blocks differ below");
        assert_eq!(read(&vol, 4096, 1024).await, [9; 1024]);
        assert_eq!(read(&vol, 4608, 512).await, [9; 512], "any sector can be read alone");
        run(&vol, Bio::flush()).await;
    });
}

#[test]
fn a_wrong_key_reads_garbage_and_is_refused_by_its_check_value() {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    with_key(&sim, 3);
    let text = format!("raw = memory size=64KiB; other = crypt {KEY} on raw; vol = crypt {KEY} on raw");
    let stack = open(&rt, &text);
    with_key(&sim, 4);
    let two = "raw = memory size=64KiB; vol = crypt key=env:K fingerprint=00000000 on raw";
    let error = try_open(&rt, two).err().expect("another key");
    assert!(error.contains("this is another key than the stack text's"), "{error}");
    let value = error.split("its fingerprint is ").nth(1).unwrap().split(',').next().unwrap().to_string();
    assert!(try_open(&rt, &two.replace("00000000", &value)).is_ok(), "{value}");
    sim.block_on(async move {
        write(&stack, 0, &[1; 512]).await;
        let (raw, garbage) = (stack.stack().device("raw").unwrap(), open(&rt, &text));
        let cipher = read(&raw, 0, 512).await;
        write(&garbage.stack().device("raw").unwrap(), 0, &cipher).await;
        let read = read(&garbage, 0, 512).await;
        assert!(read != [1; 512] && read != cipher, "no error, no crash, no data");
    });
}

#[test]
fn key_slots_open_with_a_passphrase_and_hold_the_key_that_the_data_has() {
    let key: Vec<u8> = (0..64).collect();
    let slots = KeySlots::new(&key, b"swordfish", Cost::tiny(), &mut |bytes| bytes.fill(5)).unwrap().encode();
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    rt.set_secrets(Box::new(move |reference| match reference {
        "file:key" => Ok(Secret::new(key.clone())),
        "file:slots" => Ok(Secret::new(slots.clone())),
        "file:pass" => Ok(Secret::new(b"swordfish\n".to_vec())),
        _ => Ok(Secret::new(b"marlin".to_vec())),
    }));
    let plain = open(&rt, "raw = memory size=64KiB; vol = crypt key=file:key on raw");
    let wrapped = open(&rt, "raw = memory size=64KiB; vol = crypt key=file:slots passphrase=file:pass on raw");
    let refused = |args: &str, words: &str| {
        let error = try_open(&rt, &format!("raw = memory size=64KiB; vol = crypt {args} on raw")).err().unwrap();
        assert!(error.contains(words) && !error.contains("marlin"), "{args}: {error}");
    };
    refused("key=file:slots", "passphrase=PLACE");
    refused("key=file:slots passphrase=file:other", "no slot opens with this passphrase");
    sim.block_on(async move {
        write(&plain, 0, &[1; 512]).await;
        write(&wrapped, 0, &[1; 512]).await;
        let (one, other) = (plain.stack().device("raw").unwrap(), wrapped.stack().device("raw").unwrap());
        assert_eq!(read(&one, 0, 512).await, read(&other, 0, 512).await);
    });
}

#[test]
fn what_cannot_be_is_refused_and_a_key_in_the_text_is_not_repeated() {
    check_refused(&format!("vol = memory size=1MiB | crypt {KEY} sector=4KiB"), "sector = 4096");
    check_refused(&format!("vol = memory size=1MiB block=4096 | crypt {KEY} sector=1000"), "sector = 1000");
    check_refused("vol = memory size=1MiB | crypt", "needs the parameter \"key\"");
    let sim = Sim::new(SimConfig::seeded(1));
    let error = try_open(&sim.rt(), "vol = memory size=1MiB | crypt key=swordfish").err().expect("no reference");
    assert!(error.contains("file:PATH or env:NAME") && !error.contains("swordfish"), "{error}");
    sim.rt().set_secrets(Box::new(|_| Ok(Secret::new(b"swordfish".to_vec()))));
    let error = try_open(&sim.rt(), "vol = memory size=1MiB | crypt key=env:K").err().expect("no key");
    assert!(error.contains("9 bytes") && !error.contains("swordfish"), "{error}");
}

#[test]
fn neither_dump_nor_statistics_show_the_key() {
    let sim = Sim::new(SimConfig::seeded(1));
    let digits = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";
    sim.rt().set_secrets(Box::new(move |_| Ok(Secret::new(digits.into()))));
    let vol = open(&sim.rt(), "vol = memory size=1MiB | crypt key=env:KEY");
    let spec = vol.stack().spec();
    let told = format!("{} {} {spec:?} {:?}", spec.to_line(), spec.to_toml(), vol.stack().stats());
    assert!(told.contains("env:KEY") && !told.to_lowercase().contains(&digits[..16]), "{told}");
}

/// Leaves bytes of its own on the stack, as a cipher leaves round keys, and tells where.
#[inline(never)]
fn leave_mark(_: &Cipher, bytes: &mut [u8], _: usize, _: u128) {
    let mut mark = [0xa5_u8; 4096];
    let at = std::hint::black_box(&mut mark).as_ptr() as u64;
    bytes[..8].copy_from_slice(&at.to_le_bytes());
}

/// The lowest bytes of the mark are looked at: later calls do not come down to them.
#[test]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test looks at the stack of its process")]
fn what_a_cipher_leaves_on_the_stack_is_wiped() {
    let sim = Sim::new(SimConfig::seeded(1));
    let cipher = Cipher::read(&Secret::new((0..64).collect())).expect("its halves differ");
    let crypt = Crypt {
        name: "vol".into(),
        block: 512,
        cipher: Rc::new(cipher),
        sector: 8,
        encrypted: Rc::default(),
        decrypted: Default::default(),
    };
    let memory = std::fs::File::open("/proc/self/mem").expect("the kernel shows it");
    let (mut at, mut left) = ([0; 8], [0; 256]);
    crypt.crypt(&sim.rt(), 0, &mut at, leave_mark);
    memory.read_exact_at(&mut left, u64::from_le_bytes(at)).expect("the stack is there");
    assert_eq!(left, [0; 256]);
}
