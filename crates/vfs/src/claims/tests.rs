use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};

use esker_base::Nanos;
use esker_rt::sim::{SimConfig, twice};
use proptest::prelude::*;

use super::*;

fn shared(ino: u64) -> (Ino, Mode) {
    (Ino(ino), Mode::Shared)
}

fn exclusive(ino: u64) -> (Ino, Mode) {
    (Ino(ino), Mode::Exclusive)
}

fn is_granted(ticket: &Ticket) -> bool {
    !ticket.claims.0.borrow().waiting.contains_key(&ticket.number)
}

#[test]
fn an_inode_that_is_named_twice_is_claimed_once_in_the_stronger_mode() {
    let claims = Claims::default();
    let ticket = claims.try_claim(&[shared(7), exclusive(3), exclusive(7), shared(3)]).unwrap();
    assert_eq!(ticket.inodes().collect::<Vec<_>>(), [exclusive(3), exclusive(7)]);
    assert!(claims.try_claim(&[shared(7)]).is_none());
    drop(ticket);
    assert!(claims.is_idle());
}

#[test]
fn a_late_claim_does_not_overtake_one_that_waits() {
    let claims = Claims::default();
    let first = claims.enter(&[shared(1)]);
    let waits = claims.enter(&[exclusive(1), exclusive(2)]);
    let late = [claims.enter(&[shared(1)]), claims.enter(&[shared(2)])];
    assert!(is_granted(&first) && !is_granted(&waits));
    assert!(late.iter().all(|ticket| !is_granted(ticket)), "they would starve the one that waits");
    assert!(claims.try_claim(&[shared(1)]).is_none(), "nor does one that does not wait");
    drop(first);
    assert!(is_granted(&waits));
    drop(waits);
    assert!(late.iter().all(is_granted));
}

#[test]
fn a_claim_that_is_given_up_while_it_waits_lets_others_pass() {
    let claims = Claims::default();
    let first = claims.enter(&[shared(1)]);
    let doomed = claims.enter(&[exclusive(1), exclusive(2)]);
    let late = claims.enter(&[shared(1), shared(2)]);
    drop(doomed);
    assert!(is_granted(&first) && is_granted(&late));
}

#[test]
#[should_panic(expected = "up to 4 inodes")]
fn five_inodes_are_too_many() {
    Claims::default().enter(&[shared(1), shared(2), shared(3), shared(4), shared(5)]);
}

/// Notes its number when it is woken.
struct Bell {
    number: u64,
    rung: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.lock().unwrap().push(self.number);
    }
}

/// All tickets that have not ended, in the order in which they entered.
#[derive(Default)]
struct Model(Vec<(u64, Vec<(Ino, Mode)>)>);

impl Model {
    fn is_granted(&self, number: u64) -> bool {
        let (_, wanted) = self.0.iter().find(|ticket| ticket.0 == number).unwrap();
        let mut earlier = self.0.iter().take_while(|ticket| ticket.0 < number).flat_map(|ticket| &ticket.1);
        !earlier.any(|(other, held)| {
            wanted.iter().any(|(ino, mode)| ino == other && (*mode == Mode::Exclusive || *held == Mode::Exclusive))
        })
    }

    fn granted(&self) -> Vec<u64> {
        self.0.iter().map(|ticket| ticket.0).filter(|number| self.is_granted(*number)).collect()
    }
}

#[derive(Clone, Debug)]
enum Act {
    Claim(Vec<(u64, bool)>),
    Try(Vec<(u64, bool)>),
    /// The n-th ticket ends, granted or not.
    Drop(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let wanted = || prop::collection::vec((1u64..7, any::<bool>()), 0..=INODES_MAX);
    let act = prop_oneof![
        5 => wanted().prop_map(Act::Claim),
        1 => wanted().prop_map(Act::Try),
        4 => any::<prop::sample::Index>().prop_map(Act::Drop),
    ];
    prop::collection::vec(act, 1..120)
}

fn modes(wanted: Vec<(u64, bool)>) -> Vec<(Ino, Mode)> {
    wanted.into_iter().map(|(ino, is_shared)| if is_shared { shared(ino) } else { exclusive(ino) }).collect()
}

struct Run {
    claims: Claims,
    model: Model,
    tickets: Vec<Ticket>,
    rung: Arc<Mutex<Vec<u64>>>,
}

impl Run {
    fn add(&mut self, ticket: Ticket, wanted: Vec<(Ino, Mode)>) {
        self.model.0.push((ticket.number, wanted));
        self.tickets.push(ticket);
    }

    fn claim(&mut self, wanted: Vec<(Ino, Mode)>) {
        let ticket = self.claims.enter(&wanted);
        let bell = Arc::new(Bell { number: ticket.number, rung: self.rung.clone() }).into();
        let polled = self.claims.0.borrow_mut().poll_granted(ticket.number, &bell);
        self.add(ticket, wanted);
        let number = self.model.0.last().unwrap().0;
        assert_eq!(polled.is_ready(), self.model.is_granted(number));
    }

