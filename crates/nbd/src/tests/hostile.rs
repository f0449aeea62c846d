//! Clients that want more than their share, and what other clients notice of them.

use super::*;
use crate::proto::option::encode;
use crate::proto::request::Header;
use crate::proto::wire::{cmd, opt};
use crate::proto::{Context, Extent, Form};
use esker_rt::sim::{Sim, SimConfig};

fn in_world<T: 'static, Fut: Future<Output = T> + 'static>(scenario: impl FnOnce(Rt) -> Fut) -> T {
    let sim = Sim::new(SimConfig::seeded(6));
    sim.block_on(scenario(sim.rt()))
}

fn hello() -> Vec<u8> {
    let go = [&[0, 0, 0, 4][..], b"disk", &[0, 0]].concat();
    [3u32.to_be_bytes().to_vec(), encode(opt::GO, &go)].concat()
}

#[test]
fn an_export_takes_only_so_many_connections_and_one_more_after_an_end() {
    in_world(|rt| async move {
        let config = Config { export_connections_max: 2, ..Config::production() };
        let site = Site::new(&rt, Disk::fast(&rt), config);
        let (first, _) = site.client().await;
        let (_second, _) = site.client().await;
        let (near, _closing) = site.wire().await;
        let refused = Client::connect(&rt, &site.pool, near, "disk").await.err().unwrap().to_string();
        assert!(refused.contains("as many connections as it takes"), "{refused}");
        first.disconnect().await.unwrap();
        rt.sleep(Nanos::millis(1)).await;
        site.client().await.0.read(r(0, 512)).await.unwrap();
    });
}

#[test]
fn a_client_that_sends_half_a_payload_is_closed_after_a_while() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, closing) = site.wire().await;
        let write = Header { flags: 0, command: cmd::WRITE, cookie: 1, offset: 0, len: 4096 }.encode(Form::Simple);
        near.write_all(vec![Part::heap([hello(), write, vec![0; 100]].concat())]).await.unwrap();
        let before = rt.now();
        let closing = closing.await;
        assert!(matches!(closing, Closing::Stalled), "{closing}");
        let waited = rt.now().since(before);
        assert!((Nanos::secs(60)..=Nanos::secs(120)).contains(&waited), "{waited:?}");
        assert_eq!(site.disk.state.completed.get(), 0);
    });
}

#[test]
fn a_client_that_takes_no_replies_is_closed_and_others_are_served() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (client, _) = site.client().await;
        let (near, far) = pipe(4096);
        let closing = site.server.attach(far).await;
        let read = Header { flags: 0, command: cmd::READ, cookie: 1, offset: 0, len: 1 << 20 }.encode(Form::Simple);
        near.write_all(vec![Part::heap([hello(), read].concat())]).await.unwrap();
        for _ in 0..10 {
            rt.sleep(Nanos::secs(5)).await;
            let before = rt.now();
            client.read(r(0, 4096)).await.unwrap();
            assert_eq!(rt.now(), before, "nobody waits for a stranger");
        }
        let closing = closing.await;
        assert!(matches!(closing, Closing::Stalled), "{closing}");
        rt.sleep(Nanos::secs(1000)).await;
        client.read(r(0, 4096)).await.expect("an idle client stays");
    });
}

#[test]
fn requests_of_a_client_that_is_gone_stay_on_the_wire() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, closing) = site.wire().await;
        let read = Header { flags: 0, command: cmd::READ, cookie: 1, offset: 0, len: 512 }.encode(Form::Simple);
        near.write_all(vec![Part::heap([hello(), read.repeat(10_000)].concat())]).await.unwrap();
        near.shutdown();
        let closing = closing.await;
        assert!(!closing.is_clean(), "{closing}");
        let done = site.disk.state.completed.get();
        assert!(done <= 256, "{done} reads for nobody");
    });
}

#[test]
fn a_flood_of_silent_connections_is_over_when_their_time_is() {
    in_world(|rt| async move {
        let site = Rc::new(Site::new(&rt, Disk::fast(&rt), Config::production()));
        let flood: Vec<_> = {
            let mut ends = Vec::new();
            for _ in 0..32 {
                ends.push(site.wire().await);
            }
            ends
        };
        let patient = rt.spawn("patient", {
            let site = site.clone();
            async move { site.client().await.0.read(r(0, 512)).await.is_ok() }
        });
        rt.sleep(Nanos::secs(29)).await;
        assert!(!patient.is_done(), "all slots are taken");
        assert!(patient.await);
        assert!(
            join_all(flood.into_iter().map(|(_, closing)| closing)).await.iter().all(|c| matches!(c, Closing::Late))
        );
    });
}

#[test]
fn a_goodbye_after_requests_waits_for_their_replies() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::slow(&rt), Config::production());
        let (client, closing) = site.client().await;
        let client = Rc::new(client);
        let reads: Vec<_> = (0..5)
            .map(|i| {
                let client = client.clone();
                rt.spawn("read", async move { client.read(r(i * 512, 512)).await.is_ok() })
            })
            .collect();
        rt.sleep(Nanos::micros(100)).await;
        client.say_goodbye();
        assert_eq!(join_all(reads).await, [true; 5]);
        assert!(matches!(closing.await, Closing::Goodbye));
        assert_eq!(site.disk.state.completed.get(), 5);
    });
}

#[test]
fn what_was_written_is_told_apart_on_every_connection() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (writer, _) = site.client().await;
        let (reader, _) = site.client().await;
        let all = r(0, 8 << 20);
        let changed = |list: &[Extent]| list.iter().map(|e| (e.len, e.flags)).collect::<Vec<_>>();
        assert_eq!(changed(&reader.status(Context::Written, all, false).await.unwrap()), [(8 << 20, 0)]);
        writer.write(1 << 20, bytes(&site.pool, 512, 1), false).await.unwrap();
        writer.trim(r(2 << 20, 65_536), false).await.unwrap();
        writer.read(r(0, 512)).await.unwrap();
        writer.write_zeroes(r(3 << 20, 512), false, false).await.unwrap();
        let piece = 64 << 10;
        let list = reader.status(Context::Written, all, false).await.unwrap();
        let gap = (1 << 20) - piece;
        assert_eq!(
            changed(&list),
            [(1 << 20, 0), (piece, 1), (gap, 0), (piece, 1), (gap, 0), (piece, 1), (5 * (1 << 20) - piece, 0)]
        );
    });
}

#[test]
fn an_announced_read_reaches_the_device_where_it_helps() {
    in_world(|rt| async move {
        let (pool, disk) = (Pool::default(), Rc::new(Disk::fast(&rt)));
        for (cached, seen) in [(true, 3 << 20), (false, 3 << 20)] {
            let export = Export::new("disk", disk.clone()).cached(cached);
            let server = Server::new(&rt, &pool, vec![export], Config::production()).unwrap();
            let (near, far) = pipe(1 << 20);
            server.attach(far).await.detach();
            let client = Client::connect(&rt, &pool, near, "disk").await.unwrap();
            let result = client.cache(r(512, 3 << 20)).await;
            assert_eq!(result.is_ok(), cached);
            assert_eq!(disk.state.bytes_read.get(), seen, "the second server does not read");
        }
        assert!(disk.state.largest.get() <= 1 << 20, "in pieces");
    });
}
