//! What the map costs.

use esker_base::Stream;

use crate::format::Geometry;
use crate::map::{Extent, Map};

#[test]
fn a_random_mapping_takes_at_most_24_bytes_of_memory() {
    let g = Geometry::fit(1 << 40, 4096, 4096, 128 << 20).unwrap();
    let mut map = Map::new(g.fanout());
    let mut rng = Stream::seeded(1);
    while map.mappings() < 1 << 18 {
        let lba = rng.below(1 << 32);
        map.map(Extent { lba, pba: rng.below(1 << 36), len: 1 }, &mut |_| {});
    }
    let each = map.memory() as f64 / map.mappings() as f64;
    assert!(each <= 24.0, "{each:.1} bytes for each");
}
