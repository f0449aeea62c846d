//! Streams give parts back as they were, and TCP streams send at once.

use super::*;
use crate::real::{Backend, Reactor, RealConfig};
use crate::sim::{SimConfig, twice};

#[test]
fn written_parts_come_back_with_their_windows() {
    let windows = twice(SimConfig::seeded(1), |rt| async move {
        // A pipe smaller than the parts, so that they leave in pieces.
        let (near, far) = pipe(3);
        let reader = rt.spawn("reader", async move { far.read_exact(vec![Part::heap(vec![0; 9])]).await });
        let second = Part { start: 2, len: 4, ..Part::heap(b"xxabcdxx".to_vec()) };
        let parts = near.write_all(vec![Part::heap(b"12345".to_vec()), second]).await.unwrap();
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
