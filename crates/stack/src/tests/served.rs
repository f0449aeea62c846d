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

#[test]
fn the_device_of_a_mount_is_counted_led_elsewhere_and_tells_its_changes_to_exports_of_the_same_bytes() {
    twice(SimConfig::seeded(1), |rt| async move {
        let text = "d = leaf wait=10us; w = watcher mode=pass on d; export look = w read_only=true\n\
                    mount m = whole at=/m on w; mount r = ram at=/r";
        let stack = serve(&rt, &Spec::parse("s", text).unwrap());
        assert!(
            stack.export("m").is_none() && stack.mount_device("r").is_none() && stack.mount_device("look").is_none()
        );
        let (mounted, look) = (stack.mount_device("m").unwrap(), stack.export("look").unwrap());
        let changes = look.track_changes().unwrap();
        mounted.track_changes().unwrap();
        let write = |at: u64| mounted.request(Bio::write(at, Buf::described(512, 1)));
        assert!(write(0).await.result.is_ok());
        stack.insert(device("new", "watcher", &[], None), "w", Nanos::secs(1)).await.unwrap();
        assert_eq!(stack.spec().mounts[0].device.as_deref(), Some("new"));
        stack.remove("w", Nanos::secs(1)).await.unwrap();
        assert!(write(64 << 10).await.result.is_ok());
        assert_eq!((asked(&mounted, "write").count, stack.unusable("m")), (2, None));
        let piece = 64 << 10;
        assert_eq!(changes.runs(ByteRange::new(0, 3 * piece).unwrap(), SIZE), [(2 * piece, true), (piece, false)]);
        assert_eq!(stack.flush_all().await, Ok(()));
        assert_eq!(asked(&mounted, "write").failed, 0);
    });
}

#[test]
fn exports_that_a_live_change_brings_to_one_volume_tell_each_other_their_changes() {
    twice(SimConfig::seeded(1), |rt| async move {
        let text = "d = leaf wait=10us; w = watcher mode=pass on d; export a = w; export b = d read_only=true";
        let stack = serve(&rt, &Spec::parse("s", text).unwrap());
        let [a, b] = ["a", "b"].map(|name| stack.export(name).unwrap());
        let [own, changes] = [&a, &b].map(|export| export.track_changes().unwrap());
        assert!(!Rc::ptr_eq(&own, &changes));
        stack.remove("w", Nanos::secs(1)).await.unwrap();
        assert_eq!(stack.spec().exports[0].device, "d");
        assert!(a.request(Bio::write(0, Buf::described(512, 1))).await.result.is_ok());
        let piece = 64 << 10;
        for map in [own, changes] {
            assert_eq!(map.runs(ByteRange::new(0, 2 * piece).unwrap(), SIZE), [(piece, true), (piece, false)]);
        }
    });
}

#[test]
fn a_mount_on_a_port_that_is_not_there_is_no_stack() {
    let text = "d = leaf; w = watcher mode=pass on d; mount m = whole at=/m on w.x";
    let sim = esker_rt::Sim::new(SimConfig::seeded(1));
    let spec = Spec::parse("s", text).unwrap();
    let error = Stack::build(&sim.rt(), &Pool::default(), &KINDS, &spec).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("s:1: mount \"m\": there is no \"w.x\""), "{error}");
}
