//! Slots of connections. Those that shake hands have slots of their own. When no slot is free, the connection of least
//! use gives way, so that silent clients keep no new one out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Time};
use esker_rt::net::Stream;
use esker_rt::net::interrupt::Interrupt;
use esker_rt::sync::Credits;

use crate::account::Account;
use crate::admission::Limits;
use crate::server::Config;

/// Why a connection had to give way to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    /// It was the oldest of those that had chosen no export.
    Unchosen,
    /// No byte had moved on it for this long, longer than on all others.
    Idle(Nanos),
}

/// What the server keeps of a connection.
#[derive(Clone)]
pub(crate) struct Open {
    pub stream: Stream,
    pub limits: Rc<Limits>,
    pub account: Rc<Account>,
    /// Ends its wait for the next request.
    pub interrupt: Rc<Interrupt>,
}

/// All connections of a server.
pub(crate) struct Slots {
    config: Config,
    free: Credits,
    open: RefCell<BTreeMap<u64, Open>>,
    /// Connections of each export that have not given way.
    users: RefCell<Vec<u64>>,
}

impl Slots {
    pub(crate) fn new(config: Config, exports: usize) -> Slots {
        Slots {
            config,
            free: Credits::new(config.connections_max + config.handshakes_max),
            open: RefCell::default(),
            users: RefCell::new(vec![0; exports]),
        }
    }

    /// Waits for a slot to shake hands in. When there is none, the oldest connection that has chosen no export ends.
    pub(crate) async fn take(&self) {
        if let Some(oldest) = self.oldest_unchosen() {
            oldest.give_way(GaveWay::Unchosen);
        }
        self.free.take(1).await;
    }

    /// The oldest connection that has chosen no export, if there are as many as may be.
    fn oldest_unchosen(&self) -> Option<Open> {
        let open = self.open.borrow();
        let is_unchosen = |account: &Account| account.export.get().is_none() && account.gave_way.get().is_none();
        let mut unchosen = open.values().filter(|open| is_unchosen(&open.account));
        let oldest = unchosen.next()?;
        (unchosen.count() as u64 + 1 >= self.config.handshakes_max).then(|| oldest.clone())
    }

    pub(crate) fn enter(&self, open: Open) {
        self.open.borrow_mut().insert(open.account.number, open);
    }

    /// The connection is over; its slot is free.
    pub(crate) fn leave(&self, number: u64) {
        if let Some(Open { account, .. }) = self.open.borrow_mut().remove(&number)
            && account.gave_way.get().is_none()
            && let Some(export) = account.export.get()
        {
            self.users.borrow_mut()[export] -= 1;
        }
        self.free.give(1);
    }

    /// The connections, oldest first.
    pub(crate) fn list(&self) -> Vec<Open> {
        self.open.borrow().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Connections of one export.
    pub(crate) fn users(&self, export: usize) -> u64 {
        self.users.borrow()[export]
    }

    /// The exports that take no connection now: none of those that would have to give way is idle.
    pub(crate) fn full(&self, now: Time) -> Vec<usize> {
        let exports = self.users.borrow().len();
        (0..exports)
            .filter(|export| self.in_the_way(*export).is_some_and(|all| all.idlest(now, self).is_none()))
            .collect()
    }

    /// The connection of `account` uses `export` from now on. If that is one too many, the idlest gives way.
    pub(crate) fn choose(&self, account: &Account, export: usize, now: Time) {
        if let Some((idlest, idle)) = self.in_the_way(export).and_then(|all| all.idlest(now, self)) {
            let of = idlest.account.export.get().expect("only connections with an export are in the way");
            self.users.borrow_mut()[of] -= 1;
            idlest.give_way(GaveWay::Idle(idle));
        }
        self.users.borrow_mut()[export] += 1;
        account.export.set(Some(export));
    }

    /// Whose connections leave no room for one more of `export`; none if there is room.
    fn in_the_way(&self, export: usize) -> Option<Way> {
        let users = self.users.borrow();
        if users[export] >= self.config.export_connections_max {
            return Some(Way::Of(export));
        }
        (users.iter().sum::<u64>() >= self.config.connections_max).then_some(Way::All)
    }
}

#[derive(Clone, Copy)]
enum Way {
    Of(usize),
    All,
}

impl Way {
    /// The connection that has been idle longest, and for how long; none if all are in use.
    fn idlest(self, now: Time, slots: &Slots) -> Option<(Open, Nanos)> {
        let open = slots.open.borrow();
        let counts = |account: &Account| match (self, account.export.get()) {
            (_, None) => false,
            (Way::All, Some(_)) => true,
            (Way::Of(export), Some(of)) => of == export,
        };
        let candidates = open.values().filter(|o| counts(&o.account) && o.account.gave_way.get().is_none());
        let idle = candidates.filter_map(|o| Some((o, o.account.idle(now)?)));
        // One that has asked nothing yet does not count as in use however new it is: a crowd that comes again as often
        // as it is ended would fill an export for ever.
        let idle = idle.filter(|(o, idle)| *idle >= slots.config.idle_time_min || o.account.has_asked_nothing());
        idle.max_by_key(|(_, idle)| *idle).map(|(o, idle)| (o.clone(), idle))
    }
}

impl Open {
    fn give_way(&self, why: GaveWay) {
        self.account.gave_way.set(Some(why));
        self.stream.shutdown();
    }
}

/// When bytes last moved on a connection.
pub(crate) type LastMoved = Rc<Cell<Time>>;
