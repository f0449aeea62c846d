use super::*;

/// Two threads that compute between calls: 20 calls with 3 ms before each, so 60 ms in all.
fn thinking() -> Program {
    let mut draft = Draft::of(2);
    draft.file("/f", 10);
    let stat = || Call::Stat { file: Object::Path { at: At::cwd("/f"), follow: true }, seen: None };
    // The first call of each thread begins the trace.
    for thread in 0..2 {
        draft.call_from(thread, 0, 1000, stat(), Outcome::Done(0));
    }
    for call in 0..20u64 {
        let enter = 3_000_000 * (call + 1);
        draft.call_from((call % 2) as u32, enter, enter + 1000, stat(), Outcome::Done(0));
    }
    draft.program()
}

#[test]
fn natural_speed_takes_the_traces_time_and_a_factor_multiplies_it() {
    let program = thinking();
    let elapsed = |speed| play_as(&program, ROOT(), speed).1.elapsed_ns;
    // A machine that does other work delays threads; it cannot make them early.
    let near = |speed, expected: u64| {
        let tries: Vec<u64> =
            (0..10).map(|_| elapsed(speed)).take_while(|ns| ns.abs_diff(expected) > 5_000_000).collect();
        assert!(tries.iter().all(|ns| *ns > expected), "{tries:?}");
        assert!(tries.len() < 10, "{tries:?} are all far from {expected}");
    };
    near(Speed::Scaled(1.0), 60_000_000);
    near(Speed::Scaled(2.0), 120_000_000);
    assert!(elapsed(Speed::Afap) < 60_000_000);
}

#[test]
fn late_sleeps_do_not_add_up() {
    // 2000 calls, one every 50 us: each sleep that ended 5 us late would cost 10 ms in all.
    let mut draft = Draft::of(1);
    draft.file("/f", 10);
    draft.open(0, "/f", OpenFlags::READ, 3);
    for call in 1..=2000u64 {
        let none = ReadWriteFlags::empty();
        let read = Call::Pread { fd: Fd(3), offset: 0, len: 10, parts: 0, flags: none };
        draft.call_from(0, call * 50_000, call * 50_000 + 1, read, Outcome::Done(10));
    }
    let program = draft.program();
    let (finished, report) = play_as(&program, ROOT(), Speed::Scaled(1.0));
    let busy: u64 = finished.played[0].stamps.iter().map(|stamp| stamp.done_ns - stamp.issue_ns).sum();
    let schedule = 2000 * 50_000 - 2000 + busy;
    let drift = report.elapsed_ns.abs_diff(schedule) as f64 / schedule as f64;
    assert!(drift < 0.02, "{drift}: {} instead of {schedule}", report.elapsed_ns);
}

#[test]
fn times_of_a_report_sum_up() {
    let program = busy(4, 4000, 6);
    let (_, report) = play_as(&program, ROOT(), Speed::Afap);
    let in_calls: u64 = report.threads.iter().map(|thread| thread.busy_ns).sum();
    assert_eq!(report.categories.iter().map(|category| category.time_ns).sum::<u64>(), in_calls);
    assert_eq!(report.calls.iter().map(|call| call.count).sum::<u64>(), program.len() as u64);
    for thread in &report.threads {
        let all = thread.busy_ns + thread.waiting_ns + thread.delay_ns + thread.idle_ns;
        assert!(all.abs_diff(report.elapsed_ns) <= report.elapsed_ns / 100, "{thread:?} of {}", report.elapsed_ns);
    }
    assert!(report.outstanding_mean > 0.0 && report.outstanding_mean <= 4.0);
    assert!(report.resident_bytes > 0);
}
