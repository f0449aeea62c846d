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
        let (second, _) = site.client().await;
        for client in [&first, &second] {
            client.read(r(0, 512)).await.unwrap();
        }
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
        near.write_all(vec![Slice::heap([hello(), write, vec![0; 100]].concat())]).await.unwrap();
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
        near.write_all(vec![Slice::heap([hello(), read].concat())]).await.unwrap();
        for _ in 0..10 {
            rt.sleep(Nanos::secs(5)).await;
            let before = rt.now();
            client.read(r(0, 4096)).await.unwrap();
            assert_eq!(rt.now(), before, "no client waits for a stranger");
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
        near.write_all(vec![Slice::heap([hello(), read.repeat(10_000)].concat())]).await.unwrap();
        near.shutdown();
        let closing = closing.await;
        assert!(!closing.is_clean(), "{closing}");
        let done = site.disk.state.completed.get();
        assert!(done <= 256, "{done} reads without a reader");
    });
}

#[test]
fn a_flood_of_silent_connections_keeps_nobody_out_and_its_oldest_go() {
    in_world(|rt| async move {
        let config = Config { handshakes_max: 4, ..Config::production() };
        let site = Site::new(&rt, Disk::fast(&rt), config);
        let mut flood = Vec::new();
        for _ in 0..40 {
            flood.push(site.wire().await);
        }
        let before = rt.now();
        let (client, _) = site.client().await;
        client.read(r(0, 512)).await.unwrap();
        assert_eq!(rt.now(), before, "it does not wait for the silent ones");
        assert_eq!(site.server.connections(), 4, "three silent ones are left");
        let closings = join_all(flood.into_iter().map(|(_, closing)| closing)).await;
        let (crowded, late) = closings.split_at(37);
        assert!(crowded.iter().all(|closing| matches!(closing, Closing::Crowded)), "{crowded:?}");
        assert!(late.iter().all(|closing| matches!(closing, Closing::Late)), "{late:?}");
        assert_eq!(rt.now().since(before), Nanos::secs(10));
    });
}

#[test]
fn the_longest_idle_client_of_a_full_export_gives_way() {
    in_world(|rt| async move {
        let config = Config { export_connections_max: 2, ..Config::production() };
        let site = Site::new(&rt, Disk::fast(&rt), config);
        let (first, _) = site.client().await;
        rt.sleep(Nanos::millis(500)).await;
        let (_second, second_closing) = site.client().await;
        rt.sleep(Nanos::secs(5)).await;
        first.read(r(0, 512)).await.unwrap();
        // Both are idle now, for 2 s and for 7 s.
        rt.sleep(Nanos::secs(2)).await;
        let (third, _) = site.client().await;
        rt.sleep(Nanos::millis(1)).await;
        assert!(second_closing.is_done(), "the second has given way, and no other one");
        let closing = second_closing.await;
        assert!(matches!(closing, Closing::Idle(7)), "{closing}");
        for client in [&first, &third] {
            client.read(r(0, 512)).await.expect("a busy client stays");
        }
        assert_eq!(site.server.connections(), 2);
        third.disconnect().await.unwrap();
        rt.sleep(Nanos::millis(1)).await;
        let (_fourth, _) = site.client().await;
        first.read(r(0, 512)).await.expect("a free slot takes no client's place");
    });
}

#[test]
fn clients_that_ask_nothing_give_way_however_new_they_are() {
    in_world(|rt| async move {
        let config = Config { export_connections_max: 4, ..Config::production() };
        let site = Site::new(&rt, Disk::fast(&rt), config);
        let (busy, _) = site.client().await;
        busy.read(r(0, 512)).await.unwrap();
        for _ in 0..20 {
            // Less than the time after which a connection that was used counts as idle.
            rt.sleep(Nanos::millis(10)).await;
            for _ in 0..4 {
                let (near, _) = site.wire().await;
                near.write_all(vec![Slice::heap([hello(), vec![0x25, 0x60]].concat())]).await.unwrap();
            }
            let (newcomer, _) = site.client().await;
            newcomer.read(r(0, 512)).await.unwrap();
            newcomer.disconnect().await.unwrap();
            busy.read(r(0, 512)).await.unwrap();
            assert!(site.server.connections() <= 4, "those that gave way are gone");
        }
    });
}

#[test]
fn the_longest_idle_client_of_a_full_server_gives_way() {
    in_world(|rt| async move {
        let config = Config { connections_max: 2, ..Config::production() };
        let (pool, disk) = (Pool::default(), Rc::new(Disk::fast(&rt)));
        let exports = ["a", "b"].map(|name| Export::new(name, disk.clone()));
        let server = Server::new(&rt, &pool, exports.into(), config).unwrap();
        let mut clients = Vec::new();
        for name in ["a", "b", "b", "a", "b"] {
            let (near, far) = pipe(1 << 20);
            server.attach(far).await.detach();
            clients.push(Client::connect(&rt, &pool, near, name).await.unwrap());
            rt.sleep(Nanos::secs(2)).await;
        }
        assert_eq!(server.connections(), 2);
        for client in &clients[3..] {
            client.read(r(0, 512)).await.unwrap();
        }
    });
}

#[test]
fn clients_that_are_served_do_not_give_way() {
    in_world(|rt| async move {
        let config = Config { export_connections_max: 2, ..Config::production() };
        let limits = esker_block::Limits::plain(8 << 20, 512);
        let site = Site::new(&rt, Disk::new(&rt, limits, Nanos::secs(30)), config);
        let (waits, _) = site.client().await;
        let waiting = rt.spawn("waits", async move { waits.read(r(0, 512)).await.is_ok() });
        // This one sends a payload, slowly.
        let (near, closing) = site.wire().await;
        let write = Header { flags: 0, command: cmd::WRITE, cookie: 1, offset: 0, len: 4096 }.encode(Form::Simple);
        near.write_all(vec![Slice::heap([hello(), write].concat())]).await.unwrap();
        for _ in 0..16 {
            rt.sleep(Nanos::millis(900)).await;
            near.write_all(vec![Slice::heap(vec![1; 256])]).await.unwrap();
            let (other, _other_closing) = site.wire().await;
            let refused = Client::connect(&rt, &site.pool, other, "disk").await.err().unwrap().to_string();
            assert!(refused.contains("as many connections as it takes"), "{refused}");
        }
        assert!(waiting.await);
        near.shutdown();
        assert!(!matches!(closing.await, Closing::Idle(_)));
    });
}

#[test]
fn a_client_that_sends_half_a_request_is_closed_after_a_while() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, closing) = site.wire().await;
        near.write_all(vec![Slice::heap([hello(), vec![0x25, 0x60]].concat())]).await.unwrap();
        let before = rt.now();
        let closing = closing.await;
        assert!(matches!(closing, Closing::Stalled), "{closing}");
        let waited = rt.now().since(before);
        assert!((Nanos::secs(60)..=Nanos::secs(120)).contains(&waited), "{waited:?}");
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
