//! Every race on the plain subject, with both grains.

use super::plain::PlainSubject;
use super::*;

#[track_caller]
fn check_plain(name: &str) {
    for grain in [Grain::Whole, Grain::Unit] {
        let states_max = if name == "random" { 0 } else { 24 };
        let count = check(&PlainSubject { grain }, name, states_max);
        assert!(states_max == 0 || count.states > 10, "{count:?}");
    }
}

macro_rules! races {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            check_plain($name);
        })*

        #[test]
        fn every_race_has_its_test() {
            let names: Vec<&str> = RACES.iter().copied().flatten().map(|race| race.name).collect();
            let mut tested = vec![$($name),*];
            tested.sort_by_key(|name| names.iter().position(|of| of == name));
            assert_eq!(tested, names);
        }
    };
}

races! {
    m1_a_write_in_flight_is_not_lost: "M1",
    m2_a_place_that_a_read_uses_is_not_free: "M2",
    m3_a_write_during_the_copy_goes_on: "M3",
    m4_a_read_during_the_copy_goes_on: "M4",
    m5_a_request_over_states_is_whole: "M5",
    m6_no_change_waits_long: "M6",
    m7_an_unreadable_source_ends_a_move: "M7",
    m8_an_unwritable_destination_is_kept_apart: "M8",
    m9_a_lost_destination_costs_what_lies_there: "M9",
    m10_an_extent_moves_once_at_a_time: "M10",
    m11_cancelled_moves_leave_extents_whole: "M11",
    m12_a_cancelled_move_begins_no_unit: "M12",
    m13_a_move_without_record_has_not_happened: "M13",
    m14_a_move_with_record_has_happened: "M14",
    m15_no_change_is_answered_before_the_record: "M15",
    m16_a_place_is_free_after_the_record: "M16",
    m17_copies_are_durable_before_the_record: "M17",
    m18_discarded_bytes_do_not_come_back: "M18",
    m19_after_a_stop_nothing_moves: "M19",
    clients_find_what_they_wrote_while_everything_moves: "random",
    clients_find_what_they_wrote_after_any_crash: "short random",
}
