//! All volumes on one export.

use super::*;

fn joined(candidates: Vec<Candidate>) -> ComparisonPlan {
    ComparisonPlan { joined: true, ..plan(vec![busy("a", 300), steady("b", 50)], candidates) }
}

#[test]
fn joined_volumes_share_one_export_and_are_told_apart() {
    let comparison = compared(ComparisonPlan { verify: true, ..joined(Vec::new()) });
    for run in &comparison.runs {
        let requests = run.volumes.iter().map(|volume| volume.reads.requests + volume.writes.requests);
        assert_eq!(requests.collect::<Vec<_>>(), [300, 50], "{}", run.name);
        assert_eq!((run.failed, run.fitted.text()), (0, String::new()), "{}", run.name);
        assert_eq!(run.stack.matches("[[export]]").count(), 1, "{}", run.stack);
    }
}

#[test]
fn a_joined_volume_lies_behind_the_ones_before_it() {
    // The second volume alone would hit what the first one brought to the cache, if both began at byte 0.
    let same = || vec![steady("a", 50), steady("b", 50)];
    let cached = "[device.home]\nkind = \"disk-model\"\nsize = \"1GiB\"\n\
                  [device.fast]\nkind = \"memory\"\nsize = \"64MiB\"\n\
                  [device.vol]\nkind = \"cache\"\non = [\"home\", \"fast\"]\nline = \"4KiB\"\nfill = \"before\"\n\
                  [[export]]\nname = \"vol\"\ndevice = \"vol\"\n";
    let joined = ComparisonPlan { joined: true, ..plan(same(), vec![candidate("c", cached)]) };
    assert_eq!(compared(joined).runs[0].devices[0].read_bytes, 100 * 4096);
}

#[test]
fn a_joined_plan_wants_one_export_as_large_as_all_volumes_reach() {
    let refused = |stack| joined(vec![candidate("m", stack)]).compare(&silent()).unwrap_err().to_string();
    let two = refused("a = memory size=16GiB @\nb = memory size=1MiB @");
    assert!(two.contains("joined"), "{two}");
    let small = refused("vol = memory size=8GiB @");
    assert!(small.contains("a + b"), "{small}");
}
