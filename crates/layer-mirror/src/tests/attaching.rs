//! Members that come and go while the mirror goes on.

use std::cell::Cell;

use esker_block::Env;
use esker_block::conformance::Options;
use esker_rt::Rt;
use esker_stack::{LiveError, Stack};
use esker_testkit::Bound;
use esker_testkit::power::{self, RECORDED};

use super::*;

const PATIENCE: Nanos = Nanos::secs(1);

async fn order(stack: &Rc<Stack>, words: &str) -> Result<serde_json::Value, String> {
    let words: Vec<String> = words.split(' ').map(str::to_string).collect();
    let answer = stack.order("vol", &words).await.map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&answer).unwrap())
}

async fn attach(stack: &Rc<Stack>, new: &str) -> Result<(), LiveError> {
    let spec = Spec::parse("new", new).unwrap_or_else(|error| panic!("{error}"));
    stack.attach("vol", spec.devices[0].clone(), PATIENCE).await
}

/// Takes the member out, once a resync is over.
async fn detach(stack: &Rc<Stack>, name: &str, lower: usize) -> Result<(), String> {
    let mut tries = 0;
    while let Err(why) = order(stack, &format!("detach {lower}")).await {
        tries += 1;
        assert!(tries < 1000 && why.contains("resyncs"), "{why}");
        stack.rt().sleep(Nanos::micros(100)).await;
    }
    stack.detach(name, PATIENCE).await.map_err(|error| error.to_string())
}

#[test]
fn a_third_member_comes_while_clients_write_and_the_first_one_leaves() {
    with(&format!("{TWO} vol = mirror region=4KiB rescan=1ms on a, b"), async |vol| {
        write(&vol, 0, &[1; 128 << 10]).await;
        attach(vol.stack(), "c = memory size=300KiB defer=always latency=9us").await.unwrap();
        assert_eq!(vol.stack().spec().device("vol").unwrap().on, ["a", "b", "c"]);
        write(&vol, 4096, &[2; 4096]).await;
        until(&vol, "members_in_sync", 3.0).await;
        let data = read(&vol, 0, 128 << 10).await;
        assert!((data[0], data[4096]) == (1, 2) && member(&vol, "c", 0, 128 << 10).await == data);
        detach(vol.stack(), "a", 0).await.unwrap();
        assert!(vol.stack().device("a").is_none() && vol.stack().spec().device("vol").unwrap().on == ["b", "c"]);
        write(&vol, 8192, &[3; 4096]).await;
        let data = read(&vol, 0, 128 << 10).await;
        assert!(member(&vol, "b", 0, 128 << 10).await == data && member(&vol, "c", 0, 128 << 10).await == data);
        assert_eq!((stat(&vol, "members_in_sync"), stat(&vol, "members_offline")), (2.0, 0.0), "nothing is missed");
        // Its number is free for the next one.
        attach(vol.stack(), "d = memory size=256KiB").await.unwrap();
        until(&vol, "members_in_sync", 3.0).await;
        assert_eq!(member(&vol, "d", 0, 128 << 10).await, data);
    });
}

#[test]
fn what_cannot_come_or_leave_changes_nothing() {
    with(&format!("{TWO} s = stats on b; vol = mirror rescan=1ms on a, s"), async |vol| {
        until(&vol, "suspect_regions", 0.0).await;
        for (new, why) in [
            ("c = memory size=128KiB", "131072 bytes, and 262144 are needed"),
            ("c = memory size=256KiB block=4096", "blocks of 4096 bytes"),
            ("b = memory size=256KiB", "of this name already"),
        ] {
            let error = attach(vol.stack(), new).await.unwrap_err().to_string();
            assert!(error.contains(why), "{new}: {error}");
        }
        let spec = Spec::parse("new", "c = memory size=256KiB").unwrap();
        let error = vol.stack().attach("s", spec.devices[0].clone(), PATIENCE).await.unwrap_err().to_string();
        assert!(error.contains("stats needs one"), "{error}");
        let error = vol.stack().detach("a", PATIENCE).await.unwrap_err().to_string();
        assert!(error.contains("only an offline member"), "{error}");
        order(vol.stack(), "offline 0").await.unwrap();
        let error = vol.stack().detach("a", PATIENCE).await.unwrap_err().to_string();
        assert!(error.contains("is still a member of \"vol\""), "{error}");
        assert!(order(vol.stack(), "detach 1").await.unwrap_err().contains("the only one in sync"));
        assert_eq!(vol.stack().spec().device("vol").unwrap().on, ["a", "s"]);
    });
}

