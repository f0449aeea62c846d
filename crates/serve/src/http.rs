//! Just enough of HTTP to hand out one page: a request's head is read within bounds, answered, and the connection closed.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_rt::Level;
use esker_rt::mem::{Mem, Part};
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Credits, Either, race};

use crate::metrics;
use crate::server::Shared;
use crate::status::Status;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: u64 = 16;
/// Longest head of a request in bytes.
pub const HEAD_MAX: usize = 8 << 10;
/// Most header lines of a request.
const HEADERS_MAX: usize = 64;
/// A client may take so long to send its request, and as long again to take the answer.
const CLIENT_TIME_MAX: Nanos = Nanos::secs(5);
/// A page is handed out again for so long, however often it is asked for.
const PAGE_AGE_MAX: Nanos = Nanos::millis(100);

/// What the bytes of a request ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// More bytes are needed to tell.
    More,
    /// The metrics.
    Metrics,
    /// The metrics without their body.
    MetricsHead,
    /// A status other than 200.
    Refused(&'static str),
}

/// Reads the head of a request.
pub fn asked(head: &[u8]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Err(httparse::Error::TooManyHeaders) => Asked::Refused("431 Request Header Fields Too Large"),
        Err(_) => Asked::Refused("400 Bad Request"),
        Ok(httparse::Status::Partial) if head.len() >= HEAD_MAX => {
            Asked::Refused("431 Request Header Fields Too Large")
        }
        Ok(httparse::Status::Partial) => Asked::More,
        Ok(httparse::Status::Complete(_)) => route(request.method, request.path),
    }
}

fn route(method: Option<&str>, path: Option<&str>) -> Asked {
    let path = path.unwrap_or_default();
    match (method, path.split_once('?').map_or(path, |(path, _)| path)) {
        (Some("GET"), "/metrics") => Asked::Metrics,
        (Some("HEAD"), "/metrics") => Asked::MetricsHead,
        (_, "/metrics") => Asked::Refused("405 Method Not Allowed"),
        _ => Asked::Refused("404 Not Found"),
    }
}

/// The page as it was last made.
type Page = Rc<RefCell<Option<(Time, Rc<str>)>>>;

/// Accepts connections until the server stops.
pub(crate) async fn serve(shared: Rc<Shared>, listener: Rc<Listener>) {
    let (slots, page) = (Rc::new(Credits::new(CONNECTIONS_MAX)), Page::default());
    loop {
        let next = async {
            slots.take(1).await;
            listener.accept().await
        };
        match race(next, shared.stopping()).await {
            Either::Left(Ok(stream)) => {
                let (shared, slots, page) = (shared.clone(), slots.clone(), page.clone());
                let rt = shared.rt.clone();
                let task = async move {
                    let all = race(converse(&shared, &page, &stream), shared.stopping());
                    all.await;
                    stream.shutdown();
                    slots.give(1);
                };
                rt.spawn("metrics", task).detach();
            }
            Either::Left(Err(error)) => {
                slots.give(1);
                let text = format_args!("metrics: cannot accept: {error}; trying again in 100 ms");
                shared.rt.tell(Level::Warn, "accept_failed", &[("error", &error)], text);
                shared.rt.sleep(Nanos::millis(100)).await;
            }
            Either::Right(()) => return,
        }
    }
}

async fn converse(shared: &Shared, page: &Page, stream: &Stream) {
    let request = race(read_request(stream), shared.rt.sleep(CLIENT_TIME_MAX)).await;
    let response = match request {
        Either::Left(Some(asked)) => respond(asked, || current(shared, page)),
        Either::Left(None) => return,
        Either::Right(()) => respond(Asked::Refused("408 Request Timeout"), || current(shared, page)),
    };
    let write = stream.write_all(vec![Part::heap(response)]);
    // One that does not take it in time loses it.
    drop(race(write, shared.rt.sleep(CLIENT_TIME_MAX)).await);
}

/// None if the client goes away.
async fn read_request(stream: &Stream) -> Option<Asked> {
    let mut head = Vec::new();
    loop {
        let room = HEAD_MAX - head.len();
        let (parts, count) = stream.read(vec![Part::heap(vec![0; room])]).await;
        let count = count.ok().filter(|count| *count > 0)?;
        let Some(Part { mem: Mem::Heap(bytes), .. }) = parts.first() else { return None };
        head.extend_from_slice(&bytes[..count]);
        match asked(&head) {
            Asked::More => {}
            asked => return Some(asked),
        }
    }
}

fn respond(asked: Asked, page: impl FnOnce() -> Rc<str>) -> Vec<u8> {
    let (status, content_type, body) = match asked {
        Asked::Metrics | Asked::MetricsHead => ("200 OK", metrics::CONTENT_TYPE, page()),
        Asked::Refused(status) => (status, "text/plain; charset=utf-8", "GET /metrics is all there is\n".into()),
        Asked::More => unreachable!("more is read until something else is asked"),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
    );
    if asked != Asked::MetricsHead {
        response.push_str(&body);
    }
    response.into_bytes()
}

fn current(shared: &Shared, page: &Page) -> Rc<str> {
    let now = shared.rt.now();
    let mut kept = page.borrow_mut();
    match &*kept {
        Some((made, page)) if now.since(*made) < PAGE_AGE_MAX => page.clone(),
        _ => {
            let page: Rc<str> = metrics::page(Status::of(shared)).into();
            *kept = Some((now, page.clone()));
            page
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood_at_its_end_and_nonsense_at_once() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 1..whole.len() {
            assert_eq!(asked(&whole[..cut]), Asked::More, "after {cut} bytes");
        }
        assert_eq!(asked(whole), Asked::Metrics);
        assert_eq!(asked(b"HEAD /metrics HTTP/1.0\r\n\r\n"), Asked::MetricsHead);
        assert_eq!(asked(b"\x16\x03\x01\x02\x00"), Asked::Refused("400 Bad Request"));
        assert_eq!(asked(b"POST /metrics HTTP/1.1\r\n\r\n"), Asked::Refused("405 Method Not Allowed"));
        assert_eq!(asked(b"GET / HTTP/1.1\r\n\r\n"), Asked::Refused("404 Not Found"));
        let long = [b"GET /metrics HTTP/1.1\r\nA: ".to_vec(), vec![b'a'; HEAD_MAX]].concat();
        assert_eq!(asked(&long[..HEAD_MAX]), Asked::Refused("431 Request Header Fields Too Large"));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(asked(many.as_bytes()), Asked::Refused("431 Request Header Fields Too Large"));
    }
}
