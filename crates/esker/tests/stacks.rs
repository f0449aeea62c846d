//! What users of the library rely on.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program of a user")]

use std::sync::Barrier;
use std::thread;

use esker::{Error, OpenOptions, open};

#[test]
fn what_is_written_is_read_and_survives_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("vol = file path={}/a.img size=16MiB | stats @", dir.path().display());
    let stack = open(&text).unwrap();
    let vol = stack.export("vol").unwrap();
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 512) as u8).collect();
    vol.write_at(&bytes, 4096).unwrap();
    stack.close().unwrap();
    assert!(matches!(vol.flush(), Err(Error::Unusable(_))), "calls behind the close are refused");
    drop(vol);
    let vol = open(&text).unwrap().export("vol").unwrap();
    let mut read = vec![0; bytes.len()];
    vol.read_at(&mut read, 4096).unwrap();
    assert!(read == bytes);
    assert_eq!((vol.size().unwrap(), vol.name()), (16 << 20, "vol"));
}

#[test]
fn threads_share_a_stack() {
    let stack = open("vol = memory size=4MiB @").unwrap();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for number in 0..8_u64 {
            let (vol, barrier) = (stack.export("vol").unwrap(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..50_u64 {
                    let at = (number * 50 + round) * 4096;
                    vol.write_durably_at(&vec![number as u8 + 1; 4096], at).unwrap();
                }
            });
        }
    });
    let mut all = vec![0; 400 * 4096];
    stack.export("vol").unwrap().read_at(&mut all, 0).unwrap();
    assert!(all.chunks(4096).enumerate().all(|(at, block)| block == vec![(at / 50) as u8 + 1; 4096]));
}

#[test]
fn a_snapshot_keeps_what_was_there() {
    let text = "disk = memory size=64MiB; vm = thin ports=\"db=8MiB\" on disk; export db = vm.db";
    let stack = open(text).unwrap();
    let (db, volumes) = (stack.export("db").unwrap(), stack.volumes("vm").unwrap());
    db.write_at(&[1; 4096], 0).unwrap();
    volumes.snapshot("db", "before").unwrap();
    db.write_at(&[2; 4096], 0).unwrap();
    volumes.clone_of("before", "copy").unwrap();
    let names: Vec<_> = volumes.list().unwrap().into_iter().map(|volume| (volume.name, volume.is_snapshot)).collect();
    assert_eq!(names, [("before".into(), true), ("copy".into(), false), ("db".into(), false)]);
    assert!(matches!(volumes.delete("nothing"), Err(Error::Order(_))));
    assert!(matches!(stack.volumes("disk"), Err(Error::Order(_))));
}

#[test]
fn mistakes_are_told() {
    let told = |text: &str| open(text).map(drop).unwrap_err().to_string();
    assert!(told("vol = memori size=1MiB @").contains("memory"), "{}", told("vol = memori size=1MiB @"));
    let named = OpenOptions::default().name("a.toml").open("vol = memory @").map(drop).unwrap_err().to_string();
    assert!(named.contains("a.toml") && named.contains("size"), "{named}");
    let stack = open("vol = memory size=1MiB @; other = memory size=1MiB @").unwrap();
    let missing = stack.export("volume").map(drop).unwrap_err();
    assert_eq!(missing.to_string(), "the stack has no export \"volume\"; it has vol, other");
    let vol = stack.export("vol").unwrap();
    let mut byte = [0; 1];
    assert!(vol.read_at(&mut byte, 0).unwrap_err().to_string().contains("align"));
    assert!(matches!(vol.read_at(&mut [0; 4096], 1 << 20), Err(Error::Invalid(_))));
    assert!(matches!(vol.write_at(&[0; 4096], u64::MAX - 4095), Err(Error::Invalid(_))));
    let error: std::io::Error = missing.into();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn parts_tell_their_numbers() {
    let stack = open("vol = memory size=1MiB | stats @").unwrap();
    stack.export("vol").unwrap().write_at(&[0; 8192], 0).unwrap();
    let parts = stack.parts();
    assert!(parts.iter().any(|part| part.kind == "stats" && !part.stats.is_empty()), "{parts:?}");
}
