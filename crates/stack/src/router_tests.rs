//! What extensions may rely on in a stack, and what they are held to: the router of ABLE, seen from outside.

mod stage;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{Bio, Buf};
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::{Rt, sync};

use stage::{KINDS, Trace, note, read, stack, trace_of, violations, write};

use crate::{DeviceSpec, Handled, LiveError, Location, Spec, Stack, Watching};

#[test]
fn requests_go_down_and_their_completions_come_back_in_reverse() {
    let trace = trace_of("d = disk; c = looker on d; b = changer on c; a = looker on b", "a");
    let expected = [
        "a sees Write 4096 by port 0",
        "b sees Write 4096 by port 0",
        "c sees Write 4096 by port 0",
        "d gets Write 4096",
        "c completes",
        "b completes",
        "a completes",
        "the client gets ok",
    ];
    assert_eq!(trace, expected);
}

#[test]
fn what_an_extension_creates_never_visits_those_above_or_itself() {
    let trace = trace_of("d = disk; c = looker on d; b = changer mode=create on c; a = looker on b", "a");
    let created = [
        "a sees Write 4096 by port 0",
        "b sees Write 4096 by port 0",
        "c sees Write 8192 by port 0",
        "d gets Write 8192",
        "c completes",
        "b created one: ok",
        "c sees Write 4096 by port 0",
    ];
    assert_eq!(trace[..7], created);
}

#[test]
fn after_a_redirect_only_layers_on_the_new_volume_see_the_request() {
    let text = "d = disk; r = disk; on_d = looker on d; on_r = looker on r; top = wide mode=redirect on on_d,on_r";
    let trace = trace_of(text, "top.v0");
    assert_eq!(trace[1..3], ["on_r sees Write 4096 by port 0", "r gets Write 4096"]);
    assert!(trace.iter().all(|line| !line.starts_with("on_d") && !line.starts_with("d ")), "{trace:?}");
}

#[test]
fn a_layer_that_retries_sends_a_failed_request_elsewhere_once() {
    for (other, answer) in [("r", "the client gets Ok"), ("on_r", "the client gets Err")] {
        let text =
            "d = disk; r = disk; on_d = changer mode=\"fail answer\" on d; on_r = changer mode=\"fail answer\" on r;";
        let text = format!("{text} top = wide mode=again on on_d,{other}; a = looker on top.v0");
        let trace = twice(SimConfig::seeded(1), move |rt| {
            let text = text.clone();
            async move {
                let stack = stack(&rt, &text);
                let trace = Trace::of(&rt);
                let result = read(&stack, "a").await.map(drop);
                note(&rt, format_args!("the client gets {}", if result.is_ok() { "Ok" } else { "Err" }));
                trace.take()
            }
        });
        let lines = |word: &str| trace.iter().filter(|line| line.contains(word)).count();
        let asked = if other == "r" { 1 } else { 2 };
        assert_eq!(
            (lines("top is asked again"), lines("top completes"), lines("r gets Read")),
            (asked, 1, 1),
            "{trace:?}"
        );
        assert_eq!(trace.last().map(String::as_str), Some(answer), "{trace:?}");
    }
}

#[test]
fn requests_outside_the_output_domain_are_refused_counted_and_attributed() {
    let check = |text: &'static str, device: &'static str, guilty: &'static str, words: &'static str| {
        let (trace, counted) = twice(SimConfig::seeded(1), move |rt| async move {
            let stack = stack(&rt, text);
            let trace = Trace::of(&rt);
            let result = write(&stack, device, 7).await;
            note(&rt, format_args!("the client gets {result:?}"));
            (trace.take(), violations(&stack))
        });
        assert_eq!(counted, [(guilty.to_string(), 1)], "{text}");
        assert!(trace.iter().any(|line| line.contains(words)), "{text}: {trace:?}");
    };
    check("d = disk; x = changer mode=stray on d", "x", "x", "x sent a request to volume 77, which is not below it");
    check(
        "d = disk; x = changer mode=\"create stray\" on d",
        "x",
        "x",
        "created one: invalid request: x sent a request",
    );
    check("d = disk; x = looker mode=create on d", "x", "x", "but its kind declares that it only looks");
    check("d = disk; r = disk; x = keeper mode=create on d,r", "x.v1", "x", "the client gets Ok");
    check(
        "d = disk; r = disk; x = keeper check=strict mode=redirect on d,r",
        "x.v0",
        "x",
        "against its kind's declaration",
    );
}

/// Whether a layer of this mode is caught at a write or read of a strict stack, and not in one that is not.
fn check_accessor(mode: &'static str, words: &'static str) {
    let answers = twice(SimConfig::seeded(1), move |rt| async move {
        let mut answers = Vec::new();
        for check in ["domains", "strict"] {
            let stack =
                stack(&rt, &format!("d = disk; x = looker check={check} mode=\"{mode}\" on d; a = looker on x"));
            let written = write(&stack, "a", 7).await;
            let got = read(&stack, "a").await;
            let worst = written.and(got.map(drop)).map_or_else(|e| e.to_string(), |()| "ok".into());
            answers.push((worst, violations(&stack)));
        }
        answers
    });
    assert_eq!(answers[0].1, [], "{mode}: what is not looked at is not found");
    assert!(answers[1].0.contains(words), "{mode}: {answers:?}");
    assert!(answers[1].1.len() == 1 && answers[1].1[0].0 == "x", "{mode}: {answers:?}");
}

