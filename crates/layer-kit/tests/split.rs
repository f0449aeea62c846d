//! Requests over mapped pages are sent in parts.

use esker_base::{Stream, span};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::split::{LowerAddress, LowerExtent, pieces};
use esker_block::{Bio, Buf, Device, Flow, VolumeId};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig, twice};
use proptest::prelude::*;

const BLOCK: u64 = 512;
/// A page of the thesis' example: 8 blocks.
const PAGE: u64 = 8 * BLOCK;

/// A map of pages: what is not in it lies on lower device 0 where the client thinks it does.
fn map(pages: &BTreeMap<u64, LowerAddress>, at: u64) -> LowerExtent {
    let (page, inside) = (at / PAGE, at % PAGE);
    let place = pages.get(&page).map_or(LowerAddress { lower: 0, at }, |place| place.plus(inside));
    LowerExtent { place, len: PAGE - inside }
}

/// Page 0 (block 0) lies at block 40 of the second device, page 2 (block 16) at its block 24; page 1 is not mapped.
fn thesis() -> BTreeMap<u64, LowerAddress> {
    BTreeMap::from([(0, LowerAddress { lower: 1, at: 40 * BLOCK }), (2, LowerAddress { lower: 1, at: 24 * BLOCK })])
}

/// The pieces of blocks `[first, first + count)` as (first block, blocks, lower device, block there).
fn cut(first: u64, count: u64) -> Vec<(u64, u64, usize, u64)> {
    let pages = thesis();
    pieces(span(first * BLOCK, count * BLOCK), |at| map(&pages, at))
        .into_iter()
        .map(|piece| {
            let (part, place) = (piece.part, piece.place);
            (part.start() / BLOCK, part.len() / BLOCK, place.lower, place.at / BLOCK)
        })
        .collect()
}

#[test]
fn the_thesis_example_of_mapped_and_unmapped_pages_is_split_as_it_says() {
    // The tail of page 0, all of page 1, the head of page 2.
    assert_eq!(cut(5, 14), [(5, 3, 1, 45), (8, 8, 0, 8), (16, 3, 1, 24)]);
    assert_eq!(cut(0, 24), [(0, 8, 1, 40), (8, 8, 0, 8), (16, 8, 1, 24)]);
    assert_eq!(cut(9, 2), [(9, 2, 0, 9)]);
    assert_eq!(cut(24, 16), [(24, 16, 0, 24)], "neighbours that stay neighbours are one piece");
}

#[test]
fn a_request_over_several_pages_reads_and_writes_each_where_it_lies() {
    twice(SimConfig::seeded(1), |rt| async move {
        let media = [Media::new(64 * BLOCK), Media::new(64 * BLOCK)];
        let device = |media: &Rc<Media>| -> Rc<dyn Device> {
            Rc::new(MemoryDevice::over(&rt, media.clone(), 512, Defer::Always(esker_base::Nanos(10))))
        };
        let pool = Pool::default();
        let io = Io::over(&rt, &pool, media.iter().map(device).collect());
        let run = async |mut bio: Bio| {
            let pages = thesis();
            let pieces = pieces(bio.range, |at| map(&pages, at));
            match io.splitter().redirect(&mut bio, &pieces).await {
                Flow::Done(done) => done,
                _ => io.submit(bio).await,
            }
        };
        let bytes: Vec<u8> = (0..14 * BLOCK).map(|i| (i / BLOCK) as u8 + 1).collect();
        assert!(run(Bio::write(5 * BLOCK, Buf::from_bytes(&pool, &bytes))).await.result.is_ok());
        let done = run(Bio::read(5 * BLOCK, Buf::unique(&pool, bytes.len()))).await;
        assert_eq!(done.buf.to_vec(), bytes);
        let at = async |lower: u16, block: u64| {
            io.read(VolumeId(lower), block * BLOCK, BLOCK as usize).await.unwrap().to_vec()[0]
        };
        assert_eq!((at(1, 45).await, at(1, 47).await, at(0, 8).await, at(0, 15).await), (1, 3, 4, 11));
        assert_eq!((at(1, 24).await, at(1, 26).await, at(0, 5).await, at(0, 16).await), (12, 14, 0, 0));
        let error = run(Bio::read(63 * BLOCK, Buf::unique(&pool, 2 * BLOCK as usize))).await;
        assert_eq!(error.buf.len(), 2 * BLOCK as usize);
        let error = error.result.unwrap_err().to_string();
        assert!(error.contains("of a device of 32768 bytes"), "{error}");
    });
}

