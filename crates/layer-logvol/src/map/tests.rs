use std::collections::{BTreeMap, BTreeSet};

use esker_base::Stream;
use proptest::prelude::*;

use super::*;
use crate::number::PageNo;
use changes::newer;
use written::Content;

const TINY: Fanout = Fanout { leaf: 6, inner: 5, roots: 2, index: 4, changes: 8 };
/// As a page of 4 KiB holds.
const PAGE: Fanout = Fanout { leaf: 169, inner: 508, roots: 512, index: 508, changes: 203 };
/// Tracts that are used.
const TRACTS: u64 = 5;
/// Blocks of each that are used.
const USED: u64 = 600;

#[derive(Clone, Debug)]
enum Step {
    Map(u64, u64, u32),
    Unmap(u64, u64),
    /// From, to, blocks.
    Clone(u64, u64, u64),
    /// A block, how many, and where to.
    Repoint(u64, u64, u64),
    GiveBack(usize),
}

/// The map block by block: clones are copies.
type Model = BTreeMap<u64, u64>;

fn lba() -> impl Strategy<Value = u64> {
    (0..TRACTS, 0..USED).prop_map(|(tract, lba)| tract * TRACT + lba)
}

fn step() -> impl Strategy<Value = Step> {
    let tract = || (0..TRACTS).prop_map(|tract| tract * TRACT);
    // Most end behind everything, some in the middle, some take several tracts.
    let len = prop_oneof![4 => Just(TRACT), 2 => Just(USED + 40), 1 => 1..USED, 1 => Just(2 * TRACT)];
    prop_oneof![
        8 => (lba(), 1..2000u64, 1..40u32).prop_map(|(lba, pba, len)| Step::Map(lba, pba, len)),
        2 => (lba(), 1..200u64).prop_map(|(lba, len)| Step::Unmap(lba, lba + len)),
        1 => (tract(), 1..3u64).prop_map(|(start, tracts)| Step::Unmap(start, start + tracts * TRACT)),
        3 => (tract(), tract(), len).prop_map(|(src, dst, len)| Step::Clone(src, dst, len)),
        1 => (lba(), lba(), 1..90u64).prop_map(|(src, dst, len)| Step::Clone(src, dst, len)),
        4 => (lba(), 1..60u64, 3000..9000u64).prop_map(|(lba, len, new)| Step::Repoint(lba, len, new)),
        1 => (1..9usize).prop_map(Step::GiveBack),
    ]
}

/// References to each block that were told.
type Told = BTreeMap<u64, i64>;

struct Bench {
    map: Map,
    model: Model,
    told: Told,
}

impl Bench {
    fn new() -> Bench {
        Bench { map: Map::new(TINY), model: Model::new(), told: Told::new() }
    }

    fn apply(&mut self, step: &Step) {
        let Bench { map, model, told } = self;
        let still: BTreeSet<u64> = model.values().copied().collect();
        let mut each = |change: Change| tell(told, change);
        match *step {
            Step::Map(lba, pba, len) => {
                map.map(Extent { lba, pba, len }, &mut each);
                model.extend((lba..).zip(pba..).take(len as usize));
            }
            Step::Unmap(start, end) => {
                map.unmap(start..end, &mut each);
                model.retain(|lba, _| !(start..end).contains(lba));
            }
            Step::Clone(src, dst, len) if src.abs_diff(dst) >= len => {
                map.duplicate(src, dst, len, &mut each);
                let image: Model = model.range(src..src + len).map(|(lba, pba)| (lba - src + dst, *pba)).collect();
                model.retain(|lba, _| !(dst..dst + len).contains(lba));
                model.extend(image);
            }
            Step::Clone(..) => {}
            Step::Repoint(lba, len, new) => repoint(map, model, (lba, len, new), &mut each),
            Step::GiveBack(most) => map.give_back(most, &mut each),
        }
        let live: BTreeSet<u64> = model.values().copied().collect();
        // What stayed mapped all the time never looked dead: `tell` refuses that.
        assert!(still.intersection(&live).all(|pba| told.get(pba).is_some_and(|count| *count > 0)), "{step:?}");
    }
}

