//! The translation layer against a model of it, against the published formula, and at its edges.

use std::collections::BTreeMap;

use esker_base::Stream;
use proptest::prelude::*;

use super::super::spec::SsdSpec;
use super::*;
use crate::catalogue;

/// Blocks of 512 units on four dies.
fn geometry(units: u32, blocks: u32) -> Geometry {
    Geometry { units, blocks, pages: 128, page_units: 4, dies: 4 }
}

fn drive(geometry: Geometry, cleaner: Cleaner, moved: Moved) -> Ftl {
    assert_eq!(geometry.fault(), None);
    Ftl::new(geometry, cleaner, moved)
}

/// Counts what a drive tells its flash.
#[derive(Default)]
struct Told {
    programs: BTreeMap<(u32, bool), u64>,
    sensed: u64,
    collected: u64,
    erased: u64,
}

impl Flash for Told {
    fn program(&mut self, die: u32, writer: Writer) {
        *self.programs.entry((die, writer == Writer::Host)).or_default() += 1;
    }

    fn collect(&mut self, _: u32, sense: bool) {
        self.sensed += u64::from(sense);
        self.collected += 1;
    }

    fn erase(&mut self) {
        self.erased += 1;
    }
}

/// Write amplification of cleaning in order of age under uniform random writes, with `a` = flash over live data:
/// `a / (a + W(-a exp(-a)))`. The share that is live in a cleaned block is the root below 1 of `x = exp(-a (1 - x))`.
fn formula(utilisation: f64) -> f64 {
    let a = 1.0 / utilisation;
    let live = (0..10_000).fold(0.0, |x: f64, _| (-a * (1.0 - x)).exp());
    1.0 / (1.0 - live)
}

fn write_uniformly(ftl: &mut Ftl, units: u32, count: u64, rng: &mut Stream) -> f64 {
    let before = *ftl.counts();
    (0..count).for_each(|_| _ = ftl.write(rng.below(u64::from(units)) as u32, &mut ()));
    ftl.counts().since(&before).write_amplification()
}

/// Live units by block, as the map tells it, of a drive whose blocks are all in memory.
fn live_by_map(ftl: &mut Ftl) -> BTreeMap<u32, u32> {
    (0..ftl.geometry.blocks).for_each(|block| ftl.lay_out(block));
    let mut live = BTreeMap::new();
    for unit in 0..ftl.geometry.units {
        if let UnitState::At(place) = ftl.locate(unit) {
            assert_eq!(ftl.blocks.owner(place), unit, "the place knows its unit");
            *live.entry(ftl.blocks.of(place)).or_default() += 1;
        }
    }
    live
}

#[test]
fn the_formula_is_the_published_one() {
    // The table of the specification: 594 of 600 segments usable.
    for (utilisation, expected) in [(0.5, 1.26), (0.7, 1.92), (0.75, 2.26), (0.8, 2.80), (0.85, 3.72), (0.9, 5.68)] {
        let found = formula(utilisation * 600.0 / 594.0);
        assert!((found / expected - 1.0).abs() < 0.005, "{utilisation}: {found}");
    }
}

#[test]
fn uniform_writes_amplify_as_the_formula_says() {
    for (cleaner, moved) in [
        (Cleaner::Fifo, Moved::Apart),
        (Cleaner::Fifo, Moved::Mixed),
        (Cleaner::Greedy, Moved::Apart),
        (Cleaner::Greedy, Moved::Mixed),
    ] {
        for utilisation in [0.7, 0.85] {
            let shape = geometry(((500 - LOW as u32) as f64 * 512.0 * utilisation) as u32, 500);
            let mut ftl = drive(shape, cleaner.clone(), moved);
            let mut rng = Stream::seeded(1);
            ftl.fill(shape.units, &mut rng);
            write_uniformly(&mut ftl, shape.units, 400_000, &mut rng);
            let found = write_uniformly(&mut ftl, shape.units, 400_000, &mut rng);
            let off = found / formula(utilisation) - 1.0;
            assert!(off.abs() < 0.03, "{cleaner:?} {moved:?} at {utilisation}: {found}, off by {off}");
        }
    }
}

#[test]
fn filling_gives_the_state_that_long_writing_gives() {
    let shape = geometry(200_000, 500);
    let (mut filled, mut written) =
        (drive(shape, Cleaner::Fifo, Moved::Apart), drive(shape, Cleaner::Fifo, Moved::Apart));
    let mut rng = Stream::seeded(2);
    filled.fill(shape.units, &mut rng);
    let live = live_by_map(&mut filled);
    assert_eq!(live.values().sum::<u32>(), shape.units, "every unit is somewhere");
    write_uniformly(&mut written, shape.units, 1_500_000, &mut rng);
    let (fresh, long) = (
        write_uniformly(&mut filled, shape.units, 50_000, &mut rng),
        write_uniformly(&mut written, shape.units, 50_000, &mut rng),
    );
    assert!((fresh / long - 1.0).abs() < 0.03, "{fresh} at once, {long} after long writing");
}

