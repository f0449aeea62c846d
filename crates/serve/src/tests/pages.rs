//! Pages over HTTP, and connections that compete for them.

use super::*;
use crate::http::{self, CONNECTIONS_MAX, Pages};

use esker_rt::net::Listener;

/// More than sockets take while nothing is read.
const BODY_BYTES: usize = 32 << 20;

/// One page, which does not fit into a socket.
struct Long;

impl Pages for Long {
    fn paths(&self) -> &'static [&'static str] {
        &["/long"]
    }

    fn page(&self, _: &str) -> (&'static str, String) {
        ("text/plain", "x".repeat(BODY_BYTES))
    }
}

async fn read_some(stream: &Stream) -> usize {
    stream.read(vec![Slice::heap(vec![0; 1 << 20])]).await.1.unwrap_or(0)
}

#[test]
fn an_answer_under_way_does_not_give_way_to_others() {
    in_world(|rt, dir| async move {
        let address = Address::Unix(dir.join("pages"));
        let listener = Rc::new(Listener::bind(&rt, &address).unwrap());
        rt.spawn("pages", http::serve(rt.clone(), listener, Rc::new(Long))).detach();
        let asks = Stream::connect(&rt, &address).unwrap();
        asks.write_all(vec![Slice::heap(b"GET /long HTTP/1.1\r\n\r\n".to_vec())]).await.unwrap();
        let mut got = read_some(&asks).await;
        let silent: Vec<_> = (0..CONNECTIONS_MAX).map(|_| Stream::connect(&rt, &address).unwrap()).collect();
        assert_eq!(read_some(&silent[0]).await, 0, "the oldest of those that ask nothing gives way");
        loop {
            match read_some(&asks).await {
                0 => break,
                more => got += more,
            }
        }
        assert!(got > BODY_BYTES, "{got} bytes came");
    });
}
