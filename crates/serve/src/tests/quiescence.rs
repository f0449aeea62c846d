//! A stop, a freeze and a sync end within their patience, whatever waits below.

use super::*;

const FLUSH_WAITS: &str = "vol = memory size=1MiB | delay flush=1h @ nbd=unix:DIR/sock";

/// A server whose client waits for four writes that take far longer than any test.
async fn with_writes_that_wait(rt: &Rt, dir: &Path, layer: &str) -> Running {
    let server = Running::new(rt, dir, &format!("vol = memory size=1MiB | {layer} @ nbd=unix:DIR/sock"));
    let client = Rc::new(server.client("vol").await);
    for at in 0..4 {
        let client = client.clone();
        rt.spawn("w", async move { client.write(at << 16, Slice::heap(vec![7; 65536]), false).await }).detach();
    }
    while server.status().await.inflight < 3 {
        rt.sleep(Nanos::millis(5)).await;
    }
    server
}

/// The end of a server that cannot stop well: what it says, and what the client that asked for it is told.
async fn check_stop_fails(server: Running, why: &str) {
    let stream = Stream::connect(&server.rt, &server.control).unwrap();
    let stop = Command::Stop { patience_ms: Some(200) };
    assert_eq!(say(&stream, stop.line().as_bytes()).await, Ok(Value::Null));
    let told = say(&stream, b"").await.unwrap_err();
    assert!(told.code == "stop_failed" && told.what.contains(why), "{told}");
    drop(stream);
    let error = server.end.await.unwrap_err().to_string();
    assert!(error.contains(why) && error.contains("may be lost"), "{error}");
    server.rt.sleep(Nanos::millis(5)).await;
    for address in [&server.door, &server.control] {
        let error = Stream::connect(&server.rt, address).err().expect("nothing listens after the end");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "no socket stays");
    }
}

#[test]
fn a_stop_ends_within_its_patience_though_writes_wait_below() {
    for (layer, why) in [
        // The flush queues behind the writes.
        ("rate bytes=1000", "a flush of \"vol\" was still under way after"),
        ("delay write=1h", "requests were still in flight after"),
    ] {
        in_world(|rt, dir| async move {
            let server = with_writes_that_wait(&rt, &dir, layer).await;
            check_stop_fails(server, why).await;
        });
    }
}

#[test]
fn a_stop_ends_within_its_patience_though_a_flush_waits_below() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSH_WAITS);
        check_stop_fails(server, "a flush of \"vol\" was still under way after").await;
    });
}

#[test]
fn an_export_whose_flush_waits_does_not_keep_others_from_being_flushed_at_a_stop() {
    in_world(|rt, dir| async move {
        let text = "a = memory size=1MiB | delay flush=1h @ nbd=unix:DIR/sock; b = memory size=1MiB | stats @ nbd=unix:DIR/sock";
        let served = start(&rt, &dir, text).unwrap();
        let stack = served.stack().clone();
        let server = Running::of(&rt, served);
        assert_eq!(server.ask(Command::Stop { patience_ms: Some(200) }).await, Ok(Value::Null));
        let error = server.end.await.unwrap_err().to_string();
        assert!(error.contains("a flush of \"a\" was still under way"), "{error}");
        let stats = stack.stats().into_iter().find(|part| part.kind == "stats").unwrap();
        let flushes = stats.stats.iter().find(|stat| stat.name == "flushes").unwrap();
        assert!(flushes.value >= 1.0, "{stats:?}");
    });
}

#[test]
fn a_sync_and_a_freeze_give_up_a_flush_that_outlasts_their_patience_and_requests_go_on() {
    in_world(|rt, dir| async move {
        let server = Running::new(&rt, &dir, FLUSH_WAITS);
        let client = server.client("vol").await;
        // The second waits for the flush that the first gave up.
        for _ in 0..2 {
            let refused = server.try_ask(Command::Sync { patience_ms: 50 }).await.unwrap_err();
            assert!(refused.code == "timed_out" && refused.what.contains("a flush of \"vol\""), "{refused}");
            client.write(0, Slice::heap(vec![7; 4096]), false).await.expect("requests go on");
        }
        assert_eq!(code(server.try_ask(Command::Freeze { limit_ms: 1000, patience_ms: 50 }).await), "timed_out");
        client.write(0, Slice::heap(vec![8; 4096]), false).await.expect("requests go on");
        assert_eq!(server.status().await.dead, None);
        assert_eq!(code(server.try_ask(Command::Thaw { freeze: None }).await), "not_frozen");
    });
}

#[test]
fn a_sync_and_a_freeze_give_up_writes_that_outlast_their_patience() {
    in_world(|rt, dir| async move {
        let server = with_writes_that_wait(&rt, &dir, "rate bytes=1000").await;
        assert_eq!(code(server.try_ask(Command::Sync { patience_ms: 50 }).await), "timed_out");
        assert_eq!(code(server.try_ask(Command::Freeze { limit_ms: 1000, patience_ms: 50 }).await), "timed_out");
        assert_eq!(server.status().await.dead, None);
    });
}