#[test]
fn a_filled_drive_is_at_its_pace_from_the_first_write_on() {
    for moved in [Moved::Apart, Moved::Mixed] {
        for (units, tolerance) in [(100_000, 0.02), (200_000, 0.03), (230_000, 0.04), (240_000, 0.06)] {
            let mut ftl = drive(geometry(units, 500), Cleaner::Greedy, moved);
            let mut rng = Stream::seeded(6);
            ftl.fill(units, &mut rng);
            // Each window is one block of the host's.
            let windows: Vec<f64> = (0..30).map(|_| write_uniformly(&mut ftl, units, 512, &mut rng)).collect();
            write_uniformly(&mut ftl, units, 400_000, &mut rng);
            let steady = write_uniformly(&mut ftl, units, 400_000, &mut rng);
            let near = windows.iter().all(|found| (found / steady - 1.0).abs() < tolerance);
            assert!(near, "{moved:?}, {units} units: {windows:?}, {steady} in the long run");
        }
    }
}

#[test]
fn what_lies_together_before_the_first_write_lies_in_all_blocks_of_a_filled_drive() {
    for name in catalogue::SSDS {
        let shape = SsdSpec::profile(name).unwrap().geometry().unwrap();
        let mut ftl = drive(shape, Cleaner::Greedy, Moved::Apart);
        ftl.fill(shape.units, &mut Stream::seeded(8));
        let (mut blocks, mut dies) = (BTreeMap::<u32, u32>::new(), BTreeMap::<u32, u32>::new());
        let count = 20 * shape.blocks;
        for unit in 0..count {
            let UnitState::At(place) = ftl.locate(unit + 12_345) else { panic!("{name}: {unit} was filled") };
            *blocks.entry(ftl.blocks.of(place)).or_default() += 1;
            *dies.entry(ftl.die_of(place)).or_default() += 1;
        }
        let share = |counts: &BTreeMap<u32, u32>, of: u32| {
            f64::from(*counts.values().max().unwrap()) * f64::from(of) / f64::from(count)
        };
        let (in_block, on_die) = (share(&blocks, shape.blocks), share(&dies, shape.dies));
        assert!(in_block < 2.5 && on_die < 1.5, "{name}: {in_block} and {on_die} of the mean at most");
    }
}

#[test]
fn sequential_overwrites_move_nothing() {
    let shape = geometry(200_000, 500);
    let mut ftl = drive(shape, Cleaner::Greedy, Moved::Apart);
    for round in 0..4 {
        (0..shape.units).for_each(|unit| assert!(ftl.write(unit, &mut ()), "round {round}"));
    }
    assert_eq!((ftl.counts().moved, ftl.counts().write_amplification()), (0, 1.0));
    assert!(ftl.counts().erased > 1000);
    let (least, most) = (ftl.wear().iter().min().unwrap(), ftl.wear().iter().max().unwrap());
    assert!(most - least <= 1, "wear is even: {least} to {most}");
}

#[test]
fn trimmed_units_are_not_moved() {
    let shape = geometry(220_000, 500);
    let mut rng = Stream::seeded(3);
    let amplified = |trim: bool, rng: &mut Stream| {
        let mut ftl = drive(shape, Cleaner::Greedy, Moved::Apart);
        ftl.fill(shape.units, rng);
        if trim {
            ftl.trim(110_000, shape.units);
        }
        write_uniformly(&mut ftl, 110_000, 400_000, rng);
        write_uniformly(&mut ftl, 110_000, 200_000, rng)
    };
    let (with, without) = (amplified(true, &mut rng), amplified(false, &mut rng));
    assert!(with < 1.3 && without > 1.5, "{with} with trimming, {without} without");
}

#[test]
fn choices_among_ten_come_near_to_greedy() {
    let shape = geometry(200_000, 500);
    let mut rng = Stream::seeded(4);
    let mut found = [Cleaner::Greedy, Cleaner::Choices(10, Stream::seeded(9)), Cleaner::Choices(1, Stream::seeded(9))]
        .map(|cleaner| {
            let mut ftl = drive(shape, cleaner, Moved::Apart);
            ftl.fill(shape.units, &mut rng);
            write_uniformly(&mut ftl, shape.units, 600_000, &mut rng);
            write_uniformly(&mut ftl, shape.units, 300_000, &mut rng)
        });
    assert!(found[1] / found[0] < 1.05 && found[2] / found[0] > 1.2, "{found:?}");
    found.sort_by(f64::total_cmp);
    assert!(found[0] > 2.0);
}

#[test]
fn the_open_page_absorbs_overwrites_and_padding_is_counted() {
    let mut ftl = drive(geometry(10_000, 40), Cleaner::Greedy, Moved::Apart);
    let mut told = Told::default();
    assert!(ftl.write(5, &mut told) && !ftl.write(5, &mut told));
    assert!(ftl.write(6, &mut told) && told.programs.is_empty());
    ftl.pad(&mut told);
    ftl.pad(&mut told);
    assert_eq!(told.programs, BTreeMap::from([((0, true), 1)]));
    let counts = *ftl.counts();
    assert_eq!((counts.host, counts.absorbed, counts.padded), (3, 1, 2));
    assert_eq!(counts.write_amplification(), 4.0 / 3.0);
    assert!(ftl.write(5, &mut told), "a programmed page absorbs nothing");
}

