//! Loads and errors in virtual time.

use super::*;
use crate::proto::{Context, Session, Violation};
use esker_block::{Limits, OpKind, Support};
use esker_rt::sim::{Sim, SimConfig, twice};

fn in_world<T: 'static, Fut: Future<Output = T> + 'static>(scenario: impl FnOnce(Rt) -> Fut) -> T {
    let sim = Sim::new(SimConfig::seeded(1));
    sim.block_on(scenario(sim.rt()))
}

#[test]
fn a_load_reads_what_it_wrote_without_copies_and_the_same_way_twice() {
    let (bounced, forced) = twice(SimConfig::seeded(11), |rt| async move {
        let site = Site::new(&rt, Disk::slow(&rt), Config::production());
        let (client, closing) = site.client().await;
        let client = loads(&rt, &site.pool, client, 8, 512).await;
        client.disconnect().await.unwrap();
        assert!(matches!(closing.await, Closing::Goodbye));
        (site.pool.bounced(), site.disk.state.forced.get())
    });
    assert_eq!(bounced, 0, "payload bytes were copied between buffers");
    assert!(forced > 0, "no write was forced");
}

#[test]
fn other_seeds_take_another_course() {
    let digest = |seed| {
        let sim = Sim::new(SimConfig::seeded(seed));
        let rt = sim.rt();
        sim.block_on(async move {
            let site = Site::new(&rt, Disk::slow(&rt), Config::production());
            let (client, _) = site.client().await;
            drop(loads(&rt, &site.pool, client, 2, 64).await);
        });
        sim.digest()
    };
    assert_ne!(digest(1), digest(2));
}

#[test]
fn transfers_longer_than_the_device_takes_are_split_without_copies() {
    in_world(|rt| async move {
        let limits = Limits { transfer_max: 64 << 10, ..Limits::plain(8 << 20, 512) };
        let site = Site::new(&rt, Disk::new(&rt, limits, Nanos::millis(1)), Config::production());
        let (client, _) = site.client().await;
        let before = rt.now();
        let mut random = rt.rng("content");
        let mut content = vec![0; 1 << 20];
        random.fill(&mut content);
        // Off the multiples of the largest transfer: the first and last piece are shorter.
        let part = payload(&site.pool, 1 << 20, |out| out.copy_from_slice(&content));
        client.write(4096, part, true).await.unwrap();
        assert_eq!(rt.now().since(before), Nanos::millis(1), "pieces travel together");
        let slab = client.read(r(4096, 1 << 20)).await.unwrap();
        assert_eq!(slab[..1 << 20], content);
        assert_eq!((site.disk.state.largest.get(), site.disk.state.forced.get()), (64 << 10, 17));
        assert_eq!(site.pool.bounced(), 0);
    });
}

#[test]
fn long_reads_leave_holes_on_the_device_and_off_the_wire() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (client, _) = site.client().await;
        client.write(1 << 20, bytes(&site.pool, 4096, 7), false).await.unwrap();
        let slab = client.read(r(0, 4 << 20)).await.unwrap();
        assert!(slab[1 << 20..][..4096].iter().all(|b| *b == 7));
        assert_eq!(slab[..4 << 20].iter().filter(|b| **b != 0).count(), 4096);
        assert_eq!(site.disk.state.bytes_read.get(), 4096);
        let status = client.block_status(r(0, 4 << 20), false).await.unwrap();
        let seen: Vec<_> = status.iter().map(|e| (e.len, e.hole())).collect();
        assert_eq!(seen, [(1 << 20, true), (4096, false), ((3 << 20) - 4096, true)]);
        let one = client.block_status(r(0, 8192), true).await.unwrap();
        assert_eq!((one.len(), one[0].len), (1, 8192));
    });
}

#[test]
fn requests_under_way_are_bounded_by_number_and_bytes() {
    for (len, most) in [(512, 2), (8 << 10, 1)] {
        in_world(|rt| async move {
            let site = Site::new(&rt, Disk::slow(&rt), Config::tiny());
            let (client, _) = site.client().await;
            let writes = (0..20).map(|i| client.write(i * 8192, bytes(&site.pool, len, 1), false));
            let written: Vec<Result<(), Fault>> = join_all(writes).await;
            assert!(written.iter().all(Result::is_ok));
            assert_eq!(site.disk.state.under_way_max.get(), most, "{len} bytes each");
        });
    }
}

#[test]
fn the_device_answers_out_of_order_requests_in_parallel() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::slow(&rt), Config::production());
        let (client, _) = site.client().await;
        let before = rt.now();
        join_all((0..100).map(|i| client.read(r(i * 512, 512)))).await.into_iter().for_each(|read| drop(read.unwrap()));
        assert_eq!(rt.now().since(before), Nanos::millis(1));
    });
}

