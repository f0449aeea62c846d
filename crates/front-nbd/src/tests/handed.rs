//! Connections that go on in another server.

use std::cell::Cell;

use super::*;
use crate::handed::{Agreed, Restless};
use crate::proto::Form;
use crate::proto::option::encode;
use crate::proto::request::Header;
use crate::proto::wire::{REQUEST_LEN, SIMPLE_REPLY_LEN, cmd, opt};
use esker_rt::sim::{SimConfig, twice};

/// One more server of the disk.
fn server_of(site: &Site) -> Server {
    Server::new(&site.rt, &site.pool, vec![Export::new("disk", site.disk.clone())], Config::production()).unwrap()
}

async fn go_over(from: &Server, to: &Server) -> usize {
    from.halt(Nanos::secs(10)).await.unwrap();
    let handed = from.take_handed();
    let count = handed.len();
    for connection in handed {
        to.adopt(connection).await;
    }
    count
}

#[test]
fn loads_go_on_while_their_connections_go_from_server_to_server() {
    let counts = twice(SimConfig::seeded(5), |rt| async move {
        let site = Rc::new(Site::new(&rt, Disk::slow(&rt), Config::production()));
        let (is_over, mut all) = (Rc::new(Cell::new(0)), Vec::new());
        for number in 0..3 {
            let (site, is_over, random) = (site.clone(), is_over.clone(), rt.rng(&format!("client {number}")));
            let (client, _) = site.client().await;
            all.push(rt.spawn("client", async move {
                load(&client, &site.pool, random, 1000 * number, 64).await;
                is_over.set(is_over.get() + 1);
            }));
        }
        let mut random = rt.rng("moments");
        let (mut now, mut counts) = (site.server.clone(), Vec::new());
        while is_over.get() < 3 {
            rt.sleep(Nanos::micros(random.below(3_000))).await;
            let next = server_of(&site);
            counts.push(go_over(&now, &next).await);
            assert_eq!(now.connections(), 0);
            now = next;
        }
        join_all(all).await;
        counts
    });
    assert!(counts.len() > 20 && counts.iter().any(|count| *count > 0), "{counts:?}");
}

/// A handshake for `disk` with simple replies.
fn hello() -> Vec<u8> {
    let go = [&[0, 0, 0, 4][..], b"disk", &[0, 0]].concat();
    [3u32.to_be_bytes().to_vec(), encode(opt::GO, &go)].concat()
}

/// The end of the handshake is read, so that what comes is replies.
async fn greeted(near: &Stream) {
    near.write_all(vec![Slice::heap(hello())]).await.unwrap();
    let mut seen = Vec::new();
    // The acknowledgement has no data and comes last.
    while !seen.ends_with(&[0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0]) {
        let (parts, count) = near.read(vec![Slice::heap(vec![0; 4096])]).await;
        seen.extend_from_slice(&parts[0].bytes()[..count.unwrap()]);
    }
}

#[test]
fn bytes_of_a_request_that_has_not_come_whole_go_along() {
    for cut in [1, 13, REQUEST_LEN - 1, REQUEST_LEN] {
        for behind_a_payload in [true, false] {
            twice(SimConfig::seeded(1), |rt| async move {
                let head = |command, cookie| Header { flags: 0, command, cookie, offset: 0, len: 512 };
                let (write, read) = (head(cmd::WRITE, 1).encode(Form::Simple), head(cmd::READ, 2).encode(Form::Simple));
                let site = Site::new(&rt, Disk::slow(&rt), Config::production());
                let (near, _) = site.wire().await;
                greeted(&near).await;
                let head = if behind_a_payload { [&write[..], &[7; 512]].concat() } else { Vec::new() };
                near.write_all(vec![Slice::heap([&head[..], &read[..cut]].concat())]).await.unwrap();
                // In the middle of the write, if there is one: no more is read behind it.
                rt.sleep(Nanos::micros(if behind_a_payload { 500 } else { 1 })).await;
                let next = server_of(&site);
                site.server.halt(Nanos::secs(1)).await.unwrap();
                let handed = site.server.take_handed();
                // A whole request is carried out first.
                assert_eq!(handed[0].agreed.pending.len(), cut % REQUEST_LEN);
                for connection in handed {
                    next.adopt(connection).await;
                }
                near.write_all(vec![Slice::heap([&read[cut..], &read].concat())]).await.unwrap();
                let expected = usize::from(behind_a_payload) * SIMPLE_REPLY_LEN + 2 * (SIMPLE_REPLY_LEN + 512);
                let parts = near.read_exact(vec![Slice::heap(vec![0; expected])]).await.unwrap();
                let value = if behind_a_payload { 7 } else { 0 };
                assert!(parts[0].bytes()[expected - 512..].iter().all(|byte| *byte == value));
            });
        }
    }
}