fn tell(told: &mut Told, change: Change) {
    let (extent, sign) = match change {
        Change::Added(mapping) => (mapping.extent, 1),
        Change::Removed(extent) => (extent, -1),
    };
    for pba in extent.pba..extent.pba + u64::from(extent.len) {
        *told.entry(pba).or_default() += sign;
        assert!(told[&pba] >= 0, "block {pba} was never referred to so often");
    }
}

/// Moves blocks of one mapping, as the collector does: all trees that share its leaf see them in their new place.
fn repoint(map: &mut Map, model: &mut Model, (lba, len, new): (u64, u64, u64), each: Each<'_>) {
    let (tract, at) = split(lba);
    let root = map.root(tract);
    if root.is_none() {
        return;
    }
    let (leaf, node, _) = map.view().leaf(root, at);
    let Some(extent) = node.extents().find(|e| split(e.lba).1 <= at && at < split(e.end()).1) else { return };
    let len = len.min(extent.end() - (first_of(node.home) + at));
    let part = Extent { lba: first_of(node.home) + at, pba: extent.pba + (at - split(extent.lba).1), len: len as u32 };
    let part = Mapping { leaf, extent: part };
    let home = map.root(node.home);
    let mut expected = Vec::new();
    for tract in (0..u32::try_from(TRACTS).unwrap() + 2).filter(|tract| !map.root(*tract).is_none()) {
        for i in 0..len {
            let here = map.view().leaf(map.root(tract), at + i).0;
            let is_at_home = !home.is_none() && here == map.view().leaf(home, at + i).0;
            let block = first_of(tract) + at + i;
            if (here == leaf || is_at_home) && model.get(&block) == Some(&(part.extent.pba + i)) {
                expected.push((block, new + i));
            }
        }
    }
    model.extend(expected);
    assert!(map.repoint(part, new, each) >= len);
    let elsewhere = Mapping { extent: Extent { pba: part.extent.pba + 7, ..part.extent }, ..part };
    assert_eq!(map.repoint(elsewhere, new, each), 0, "it is not there");
}

fn content(extents: impl Iterator<Item = Extent>) -> Model {
    extents.flat_map(|extent| extent.range().zip(extent.pba..)).collect()
}

/// The invariants that the modules name.
fn check(bench: &Bench) {
    let map = &bench.map;
    let (mut refs, mut mappings, mut live) = (BTreeMap::<NodeId, u32>::new(), 0, Told::new());
    for (id, node) in map.table.nodes.from(1) {
        assert!(node.len() <= map.fanout.leaf.max(map.fanout.inner), "{id} is too full");
        node.refers_to().into_iter().for_each(|child| *refs.entry(child).or_default() += 1);
        if let Some(leaf) = node.leaf() {
            mappings += leaf.entries.len() as u64;
            for extent in leaf.extents() {
                (extent.pba..extent.pba + u64::from(extent.len)).for_each(|pba| *live.entry(pba).or_default() += 1);
            }
            let extents: Vec<Extent> = leaf.entries.iter().map(|entry| entry.extent()).collect();
            assert!(extents.windows(2).all(|pair| pair[0].end() <= pair[1].lba && !pair[0].joins(&pair[1])));
        }
    }
    map.roots.values().for_each(|id| *refs.entry(*id).or_default() += 1);
    for (id, _) in map.table.nodes.from(1) {
        assert_eq!(map.table.refs(id), refs.get(&id).copied().unwrap_or(0), "references to node {id}");
    }
    assert_eq!((map.mappings(), map.blocks()), (mappings, bench.model.len() as u64));
    let told: Told = bench.told.iter().filter(|(_, count)| **count > 0).map(|(pba, count)| (*pba, *count)).collect();
    assert_eq!(told, live, "references to blocks");
    for tract in (0..8).filter(|tract| !map.root(*tract).is_none()) {
        check_tree(map, map.root(tract), 0..TRACT, true);
    }
}

