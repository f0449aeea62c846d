use std::path::{Path, PathBuf};

use super::*;
use crate::listen::{ListenError, listen};
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};

/// A directory that vanishes, and a path for a socket in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    (dir, path)
}

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
    let (_dir, path) = place();
    in_world(|rt| serve_and_load(rt, Address::Unix(path.clone())));
    assert!(!exists(&path), "the socket is removed when its server ends");
}

#[test]
fn tcp_sockets_carry_a_load_without_copies() {
    in_world(|rt| serve_and_load(rt, Address::Tcp("127.0.0.1:0".into())));
}

#[allow(clippy::disallowed_methods, reason = "a test looks at what it left behind")]
fn exists(path: &Path) -> bool {
    path.exists()
}

#[test]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test plays a server that died")]
fn the_socket_of_a_dead_server_is_replaced() {
    let (_dir, path) = place();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(exists(&path), "std leaves the socket behind");
    in_world(|rt| async move {
        let listener = listen(&rt, &Address::Unix(path)).unwrap();
        Stream::connect(&rt, listener.address()).unwrap();
    });
}

#[test]
fn the_socket_of_a_living_server_is_not_replaced() {
    let (_dir, path) = place();
    in_world(|rt| async move {
        let address = Address::Unix(path);
        let _first = listen(&rt, &address).unwrap();
        let error = listen(&rt, &address).err().unwrap();
        assert!(matches!(error, ListenError::Alive(_)), "{error}");
        Stream::connect(&rt, &address).expect("the first server still listens there");
    });
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test puts a file in the way")]
fn what_stands_in_the_way_is_named_and_kept() {
    let (dir, path) = place();
    std::fs::write(&path, b"precious").unwrap();
    let missing = dir.path().join("missing/nbd.sock");
    let kept = path.clone();
    in_world(|rt| async move {
        let error = |address| listen(&rt, &address).err().unwrap();
        assert!(matches!(error(Address::Unix(path)), ListenError::NotSocket(_)));
        let missing = error(Address::Unix(missing));
        assert!(matches!(missing, ListenError::NoDirectory(_)), "{missing}");
        let long = error(Address::Unix(PathBuf::from("/").join("d".repeat(120))));
        assert!(matches!(long, ListenError::LongPath(_)), "{long}");
        let taken = listen(&rt, &Address::Tcp("127.0.0.1:0".into())).unwrap();
        let error = error(taken.address().clone());
        assert!(matches!(error, ListenError::PortInUse(_)), "{error}");
    });
    assert_eq!(std::fs::read(kept).unwrap(), b"precious");
}
