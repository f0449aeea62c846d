//! Numbers of the map and of clones, printed: `cargo test --release -p esker-volume numbers -- --ignored --nocapture`.

#![allow(clippy::disallowed_methods, reason = "a measurement looks at the clock")]

use std::time::Instant;

use esker_base::Stream;

use crate::apply::apply;
use crate::format::{Geometry, Page, PageId, Record};
use crate::map::{Extent, Map};

fn random_map(mappings: u64) -> Map {
    let g = Geometry::fit(1 << 40, 4096, 4096, 128 << 20).unwrap();
    let mut map = Map::new(g.fanout());
    let mut rng = Stream::seeded(1);
    while map.mappings() < mappings {
        let lba = rng.below(1 << 32);
        map.map(Extent { lba, pba: rng.below(1 << 36), len: 1 }, &mut |_| {});
    }
    map
}

#[test]
#[ignore = "measures"]
fn numbers_of_the_map() {
    let start = Instant::now();
    let mut map = random_map(1 << 20);
    let each = |start: Instant, n: u64| start.elapsed().as_nanos() as f64 / n as f64;
    println!("map: {:.0} ns for each of 2^20 random extents", each(start, 1 << 20));
    println!("memory: {:.1} bytes for each", map.memory() as f64 / map.mappings() as f64);
    let mut rng = Stream::seeded(2);
    let start = Instant::now();
    let found: u64 = (0..1u64 << 20).filter_map(|_| map.next(rng.below(1 << 32))).map(|extent| extent.pba & 1).sum();
    println!("look up: {:.0} ns ({found})", each(start, 1 << 20));
    let start = Instant::now();
    let sum: u64 = map.snapshot().from(0).map(|extent| extent.pba).fold(0, u64::wrapping_add);
    println!("scan: {:.1} ns for each ({sum})", each(start, 1 << 20));
    let extents = map.pieces(0..1 << 31).count() as u64;
    let start = Instant::now();
    apply(&mut map, &Record::Clone { src: 0, dst: 1 << 40, len: 1 << 31 }, 0, &mut |_| {});
    println!("clone: {:.0} ns for each of {extents} extents", each(start, extents));
}

#[test]
#[ignore = "measures"]
fn numbers_of_a_page() {
    const ROUNDS: u32 = 20_000;
    let extents: Vec<Extent> = (0..169).map(|i| Extent { lba: i * 3, pba: i * 7, len: 1 }).collect();
    let (page, id) = (Page::Leaf(extents), PageId { volume: 1, page: 9, generation: 1 });
    let mut bytes = vec![0; 4096];
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| page.encode(id, std::hint::black_box(&mut bytes)));
    println!("encode: {} ns", start.elapsed().as_nanos() / u128::from(ROUNDS));
    let start = Instant::now();
    for _ in 0..ROUNDS {
        assert!(Page::decode(std::hint::black_box(&bytes), id, 0, 0..u64::MAX).is_ok());
    }
    println!("decode: {} ns", start.elapsed().as_nanos() / u128::from(ROUNDS));
}
