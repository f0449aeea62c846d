//! How much of a connection may be under way: requests and bytes of payload, from the header read to the reply sent;
//! and gates for what happens once.

use std::rc::Rc;

use esker_rt::sync::Credits;

/// The credits of one connection.
pub(crate) struct Limits {
    requests: Credits,
    requests_max: u64,
    payload: Credits,
    payload_max: u64,
}

/// Room for one request; given back when dropped.
pub(crate) struct Ticket {
    limits: Rc<Limits>,
    payload: u64,
}

impl Limits {
    pub(crate) fn new(requests_max: u64, payload_max: u64) -> Rc<Limits> {
        let (requests, payload) = (Credits::new(requests_max), Credits::new(payload_max));
        Rc::new(Limits { requests, requests_max, payload, payload_max })
    }

    /// Waits for room for one request with `payload` bytes. One larger than the bound waits for all of it.
    pub(crate) async fn admit(self: &Rc<Self>, payload: u64) -> Ticket {
        self.requests.take(1).await;
        let mut ticket = Ticket { limits: self.clone(), payload: 0 };
        let payload = payload.min(self.payload_max);
        self.payload.take(payload).await;
        ticket.payload = payload;
        ticket
    }

    /// Waits until nothing is under way.
    pub(crate) async fn idle(&self) {
        self.requests.take(self.requests_max).await;
        self.requests.give(self.requests_max);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.limits.payload.give(self.payload);
        self.limits.requests.give(1);
    }
}

/// Something that happens once; tasks that wait for it go on then, and later ones do not wait.
pub(crate) struct Gate(Credits);

/// More than anybody will ever wait.
const EVERYBODY: u64 = 1 << 32;

impl Gate {
    pub(crate) fn closed() -> Gate {
        Gate(Credits::new(0))
    }

    pub(crate) fn open(&self) {
        self.0.give(EVERYBODY);
    }

    pub(crate) async fn wait(&self) {
        self.0.take(1).await;
    }
}