#[test]
fn pages_go_round_the_dies_and_flash_is_told_of_everything() {
    let shape = geometry(200_000, 500);
    let mut ftl = drive(shape, Cleaner::Greedy, Moved::Apart);
    let mut rng = Stream::seeded(5);
    ftl.fill(shape.units, &mut rng);
    let mut told = Told::default();
    (0..400_000).for_each(|_| _ = ftl.write(rng.below(200_000) as u32, &mut told));
    let by = |host: bool| -> Vec<u64> { (0..4).map(|die| told.programs[&(die, host)]).collect() };
    for (host, units) in [(true, ftl.counts().host - ftl.counts().absorbed), (false, ftl.counts().moved)] {
        let pages = by(host);
        assert!(pages.iter().max().unwrap() - pages.iter().min().unwrap() <= 1, "{pages:?}");
        assert_eq!(pages.iter().sum::<u64>(), units / 4);
    }
    assert_eq!((told.collected, told.erased), (ftl.counts().moved, ftl.counts().erased));
    assert!(told.sensed < told.collected && told.sensed * 4 > told.collected, "some pages hold several live units");
}

#[test]
fn what_the_host_wrote_last_is_known_by_its_page() {
    let mut ftl = drive(geometry(10_000, 40), Cleaner::Greedy, Moved::Apart);
    (0..10).for_each(|unit| assert!(ftl.write(unit, &mut ())));
    let page = |unit| match ftl.locate(unit) {
        UnitState::At(place) => ftl.host_page(place),
        other => panic!("{unit} is {other:?}"),
    };
    assert_eq!((ftl.host_pages(), page(0), page(7), page(9)), (2, 0, 1, 2));
    let UnitState::At(place) = ftl.locate(6) else { panic!("6 was written") };
    assert_eq!(ftl.die_of(place), 1);
}

#[test]
fn geometries_that_cannot_work_are_refused() {
    for (geometry, words) in [
        (geometry(500 * 512, 500), "too few"),
        (geometry(0, 500), "above 0"),
        (Geometry { page_units: 3, ..geometry(100, 500) }, "power of two"),
        (geometry(100, 1 << 24), "more than the map can name"),
    ] {
        assert!(geometry.fault().unwrap().contains(words), "{geometry:?}");
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write(u32, u32),
    Trim(u32, u32),
    Pad,
}

fn acts(units: u32) -> impl Strategy<Value = Vec<Act>> {
    let span = move || (0..units, 1..200u32).prop_map(move |(at, len)| (at, len.min(units - at)));
    prop::collection::vec(
        prop_oneof![
            8 => span().prop_map(|(at, len)| Act::Write(at, len)),
            1 => span().prop_map(|(at, len)| Act::Trim(at, len)),
            1 => Just(Act::Pad),
        ],
        1..600,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(48) })]
    #[test]
    fn every_unit_is_where_the_map_says_and_nothing_is_lost(
        acts in acts(700),
        mixed: bool,
        fifo: bool,
        filled in prop_oneof![Just(0u32), 1..=700u32],
        tight in 0u32..3,
    ) {
        // Blocks of 32 units: 22 hold the data, and there is the least spare that is allowed, or a little more.
        let shape = Geometry { units: 700, blocks: 22 + RESERVE + tight, pages: 16, page_units: 2, dies: 3 };
        let cleaner = if fifo { Cleaner::Fifo } else { Cleaner::Greedy };
        let mut ftl = drive(shape, cleaner, if mixed { Moved::Mixed } else { Moved::Apart });
        if filled > 0 {
            ftl.fill(filled, &mut Stream::seeded(u64::from(filled)));
        }
        let mut model: BTreeMap<u32, bool> = (0..filled).map(|unit| (unit, true)).collect();
        for act in &acts {
            match act {
                Act::Write(at, len) => (*at..at + len).for_each(|unit| {
                    ftl.write(unit, &mut ());
                    model.insert(unit, true);
                }),
                Act::Trim(at, len) => {
                    ftl.trim(*at, at + len);
                    model.range_mut(*at..at + len).for_each(|(_, written)| *written = false);
                }
                Act::Pad => ftl.pad(&mut ()),
            }
        }
        for unit in 0..shape.units {
            match model.get(&unit) {
                None => prop_assert_eq!(ftl.locate(unit), UnitState::Never),
                Some(false) => prop_assert_eq!(ftl.locate(unit), UnitState::Trimmed),
                Some(true) => prop_assert!(matches!(ftl.locate(unit), UnitState::At(_))),
            }
        }
        let live = live_by_map(&mut ftl);
        let open = [ftl.host, ftl.collector].map(|point| (point.end - point.place, point.block));
        for block in 0..shape.blocks {
            let unwritten: u32 = open.iter().filter(|(left, at)| *left > 0 && *at == block).map(|(left, _)| left).sum();
            prop_assert_eq!(ftl.blocks.live(block), live.get(&block).copied().unwrap_or(0) + unwritten, "block {}", block);
        }
    }
}
