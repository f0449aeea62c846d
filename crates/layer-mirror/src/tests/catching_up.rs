//! A member that catches up: how long it takes, what is copied, and what clients notice.

use std::cell::{Cell, RefCell};

use esker_base::{Stream, Time};
use esker_block::{Extent, ExtentState, Reply};

use super::*;

const MIB: u64 = 1 << 20;
/// 64 pieces of 256 KiB after the superblock.
const DATA: u64 = 16 * MIB;

/// Two members of `DATA` bytes that answer after 10 ms.
fn slow_members(params: &str) -> String {
    let member = |name| format!("{name} = memory size={} defer=always latency=10ms; ", DATA + DATA_START);
    format!(
        "{}{}vol = mirror {params} initial=assume-clean rescan=10ms clean_after=5ms on a, b",
        member("a"),
        member("b")
    )
}

/// Waits until a number is told, and returns when.
async fn instant(vol: &Export, name: &str, value: f64) -> Time {
    for _ in 0..100_000 {
        if stat(vol, name) == value {
            return vol.stack().rt().now();
        }
        bench::sleep(vol, Nanos::micros(100)).await;
    }
    panic!("{name} does not become {value}: {:?}", vol.stack().stats());
}

/// How long it takes to copy `bytes` of data to a member that was away, while `client` goes on.
fn time_to_copy<F: Future<Output = ()> + 'static>(params: &str, client: impl Fn(Export) -> F + 'static) -> Nanos {
    let taken = Rc::new(Cell::new(Nanos::ZERO));
    let out = taken.clone();
    with(&slow_members(params), async move |vol| {
        write(&vol, 0, &[1; 512]).await;
        pull(&vol, "b").await;
        for at in (0..DATA).step_by(MIB as usize) {
            write(&vol, at, &vec![at as u8 | 1; MIB as usize]).await;
        }
        push_back(&vol).await;
        let start = instant(&vol, "members_resyncing", 1.0).await;
        drop(vol.stack().rt().spawn("client", client(vol.clone())));
        let end = instant(&vol, "members_in_sync", 2.0).await;
        assert_eq!((stat(&vol, "resync_bytes"), stat(&vol, "zeroed_bytes")), (DATA as f64, 0.0));
        check_equal(&vol, DATA as usize).await;
        out.set(end.since(start));
    });
    taken.get()
}

async fn no_client(_: Export) {}

/// Reads a block, and the next one when it has the answer.
async fn one_reader(vol: Export) {
    for block in 0.. {
        read(&vol, block * 7919 % 1000 * 4096, 4096).await;
    }
}

#[test]
fn as_many_pieces_as_the_window_has_are_copied_at_once() {
    let serial = time_to_copy("window=1", no_client);
    assert!(serial >= Nanos::millis(64 * 20), "each is read, then written: {serial}");
    for window in [2, 8, 64] {
        let taken = time_to_copy(&format!("window={window}"), no_client);
        let (least, most) = (serial.0 / window as u64, serial.0 * 3 / 2 / window as u64 + Nanos::millis(60).0);
        assert!((least * 3 / 4..=most).contains(&taken.0), "window {window}: {taken} of {serial}");
    }
}

#[test]
fn while_a_client_has_requests_under_way_as_many_pieces_are_copied_as_busy_says() {
    let (serial, alone) = (time_to_copy("window=1", no_client), time_to_copy("window=8", no_client));
    let beside = time_to_copy("window=8", one_reader);
    assert!(beside.0 > serial.0 * 3 / 4, "beside a client: {beside}, one piece after the other: {serial}");
    let as_fast = time_to_copy("window=8 busy=8", one_reader);
    assert!(as_fast.0 < alone.0 * 5 / 4, "beside a client that takes second place: {as_fast}, alone: {alone}");
}

/// Sends a request after each answer for a while, and then none.
async fn reader_that_leaves(vol: Export) {
    for block in 0..10 {
        read(&vol, block * 4096, 4096).await;
    }
}

