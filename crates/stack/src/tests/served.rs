//! Exports of served stacks: their own volumes, counts and dirty maps.

use esker_base::ByteRange;
use esker_block::{Created, OpReading};

use super::*;

fn serve(rt: &Rt, spec: &Spec) -> Rc<Stack> {
    Stack::build_served(rt, &Pool::default(), &KINDS, spec, &Created::default()).unwrap()
}

/// What clients have asked of an export, of one kind.
fn asked(export: &crate::Export, op: &str) -> OpReading {
    export.reading().unwrap().ops.into_iter().find(|reading| reading.op == op).unwrap()
}

#[test]
fn requests_are_counted_from_the_front_end_to_the_answer_though_they_wait_outside_or_are_refused() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = serve(&rt, &chain(&["pass"], "10us"));
        let export = stack.export("vol").unwrap();
        let held = stack.hold(Nanos::secs(1)).await.unwrap();
        let waiting = rt.spawn("client", export.request(read(512)));
        rt.sleep(Nanos::millis(1)).await;
        assert_eq!(export.reading().unwrap().in_flight, 1, "it waits outside");
        drop(held);
        assert!(waiting.await.result.is_ok());
        let reads = asked(&export, "read");
        assert_eq!((reads.count, reads.failed, reads.bytes), (1, 0, 512));
        assert!(reads.time >= Nanos::millis(1) + Nanos::micros(10), "{reads:?}");
        assert!(export.request(read(100)).await.result.is_err(), "no whole block");
        drop(sync::race(export.request(read(512)), rt.sleep(Nanos(1))).await);
        assert!(export.request(read(512)).await.result.is_err(), "the stack is latched");
        let reads = asked(&export, "read");
        assert_eq!((reads.count, reads.failed), (3, 2));
    });
}

#[test]
fn counts_and_map_of_an_export_last_while_what_it_leads_to_changes_and_other_handles_are_not_counted() {
    twice(SimConfig::seeded(1), |rt| async move {
        let stack = serve(&rt, &chain(&["pass"], "10us"));
        let export = stack.export("vol").unwrap();
        let changes = export.track_changes().unwrap();
        let write = |at: u64| export.request(Bio::write(at, Buf::described(512, 1)));
        assert!(write(0).await.result.is_ok());
        stack.insert(device("new", "watcher", &[], None), "w0", Nanos::secs(1)).await.unwrap();
        assert!(write(128 << 10).await.result.is_ok());
        stack.remove("w0", Nanos::secs(1)).await.unwrap();
        assert!(write(256 << 10).await.result.is_ok());
        assert!(stack.device("d").unwrap().request(Bio::write(0, Buf::described(512, 1))).await.result.is_ok());
        let reading = asked(&export, "write");
        assert_eq!((reading.count, reading.failed), (3, 0));
        let piece = 64 << 10;
        let runs = changes.runs(ByteRange::new(0, 6 * piece).unwrap(), SIZE);
        assert_eq!(runs, [true, false, true, false, true, false].map(|is_set| (piece, is_set)));
        assert!(stack.device("d").unwrap().reading().is_none());
    });
}

#[test]
fn an_export_of_a_stack_that_is_not_served_has_the_volume_behind_it() {
    twice(SimConfig::seeded(1), |rt| async move {
        let [plain, served] = [build(&rt, &chain(&["pass"], "0")), serve(&rt, &chain(&["pass"], "0"))];
        let volume = |stack: &Rc<Stack>| stack.export("vol").unwrap().end.volume.get();
        assert_eq!([volume(&plain), volume(&served)], [VolumeId(1), VolumeId(2)]);
        let export = plain.export("vol").unwrap();
        assert!(export.reading().is_none() && export.track_changes().is_none());
    });
}