/// Bounds, and that no node is empty.
fn check_tree(map: &Map, id: NodeId, bounds: Range<u64>, is_root: bool) {
    match map.table.get(id) {
        Node::Leaf(leaf) => {
            assert!(!leaf.entries.is_empty(), "leaf {id} is empty");
            let extents = leaf.entries.iter().map(|entry| entry.extent());
            extents.for_each(|e| assert!(e.len > 0 && bounds.start <= e.lba && e.end() <= bounds.end, "{bounds:?}"));
        }
        Node::Inner(children) => {
            assert!(!children.is_empty() && (!is_root || children.len() > 1), "node {id} has {children:?}");
            let ends = children.iter().skip(1).map(|child| child.first.into()).chain([bounds.end]);
            let starts = [bounds.start].into_iter().chain(children.iter().skip(1).map(|child| child.first.into()));
            for (child, (start, end)) in children.iter().zip(starts.zip(ends)) {
                check_tree(map, child.node, start..end, false);
            }
        }
        Node::Roots(..) | Node::Changes(_) => panic!("node {id} is none of a tree"),
    }
}

proptest! {
    #[test]
    fn the_map_behaves_like_one_entry_per_block(steps in prop::collection::vec(step(), 1..150)) {
        let mut bench = Bench::new();
        for step in &steps {
            bench.apply(step);
            check(&bench);
            prop_assert_eq!(content(bench.map.from(0)), bench.model.clone(), "{:?}", step);
        }
        for start in [0, 100, 333, TRACT - 5, TRACT + 70] {
            let pieces = content(bench.map.pieces(start..start + 77));
            prop_assert_eq!(pieces, bench.model.range(start..start + 77).map(|(l, p)| (*l, *p)).collect());
        }
        while bench.map.has_dead() {
            bench.apply(&Step::GiveBack(3));
            check(&bench);
        }
        bench.apply(&Step::Unmap(0, LOGICAL_BLOCKS));
        bench.apply(&Step::GiveBack(usize::MAX));
        prop_assert_eq!((bench.map.nodes(), bench.map.mappings(), bench.map.blocks()), (0, 0, 0));
    }

    #[test]
    fn snapshots_keep_what_was_there(steps in prop::collection::vec(step(), 1..100), every in 1..20usize) {
        let mut bench = Bench::new();
        let mut kept: Vec<(Snapshot, Model)> = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            bench.apply(step);
            if i % every == 0 {
                kept.push((bench.map.snapshot(), bench.model.clone()));
            }
        }
        for (snapshot, model) in kept {
            prop_assert_eq!(content(snapshot.from(0)), model);
        }
    }

    /// Pages are written as nodes change, and what the last checkpoint wrote is the map of its moment, with the same
    /// counts.
    #[test]
    fn pages_that_were_written_hold_the_map(rounds in prop::collection::vec(prop::collection::vec(step(), 1..25), 1..12)) {
        let mut bench = Bench::new();
        let (mut pages, mut next) = (Written::new(), 0);
        for (steps, generation) in rounds.into_iter().zip(1..) {
            steps.iter().for_each(|step| bench.apply(step));
            bench.apply(&Step::GiveBack(usize::MAX));
            bench.map.list_changes(if generation % 5 > 0 { u64::MAX } else { 0 });
            let outdated = bench.map.outdated_pages();
            let written = bench.map.write_out(&mut || {
                next += 1;
                PageNo(next)
            });
            prop_assert_eq!(written.len() as u64, outdated);
            for page in bench.map.take_stale() {
                prop_assert!(pages.remove(&page).is_some(), "page {} went stale twice", page.0);
            }
            pages.extend(written.into_iter().map(|(page, content)| (page, (generation, content))));
            let lists = bench.map.lists();
            prop_assert_eq!(bench.map.outdated_pages(), 0);
            prop_assert_eq!(pages.len() as u64, bench.map.pages() + lists, "no page is lost");
            let mut again = reread(&pages, bench.map.index_root());
            prop_assert_eq!((again.outdated_pages() == 0, again.pages()), (lists == 0, bench.map.pages()));
            let mut told = Told::new();
            for extent in again.references() {
                (extent.pba..extent.pba + u64::from(extent.len)).for_each(|pba| *told.entry(pba).or_default() += 1);
            }
            let mut reopened = Bench { map: again, model: bench.model.clone(), told };
            check(&reopened);
            prop_assert_eq!(content(reopened.map.from(0)), bench.model.clone());
            // It goes on from there, half of the time.
            if next % 2 == 0 {
                prop_assert!(lists > 0 || reopened.map.take_stale().is_empty());
                bench = reopened;
            }
        }
    }
}