#[test]
fn an_accessor_that_changes_payload_target_or_answer_is_caught_in_strict_mode() {
    check_accessor("spoil", "x changed a request");
    check_accessor("shift", "x changed a request");
    check_accessor("answer", "x answered a request");
    check_accessor("spoil answer", "x changed an answer");
    check_accessor("fail answer", "x changed an answer");
}

#[test]
fn strict_mode_lets_honest_layers_through_and_covers_a_whole_stack() {
    twice(SimConfig::seeded(1), |rt| async move {
        let honest = stack(&rt, "d = disk; x = looker on d; y = changer mode=slow on x; z = looker mode=slow on y");
        honest.watch(Watching { strict: true, ..Watching::default() }).unwrap();
        assert_eq!(write(&honest, "z", 7).await, Ok(()));
        assert_eq!(read(&honest, "z").await, Ok(vec![7; 512]));
        assert_eq!(violations(&honest), []);
        let liar = stack(&rt, "d = disk; x = looker mode=spoil on d");
        assert_eq!(write(&liar, "x", 7).await, Ok(()));
        liar.watch(Watching { strict: true, ..Watching::default() }).unwrap();
        assert!(write(&liar, "x", 7).await.is_err());
        liar.watch(Watching::default()).unwrap();
        assert_eq!(write(&liar, "x", 7).await, Ok(()));
    });
}

#[test]
fn a_wrong_check_is_refused_in_the_text() {
    let check = |text: &str, words: &str| {
        let sim = esker_rt::Sim::new(SimConfig::seeded(1));
        let spec = Spec::parse("test", text).unwrap();
        let error = Stack::build(&sim.rt(), &Pool::default(), &KINDS, &spec).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check("d = disk; x = looker check=maybe on d", "expected strict or domains");
    check("d = disk check=strict", "`check` is for layers");
}

/// One client's writes and reads of its own blocks, against a shadow.
async fn client(rt: Rt, stack: Rc<Stack>, number: u64, stop: Rc<Cell<bool>>) -> u64 {
    let export = stack.export("vol").unwrap();
    let mut shadow = BTreeMap::new();
    let mut rng = rt.rng(&format!("client {number}"));
    let mut done = 0;
    while !stop.get() {
        let at = (number * 64 + rng.below(64)) * 512;
        if rng.below(2) == 0 {
            let byte = rng.below(255) as u8;
            let answer = export.request(Bio::write(at, Buf::from_bytes(stack.pool(), &[byte; 512]))).await;
            assert!(answer.result.is_ok());
            shadow.insert(at, byte);
        } else {
            let answer = export.request(Bio::read(at, Buf::unique(stack.pool(), 512))).await;
            let expected = shadow.get(&at).copied().unwrap_or(0);
            assert_eq!(answer.buf.to_vec(), [expected; 512], "client {number} at {at}");
        }
        done += 1;
    }
    done
}

fn layer(name: &str) -> DeviceSpec {
    let args = BTreeMap::from([("mode".to_string(), "slow".to_string())]);
    DeviceSpec::new(name, "looker", vec![], args, Location::default())
}

#[test]
fn layers_come_and_go_under_eight_clients_and_no_acknowledged_write_is_lost() {
    let (answered, changes) = twice(SimConfig::seeded(1), |rt| async move {
        let stack = stack(&rt, "vol = disk latency=2ms | changer mode=slow | looker @");
        let stop = Rc::new(Cell::new(false));
        let clients: Vec<_> =
            (0..8).map(|n| rt.spawn("client", client(rt.clone(), stack.clone(), n, stop.clone()))).collect();
        let mut changes = 0;
        for round in 0..300u32 {
            rt.sleep(Nanos::millis(100)).await;
            let above = if round % 2 == 0 { "vol-1" } else { "vol-2" };
            stack.insert(layer("new"), above, Nanos::millis(10)).await.unwrap();
            rt.sleep(Nanos::millis(100)).await;
            stack.remove("new", Nanos::millis(10)).await.unwrap();
            changes += 2;
        }
        stop.set(true);
        (sync::join_all(clients).await.iter().sum::<u64>(), changes)
    });
    assert!(answered > 200_000 && changes == 600, "{answered}");
}

#[test]
fn a_stuck_device_makes_a_removal_time_out_and_leaves_the_stack_usable() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = stack(&rt, "vol = disk stuck=5ms | changer @");
        stack.insert(layer("new"), "vol-1", Nanos::millis(1)).await.unwrap();
        let writer = {
            let stack = stack.clone();
            rt.spawn("writer", async move { write(&stack, "vol", 9).await })
        };
        rt.sleep(Nanos::micros(50)).await;
        let error = stack.remove("new", Nanos::millis(1)).await.unwrap_err();
        assert!(matches!(error, LiveError::TimedOut { inflight: 1, .. }), "{error}");
        assert_eq!(writer.await, Ok(()));
        assert_eq!(read(&stack, "vol").await.unwrap(), [9; 512]);
        assert_eq!(stack.remove("new", Nanos::millis(1)).await, Ok(()));
        assert_eq!(read(&stack, "vol").await.unwrap(), [9; 512]);
    });
}