    fn try_claim(&mut self, wanted: Vec<(Ino, Mode)>) {
        self.model.0.push((u64::MAX, wanted.clone()));
        let expected = self.model.is_granted(u64::MAX);
        self.model.0.pop();
        let ticket = self.claims.try_claim(&wanted);
        assert_eq!(ticket.is_some(), expected);
        if let Some(ticket) = ticket {
            self.add(ticket, wanted);
        }
    }

    /// Exactly those tickets are woken that this one kept waiting.
    fn end(&mut self, at: usize) {
        let before = self.model.granted();
        self.model.0.remove(at);
        drop(self.tickets.remove(at));
        let mut freed = self.model.granted();
        freed.retain(|number| !before.contains(number));
        let mut rung = std::mem::take(&mut *self.rung.lock().unwrap());
        rung.sort_unstable();
        assert_eq!(rung, freed);
    }

    fn check(&self) {
        for ticket in &self.tickets {
            assert_eq!(is_granted(ticket), self.model.is_granted(ticket.number), "ticket {}", ticket.number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tickets_are_granted_exactly_when_no_earlier_one_is_in_the_way(acts in acts()) {
        let (claims, model, tickets, rung) = Default::default();
        let mut run = Run { claims, model, tickets, rung };
        for act in acts {
            match act {
                Act::Claim(wanted) => run.claim(modes(wanted)),
                Act::Try(wanted) => run.try_claim(modes(wanted)),
                Act::Drop(which) if !run.tickets.is_empty() => run.end(which.index(run.tickets.len())),
                Act::Drop(_) => {}
            }
            run.check();
        }
        while let Some(first) = run.tickets.first() {
            prop_assert!(is_granted(first), "the first never waits, so all have their turn");
            run.end(0);
        }
        prop_assert!(run.claims.is_idle(), "nothing is left behind");
    }
}

#[test]
fn a_task_waits_for_its_claim_and_gives_it_up_when_it_is_dropped() {
    let (claims, rung) = (Claims::default(), Arc::default());
    let bell = Arc::new(Bell { number: 1, rung: Arc::clone(&rung) }).into();
    let mut cx = Context::from_waker(&bell);
    let first = claims.enter(&[exclusive(1)]);
    {
        let wanted = [exclusive(1)];
        let mut waits = pin!(claims.claim(&wanted));
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert_eq!(*rung.lock().unwrap(), [1]);
        let Poll::Ready(_ticket) = waits.as_mut().poll(&mut cx) else { panic!("it was granted") };
        assert!(pin!(claims.claim(&[shared(1)])).poll(&mut cx).is_pending());
    }
    assert!(claims.is_idle(), "both are given up");
}

/// Which tasks use an inode: shared ones, and whether there is an exclusive one.
#[derive(Default)]
struct Users {
    shared: u32,
    is_exclusive: bool,
}

impl Users {
    fn enter(&mut self, mode: Mode) {
        assert!(!self.is_exclusive && (mode == Mode::Shared || self.shared == 0), "claims exclude each other");
        match mode {
            Mode::Shared => self.shared += 1,
            Mode::Exclusive => self.is_exclusive = true,
        }
    }

    fn leave(&mut self, mode: Mode) {
        match mode {
            Mode::Shared => self.shared -= 1,
            Mode::Exclusive => self.is_exclusive = false,
        }
    }
}

#[test]
fn tasks_in_a_world_exclude_each_other_and_all_end_in_the_same_way_again() {
    let done = twice(SimConfig::seeded(11), |rt| async move {
        let (claims, users) = (Claims::default(), Rc::new(RefCell::new(BTreeMap::<Ino, Users>::new())));
        let tasks = (0..30).map(|task| {
            let (rt, claims, users, mut random) =
                (rt.clone(), claims.clone(), users.clone(), rt.rng(&format!("task {task}")));
            async move {
                for _ in 0..40 {
                    let wanted: Vec<_> = (0..random.below(5))
                        .map(|_| (Ino(1 + random.below(6)), [Mode::Shared, Mode::Exclusive][random.below(2) as usize]))
                        .collect();
                    let ticket = claims.claim(&wanted).await;
                    ticket.inodes().for_each(|(ino, mode)| users.borrow_mut().entry(ino).or_default().enter(mode));
                    rt.sleep(Nanos(random.below(9))).await;
                    ticket.inodes().for_each(|(ino, mode)| users.borrow_mut().entry(ino).or_default().leave(mode));
                }
                40
            }
        });
        let done: u32 = esker_rt::sync::join_all(tasks.collect::<Vec<_>>()).await.into_iter().sum();
        assert!(claims.is_idle());
        done
    });
    assert_eq!(done, 1200);
}
