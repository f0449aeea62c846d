//! Ends of connections, and the bounds that protect the server from its clients.

use super::*;
use crate::proto::Form;
use crate::proto::option::encode;
use crate::proto::request::Header;
use crate::proto::wire::{cmd, opt};
use esker_rt::sim::{Sim, SimConfig};

fn in_world<T: 'static, Fut: Future<Output = T> + 'static>(scenario: impl FnOnce(Rt) -> Fut) -> T {
    let sim = Sim::new(SimConfig::seeded(2));
    sim.block_on(scenario(sim.rt()))
}

#[test]
fn requests_run_to_completion_when_their_client_goes_away() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::slow(&rt), Config::production());
        let (near, closing) = site.wire().await;
        let client = Rc::new(Client::connect(&rt, &site.pool, near.clone(), "disk").await.unwrap());
        let write = |i: u64| {
            let (client, part) = (client.clone(), bytes(&site.pool, 512, 9));
            rt.spawn("write", async move { client.write(i * 512, part, false).await })
        };
        let writes: Vec<_> = (0..10).map(write).collect();
        // Half of the device's delay: all ten have arrived, none is done.
        rt.sleep(Nanos::micros(500)).await;
        assert_eq!((site.disk.state.under_way.get(), site.disk.state.completed.get()), (10, 0));
        near.shutdown();
        let closing = closing.await;
        assert!(matches!(closing, Closing::Failed(_) | Closing::HungUp), "{closing}");
        assert_eq!((site.server.connections(), site.disk.state.completed.get()), (0, 10));
        assert!(join_all(writes).await.iter().all(|result| matches!(result, Err(Fault::Lost(_)))));
        assert!(matches!(client.flush().await, Err(Fault::Lost(_))), "a lost connection stays lost");
    });
}

#[test]
fn a_client_that_chooses_nothing_is_closed_after_a_while() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let before = rt.now();
        let (_near, closing) = site.wire().await;
        assert!(matches!(closing.await, Closing::Late));
        assert_eq!(rt.now().since(before), Nanos::secs(10));
        let (client, _) = site.client().await;
        rt.sleep(Nanos::secs(100)).await;
        client.read(r(0, 512)).await.unwrap();
    });
}

#[test]
fn a_stop_answers_what_is_under_way_and_refuses_what_comes() {
    in_world(|rt| async move {
        let site = Rc::new(Site::new(&rt, Disk::slow(&rt), Config::production()));
        let (client, closing) = site.client().await;
        let client = Rc::new(client);
        let under_way = rt.spawn("early", {
            let (client, part) = (client.clone(), bytes(&site.pool, 512, 3));
            async move { client.write(0, part, false).await }
        });
        rt.sleep(Nanos::micros(500)).await;
        let stopped = rt.spawn("stop", {
            let site = site.clone();
            async move { site.server.stop().await }
        });
        rt.sleep(Nanos::micros(100)).await;
        let late = client.read(r(0, 512)).await;
        assert!(under_way.await.is_ok());
        match late {
            Err(Fault::Server(failure)) => assert_eq!(failure.errno, Errno::Shutdown),
            other => assert!(matches!(other, Err(Fault::Lost(_)))),
        }
        stopped.await;
        closing.await;
        assert_eq!((site.server.connections(), site.disk.state.completed.get()), (0, 1));
    });
}

/// A handshake for `disk` and then `request` over and over, by a client that reads nothing.
async fn shout(stream: Stream, request: Header, times: usize) {
    let go = [&[0, 0, 0, 4][..], b"disk", &[0, 0]].concat();
    let hello = [3u32.to_be_bytes().to_vec(), encode(opt::GO, &go)].concat();
    stream.write_all(vec![Slice::heap(hello)]).await.unwrap();
    for _ in 0..times {
        stream.write_all(vec![Slice::heap(request.encode(Form::Simple))]).await.unwrap();
    }
}

#[test]
fn a_stop_waits_only_so_long_for_a_client_that_does_not_read() {
    in_world(|rt| async move {
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let (near, far) = pipe(4096);
        let closing = site.server.attach(far).await;
        shout(near.clone(), Header { flags: 0, command: cmd::READ, cookie: 1, offset: 0, len: 64 << 10 }, 3).await;
        rt.sleep(Nanos::secs(1)).await;
        assert_eq!(site.disk.state.completed.get(), 3);
        let before = rt.now();
        site.server.stop().await;
        assert_eq!(rt.now().since(before), Nanos::secs(10));
        assert!(matches!(closing.await, Closing::Failed(_)));
    });
}

#[test]
fn a_client_that_does_not_read_cannot_pile_up_replies() {
    for (command, len) in [(0xff, 0), (cmd::READ, 512), (cmd::READ, 0)] {
        in_world(|rt| async move {
            let site = Site::new(&rt, Disk::fast(&rt), Config::tiny());
            let (near, far) = pipe(4096);
            let _closing = site.server.attach(far).await;
            let shouting = rt.spawn("shout", {
                let request = Header { flags: 0, command, cookie: 1, offset: 0, len };
                async move { shout(near, request, 100_000).await }
            });
            rt.sleep(Nanos::secs(60)).await;
            assert!(!shouting.is_done(), "the server took 2.8 MB of requests without sending replies");
        });
    }
}
