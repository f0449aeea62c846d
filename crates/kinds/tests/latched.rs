//! One failure, one error: whatever keeps state on a medium refuses changes in the same way after a change of it
//! failed.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, BioError, Buf, Device, Trouble};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};
use esker_stack::{Export, Spec, Stack};

const PATIENCE: Nanos = Nanos::secs(5);
const PIECE: usize = 4096;
/// Operations that change something or make it durable.
const CHANGES: &str = "write,zero,flush";
const BOTH: &str = "a = memory size=16MiB; b = memory size=16MiB";

/// A client of one device.
struct Client {
    device: Export,
    writes: Cell<u64>,
}

impl Client {
    fn of(stack: &Rc<Stack>, name: &str) -> Client {
        Client { device: stack.device(name).unwrap(), writes: Cell::new(0) }
    }

    /// Each write has other bytes than the one before, so that every one is a change.
    fn bytes(&self) -> Buf {
        self.writes.set(self.writes.get() + 1);
        Buf::from_bytes(&Pool::default(), &self.writes.get().to_le_bytes().repeat(PIECE / 8))
    }

    async fn ask(&self, word: &str) -> Result<(), BioError> {
        let bio = match word {
            "write" => Bio::write(0, self.bytes()),
            "fua" => Bio::write(0, self.bytes()).fua(),
            "zero" => Bio::zero(0, PIECE as u64),
            "flush" => Bio::flush(),
            _ => Bio::read(0, Buf::unique(&Pool::default(), PIECE)),
        };
        self.device.submit(bio).await.result.map(drop)
    }
}

async fn open(rt: &Rt, text: &str) -> Rc<Stack> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), esker_kinds::ALL, &spec).unwrap_or_else(|e| panic!("{text}: {e}"));
    stack.opened().await;
    stack
}

/// Lets these operations of these devices fail until the layer is latched, and mends them again.
async fn break_and_mend(stack: &Stack, vol: &Client, faulty: &[&str], ops: &str) {
    let text = format!("z = memory size=4KiB; e = error ops={ops} probability=1 on z");
    let spec = Spec::parse("test", &text).unwrap();
    for device in faulty {
        let mut error = spec.device("e").unwrap().clone();
        error.name = format!("error-{device}");
        stack.insert(error, device, PATIENCE).await.unwrap_or_else(|e| panic!("{e}"));
    }
    let mut failed = 0;
    for word in ["write", "fua", "flush", "write", "fua", "flush"] {
        failed += u32::from(vol.ask(word).await.is_err());
    }
    assert!(failed > 0, "no failure was noticed");
    for device in faulty {
        stack.remove(&format!("error-{device}"), PATIENCE).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// `layer` stands on `a` and `b`, of which those in `faulty` fail for a while; `top` is its upper port.
fn check(layer: &'static str, top: &'static str, faulty: &'static [&'static str], ops: &'static str) {
    let (errors, trouble, told, read) = twice(SimConfig::seeded(3), move |rt| async move {
        let stack = open(&rt, &format!("{BOTH}; {layer}")).await;
        let vol = Client::of(&stack, top);
        assert_eq!((vol.ask("write").await, vol.ask("flush").await), (Ok(()), Ok(())), "{layer}");
        break_and_mend(&stack, &vol, faulty, ops).await;
        let mut errors = Vec::new();
        for word in ["write", "fua", "zero", "flush", "write"] {
            errors.push(vol.ask(word).await);
        }
        let part = stack.stats().into_iter().find(|part| top.starts_with(&part.name)).unwrap();
        let told = part.stats.iter().find(|stat| stat.name == "latched").map(|stat| stat.value);
        (errors, part.trouble, told, vol.ask("read").await)
    });
    let Some(Trouble::Latched(text)) = trouble else { panic!("{layer}: {trouble:?}") };
    let all: Vec<_> = (0..5).map(|_| Err(BioError::Latched(text.as_str().into()))).collect();
    assert_eq!(errors, all, "{layer}");
    assert_eq!((told, read), (Some(1.0), Ok(())), "{layer}: its statistics and its data stay readable");
    let name = top.split('.').next().unwrap();
    assert!(text.starts_with(&format!("{name} is latched: ")) && text.ends_with("restart."), "{text}");
    assert!(text.matches("is latched").count() == 1 && !text.contains("dead") && !text.contains("read-only"), "{text}");
}

#[test]
fn every_kind_that_keeps_state_refuses_with_one_error_that_says_why_and_what_to_do() {
    check("m = mirror initial=assume-clean on a, b", "m", &["a", "b"], CHANGES);
    check("d = dedup on a", "d", &["a"], "flush");
    check("o = offload idle_after=0s on a, b", "o", &["b"], CHANGES);
    check("v = logvol size=4MiB segment=64KiB on a", "v", &["a"], CHANGES);
    check("vm = thin segment=64KiB ports=\"p=2MiB\" on a", "vm.p", &["a"], CHANGES);
}

#[test]
fn a_latch_above_another_one_says_once_what_to_do() {
    let text = twice(SimConfig::seeded(3), |rt| async move {
        let stack = open(
            &rt,
            &format!("{BOTH}; m = mirror initial=assume-clean on a, b; v = logvol size=2MiB segment=64KiB on m"),
        )
        .await;
        let vol = Client::of(&stack, "v");
        break_and_mend(&stack, &vol, &["a", "b"], CHANGES).await;
        // The mirror has latched by its own failure; the volume may have seen the failure itself or the latch.
        let lower = Client::of(&stack, "m");
        (lower.ask("write").await.unwrap_err().to_string(), vol.ask("write").await.unwrap_err().to_string())
    });
    assert!(text.0.starts_with("m is latched: ") && text.1.starts_with("v is latched: "), "{text:?}");
    assert_eq!(text.1.matches(", then restart.").count(), 1, "{text:?}");
}

#[test]
fn a_mirror_that_lacks_a_member_says_so_and_serves_on() {
    let (answers, trouble) = twice(SimConfig::seeded(3), |rt| async move {
        let stack = open(&rt, &format!("{BOTH}; m = mirror initial=assume-clean rescan=1h on a, b")).await;
        let vol = Client::of(&stack, "m");
        assert_eq!((vol.ask("write").await, stack.stats()[2].trouble.clone()), (Ok(()), None));
        let spec = Spec::parse("test", "z = memory size=4KiB; e = error probability=1 on z").unwrap();
        stack.insert(spec.device("e").unwrap().clone(), "b", PATIENCE).await.unwrap();
        let answers = [vol.ask("write").await, vol.ask("flush").await, vol.ask("read").await];
        (answers, stack.stats().into_iter().find(|part| part.name == "m").unwrap().trouble)
    });
    assert_eq!(answers, [Ok(()), Ok(()), Ok(())]);
    let text = "m is degraded: 1 of 2 members are in sync; member 1 is offline.";
    assert_eq!(trouble, Some(Trouble::Degraded(text.into())));
}