#[test]
fn a_client_that_takes_no_answers_keeps_its_server_which_goes_on() {
    twice(SimConfig::seeded(1), |rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, far) = pipe(4096);
        site.server.attach(far).await.detach();
        let (quiet, _) = site.client().await;
        greeted(&near).await;
        let read = Header { flags: 0, command: cmd::READ, cookie: 1, offset: 0, len: 64 << 10 };
        near.write_all(vec![Slice::heap(read.encode(Form::Simple))]).await.unwrap();
        rt.sleep(Nanos::millis(1)).await;
        let restless = site.server.halt(Nanos::secs(1)).await.unwrap_err();
        assert_eq!(restless, Restless { client: 1, peer: String::new() });
        site.server.resume().await;
        near.read_exact(vec![Slice::heap(vec![0; SIMPLE_REPLY_LEN + (64 << 10)])]).await.unwrap();
        near.write_all(vec![Slice::heap(read.encode(Form::Simple))]).await.unwrap();
        near.read_exact(vec![Slice::heap(vec![0; SIMPLE_REPLY_LEN + (64 << 10)])]).await.unwrap();
        quiet.read(r(0, 512)).await.unwrap();
        let (late, _) = site.client().await;
        late.read(r(0, 512)).await.unwrap();
    });
}

#[test]
fn a_client_that_shakes_hands_may_choose_and_is_sent_away_if_it_does_not() {
    twice(SimConfig::seeded(1), |rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let ((slow, _), (silent, closing)) = (site.wire().await, site.wire().await);
        let (own, hand) = (rt.clone(), slow.clone());
        let choose = rt.spawn("choose", async move {
            own.sleep(Nanos::millis(500)).await;
            greeted(&hand).await;
        });
        let next = server_of(&site);
        assert_eq!(go_over(&site.server, &next).await, 1);
        choose.await;
        assert!(matches!(closing.await, Closing::HungUp));
        drop(silent);
        let read = Header { flags: 0, command: cmd::READ, cookie: 1, offset: 0, len: 512 };
        slow.write_all(vec![Slice::heap(read.encode(Form::Simple))]).await.unwrap();
        slow.read_exact(vec![Slice::heap(vec![0; SIMPLE_REPLY_LEN + 512])]).await.unwrap();
    });
}

#[test]
fn a_connection_ends_where_its_export_is_not_what_it_was() {
    twice(SimConfig::seeded(1), |rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (client, _) = site.client().await;
        site.server.halt(Nanos::secs(1)).await.unwrap();
        let handed = site.server.take_handed().remove(0);
        let agreed = handed.agreed.clone();
        let changed = [
            Agreed { export: "other".into(), ..agreed.clone() },
            Agreed { min_block: 1, ..agreed.clone() },
            Agreed { flags: agreed.flags | crate::proto::wire::flag::READ_ONLY, ..agreed.clone() },
            Agreed { pending: vec![0; REQUEST_LEN + 1], ..agreed },
        ];
        for agreed in changed {
            let (near, far) = pipe(64);
            server_of(&site).adopt(crate::Handed { stream: far, agreed }).await;
            assert_eq!(near.read(vec![Slice::heap(vec![0; 1])]).await.1.unwrap(), 0, "it has ended");
        }
        site.server.resume().await;
        site.server.adopt(handed).await;
        client.read(r(0, 512)).await.unwrap();
    });
}
