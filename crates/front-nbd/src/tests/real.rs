//! Loads over sockets.

use super::*;
use crate::listen::listen;
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};

fn in_world<T: 'static, Fut: Future<Output = T> + 'static>(scenario: impl FnOnce(Rt) -> Fut) -> T {
    let reactor = Reactor::new(RealConfig::seeded(3)).unwrap();
    reactor.block_on(scenario(reactor.rt()))
}

async fn serve_and_load(rt: Rt, address: Address) {
    let site = Site::new(&rt, Disk::fast(&rt), Config::production());
    let listener = Rc::new(listen(&rt, &address).unwrap());
    let address = listener.address().clone();
    let serving = rt.spawn("serve", {
        let (server, listener) = (site.server.clone(), listener.clone());
        async move { server.serve(&listener).await }
    });
    let mut clients = Vec::new();
    for export in ["disk", ""] {
        let stream = Stream::connect(&rt, &address).unwrap();
        clients.push(Client::connect(&rt, &site.pool, stream, export).await.unwrap());
    }
    let first = loads(&rt, &site.pool, clients.remove(0), 8, 512).await;
    assert_eq!(site.pool.bounced(), 0, "payload bytes were copied between buffers");
    // 3 MiB fit in no socket buffer: reads and writes come in pieces.
    let part = bytes(&site.pool, 3 << 20, 0xab);
    first.write(4 << 20, part, true).await.unwrap();
    let second = clients.remove(0);
    let slab = second.read(r(4 << 20, 3 << 20)).await.unwrap();
    assert!(slab[..3 << 20].iter().all(|byte| *byte == 0xab), "connections share one device");
    assert_eq!(site.pool.bounced(), 0);
    first.disconnect().await.unwrap();
    site.server.stop().await;
    serving.await;
    assert!(matches!(second.flush().await, Err(Fault::Lost(_))));
}

#[test]
fn unix_sockets_carry_a_load_without_copies() {
    let dir = tempfile::tempdir().unwrap();
    in_world(|rt| serve_and_load(rt, Address::Unix(dir.path().join("nbd.sock"))));
}

#[test]
fn tcp_sockets_carry_a_load_without_copies() {
    in_world(|rt| serve_and_load(rt, Address::Tcp("127.0.0.1:0".into())));
}