/// Pages with the generations of the checkpoints that wrote them.
type Written = BTreeMap<PageNo, (u64, Content)>;

fn reread(pages: &Written, (root, height): (PageNo, u8)) -> Map {
    let mut levels = vec![vec![root]];
    for level in (0..=height).rev() {
        let parts = levels.last().unwrap().iter().map(|page| match &pages[page] {
            (_, Content::Index(of, part)) if *of == level => part.clone(),
            _ => panic!("page {page} is no part of level {level}"),
        });
        let below = parts.collect::<Vec<_>>().concat();
        levels.push(below);
    }
    let numbers = levels.pop().unwrap();
    let numbered = numbers.iter().copied().zip(0..).filter(|(page, _)| !page.is_none());
    let nodes = numbered.map(|(page, id)| match &pages[&page] {
        (_, Content::Node(node)) => (NodeId(id), page, (**node).clone()),
        (_, Content::Index(..)) => panic!("page {page} is no node"),
    });
    let nodes: Vec<(NodeId, PageNo, Node)> = nodes.collect();
    let lists = nodes.iter().filter_map(|(_, page, node)| match node {
        Node::Changes(changes) => Some((pages[page].0, changes.iter().map(|(leaf, extent)| (*leaf, extent.extent())))),
        Node::Leaf(_) | Node::Inner(_) | Node::Roots(..) => None,
    });
    let written = |leaf: NodeId| pages.get(numbers.get(leaf.index())?).map(|(generation, _)| *generation);
    let changes = newer(lists.collect(), written);
    levels.reverse();
    Map::restored(TINY, nodes, &changes, levels).unwrap()
}

/// A map of as many random extents, which are all in one tract.
fn random(extents: u64) -> Map {
    let mut map = Map::new(PAGE);
    let mut rng = Stream::seeded(3);
    for i in 0..extents {
        map.map(Extent { lba: rng.below(TRACT), pba: i * 2, len: 1 }, &mut |_| {});
    }
    map
}

#[test]
fn snapshots_can_go_to_other_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    let mut map = Map::new(PAGE);
    (0..10_000u64).for_each(|i| map.map(Extent { lba: i * 2, pba: i, len: 1 }, &mut |_| {}));
    let snapshot = map.snapshot();
    shared(&snapshot);
    map.unmap(0..LOGICAL_BLOCKS, &mut |_| {});
    map.give_back(usize::MAX, &mut |_| {});
    assert_eq!((snapshot.from(0).count(), map.from(0).count(), map.nodes()), (10_000, 0, 0));
}

fn write(map: &mut Map, page: &mut u64) -> usize {
    let written = map.write_out(&mut || {
        *page += 1;
        PageNo(*page)
    });
    written.len()
}

#[test]
fn only_what_changed_is_written_again() {
    let (mut map, mut page) = (random(100_000), 0);
    let all = write(&mut map, &mut page);
    map.map(Extent { lba: 777, pba: 1, len: 1 }, &mut |_| {});
    let leaf_and_index = write(&mut map, &mut page);
    assert!(all > 500 && leaf_and_index <= 5, "{leaf_and_index} of {all}: a leaf, what was split, and the index");
}

