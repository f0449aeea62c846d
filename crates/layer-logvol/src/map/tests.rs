use std::collections::BTreeMap;

use esker_base::Stream;
use proptest::prelude::*;

use super::*;
use crate::number::PageNo;

const TINY: Fanout = Fanout { leaf: 6, inner: 5 };
/// As a page of 4 KiB holds.
const PAGE: Fanout = Fanout { leaf: 169, inner: 254 };

#[derive(Clone, Debug)]
enum Step {
    Map(u64, u64, u32),
    Unmap(u64, u64),
    Remap(u64, u64, u64, u64),
}

/// The map block by block.
type Model = BTreeMap<u64, u64>;

fn step() -> impl Strategy<Value = Step> {
    let lba = || 0..600u64;
    prop_oneof![
        5 => (lba(), 0..2000u64, 1..40u32).prop_map(|(lba, pba, len)| Step::Map(lba, pba, len)),
        2 => (lba(), 1..200u64).prop_map(|(lba, len)| Step::Unmap(lba, lba + len)),
        1 => (lba(), 1..60u64, 0..2000u64, 3000..4000u64).prop_map(|(lba, len, old, new)| Step::Remap(lba, len, old, new)),
    ]
}

fn apply(map: &mut Map, model: &mut Model, step: &Step) {
    let mut removed = BTreeMap::new();
    let mut gone = |extent: Extent| {
        for (lba, pba) in extent.range().zip(extent.pba..) {
            assert_eq!(removed.insert(lba, pba), None, "block {lba} is told twice");
        }
    };
    let before = model.clone();
    match *step {
        Step::Map(lba, pba, len) => {
            map.map(Extent { lba, pba, len }, &mut gone);
            model.extend((lba..).zip(pba..).take(len as usize));
        }
        Step::Unmap(start, end) => {
            map.unmap(start..end, &mut gone);
            model.retain(|lba, _| !(start..end).contains(lba));
        }
        Step::Remap(lba, len, old, new) => {
            // One that the map really has, half of the time.
            let old = if old % 2 == 0 { model.get(&lba).copied().unwrap_or(old) } else { old };
            let mut moved = 0;
            map.remap_if(lba..lba + len, old, new, &mut |extent| moved += u64::from(extent.len));
            for i in 0..len {
                if model.get(&(lba + i)) == Some(&(old + i)) {
                    model.insert(lba + i, new + i);
                    moved -= 1;
                }
            }
            assert_eq!(moved, 0, "{step:?}");
        }
    }
    if let Step::Map(lba, _, len) = *step {
        assert_eq!(removed, before.range(lba..lba + u64::from(len)).map(|(l, p)| (*l, *p)).collect(), "{step:?}");
    }
}

fn content(tree: &Snapshot) -> Model {
    tree.from(0).flat_map(|extent| extent.range().zip(extent.pba..)).collect()
}

/// The invariants that the module names, and those of a B+tree.
fn check(map: &Map) {
    fn below(node: &Node, bounds: Range<u64>, fanout: Fanout, is_root: bool) -> usize {
        match node {
            Node::Leaf(entries) => {
                assert!(entries.len() <= fanout.leaf);
                let extents: Vec<Extent> = entries.iter().map(|entry| entry.extent()).collect();
                assert!(
                    extents.iter().all(|e| e.len > 0 && bounds.start <= e.lba && e.end() <= bounds.end),
                    "{bounds:?}"
                );
                assert!(extents.windows(2).all(|pair| pair[0].end() <= pair[1].lba && !pair[0].joins(&pair[1])));
                1
            }
            Node::Inner(children) => {
                assert!(children.len() <= fanout.inner && !children.is_empty() && (!is_root || children.len() > 1));
                assert!(children[0].first >= bounds.start);
                let ends = children.iter().skip(1).map(|child| child.first).chain([bounds.end]);
                let starts = [bounds.start].into_iter().chain(children.iter().skip(1).map(|child| child.first));
                let spans = starts.zip(ends).map(|(start, end)| start..end);
                let depths = children.iter().zip(spans).map(|(c, span)| below(&c.node, span, fanout, false));
                let depths: Vec<usize> = depths.collect();
                assert!(depths.iter().all(|depth| *depth == depths[0]), "all leaves are equally deep");
                depths[0] + 1
            }
        }
    }
    below(&map.tree.root, 0..u64::MAX, map.fanout, true);
    assert_eq!((map.mappings(), map.blocks()), map.tree.root.totals());
    assert_eq!(map.nodes(), map.tree.root.nodes());
}