#[test]
fn layers_open_from_the_bottom_up_before_requests_and_settle_before_they_close() {
    let trace = twice(SimConfig::seeded(1), |rt| async move {
        let trace = Trace::of(&rt);
        let stack = stack(&rt, "d = disk; x = changer mode=\"reads first\" on d; y = changer on x");
        assert_eq!(write(&stack, "y", 7).await, Ok(()));
        stack.close().await;
        trace.take()
    });
    let expected = [
        "x opens",
        "d gets Read 0",
        "y opens",
        "y sees Write 4096 by port 0",
        "x sees Write 4096 by port 0",
        "d gets Write 4096",
        "x completes",
        "y completes",
        "y settles",
        "x settles",
        "x closes",
        "y closes",
    ];
    assert_eq!(trace, expected);
}

#[test]
fn a_layer_that_cannot_be_opened_refuses_with_its_reason_and_the_rest_works() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack =
            stack(&rt, "d = disk; e = disk; x = changer mode=unusable on d; y = changer on x; z = changer on e");
        let error = write(&stack, "y", 7).await.unwrap_err().to_string();
        assert!(error.contains("x cannot be used: its metadata is damaged"), "{error}");
        assert_eq!(write(&stack, "z", 7).await, Ok(()));
        let part = stack.stats().into_iter().find(|part| part.name == "x").unwrap();
        assert!(part.unusable.is_some());
        let mut bad = layer("new");
        bad.args.insert("mode".into(), "unusable".into());
        let error = stack.insert(bad, "e", Nanos::millis(1)).await.unwrap_err().to_string();
        assert!(error.contains("its metadata is damaged"), "{error}");
        assert_eq!(write(&stack, "z", 8).await, Ok(()));
    });
}

#[test]
fn a_layer_that_cannot_settle_stays() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = stack(&rt, "vol = disk | changer @");
        let mut new = layer("new");
        new.args.insert("mode".into(), "unsettled".into());
        stack.insert(new, "vol-1", Nanos::millis(1)).await.unwrap();
        let error = stack.remove("new", Nanos::millis(1)).await.unwrap_err().to_string();
        assert!(error.contains("new holds back what it cannot store: I/O error: no room"), "{error}");
        assert_eq!(write(&stack, "vol", 7).await, Ok(()));
    });
}

#[test]
fn the_last_handler_of_each_volume_is_seen_live() {
    let handled = twice(SimConfig::seeded(1), |rt| async move {
        let text = "d = disk; r = disk; low = looker on r; top = wide mode=redirect on d,low";
        let stack = stack(&rt, text);
        stack.watch(Watching { handlers: true, ..Watching::default() }).unwrap();
        write(&stack, "top.v0", 1).await.unwrap();
        write(&stack, "low", 1).await.unwrap();
        write(&stack, "d", 1).await.unwrap();
        write(&stack, "d", 1).await.unwrap();
        stack.handled()
    });
    let one = |origin: &str, last: Option<&str>, end: &str, requests| Handled {
        origin: Some(origin.to_string()),
        last: last.map(str::to_string),
        end: Some(end.to_string()),
        requests,
    };
    let mut handled = handled;
    handled.sort();
    assert_eq!(handled, [one("d", None, "d", 2), one("low", Some("low"), "r", 1), one("top.v0", Some("low"), "r", 1)]);
}

#[test]
fn counted_work_is_the_sum_of_all_calls() {
    let parts = twice(SimConfig::seeded(1), |rt| async move {
        let stack = stack(&rt, "d = disk; x = changer mode=slow on d; y = changer mode=nested on x; z = looker on y");
        stack.watch(Watching { work: true, ..Watching::default() }).unwrap();
        for _ in 0..50 {
            write(&stack, "z", 7).await.unwrap();
        }
        rt.sleep(Nanos::millis(1)).await;
        stack.stats()
    });
    for (name, requests, generated) in [("x", 100, 0), ("y", 50, 50), ("z", 50, 0)] {
        let part = parts.iter().find(|part| part.name == name).unwrap();
        let spent = part.stats[1].value + 10.0 * requests as f64;
        assert_eq!((part.work.requests, part.work.generated), (requests, generated), "{name}");
        let counted = part.work.time.0 as f64;
        assert!((counted / spent - 1.0).abs() < 0.01, "{name}: {counted} ns counted, {spent} ns spent");
    }
}