/// A clone of a whole tract is a reference: nothing is told, copied, or written but the roots and the index.
#[test]
fn a_clone_of_a_tract_costs_nothing_for_what_it_holds() {
    let (mut map, mut page) = (random(100_000), 0);
    write(&mut map, &mut page);
    let (nodes, memory) = (map.nodes(), map.memory());
    for i in 1..=100 {
        assert!(map.copied_by(0, i * TRACT, TRACT).is_empty());
        map.duplicate(0, i * TRACT, TRACT, &mut |change| panic!("{change:?}"));
    }
    assert_eq!((map.nodes(), map.blocks()), (nodes, 101 * map.pieces(0..TRACT).count() as u64));
    assert!(map.memory() - memory <= 100 * 64, "{} bytes for 100 clones", map.memory() - memory);
    assert_eq!(write(&mut map, &mut page), 3, "roots, and two levels of the index");
    for dst in [TRACT, 500 * TRACT] {
        assert_eq!(map.copied_by(0, dst, TRACT / 2).as_slice(), std::slice::from_ref(&(0..TRACT / 2)));
    }
    // A write copies its path, a deletion of a tract drops a root.
    map.map(Extent { lba: 7 * TRACT + 9, pba: 1, len: 1 }, &mut |_| {});
    assert_eq!(map.nodes(), nodes + 3);
    map.unmap(7 * TRACT..8 * TRACT, &mut |change| panic!("{change:?}"));
    map.give_back(usize::MAX, &mut |_| {});
    assert_eq!(map.nodes(), nodes);
}

/// The figure that `anvil-snapshot-large` demands: at most 64 KiB of memory for a snapshot and a few writes behind it.
#[test]
fn a_snapshot_and_eight_writes_take_at_most_64_kib() {
    let (mut map, mut rng) = (random(500_000), Stream::seeded(5));
    let before = map.memory();
    for i in 1..=100 {
        map.duplicate(0, i * TRACT, TRACT, &mut |_| {});
        (0..8).for_each(|j| map.map(Extent { lba: rng.below(TRACT), pba: i * 16 + j * 2, len: 1 }, &mut |_| {}));
    }
    let per = (map.memory() - before) as f64 / 100.0 / 1024.0;
    assert!((8.0..=64.0).contains(&per), "{per:.1} KiB for each snapshot");
}

/// An extent of a shared leaf that goes to many places needs many entries: the leaf becomes a tree, for all that share
/// it.
#[test]
fn a_shared_leaf_that_overflows_becomes_a_low_tree() {
    let mut map = Map::new(PAGE);
    map.map(Extent { lba: 5, pba: 0, len: 60_000 }, &mut |_| {});
    (1..9).for_each(|i| map.duplicate(0, i * TRACT, TRACT, &mut |_| {}));
    let mut moved = 0;
    while let Some(part) = {
        let leaves: Vec<Mapping> = map.snapshot().leaves(0..u64::MAX).collect();
        leaves.into_iter().find(|mapping| mapping.extent.pba < 60_000)
    } {
        // One block at a time, and each to another place than its neighbours.
        let extent = Extent { len: 1, ..part.extent };
        moved += map.repoint(Mapping { extent, ..part }, 100_000 + 2 * part.extent.pba, &mut |_| {});
        if moved == 6_000 {
            break;
        }
    }
    let expected = |lba: u64| if lba < 6_005 { 100_000 + 2 * (lba - 5) } else { lba - 5 };
    for tract in 0..9 {
        let all: Vec<Extent> = map.pieces(tract * TRACT..(tract + 1) * TRACT).collect();
        assert_eq!(all.len(), 6_001);
        assert!(all.iter().all(|extent| extent.pba == expected(extent.lba - tract * TRACT)));
    }
    let depth = |map: &Map| {
        let (mut id, mut depth) = (map.root(3), 0);
        while let Some(child) = map.table.get(id).children().last() {
            (id, depth) = (child.node, depth + 1);
        }
        depth
    };
    assert!(depth(&map) <= 2, "{} levels", depth(&map));
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
    let map = random(300_000);
    let per = map.memory() as f64 / map.mappings() as f64;
    assert!((16.0..=24.0).contains(&per), "{per:.1} bytes for each of {} mappings", map.mappings());
}

