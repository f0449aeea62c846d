use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::action::Outcome;
use crate::call::{Call, Fd};
use esker_base::Errno;

#[test]
fn one_seed_is_one_trace() {
    assert_eq!(apple_desktop(Shape::tiny(7)), apple_desktop(Shape::tiny(7)));
    assert_ne!(apple_desktop(Shape::tiny(7)), apple_desktop(Shape::tiny(8)));
}

#[test]
fn every_pattern_and_many_emulated_calls_are_in_it() {
    let trace = apple_desktop(Shape::tiny(1));
    let names: BTreeSet<_> = trace.actions.iter().map(|action| action.call.name()).collect();
    let wanted = [
        "exchangedata",
        "getdirentriesattr",
        "getattrlist",
        "setattrlist",
        "getxattr_at",
        "setxattr_at",
        "fcntl_hint",
        "fcntl_preallocate",
        "undocumented",
        "fsctl",
        "shm_open",
        "rename",
        "link",
        "readlink",
        "fcntl_lock",
        "fsync",
    ];
    assert!(wanted.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(trace.actions.len() > 400, "{}", trace.actions.len());
}

#[test]
fn threads_issue_one_call_at_a_time_and_calls_of_several_overlap() {
    let trace = apple_desktop(Shape { seed: 3, threads: 6, scripts: 60 });
    let mut ends = BTreeMap::new();
    let mut overlaps = 0;
    let mut latest = 0;
    for action in &trace.actions {
        let end = ends.insert(action.thread, action.leave.0).unwrap_or(0);
        assert!(action.enter.0 >= end, "thread {:?} at {}", action.thread, action.enter.0);
        overlaps += u32::from(action.enter.0 < latest);
        latest = latest.max(action.leave.0);
    }
    assert_eq!(ends.len(), 6);
    assert!(overlaps > 100, "{overlaps}");
}

#[test]
fn descriptors_are_the_lowest_free_ones_and_pass_between_threads() {
    let trace = apple_desktop(Shape { seed: 4, threads: 4, scripts: 60 });
    let mut makers: BTreeMap<Fd, BTreeSet<_>> = BTreeMap::new();
    let mut events: Vec<(u64, bool, Fd)> = Vec::new();
    for action in &trace.actions {
        for (fd, _) in action.call.fds_made(action.outcome) {
            makers.entry(fd).or_default().insert(action.thread);
            events.push((action.enter.0, true, fd));
        }
        let closed = matches!(action.outcome, Outcome::Done(_) | Outcome::Failed(Errno::EINVAL));
        if let (Call::Close { fd }, true) = (&action.call, closed) {
            events.push((action.leave.0, false, *fd));
        }
        let mut fds = Vec::new();
        action.call.clone().change_fds(&mut |fd| fds.push(*fd));
        assert!(fds.iter().all(|fd| *fd == Fd::CWD || fd.0 >= 3), "{:?}", action.call);
    }
    assert!(makers.values().filter(|threads| threads.len() > 1).count() > 3, "{makers:?}");
    events.sort_unstable();
    let mut open = BTreeSet::new();
    for (at, opens, fd) in events {
        assert!(if opens { open.insert(fd) } else { open.remove(&fd) }, "{fd:?} at {at}");
    }
    assert!(open.is_empty());
}
