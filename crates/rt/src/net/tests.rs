//! Streams give parts back as they were, and TCP streams send at once.

use super::*;
use crate::real::{Backend, Reactor, RealConfig};
use crate::sim::{SimConfig, twice};

#[test]
fn written_parts_come_back_with_their_windows() {
    let windows = twice(SimConfig::seeded(1), |rt| async move {
        // A pipe smaller than the parts, so that they leave in pieces.
        let (near, far) = pipe(3);
        let reader = rt.spawn("reader", async move { far.read_exact(vec![Slice::heap(vec![0; 9])]).await });
        let second = Slice { start: 2, len: 4, ..Slice::heap(b"xxabcdxx".to_vec()) };
        let parts = near.write_all(vec![Slice::heap(b"12345".to_vec()), second]).await.unwrap();
        assert_eq!(reader.await.unwrap()[0].bytes(), b"12345abcd");
        parts.iter().map(|part| (part.start, part.len)).collect::<Vec<_>>()
    });
    assert_eq!(windows, [(0, 5), (2, 4)]);
}

#[test]
fn both_ends_of_a_tcp_stream_send_without_delay() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        let delays = reactor.block_on(async move {
            let listener = Listener::bind(&rt, &Address::Tcp("127.0.0.1:0".into())).unwrap();
            let client = Stream::connect(&rt, listener.address()).unwrap();
            let accepted = listener.accept().await.unwrap();
            [client, accepted].map(|Stream(kind)| match kind {
                Kind::Socket { fd, .. } => rustix::net::sockopt::tcp_nodelay(&*fd).unwrap(),
                Kind::Pipe { .. } => false,
            })
        });
        assert_eq!(delays, [true, true], "{backend:?}");
    }
}

/// Both ends of a local socket.
pub(super) fn local_pair(rt: &Rt) -> (Stream, Stream) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    (Stream::from_socket(rt, near).unwrap(), Stream::from_socket(rt, far).unwrap())
}

#[test]
fn what_is_there_behind_the_bytes_that_are_needed_comes_with_them() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        reactor.block_on(async move {
            let (near, far) = local_pair(&rt);
            let empty = || vec![Slice::heap(vec![0; 4]), Slice::heap(vec![0; 8])];
            far.write_all(vec![Slice::heap(b"12345678".to_vec())]).await.unwrap();
            assert!(far.untaken() > 0, "the peer has not read it");
            let (parts, got) = near.read_at_least(empty(), 4).await.unwrap();
            assert_eq!((got, parts[0].bytes(), &parts[1].bytes()[..4]), (8, &b"1234"[..], &b"5678"[..]));
            assert_eq!(far.untaken(), 0);
            far.write_all(vec![Slice::heap(b"123".to_vec())]).await.unwrap();
            far.shutdown();
            let error = near.read_at_least(empty(), 4).await.err().map(|e| e.kind());
            assert_eq!(error, Some(io::ErrorKind::UnexpectedEof), "{backend:?}");
        });
    }
}

#[test]
fn a_busy_socket_brings_every_byte_in_order_and_lets_other_tasks_run() {
    for backend in [Backend::Uring, Backend::Threads] {
        let reactor = Reactor::new(RealConfig { backend, ..RealConfig::seeded(1) }).unwrap();
        let rt = reactor.rt();
        reactor.block_on(async move {
            let (near, far) = local_pair(&rt);
            // All there at once: the reader never has to wait, and must let the other task run all the same.
            far.write_all(vec![Slice::heap((0..200).collect())]).await.unwrap();
            let other = rt.spawn("other", std::future::ready(7));
            for wanted in 0..200 {
                let parts = near.read_exact(vec![Slice::heap(vec![0])]).await.unwrap();
                assert_eq!(parts[0].bytes(), [wanted]);
            }
            assert!(other.is_done(), "{backend:?}: starved");
        });
    }
}

#[test]
fn the_kernel_ends_accepted_tcp_connections_whose_peer_has_vanished() {
    use rustix::net::sockopt;
    let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
    let rt = reactor.rt();
    reactor.block_on(async move {
        let listener = Listener::bind(&rt, &Address::Tcp("127.0.0.1:0".into())).unwrap();
        let _client = Stream::connect(&rt, listener.address()).unwrap();
        let accepted = listener.accept_fd().await.unwrap();
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        let times = [sockopt::tcp_keepidle(&accepted), sockopt::tcp_keepintvl(&accepted)];
        assert_eq!(times.map(|time| time.unwrap().as_secs()), [60, 10]);
        assert_eq!(sockopt::tcp_keepcnt(&accepted).unwrap(), 3);
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 90_000);
    });
}