/// A map of nodes with these numbers, as if they had been read.
fn map_of(nodes: Vec<(u32, Node)>) -> Result<Map, TreeError> {
    let at = |(id, node)| (NodeId(id), PageNo(u64::from(id) + 100), node);
    Map::restored(TINY, nodes.into_iter().map(at).collect(), &[], vec![vec![PageNo(99)]])
}

fn leaf_of(lba: u64, len: u32) -> Node {
    Node::Leaf(Leaf { home: 0, entries: vec![Packed::of(Extent { lba, pba: 7, len })] })
}

fn inner_of(children: &[(u32, u32)]) -> Node {
    Node::Inner(children.iter().map(|(first, node)| Child { first: *first, node: NodeId(*node) }).collect())
}

fn roots_of(number: u32, roots: [u32; 2]) -> Node {
    Node::Roots(number, roots.map(NodeId).to_vec())
}

#[test]
fn nodes_that_no_esker_writes_are_refused() {
    let refuses = |nodes: Vec<(u32, Node)>, node: u32, what: &str| {
        let error = map_of(nodes).err().unwrap_or_else(|| panic!("taken, though {what}"));
        assert!(error.node == NodeId(node) && error.what.contains(what), "{error} instead of {what}");
    };
    let two = map_of(vec![(1, roots_of(0, [2, 2])), (2, leaf_of(5, 3))]).unwrap();
    assert_eq!((two.blocks(), two.mappings(), two.table.refs(NodeId(2))), (6, 1, 2));
    refuses(vec![(1, roots_of(0, [2, 0]))], 2, "missing");
    refuses(vec![(1, roots_of(1 << 20, [0, 0]))], 1, "do not exist");
    refuses(vec![(1, Node::Roots(0, vec![NodeId(2)])), (2, leaf_of(5, 3))], 1, "do not exist");
    refuses(vec![(1, roots_of(0, [3, 0])), (2, roots_of(0, [3, 0])), (3, leaf_of(5, 3))], 2, "another node has");
    refuses(vec![(1, roots_of(0, [1, 0]))], 1, "no root of them");
    refuses(vec![(1, roots_of(0, [2, 0])), (2, inner_of(&[(0, 3), (9, 2)])), (3, leaf_of(5, 3))], 2, "below itself");
    refuses(vec![(1, roots_of(0, [2, 0])), (2, inner_of(&[(0, 3), (7, 3)])), (3, leaf_of(5, 3))], 2, "out of bounds");
    refuses(vec![(1, roots_of(0, [2, 0])), (2, Node::Leaf(Leaf::default()))], 2, "or none");
    let deep = (2..90).map(|id| (id, inner_of(&[(0, id + 1)]))).chain([(90, leaf_of(5, 3)), (1, roots_of(0, [2, 0]))]);
    refuses(deep.collect(), 67, "too deep");
}

#[test]
fn nodes_that_no_root_reaches_are_dropped() {
    let nodes =
        vec![(1, roots_of(0, [2, 0])), (2, leaf_of(5, 3)), (3, inner_of(&[(0, 2), (4, 4)])), (4, leaf_of(9, 9))];
    let mut map = map_of(nodes).unwrap();
    assert_eq!((map.nodes(), map.mappings(), map.table.refs(NodeId(2))), (2, 1, 1));
    assert_eq!(map.references().map(|extent| extent.len).sum::<u32>(), 3);
    let mut stale = map.take_stale();
    stale.sort();
    assert_eq!(stale, [103, 104].map(PageNo), "their pages are free with the next checkpoint");
}
