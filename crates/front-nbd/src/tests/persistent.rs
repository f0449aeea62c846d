//! A client that connects again: what it hides, and what it must not hide.

use std::cell::{Cell, RefCell};

use super::*;
use crate::persistent::{Persistent, Policy, Route};
use esker_rt::sim::{SimConfig, twice};

/// A server whose connections can be cut, and which can be away.
struct Town {
    site: Site,
    cut: RefCell<Vec<Stream>>,
    away: Cell<bool>,
    dials: Cell<u32>,
}

impl Town {
    fn new(rt: &Rt) -> Rc<Town> {
        let site = Site::new(rt, Disk::slow(rt), Config::production());
        Rc::new(Town { site, cut: RefCell::default(), away: Cell::new(false), dials: Cell::new(0) })
    }

    fn route(self: &Rc<Self>) -> Route {
        let town = self.clone();
        let dial = move |rt: &Rt| {
            town.dials.set(town.dials.get() + 1);
            if town.away.get() {
                return Err(std::io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = pipe(1 << 20);
            town.cut.borrow_mut().push(far.clone());
            let server = town.site.server.clone();
            rt.spawn("attach", async move { server.attach(far).await.detach() }).detach();
            Ok(near)
        };
        Route { dial: Box::new(dial), export: "disk".into(), tls: None }
    }

    fn cut_all(&self) {
        self.cut.borrow_mut().drain(..).for_each(|stream| stream.shutdown());
    }
}

#[test]
fn a_load_goes_on_through_lost_connections_and_reads_what_it_wrote() {
    let (reconnects, sound) = twice(SimConfig::seeded(9), |rt| async move {
        let town = Town::new(&rt);
        let client = Persistent::connect(&rt, &town.site.pool, town.route(), Policy::production()).await.unwrap();
        let cutter = rt.spawn("cut", {
            let (rt, town) = (rt.clone(), town.clone());
            async move {
                for _ in 0..20 {
                    rt.sleep(Nanos::micros(7_300)).await;
                    town.cut_all();
                }
            }
        });
        let mut random = rt.rng("load");
        let mut model = vec![0u8; 64 * 512];
        for round in 0..200u64 {
            let block = random.below(64);
            let fill = 1 + (round % 250) as u8;
            client.write(block * 512, bytes(&town.site.pool, 512, fill), round % 7 == 0).await.unwrap();
            model[block as usize * 512..][..512].fill(fill);
        }
        cutter.await;
        let seen = client.read(r(0, 64 * 512)).await.unwrap();
        (client.reconnects(), seen[..model.len()] == model)
    });
    assert!(sound, "it reads something else than it wrote");
    assert!(reconnects > 5, "only {reconnects} connections were lost");
}

#[test]
fn a_flush_tells_once_that_writes_may_be_lost() {
    let faults = twice(SimConfig::seeded(9), |rt| async move {
        let town = Town::new(&rt);
        let client = Persistent::connect(&rt, &town.site.pool, town.route(), Policy::production()).await.unwrap();
        let mut seen = Vec::new();
        for fua in [false, true] {
            client.flush().await.unwrap();
            client.write(0, bytes(&town.site.pool, 512, 1), fua).await.unwrap();
            town.cut_all();
            for _ in 0..2 {
                seen.push(matches!(client.flush().await, Err(Fault::Forgotten)));
            }
        }
        seen
    });
    assert_eq!(faults, [true, false, false, false], "what was forced cannot be lost");
}

#[test]
fn attempts_become_rarer_and_end() {
    let (gave_up, dials, waited) = twice(SimConfig::seeded(9), |rt| async move {
        let town = Town::new(&rt);
        let policy = Policy { wait_first: Nanos::millis(100), wait_max: Nanos::millis(400), attempts_max: 5 };
        let client = Persistent::connect(&rt, &town.site.pool, town.route(), policy).await.unwrap();
        town.away.set(true);
        town.cut_all();
        rt.sleep(Nanos::millis(1)).await;
        let before = rt.now();
        let gave_up = client.read(r(0, 512)).await.is_err();
        let waited = rt.now().since(before);
        town.away.set(false);
        client.read(r(0, 512)).await.expect("a later request tries again");
        (gave_up, town.dials.get(), waited)
    });
    assert!(gave_up);
    assert_eq!((dials, waited), (1 + 5 + 1, Nanos::millis(100 + 200 + 400 + 400)));
}
