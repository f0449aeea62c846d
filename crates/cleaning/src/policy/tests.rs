use proptest::prelude::*;

use super::*;

const NOW: Situation = Situation { now: 1_000, slack: 1.0 };

fn full(live: u32, last: u64) -> Summary {
    Summary { blocks: 100, live, mappings: live.into(), first: last, last, died: None }
}

fn order(policy: &dyn Policy, segments: &[Summary]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(policy.worth(&segments[*at], &NOW)), *at));
    order
}

#[test]
fn each_policy_has_its_own_order() {
    // Worth, by hand: printed 900*10/190, 10*90/110, 500*50/150, 1*50/150, 100*100/100; published ../180, ../20,
    // ../100, ../100, ../1.
    let segments = [full(90, 100), full(10, 990), full(50, 500), full(50, 999), full(0, 900)];
    let check = |policy: &dyn Policy, expected: [usize; 5]| assert_eq!(order(policy, &segments), expected);
    check(&Timestamp, [0, 2, 4, 1, 3]);
    check(&Greedy, [4, 1, 2, 3, 0]);
    check(&CostBenefit::new(Cost::Printed), [2, 4, 0, 1, 3]);
    check(&CostBenefit::new(Cost::Published), [4, 2, 0, 1, 3]);
}

#[test]
fn values_are_those_of_the_formulas() {
    let segment = full(40, 400);
    assert_eq!(CostBenefit::new(Cost::Printed).worth(&segment, &NOW), Worth::new(600 * 60, 140));
    assert_eq!(CostBenefit::new(Cost::Published).worth(&segment, &NOW), Worth::new(600 * 60, 80));
    assert_eq!(Greedy.worth(&segment, &NOW), Worth::new(60, 1));
    assert_eq!(CostBenefit::new(Cost::Published).worth(&full(0, 400), &NOW), Worth::new(600 * 100, 1));
}

#[test]
fn a_count_beyond_belief_frees_nothing() {
    let segment = full(101, 1);
    for policy in [&Greedy as &dyn Policy, &CostBenefit::new(Cost::Printed), &CostBenefit::new(Cost::Published)] {
        assert!(policy.worth(&segment, &NOW).is_none());
    }
    assert!(!Timestamp.worth(&segment, &NOW).is_none(), "timestamp is blind to counts");
    let future = full(10, 2_000);
    assert!(CostBenefit::new(Cost::Printed).worth(&future, &NOW).is_none(), "written after now: no age");
}

#[test]
fn a_shared_segment_is_dearer_only_where_mappings_have_a_price() {
    let shared = Summary { mappings: 4_000, ..full(40, 400) };
    let plain = full(40, 400);
    for (per_mapping, dearer) in [(0, false), (2, true)] {
        let policy = CostBenefit { cost: Cost::Printed, per_mapping };
        assert_eq!(policy.worth(&shared, &NOW) < policy.worth(&plain, &NOW), dearer);
    }
}

#[test]
fn recent_deaths_protect_only_where_that_is_asked_for() {
    let fresh = Summary { died: Some(995), ..full(10, 100) };
    let settled = Settled { policy: Greedy, since: 990 };
    assert!(settled.worth(&fresh, &NOW).is_none());
    assert_eq!(settled.worth(&Summary { died: Some(989), ..fresh }, &NOW), Greedy.worth(&fresh, &NOW));
    assert_eq!(settled.worth(&Summary { died: None, ..fresh }, &NOW), Greedy.worth(&fresh, &NOW));
}

#[test]
fn adaptive_follows_slack() {
    let segment = full(40, 400);
    let at = |slack| ADAPTIVE.worth(&segment, &Situation { now: 1_000, slack });
    assert_eq!(at(0.29), Greedy.worth(&segment, &NOW));
    assert_eq!(at(0.30), CostBenefit::new(Cost::Published).worth(&segment, &NOW));
    assert_eq!(Situation::of_pass(0, 0, 5).slack, 0.0);
    assert_eq!(Situation::of_pass(0, 100, 75).slack, 0.25);
    assert_eq!(Situation::of_pass(0, 100, 175).slack, 0.0);
}

#[test]
fn names_find_their_policy() {
    let segments = [full(90, 100), full(10, 990), full(50, 500)];
    assert_eq!(order(named("greedy").expect("listed"), &segments), [1, 2, 0]);
    assert!(named("best").is_none());
}

proptest! {
    /// Ages up to 2^40 s in nanoseconds fill 64 bits.
    #[test]
    fn cost_benefit_is_exact_for_all_ages(
        a_live in 0u32..2048, a_age: u64, b_live in 0u32..2048, b_age: u64, is_printed: bool,
    ) {
        let cost = if is_printed { Cost::Printed } else { Cost::Published };
        let situation = Situation { now: u64::MAX, slack: 1.0 };
        let of = |live: u32, age: u64| Summary { blocks: 2048, ..full(live, u64::MAX - age) };
        let fraction = |live: u32, age: u64| {
            let cost = if is_printed { 2048 + live } else { (2 * live).max(1) };
            (u128::from(2048 - live) * u128::from(age), u128::from(cost))
        };
        let ((a, b), (c, d)) = (fraction(a_live, a_age), fraction(b_live, b_age));
        let policy = CostBenefit::new(cost);
        let found = policy.worth(&of(a_live, a_age), &situation).cmp(&policy.worth(&of(b_live, b_age), &situation));
        prop_assert_eq!(found, (a * d).cmp(&(c * b)));
    }

    #[test]
    fn fewer_live_blocks_are_never_a_worse_victim(live in 1u32..=100, last in 0u64..1000) {
        for (name, policy) in NAMED {
            let (more, less) = (policy.worth(&full(live, last), &NOW), policy.worth(&full(live - 1, last), &NOW));
            prop_assert!(less >= more, "{}", name);
        }
    }
}
