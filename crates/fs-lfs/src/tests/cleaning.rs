//! The cleaner: room comes back, what lives stays, and counters are right.

use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{Errno, Stream};
use esker_block::Buf;
use esker_dev::Media;
use esker_vfs::{At, Call, Entry, FileSystem, Ino, Name, New, NewKind, Remove, Sync, Write};

use super::writing::{judged, now, opened};
use super::{config, device, made, run};
use crate::{Lfs, LfsReader, MkfsConfig, check};

const SIZE: u64 = 24 * MIB;

fn small(block_bytes: u32, live_counters: bool) -> Rc<Media> {
    made(SIZE, MkfsConfig { live_counters, segment_bytes: Some(256 * KIB), ..config(block_bytes) }).unwrap()
}

fn call() -> Call {
    Call::at(now())
}

async fn create(fs: &Lfs, name: &str) -> Result<Entry, Errno> {
    let new = New { what: NewKind::File, mode: 0o644, uid: 0, gid: 0 };
    fs.create(call(), fs.root(), Some(Name::new(name.as_bytes()).unwrap()), new).await
}

async fn write(fs: &Lfs, ino: Ino, at: u64, bytes: &[u8]) -> Result<u64, Errno> {
    let data = Buf::from_bytes(&Default::default(), bytes);
    fs.write(call(), ino, At::Offset(at), data, Write::default()).await.map(|written| written.bytes)
}

/// What a block of a file holds in a round.
fn pattern(number: u64, round: u64, len: usize) -> Vec<u8> {
    let mut rng = Stream::named(round, &format!("block {number}"));
    (0..len.div_ceil(8)).flat_map(|_| rng.below(u64::MAX).to_le_bytes()).take(len).collect()
}

/// Overwrites a file of 8 MiB at random, many times the size of the device.
fn overwritten(block_bytes: u32, live_counters: bool) {
    let media = small(block_bytes, live_counters);
    run(move |rt| async move {
        let blocks = 8 * MIB / 4096;
        let (mut rng, mut rounds) = (Stream::named(1, "overwrites"), vec![0; blocks as usize]);
        for pass in 1..=3 {
            let fs = opened(&rt, &media).await;
            let entry = match pass {
                1 => create(&fs, "file").await.unwrap(),
                _ => fs.lookup(call(), fs.root(), Name::new(b"file").unwrap()).await.unwrap(),
            };
            for round in 1..=20_000_u64 {
                let number = if pass == 1 && round <= blocks { round - 1 } else { rng.below(blocks) };
                let stamp = pass * 1_000_000 + round;
                assert_eq!(write(&fs, entry.ino, number * 4096, &pattern(number, stamp, 4096)).await, Ok(4096));
                rounds[number as usize] = stamp;
                if rng.below(500) == 0 {
                    fs.sync(call(), Sync::All).await.unwrap();
                }
            }
            for (number, stamp) in (0..).zip(&rounds) {
                let read = fs.read(call(), entry.ino, number * 4096, 4096).await.unwrap().to_vec();
                assert!(read == pattern(number, *stamp, 4096), "block {number}");
            }
            fs.forget(entry.ino, 1);
            fs.close().await.unwrap();
            judged(&rt, &media).await;
        }
    });
}

#[test]
fn a_file_is_overwritten_many_times_the_size_of_the_device() {
    overwritten(4096, true);
    overwritten(1024, true);
}

#[test]
fn segments_without_counters_are_cleaned_in_their_order() {
    overwritten(4096, false);
}

#[test]
fn a_snapshot_stays_bit_for_bit_and_gives_its_room_back() {
    let media = small(4096, true);
    run(move |rt| async move {
        let fs = opened(&rt, &media).await;
        let entry = create(&fs, "file").await.unwrap();
        let blocks = 4 * MIB / 4096;
        for number in 0..blocks {
            write(&fs, entry.ino, number * 4096, &pattern(number, 0, 4096)).await.unwrap();
        }
        let ask = async |words: &str| fs.ask(&words.split(' ').map(str::to_string).collect::<Vec<_>>()).await;
        let number: u64 = ask("snapshot").await.unwrap().parse().unwrap();
        assert_eq!(ask(&format!("snapshot {number}")).await, Ok(number.to_string()), "a repeated change is none");
        assert_eq!(ask(&format!("delete {number}")).await, Err(Errno::EBUSY));
        for wrong in ["snapshot 0", "checkpoint 99999", "delete 0"] {
            assert_eq!(ask(wrong).await, Err(Errno::ENOENT), "{wrong}");
        }
        assert_eq!(ask("snapshot x").await, Err(Errno::EINVAL));
        let mut rng = Stream::named(2, "overwrites");
        for round in 1..=20_000 {
            let number = rng.below(blocks);
            write(&fs, entry.ino, number * 4096, &pattern(number, round, 4096)).await.unwrap();
        }
        fs.sync(call(), Sync::All).await.unwrap();
        let reader = LfsReader::open(&rt, device(&rt, &media), Some(number)).await.unwrap();
        let old = reader.lookup(call(), reader.root(), Name::new(b"file").unwrap()).await.unwrap();
        for number in 0..blocks {
            let read = reader.read(call(), old.ino, number * 4096, 4096).await.unwrap().to_vec();
            assert!(read == pattern(number, 0, 4096), "block {number} of the snapshot");
        }
        assert!(ask("checkpoints").await.unwrap().lines().any(|line| line.starts_with(&format!("{number} ss "))));
        let kept = ask("clean").await.unwrap();
        ask(&format!("checkpoint {number}")).await.unwrap();
        let given = ask("clean").await.unwrap();
        let clean = |text: &str| text.split(' ').next().unwrap().parse::<u64>().unwrap();
        assert!(clean(&given) >= clean(&kept) + 12, "{kept} with the snapshot, {given} without");
        fs.forget(entry.ino, 1);
        fs.close().await.unwrap();
        assert!(check(&rt, device(&rt, &media)).await.unwrap().findings.is_empty());
    });
}

#[test]
fn a_full_file_system_can_be_emptied_and_filled_again() {
    let media = small(4096, true);
    run(move |rt| async move {
        let mut first = None;
        for cycle in 0..12_u64 {
            let fs = opened(&rt, &media).await;
            let (mut rng, mut files, mut bytes) = (Stream::named(cycle, "fill"), Vec::new(), 0);
            'full: loop {
                let name = format!("f{}", files.len());
                let Ok(entry) = create(&fs, &name).await else { break };
                files.push(name);
                for part in 0..1 + rng.below(12) {
                    let data = pattern(part, cycle, 1 + rng.below(40_000) as usize);
                    match write(&fs, entry.ino, part * 40_000, &data).await {
                        Ok(written) if written == data.len() as u64 => bytes += written,
                        Ok(written) => bytes += written,
                        Err(Errno::ENOSPC) => {
                            fs.forget(entry.ino, 1);
                            break 'full;
                        }
                        Err(errno) => panic!("{errno:?}"),
                    }
                }
                fs.forget(entry.ino, 1);
            }
            println!("cycle {cycle}: {bytes} bytes in {} files", files.len());
            for name in files {
                fs.remove(call(), fs.root(), Name::new(name.as_bytes()).unwrap(), Remove::File).await.unwrap();
            }
            fs.sync(call(), Sync::All).await.unwrap();
            fs.close().await.unwrap();
            judged(&rt, &media).await;
            let first = *first.get_or_insert(bytes);
            assert!(bytes * 20 >= first * 19, "cycle {cycle} had room for {bytes} bytes, the first for {first}");
        }
    });
}
