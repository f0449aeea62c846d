//! LUKS2 devices of cryptsetup, whose data `crypt` shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Server, check_esker, check_tool, esker};

/// Makes a device with a passphrase, and a file of its key.
fn format(folder: &Path, options: &[&str]) -> Option<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    fs::write(at("pass"), "swordfish").unwrap();
    fs::write(at("key"), (0..64).map(|byte| byte * 3).collect::<Vec<u8>>()).unwrap();
    for name in ["pass", "key"] {
        fs::set_permissions(at(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    fs::File::create(at("disk.img")).and_then(|file| file.set_len(20 << 20)).unwrap();
    let (key, pass) = (at("key"), at("pass"));
    let fixed = ["luksFormat", "--batch-mode", "--key-size", "512", "--volume-key-file", &key, "--key-file", &pass];
    let made = Command::new("cryptsetup").args(fixed).args(options).arg(at("disk.img")).output();
    match made {
        Err(error) => {
            let why = format_args!("cryptsetup: {error}; apt-get install cryptsetup-bin");
            esker_testkit::skip(esker_testkit::Ability::Program, why);
            None
        }
        Ok(made) => {
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            Some(())
        }
    }
}

#[test]
fn the_key_of_a_luks2_device_goes_into_key_slots_that_show_its_data() {
    for (sector, costs) in [
        ("512", &["--pbkdf", "argon2id", "--pbkdf-memory", "64", "--pbkdf-parallel", "1"][..]),
        ("4096", &["--pbkdf", "pbkdf2"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let iterations = if costs[1] == "pbkdf2" { "1000" } else { "4" };
        let options = ["--type", "luks2", "--sector-size", sector, "--pbkdf-force-iterations", iterations];
        let Some(()) = format(dir.path(), &[&options[..], costs].concat()) else { return };
        let before = fs::read(at("disk.img")).unwrap();
        let place = |name: &str| format!("file:{}", at(name));
        let (device, pass) = (format!("luks:{}", at("disk.img")), place("pass"));
        let refused = ["key", "make", &at("keys"), "--from", &device, "--luks-passphrase", &place("key")];
        check_esker(&refused, 1);
        let words = ["key", "make", &at("keys"), "--from", &device, "--luks-passphrase", &pass, "--passphrase", &pass];
        let made = esker(&words);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert!(fs::read(at("disk.img")).unwrap() == before, "the device is as it was");
        let layers = String::from_utf8(made.stdout).unwrap();
        assert!(layers.starts_with("offset start=16777216 | crypt "), "{layers}");
        if sector == "4096" {
            assert!(layers.contains("sector=4096"), "{layers}");
            // Sectors of 4 KiB take a device with such blocks, and a file has smaller ones.
            continue;
        }
        let serve = |layers: &str| {
            let stack = format!("vol = file path=DIR/disk.img | {layers} @ nbd=unix:DIR/sock");
            Server::start(dir.path(), &stack, &[])
        };
        let server = serve(layers.trim_end());
        check_tool("qemu-io", &["-f", "raw", "-c", "write -P 9 8k 64k", "-c", "flush", &server.uris[0]]);
        server.stop();
        // The key itself, with which the device was made, shows the same.
        let server = serve(&format!("offset start=16MiB | crypt key={} sector={sector}", place("key")));
        check_tool("qemu-io", &["-f", "raw", "-c", "read -P 9 8k 64k", &server.uris[0]]);
        server.stop();
        let dumped = check_tool("cryptsetup", &["luksDump", &at("disk.img")]);
        assert!(dumped.contains("aes-xts-plain64"), "the header is sound: {dumped}");
        let bare = format!("vol = file path={} | crypt key={} @ nbd=unix:{}", at("disk.img"), place("key"), at("s"));
        let refused = check_esker(&["serve", &bare, "--control", &at("ctl")], 1);
        assert!(refused.contains("--from luks:DEVICE"), "{refused}");
    }
}

#[test]
fn a_luks1_device_is_refused_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = format(dir.path(), &["--type", "luks1", "--pbkdf-force-iterations", "1000"]) else { return };
    let at = |name: &str| dir.path().join(name).display().to_string();
    let device = format!("luks:{}", at("disk.img"));
    let refused = check_esker(&["key", "make", &at("keys"), "--from", &device], 1);
    assert!(refused.contains("version 1") && refused.contains("cryptsetup convert"), "{refused}");
    let device = format!("luks:{}", at("key"));
    let refused = check_esker(&["key", "make", &at("keys"), "--from", &device], 1);
    assert!(refused.contains("begins with no LUKS header"), "{refused}");
}
