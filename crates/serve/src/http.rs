//! Just enough of HTTP to hand out a few pages: a request's head is read within bounds, answered, and the connection
//! closed.

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_rt::Rt;
use esker_rt::mem::{Mem, Slice};
use esker_rt::net::{Listener, Stream};
use esker_rt::sync::{Either, race};

use crate::accept;

/// Connections at a time; when one more comes, the oldest without a request under way ends.
pub(crate) const CONNECTIONS_MAX: usize = 16;
/// Longest head of a request in bytes.
pub const HEAD_MAX: usize = 8 << 10;
/// Most header lines of a request.
const HEADERS_MAX: usize = 64;
/// A client may take so long to send its request, and as long again to take the answer.
const CLIENT_TIME_MAX: Nanos = Nanos::secs(5);
/// A page is handed out again for so long, however often it is asked for.
const PAGE_AGE_MAX: Nanos = Nanos::millis(100);

/// What is handed out.
pub trait Pages {
    /// Where, each beginning with a slash.
    fn paths(&self) -> &'static [&'static str];

    /// The type of one of them, and its text.
    fn page(&self, path: &str) -> (&'static str, String);
}

/// What the bytes of a request ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// More bytes are needed to tell.
    More,
    /// A page.
    Page {
        /// Its path.
        path: &'static str,
        /// Whether it is wanted itself, and not only what is told of it.
        body: bool,
    },
    /// A status other than 200.
    Refused(&'static str),
}

/// Reads the head of a request for one of these pages.
pub fn asked(head: &[u8], paths: &[&'static str]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Err(httparse::Error::TooManyHeaders) => Asked::Refused("431 Request Header Fields Too Large"),
        Err(_) => Asked::Refused("400 Bad Request"),
        Ok(httparse::Status::Partial) if head.len() >= HEAD_MAX => {
            Asked::Refused("431 Request Header Fields Too Large")
        }
        Ok(httparse::Status::Partial) => Asked::More,
        Ok(httparse::Status::Complete(_)) => route(request.method, request.path, paths),
    }
}

fn route(method: Option<&str>, path: Option<&str>, paths: &[&'static str]) -> Asked {
    let path = path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match (method, paths.iter().find(|known| **known == path)) {
        (_, None) => Asked::Refused("404 Not Found"),
        (Some("GET"), Some(path)) => Asked::Page { path, body: true },
        (Some("HEAD"), Some(path)) => Asked::Page { path, body: false },
        (_, Some(_)) => Asked::Refused("405 Method Not Allowed"),
    }
}

/// A page as it was last made.
struct CachedPage {
    made: Time,
    content_type: &'static str,
    text: Rc<str>,
}

/// Pages, and those that were made a moment ago.
struct Shelf {
    rt: Rt,
    pages: Rc<dyn Pages>,
    kept: RefCell<BTreeMap<&'static str, CachedPage>>,
}

/// Answers requests without end. A connection outlives this by [`CLIENT_TIME_MAX`] twice at most.
pub async fn serve(rt: Rt, listener: Rc<Listener>, pages: Rc<dyn Pages>) {
    let shelf = Shelf { rt: rt.clone(), pages, kept: RefCell::default() };
    let converse = async move |stream: &Stream, works: &Cell<bool>| {
        shelf.converse(stream, works).await;
        stream.shutdown();
    };
    accept::serve(&rt, &listener, "metrics", CONNECTIONS_MAX, converse).await;
}

impl Shelf {
    async fn converse(&self, stream: &Stream, works: &Cell<bool>) {
        let paths = self.pages.paths();
        let request = race(read_request(stream, paths), self.rt.sleep(CLIENT_TIME_MAX)).await;
        // From here to the end of the answer, which has a limit, it does not give way to another connection.
        works.set(true);
        let response = match request {
            Either::Left(Some(asked)) => self.respond(asked),
            Either::Left(None) => return,
            Either::Right(()) => self.respond(Asked::Refused("408 Request Timeout")),
        };
        let write = stream.write_all(vec![Slice::heap(response)]);
        // One that does not take it in time loses it.
        drop(race(write, self.rt.sleep(CLIENT_TIME_MAX)).await);
    }

    fn respond(&self, asked: Asked) -> Vec<u8> {
        let (status, (content_type, text), body) = match asked {
            Asked::Page { path, body } => ("200 OK", self.current(path), body),
            Asked::Refused(status) => (status, self.usage(), true),
            Asked::More => unreachable!("more is read until something else is asked"),
        };
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let length = text.len();
        let mut response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
        );
        if body {
            response.push_str(&text);
        }
        response.into_bytes()
    }

    fn usage(&self) -> (&'static str, Rc<str>) {
        let usage = format!("GET {} is all there is\n", self.pages.paths().join(" or "));
        ("text/plain; charset=utf-8", usage.into())
    }

    fn current(&self, path: &'static str) -> (&'static str, Rc<str>) {
        let now = self.rt.now();
        let mut kept = self.kept.borrow_mut();
        match kept.get(path) {
            Some(kept) if now.since(kept.made) < PAGE_AGE_MAX => (kept.content_type, kept.text.clone()),
            _ => {
                let (content_type, text) = self.pages.page(path);
                let text: Rc<str> = text.into();
                kept.insert(path, CachedPage { made: now, content_type, text: text.clone() });
                (content_type, text)
            }
        }
    }
}

/// None if the client goes away.
async fn read_request(stream: &Stream, paths: &[&'static str]) -> Option<Asked> {
    let mut head = Vec::new();
    loop {
        let room = HEAD_MAX - head.len();
        let (parts, count) = stream.read(vec![Slice::heap(vec![0; room])]).await;
        let count = count.ok().filter(|count| *count > 0)?;
        let Some(Slice { mem: Mem::Heap(bytes), .. }) = parts.first() else { return None };
        head.extend_from_slice(&bytes[..count]);
        match asked(&head, paths) {
            Asked::More => {}
            asked @ (Asked::Page { .. } | Asked::Refused(_)) => return Some(asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&str] = &["/metrics"];

    #[test]
    fn a_request_is_understood_at_its_end_and_nonsense_at_once() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 1..whole.len() {
            assert_eq!(asked(&whole[..cut], PATHS), Asked::More, "after {cut} bytes");
        }
        assert_eq!(asked(whole, PATHS), Asked::Page { path: "/metrics", body: true });
        assert_eq!(asked(b"HEAD /metrics HTTP/1.0\r\n\r\n", PATHS), Asked::Page { path: "/metrics", body: false });
        assert_eq!(asked(b"\x16\x03\x01\x02\x00", PATHS), Asked::Refused("400 Bad Request"));
        assert_eq!(asked(b"POST /metrics HTTP/1.1\r\n\r\n", PATHS), Asked::Refused("405 Method Not Allowed"));
        assert_eq!(asked(b"GET / HTTP/1.1\r\n\r\n", PATHS), Asked::Refused("404 Not Found"));
        let long = [b"GET /metrics HTTP/1.1\r\nA: ".to_vec(), vec![b'a'; HEAD_MAX]].concat();
        assert_eq!(asked(&long[..HEAD_MAX], PATHS), Asked::Refused("431 Request Header Fields Too Large"));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(asked(many.as_bytes(), PATHS), Asked::Refused("431 Request Header Fields Too Large"));
    }
}