static RECORDED_KINDS: &[&Kind] = &[&crate::KIND, &RECORDED];
const MEMBERS: &str = "a = recorded size=64KiB latency=3us; b = recorded size=64KiB latency=7us;";
const NEW: &str = "c = recorded size=64KiB latency=5us";
const MIRROR: &str = "vol = mirror region=4KiB clean_after=40us rescan=30us";

/// Requests before the change: some of the suite.
const BEFORE: u32 = 40;

/// A volume whose stack is changed while it gets requests.
struct Changing<F> {
    volume: Export,
    before: Rc<Cell<u32>>,
    change: Rc<Cell<Option<F>>>,
    /// Changes that were made to their end.
    made: Rc<Cell<u32>>,
}

impl<F: AsyncFnOnce(&Rc<Stack>) + 'static> Device for Changing<F> {
    fn limits(&self) -> &Limits {
        self.volume.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let volume = self.volume.clone();
        self.before.set(self.before.get().saturating_sub(1));
        if self.before.get() == 0
            && let Some(change) = self.change.take()
        {
            let (stack, made) = (volume.stack().clone(), self.made.clone());
            // Beside the requests of the suite.
            let task = async move {
                change(&stack).await;
                made.set(made.get() + 1);
            };
            volume.stack().rt().spawn("change", task).detach();
        }
        volume.submit(bio)
    }
}

/// Runs the suite on `first` while `change` is made, and opens `then` over each state that a power cut could leave.
fn check<F: AsyncFnOnce(&Rc<Stack>) + 'static>(first: &str, then: &str, change: fn() -> F) {
    let (mut states, made) = (0, Rc::new(Cell::new(0)));
    for seed in 1..=2 {
        let built = Cell::new(false);
        let bound = Bound { states_max: 11, seed };
        let volume = |rt: &Rt, env: &Env| -> Rc<dyn Device> {
            let is_first = !built.replace(true);
            let volume = bench::open_with(rt, RECORDED_KINDS, if is_first { first } else { then }, env);
            let change = Rc::new(Cell::new(is_first.then(change)));
            Rc::new(Changing { volume, change, before: Rc::new(Cell::new(BEFORE)), made: made.clone() })
        };
        let count = power::check(volume, Options::power_cuts(seed), bound);
        states += count.unwrap_or_else(|broken| panic!("{first} -> {then}: {broken}")).states;
    }
    println!("{states} crash states: {first} -> {then}");
    assert!(states > 2000 && made.get() == 2, "only {states} states, {} changes", made.get());
}

#[test]
fn a_mirror_that_gets_a_member_keeps_its_promises_in_every_crash_state() {
    let first = format!("{MEMBERS} {MIRROR} on a, b");
    let then = format!("{MEMBERS} {NEW}; {MIRROR} on a, b, c");
    check(&first, &then, || async |stack: &Rc<Stack>| attach(stack, NEW).await.unwrap());
    // The file still has the old text, and the operator vouches that the new member is not newer.
    let old = format!("{MEMBERS} {MIRROR} degraded=true on a, b");
    check(&first, &old, || async |stack: &Rc<Stack>| attach(stack, NEW).await.unwrap());
}

#[test]
fn a_mirror_that_loses_a_member_keeps_its_promises_in_every_crash_state() {
    let first = format!("{MEMBERS} {NEW}; {MIRROR} initial=assume-clean on a, b, c");
    let then = format!("{MEMBERS} {MIRROR} degraded=true on a, b");
    check(&first, &then, || async |stack: &Rc<Stack>| detach(stack, "c", 2).await.unwrap());
}
