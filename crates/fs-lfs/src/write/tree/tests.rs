//! Maps against a plain map, through logs that never overwrite what was written.

use std::collections::BTreeMap;

use esker_base::Stream;

use super::*;

/// A medium that takes each address once.
#[derive(Default)]
struct Written {
    nodes: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

const BLOCK: usize = 128;

impl Written {
    fn address(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Writes what has moved. Answers the bytes for the inode.
    fn log(&mut self, map: &mut FileMap) -> [u8; 56] {
        let moved = map.moved();
        for node in &moved {
            let address = self.address();
            map.settle(node, address);
        }
        let addresses: Vec<u64> =
            map.nodes.iter().filter(|(_, n)| n.state == NodeState::Settled).map(|n| *n.0).collect();
        for address in addresses {
            let mut block = vec![0; BLOCK];
            map.write_node(address, &mut block);
            assert!(self.nodes.insert(address, block).is_none(), "node {address} is written once");
        }
        for gone in moved.iter().filter_map(|node| node.before).chain(map.take_dropped()) {
            assert!(gone < PROVISIONAL);
        }
        map.written(2);
        map.root_bytes()
    }

    fn edit<T>(&self, map: &mut FileMap, mut edit: impl FnMut(&mut FileMap) -> Sought<T>) -> T {
        loop {
            match edit(map) {
                Ok(done) => return done,
                Err(absent) => map.put(&absent, 0, &self.nodes[&absent.address]).unwrap(),
            }
        }
    }
}

fn held(written: &Written, root: &[u8; 56]) -> BTreeMap<u64, u64> {
    let mut map = FileMap::new(11, root, BLOCK).unwrap();
    let (mut held, mut from) = (BTreeMap::new(), 0);
    while let Some((index, address)) = written.edit(&mut map, |map| map.next(from)) {
        held.insert(index, address);
        from = index + 1;
    }
    held
}

fn check(seed: u64, range: u64) {
    let mut rng = Stream::named(seed, "maps");
    let (mut written, mut model, mut blocks) = (Written::default(), BTreeMap::new(), 0_i64);
    let mut map = FileMap::new(11, &[0; 56], BLOCK).unwrap();
    let mut roots = Vec::new();
    for round in 0..60 {
        for _ in 0..rng.below(40) {
            let index = rng.below(range);
            if rng.below(3) > 0 {
                let address = 1_000_000 + rng.below(1 << 40);
                let before = written.edit(&mut map, |map| map.insert(index, address));
                assert_eq!(before, model.insert(index, address).unwrap_or(0));
            } else {
                let range = index..index + rng.below(range / 2) + 1;
                while !written.edit(&mut map, |map| map.take(range.clone())).is_empty() {}
                model.retain(|index, _| !range.contains(index));
            }
            let index = rng.below(range);
            assert_eq!(written.edit(&mut map, |map| map.find(index)), model.get(&index).copied().unwrap_or(0));
        }
        blocks += map.take_grown();
        let root = written.log(&mut map);
        assert_eq!(held(&written, &root), model, "seed {seed}, round {round}");
        roots.push((root, model.clone()));
    }
    for (root, model) in roots {
        assert_eq!(held(&written, &root), model, "an older checkpoint is as it was");
    }
    while !written.edit(&mut map, |map| map.take(0..u64::MAX)).is_empty() {}
    blocks += map.take_grown();
    assert_eq!((blocks, map.root_bytes()), (0, [0; 56]), "seed {seed}: an empty map has no block");
}

#[test]
fn edits_are_those_of_a_plain_map() {
    for seed in 0..30 {
        for range in [4, 8, 30, 200, 1 << 40] {
            check(seed, range);
        }
    }
}

#[test]
fn a_file_that_grows_at_its_end_has_full_nodes() {
    let (written, mut map) = (Written::default(), FileMap::new(11, &[0; 56], BLOCK).unwrap());
    for index in 0..700 {
        written.edit(&mut map, |map| map.insert(index, index + 1));
    }
    let leaves = 700_u64.div_ceil(node_max(BLOCK) as u64);
    let nodes = map.nodes.values().filter(|node| node.level == 1).count() as u64;
    assert!(nodes <= leaves + 1, "{nodes} leaves, {leaves} would do");
}