#[test]
fn after_clients_have_rested_as_many_pieces_are_copied_as_before() {
    let alone = time_to_copy("window=8", no_client);
    let after = time_to_copy("window=8", reader_that_leaves);
    assert!(after > alone && after.0 < alone.0 + Nanos::millis(150).0, "after a client: {after}, alone: {alone}");
}

/// What a member tells of where its data is.
async fn extents(vol: &Export, name: &str) -> Vec<Extent> {
    let done = vol.stack().device(name).unwrap().submit(Bio::extents(DATA_START, DATA)).await;
    match done.result {
        Ok(Reply::Extents(extents)) => extents.into_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn holes_are_zeroed_and_not_copied() {
    let member = |name| format!("{name} = memory size={}; ", DATA + DATA_START);
    // Nothing is copied before all is there.
    let text = format!("{}{}s = delay read=10ms on a; vol = mirror clean_after=1h on s, b", member("a"), member("b"));
    with(&text, async |vol| {
        // Islands of data in the first member, which tells of 64 KiB around each: the third lies in two pieces, one of
        // which reads as zeroes. What the second member holds elsewhere is to vanish.
        let (a, b) = (vol.stack().device("a").unwrap(), vol.stack().device("b").unwrap());
        for at in [100 << 10, MIB + (100 << 10), 5 * MIB, 9 * MIB + (200 << 10)] {
            write(&a, DATA_START + at, &[3; 512]).await;
        }
        for at in (0..DATA).step_by(300 * 512) {
            write(&b, DATA_START + at, &[7; 512]).await;
        }
        until(&vol, "suspect_regions", 0.0).await;
        check_equal(&vol, DATA as usize).await;
        let piece = 256.0 * 1024.0;
        assert_eq!((stat(&vol, "resync_bytes"), stat(&vol, "zeroed_bytes")), (4.0 * piece, 60.0 * piece));
        let held: u64 = extents(&vol, "b").await.iter().filter(|e| e.state == ExtentState::Data).map(|e| e.len).sum();
        // The memory gives back whole 64 KiB only.
        assert!(held < DATA / 4, "{held} bytes are held");
    });
}

#[test]
fn a_new_mirror_of_holes_takes_no_space_and_zeroes_that_are_stored_make_none() {
    // Zeroing takes space on the devices that this stands on.
    let text =
        format!("a = memory size={0}; b = thick size={0}; vol = mirror clean_after=1h on a, b", DATA + DATA_START);
    with(&text, async |vol| {
        let a = vol.stack().device("a").unwrap();
        write(&a, DATA_START + MIB, &[0; 256 << 10]).await;
        write(&a, DATA_START + 3 * MIB, &[5; 512]).await;
        until(&vol, "suspect_regions", 0.0).await;
        check_equal(&vol, DATA as usize).await;
        let held: u64 = extents(&vol, "b").await.iter().filter(|e| e.state != ExtentState::Hole).map(|e| e.len).sum();
        assert!(held <= 512 << 10, "{held} bytes are held");
    });
}

#[test]
fn where_not_all_members_tell_of_holes_all_is_copied() {
    let size = MIB + DATA_START;
    let text = format!("a = memory size={size}; b = silent size={size}; vol = mirror clean_after=1h on a, b");
    with(&text, async |vol| {
        until(&vol, "suspect_regions", 0.0).await;
        assert_eq!((stat(&vol, "resync_bytes"), stat(&vol, "zeroed_bytes")), (MIB as f64, 0.0));
    });
}

/// Many clients change ranges across pieces while a member catches up with a volume full of `content`; each block holds
/// what was written to it last.
fn check_clients(content: u8) {
    const BLOCKS: u64 = 8192;
    const OWN: u64 = BLOCKS / 16;
    let text = "x = memory size=4104KiB; a = delay read=2ms write=300us jitter=1ms on x; y = memory size=4104KiB; \
        b = delay write=300us jitter=1ms on y; vol = mirror region=64KiB initial=assume-clean rescan=10ms clean_after=5ms on a, b";
    with(text, async move |vol| {
        write(&vol, 0, &vec![1; (BLOCKS * 512) as usize]).await;
        pull(&vol, "b").await;
        match content {
            0 => bench::run(&vol, Bio::zero(0, BLOCKS * 512)).await,
            byte => write(&vol, 0, &vec![byte; (BLOCKS * 512) as usize]).await,
        }
        push_back(&vol).await;
        instant(&vol, "members_resyncing", 1.0).await;
        let model = Rc::new(RefCell::new(vec![content; BLOCKS as usize]));
        // Each client has blocks of its own, so that the model knows which write was last.
        let client = |n: u64| {
            let (vol, model) = (vol.clone(), model.clone());
            async move {
                let mut stream = Stream::named(n, "client");
                for round in 0..60u64 {
                    let (at, len) = (n * OWN + stream.below(OWN - 12), 1 + stream.below(12));
                    let byte = if round % 5 == 0 { 0 } else { (n * 60 + round) as u8 | 1 };
                    match byte {
                        0 => bench::run(&vol, Bio::zero(at * 512, len * 512)).await,
                        _ => write(&vol, at * 512, &vec![byte; (len * 512) as usize]).await,
                    }
                    model.borrow_mut()[at as usize..(at + len) as usize].fill(byte);
                }
            }
        };
        esker_rt::sync::join_all((0..16).map(client)).await;
        instant(&vol, "members_in_sync", 2.0).await;
        let is_copied = stat(&vol, if content == 0 { "zeroed_bytes" } else { "resync_bytes" }) > 0.0;
        assert!(is_copied, "{:?}", vol.stack().stats());
        check_equal(&vol, (BLOCKS * 512) as usize).await;
        let held = read(&vol, 0, (BLOCKS * 512) as usize).await;
        for (block, value) in model.borrow().iter().enumerate() {
            assert!(held[block * 512..][..512].iter().all(|byte| byte == value), "block {block}");
        }
    });
}

#[test]
fn what_many_clients_write_to_pieces_that_are_copied_is_on_both_members() {
    check_clients(1);
}

#[test]
fn what_many_clients_write_to_holes_that_are_zeroed_is_on_both_members() {
    check_clients(0);
}

#[test]
fn only_the_source_is_read_in_a_region_until_all_its_pieces_are_copied() {
    let size = MIB + DATA_START;
    let text = format!(
        "x = memory size={size}; a = delay read=10ms on x; b = memory size={size}; vol = mirror window=1 clean_after=1h on a, b"
    );
    with(&text, async |vol| {
        let (x, b) = (vol.stack().device("x").unwrap(), vol.stack().device("b").unwrap());
        for at in (0..MIB).step_by(64 << 10) {
            write(&x, DATA_START + at, &[5; 512]).await;
        }
        write(&b, DATA_START + (260 << 10), &[7; 512]).await;
        instant(&vol, "resync_bytes", 256.0 * 1024.0).await;
        // The head of the second member stands where the first piece ended.
        assert_eq!(read(&vol, 260 << 10, 512).await, [0; 512]);
        instant(&vol, "suspect_regions", 0.0).await;
        check_equal(&vol, MIB as usize).await;
    });
}

#[test]
fn a_window_that_is_none_is_refused() {
    for param in ["window=0", "window=65", "busy=0"] {
        let why = bench::try_open(
            &esker_rt::Sim::new(esker_rt::SimConfig::seeded(1)).rt(),
            KINDS,
            &format!("{TWO} vol = mirror {param} on a, b"),
        );
        let why = why.err().expect("it cannot be built");
        assert!(why.contains("1 to 64 pieces"), "{why}");
    }
}