#[test]
fn a_write_is_answered_after_the_device_has_done_it() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::slow(&rt), Config::production());
        let (client, _) = site.client().await;
        for (done, fua) in [(1, false), (2, true)] {
            let before = rt.now();
            client.write(0, bytes(&site.pool, 4096, 7), fua).await.unwrap();
            assert_eq!(site.disk.state.completed.get(), done, "what is answered has been done");
            assert_eq!(rt.now().since(before), Nanos::millis(1));
        }
        site.disk.state.corrupt_at.set(Some(0));
        assert_eq!(refusal(client.write(0, bytes(&site.pool, 512, 7), false).await.unwrap_err()).0, Errno::Io);
    });
}

#[test]
fn flush_and_trim_with_fua_reach_the_device() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (client, _) = site.client().await;
        client.flush().await.unwrap();
        client.trim(r(0, 4096), true).await.unwrap();
        assert_eq!(site.disk.state.flushes.get(), 2, "a hint has no durability: a flush follows it");
        client.write(0, bytes(&site.pool, 512, 1), true).await.unwrap();
        client.write_zeroes(r(0, 512), true, true).await.unwrap();
        assert_eq!(site.disk.state.forced.get(), 2);
    });
}

#[test]
fn device_errors_reach_the_client_with_their_place() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::slow(&rt), Config::production());
        let (client, _) = site.client().await;
        site.disk.state.corrupt_at.set(Some(5000));
        let Err(Fault::Server(failure)) = client.read(r(4096, 4096)).await else { panic!("no failure") };
        assert_eq!((failure.errno, failure.at), (Errno::Io, Some(5000)));
        assert!(failure.message.contains("5000"), "{failure}");
        client.read(r(0, 4096)).await.unwrap();
    });
}

#[test]
fn an_export_offers_what_its_device_can() {
    in_world(|rt| async move {
        let mut limits = Limits { preferred: 3 << 10, ..Limits::plain(1 << 20, 4096) };
        for kind in [OpKind::Discard, OpKind::Zero, OpKind::Extents] {
            limits = limits.with(kind, Support::No);
        }
        let site = Site::new(&rt, Disk::new(&rt, limits, Nanos::ZERO), Config::production());
        let (client, _) = site.client().await;
        assert_eq!(client.remote().blocks, Some((4096, 4096, 32 << 20)));
        assert!(!client.remote().terms.contexts.contains(Context::Allocation));
        assert_eq!(refusal(client.trim(r(0, 4096), false).await.unwrap_err()).0, Errno::Inval);
        assert_eq!(refusal(client.write_zeroes(r(0, 4096), false, false).await.unwrap_err()).0, Errno::Inval);
        let partial = client.write(512, bytes(&site.pool, 512, 1), false).await.unwrap_err();
        assert!(refusal(partial).1.contains("whole blocks of 4096"));
        assert_eq!(site.disk.state.completed.get(), 0, "nothing of this reached the device");
    });
}

#[test]
fn unknown_exports_are_refused_with_advice() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, closing) = site.wire().await;
        let refused = Client::connect(&rt, &site.pool, near.clone(), "other").await.err().unwrap().to_string();
        assert!(refused.contains("no export is named \"other\""), "{refused}");
        near.shutdown();
        assert!(matches!(closing.await, Closing::HungUp));
    });
}

#[test]
fn noise_on_the_wire_drops_only_its_connection() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (client, _) = site.client().await;
        let mut random = rt.rng("noise");
        for round in 0..200 {
            let (near, closing) = site.wire().await;
            let mut noise = vec![0; 1 + random.below(200) as usize];
            random.fill(&mut noise);
            let head = if round % 2 == 0 { vec![0, 0, 0, 3] } else { Vec::new() };
            near.write_all(vec![Slice::heap([head, noise].concat())]).await.ok();
            near.shutdown();
            let closing = closing.await;
            let noticed =
                matches!(closing, Closing::Dropped(_) | Closing::HungUp | Closing::CutOff | Closing::Failed(_));
            assert!(noticed, "{closing}");
        }
        assert_eq!(site.server.connections(), 1);
        client.read(r(0, 512)).await.unwrap();
    });
}

#[test]
fn a_broken_protocol_is_named_when_the_connection_ends() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, closing) = site.wire().await;
        near.write_all(vec![Slice::heap(b"\0\0\0\x03GET / HTTP/1.1\r\n".to_vec())]).await.unwrap();
        let closing = closing.await;
        assert!(matches!(closing, Closing::Dropped(Violation::OptionMagic(_))), "{closing}");
        let greeting = Session::greeting().len();
        let (_, heard) = near.read(vec![Slice::heap(vec![0; 100])]).await;
        assert_eq!(heard.unwrap(), greeting);
    });
}
