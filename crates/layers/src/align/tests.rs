use esker_base::{Nanos, Stream};
use esker_block::{Bio, Buf, Device, ExtentState, Reply};
use esker_rt::sim::{SimConfig, twice};

use crate::testing::{check_conforms, check_refused, open, read, run, start_write, stat, try_read, write};

/// A device in blocks of 4 KiB on which requests overtake each other.
const SHUFFLED: &str = "vol = memory size=64KiB block=4096 defer=always | delay read=1us write=1us jitter=20us | align";

#[test]
fn small_blocks_behave_like_a_device() {
    check_conforms(SHUFFLED);
    check_conforms("vol = memory size=1MiB block=64KiB | align block=4096");
    check_conforms("vol = memory size=64KiB block=4096 | align block=16");
    check_conforms("vol = memory size=1MiB | align");
}

/// Cuts the device at random sectors and writes all pieces at once; each must be there afterwards.
fn check_neighbours(seed: u64) {
    println!("seed {seed}, {SHUFFLED}");
    twice(SimConfig::seeded(seed), move |rt| async move {
        let vol = open(&rt, SHUFFLED);
        let mut stream = Stream::named(seed, "cuts");
        let (mut expected, mut writes) = (Vec::new(), Vec::new());
        while expected.len() < 64 << 10 {
            let len = (512 * (1 + stream.below(20) as usize)).min((64 << 10) - expected.len());
            let mut data = vec![0; len];
            stream.fill(&mut data);
            writes.push(start_write(&vol, expected.len() as u64, data.clone()));
            expected.extend(data);
        }
        esker_rt::sync::join_all(writes).await;
        assert!(read(&vol, 0, 64 << 10).await == expected, "seed {seed}: a neighbour's write was lost");
    });
}

#[test]
fn concurrent_neighbours_lose_no_update() {
    for seed in 0..20 {
        check_neighbours(seed);
    }
}

/// A whole block and a part of it are written at once: outside the part, the whole one must win.
fn check_whole_and_part(seed: u64) {
    println!("seed {seed}, {SHUFFLED}");
    twice(SimConfig::seeded(seed), move |rt| async move {
        let vol = open(&rt, SHUFFLED);
        let both = [start_write(&vol, 4096, vec![1; 4096]), start_write(&vol, 4096 + 512, vec![2; 512])];
        esker_rt::sync::join_all(both).await;
        let after = read(&vol, 4096, 4096).await;
        assert!(after[512..1024].iter().all(|b| *b == after[512] && *b != 0), "seed {seed}");
        let outside = [&after[..512], &after[1024..]].concat();
        assert!(outside.iter().all(|b| *b == 1), "seed {seed}: the write back undid a whole block");
    });
}

#[test]
fn writing_back_a_part_undoes_no_whole_block() {
    for seed in 0..20 {
        check_whole_and_part(seed);
    }
}

#[test]
fn what_fills_blocks_passes_at_once_and_the_rest_is_one_write() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "d = memory size=64KiB block=4096 | stats; vol = align on d");
        write(&vol, 0, &[1; 8192]).await;
        write(&vol, 4096 - 512, &[2; 1024]).await;
        assert_eq!((stat(&vol, "d", "writes"), stat(&vol, "d", "reads")), (2.0, 2.0));
        write(&vol, 512, &[3; 512]).await;
        assert_eq!((stat(&vol, "d", "writes"), stat(&vol, "d", "reads")), (3.0, 3.0), "one block is read once");
        assert_eq!(read(&vol, 3584, 1024).await, [2; 1024]);
        run(&vol, Bio::discard(512, 4096)).await;
        assert_eq!(read(&vol, 512, 512).await, [3; 512], "a discard shrinks to whole blocks");
        run(&vol, Bio::zero(512, 8192)).await;
        let expected = [&[1; 512][..], &[0; 8192]].concat();
        assert_eq!(read(&vol, 0, 8704).await, expected);
    });
}

#[test]
fn limits_leave_room_for_whole_blocks() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol = open(&rt, "vol = memory size=64MiB block=4096 | align");
        let limits = vol.limits();
        assert_eq!((limits.block, limits.atomic, limits.transfer_max), (512, 512, (32 << 20) - 3584));
        let most = limits.transfer_max as usize;
        let worst = Bio::write(4096 - 512, Buf::zeroed(vol.stack().pool(), most));
        run(&vol, worst).await;
        assert_eq!(read(&vol, 4096 - 512, most).await.len(), most);
    });
    check_refused("vol = memory size=64KiB | align block=4096", "at most 512");
    check_refused("vol = memory size=64KiB block=4096 | align block=3", "power of two");
}

#[test]
fn a_failed_read_of_an_edge_fails_the_write_and_frees_the_blocks() {
    twice(SimConfig::seeded(1), |rt| async move {
        let vol =
            open(&rt, "d = memory size=64KiB block=4096; e = error ops=read every=1 len=4096 on d; vol = align on e");
        let done = vol.submit(Bio::write(512, Buf::zeroed(vol.stack().pool(), 512))).await;
        assert!(done.result.is_err_and(|e| e.to_string().contains("injected")));
        assert!(try_read(&vol, 512, 512).await.is_err());
        rt.sleep(Nanos(1)).await;
        write(&vol, 0, &[5; 4096]).await;
        write(&vol, 4096 + 512, &[6; 512]).await;
        assert_eq!(read(&vol, 4096, 1024).await, [[0; 512], [6; 512]].concat());
    });
}

#[test]
fn extents_of_small_blocks_are_cut_out_of_large_ones() {
    twice(SimConfig::seeded(1), move |rt| async move {
        let vol = open(&rt, "vol = memory size=64KiB block=4096 | align");
        write(&vol, 4096, &[1; 4096]).await;
        let Ok(Reply::Extents(extents)) = vol.submit(Bio::extents(4608, 512)).await.result else { panic!("extents") };
        assert_eq!((extents[0].len, extents[0].state), (512, ExtentState::Data));
    });
}