proptest! {
    #[test]
    fn the_map_behaves_like_one_entry_per_block(steps in prop::collection::vec(step(), 1..150)) {
        let (mut map, mut model) = (Map::new(TINY), Model::new());
        for step in &steps {
            apply(&mut map, &mut model, step);
            check(&map);
            prop_assert_eq!(content(&map), model.clone(), "{:?}", step);
        }
        for start in [0, 100, 333] {
            let pieces: Model = map.pieces(start..start + 77).flat_map(|e| e.range().zip(e.pba..)).collect();
            prop_assert_eq!(pieces, model.range(start..start + 77).map(|(l, p)| (*l, *p)).collect());
        }
    }

    #[test]
    fn snapshots_keep_what_was_there(steps in prop::collection::vec(step(), 1..100), every in 1..20usize) {
        let (mut map, mut model) = (Map::new(TINY), Model::new());
        let mut kept: Vec<(Snapshot, Model)> = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            apply(&mut map, &mut model, step);
            if i % every == 0 {
                kept.push((map.snapshot(), model.clone()));
            }
        }
        for (snapshot, model) in kept {
            prop_assert_eq!(content(&snapshot), model);
        }
    }

    /// Pages are written as nodes change, and what the last checkpoint wrote is the map of its moment.
    #[test]
    fn pages_that_were_written_hold_the_map(rounds in prop::collection::vec(prop::collection::vec(step(), 1..40), 1..6)) {
        let (mut map, mut model) = (Map::new(TINY), Model::new());
        let (mut pages, mut next): (BTreeMap<PageNo, Arc<Node>>, u64) = (BTreeMap::new(), 0);
        for steps in rounds {
            steps.iter().for_each(|step| apply(&mut map, &mut model, step));
            let dirty = map.dirty_nodes();
            let written = map.write_out(&mut || {
                next += 1;
                PageNo(next)
            });
            prop_assert_eq!(written.len(), dirty);
            for page in map.take_stale() {
                prop_assert!(pages.remove(&page).is_some(), "page {} went stale twice", page.0);
            }
            pages.extend(written);
            prop_assert_eq!(map.dirty_nodes(), 0);
            prop_assert_eq!(pages.len() as u64, map.nodes(), "no page is lost");
            let root = reread(&pages, map.root_page());
            prop_assert_eq!(content(&Map::restored(TINY, root, PageNo::NONE)), model.clone());
        }
    }
}

fn reread(pages: &BTreeMap<PageNo, Arc<Node>>, page: PageNo) -> Arc<Node> {
    let mut node = (*pages[&page]).clone();
    if let Node::Inner(children) = &mut node {
        children.iter_mut().for_each(|child| child.node = reread(pages, child.page));
    }
    Arc::new(node)
}

#[test]
fn snapshots_can_go_to_other_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    let mut map = Map::new(PAGE);
    (0..10_000u64).for_each(|i| map.map(Extent { lba: i * 2, pba: i, len: 1 }, &mut |_| {}));
    let snapshot = map.snapshot();
    shared(&snapshot);
    map.unmap(0..LOGICAL_BLOCKS, &mut |_| {});
    assert_eq!((snapshot.from(0).count(), map.from(0).count(), map.nodes()), (10_000, 0, 1));
}

#[test]
fn only_what_changed_is_written_again() {
    let mut map = Map::new(PAGE);
    (0..100_000u64).for_each(|i| map.map(Extent { lba: i * 2, pba: i, len: 1 }, &mut |_| {}));
    let mut page = 0;
    let mut write = |map: &mut Map| {
        map.write_out(&mut || {
            page += 1;
            PageNo(page)
        })
        .len()
    };
    let all = write(&mut map);
    map.map(Extent { lba: 777, pba: 1, len: 1 }, &mut |_| {});
    let height = usize::from(map.height());
    assert!(all > 500 && write(&mut map) <= 2 * height + 1, "a path from the root to the leaf, and what was split");
}

#[test]
fn sequential_writes_fill_their_leaves() {
    let mut map = Map::new(PAGE);
    (0..100_000u64).for_each(|i| map.map(Extent { lba: i * 8, pba: i * 9, len: 8 }, &mut |_| {}));
    assert!(map.nodes() <= 100_000 / 165, "{} nodes", map.nodes());
    let mut map = Map::new(PAGE);
    (0..100_000u64).for_each(|i| map.map(Extent { lba: i * 8, pba: i * 8, len: 8 }, &mut |_| {}));
    assert_eq!(map.mappings(), 1, "what continues on both sides is one extent");
}

/// The figure that the issue asks for: at most 24 bytes of memory for each mapping.
#[test]
fn a_random_mapping_takes_at_most_24_bytes() {
    let mut map = Map::new(PAGE);
    let mut rng = Stream::seeded(3);
    for i in 0..300_000u64 {
        map.map(Extent { lba: rng.below(1 << 40), pba: i * 2, len: 1 }, &mut |_| {});
    }
    let per = map.memory() as f64 / map.mappings() as f64;
    assert!((16.0..=24.0).contains(&per), "{per:.1} bytes for each of {} mappings", map.mappings());
}

#[test]
fn cuts_share_the_extents_out_evenly_however_they_lie() {
    let mut map = Map::new(PAGE);
    // Half of them in the first million blocks, half spread over everything.
    let mut rng = Stream::seeded(4);
    for i in 0..200_000u64 {
        let lba = if i % 2 == 0 { rng.below(1 << 20) } else { rng.below(1 << 47) };
        map.map(Extent { lba, pba: i * 2, len: 1 }, &mut |_| {});
    }
    let cuts: Vec<u64> = (1..8).map(|i| map.at_fraction(f64::from(i) / 8.0)).collect();
    let ends = cuts.iter().copied().chain([u64::MAX]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let counts: Vec<usize> = starts.clone().zip(ends).map(|(a, b)| map.pieces(a..b).count()).collect();
    let all = usize::try_from(map.mappings()).unwrap();
    assert_eq!(counts.iter().sum::<usize>(), all);
    assert!(counts.iter().all(|count| (all / 16..all / 5).contains(count)), "{counts:?}");
    for cut in starts {
        let (end, most) = map.piece(cut, 12);
        let count = map.pieces(cut..end).count() as u64;
        assert!(count <= most && (most <= count + 170 || end == u64::MAX), "{count} of at most {most}");
        let middle = map.halve(&(cut..u64::MAX)).expect("it has many leaves");
        let halves = (map.pieces(cut..middle).count(), map.pieces(middle..u64::MAX).count());
        assert!(halves.0.abs_diff(halves.1) < all / 20, "{halves:?}");
    }
    let void = Map::new(PAGE);
    assert_eq!((void.at_fraction(0.5), void.piece(0, 4), void.halve(&(0..u64::MAX))), (0, (u64::MAX, 0), None));
}