/// Places of all pages of a volume: each on one of three devices, no two in one place.
fn scattered(random: &mut Stream, pages: u64) -> BTreeMap<u64, LowerAddress> {
    let mut places: Vec<LowerAddress> =
        (0..3).flat_map(|lower| (0..pages).map(move |page| LowerAddress { lower, at: page * PAGE })).collect();
    let mut draw = |page| (page, places.swap_remove(random.below(places.len() as u64) as usize));
    (0..pages).map(&mut draw).collect()
}

/// Item 2 of the specification of extensions.
#[test]
fn a_million_requests_over_random_maps_are_those_of_a_flat_device() {
    const PAGES: u64 = 32;
    let mut random = Stream::named(1, "random maps");
    for seed in 0..100 {
        let pages = scattered(&mut random, PAGES);
        let mut flat = vec![0_u8; (PAGES * PAGE) as usize];
        let mut requests = Stream::named(seed, "requests");
        let sim = Sim::new(SimConfig::seeded(seed));
        let rt = sim.rt();
        sim.block_on(async move {
            let device = |_| -> Rc<dyn Device> {
                Rc::new(MemoryDevice::over(&rt, Media::new(PAGES * PAGE), BLOCK as u32, Defer::Never))
            };
            let pool = Pool::default();
            let io = Io::over(&rt, &pool, (0..3).map(device).collect());
            for number in 0..10_000_u64 {
                let first = requests.below(8 * PAGES);
                let count = 1 + requests.below((8 * PAGES - first).min(24));
                let (at, len) = ((first * BLOCK) as usize, (count * BLOCK) as usize);
                let is_write = requests.chance(0.5);
                if is_write {
                    let blocks = flat[at..at + len].chunks_exact_mut(BLOCK as usize);
                    blocks.enumerate().for_each(|(block, bytes)| bytes.fill((number + block as u64) as u8));
                }
                let mut bio = match is_write {
                    true => Bio::write(at as u64, Buf::from_bytes(&pool, &flat[at..at + len])),
                    false => Bio::read(at as u64, Buf::unique(&pool, len)),
                };
                let parts = pieces(bio.range, |at| map(&pages, at));
                let done = match io.splitter().redirect(&mut bio, &parts).await {
                    Flow::Done(done) => done,
                    _ => io.submit(bio).await,
                };
                assert!(done.result.is_ok(), "{:?}", done.result);
                assert!(is_write || done.buf.to_vec() == flat[at..at + len], "map {seed}, request {number}");
            }
        });
    }
}

proptest! {
    #[test]
    fn pieces_cover_the_range_in_order_and_agree_with_the_map(
        pages in prop::collection::btree_map(0u64..8, (0usize..3, 0u64..64), 0..6), first in 0u64..60, count in 1u64..40,
    ) {
        let pages = pages.into_iter().map(|(k, (lower, block))| (k, LowerAddress { lower, at: block * BLOCK })).collect();
        let range = span(first * BLOCK, count * BLOCK);
        let pieces = pieces(range, |at| map(&pages, at));
        let mut at = range.start();
        for piece in &pieces {
            prop_assert_eq!(piece.part.start(), at);
            for block in 0..piece.part.len() / BLOCK {
                prop_assert_eq!(map(&pages, at + block * BLOCK).place, piece.place.plus(block * BLOCK));
            }
            at = piece.part.end();
        }
        prop_assert_eq!(at, range.end());
        prop_assert!(pieces.windows(2).all(|two| two[0].place.plus(two[0].part.len()) != two[1].place));
    }
}
