//! Writers, readers, clones and forced collection side by side, killed again and again, beside a model.

use super::*;
use esker_testkit::SoakLength;

/// Regions, each with a client of its own.
const CLIENTS: u64 = 4;
/// Blocks of a region; its second half is mostly cloned from its first.
const BLOCKS: u64 = 96;
const MEDIUM: u64 = 512 << 10;

/// What a region holds, and what it will hold when the request on its way has ended.
#[derive(Clone)]
struct Region {
    base: u64,
    content: Vec<u8>,
    pending: Option<Vec<u8>>,
}

type Shared = Rc<RefCell<Region>>;

impl Region {
    /// The request on its way has ended: where the region begins, and what it holds.
    fn end(&mut self) -> (u64, Vec<u8>) {
        self.content = self.pending.take().expect("a request was on its way");
        (self.base, self.content.clone())
    }

    /// What the region holds after a kill: what was answered, with or without the request that was on its way.
    fn recover(&mut self, held: Vec<u8>) {
        let pending = self.pending.take();
        let is_right = held == self.content || pending.as_ref() == Some(&held);
        assert!(is_right, "{held:?} instead of {:?} or {pending:?}", self.content);
        self.content = held;
    }
}

fn regions() -> Vec<Shared> {
    let region = |client: u64| Region { base: client << 30, content: vec![0; BLOCKS as usize], pending: None };
    (0..CLIENTS).map(|client| Rc::new(RefCell::new(region(client)))).collect()
}

/// One request: its bytes, and what the region holds then.
fn draw(rng: &mut Stream, pool: &Pool, region: &Region) -> (Bio, Vec<u8>) {
    let mut content = region.content.clone();
    let len = 1 + rng.below(6);
    let at = rng.below(BLOCKS - len);
    let half = BLOCKS / 2;
    let (src, dst) = (rng.below(half - len), half + rng.below(half - len));
    let place = |lba: u64| region.base + lba;
    let cells = |lba: u64, blocks: u64| lba as usize..(lba + blocks) as usize;
    let ops = match rng.below(20) {
        0..=11 => {
            let value = 1 + rng.below(255) as u8;
            content[cells(at, len)].fill(value);
            let buf = Buf::from_bytes(pool, &vec![value; len as usize * BLOCK]);
            return (Bio::write(place(at) * BLOCK as u64, buf), content);
        }
        // A snapshot of the first half, and a change of it in the same vector.
        12 | 13 => {
            content.copy_within(cells(0, half), half as usize);
            content[cells(src, len)].fill(0);
            vec![clone(place(0), half, place(half)), delete(place(src), len)]
        }
        14..=16 => {
            content.copy_within(cells(src, len), dst as usize);
            vec![clone(place(src), len, place(dst))]
        }
        17 | 18 => {
            content.copy_within(cells(dst, len), src as usize);
            content[cells(dst, len)].fill(0);
            vec![shift(place(dst), len, place(src))]
        }
        _ => {
            content[cells(at, len)].fill(0);
            vec![delete(place(at), len)]
        }
    };
    (Bio::ranges(ops), content)
}

/// One client until the end of its world.
async fn client(bench: Bench, region: Shared, seed: u64, count: Rc<Cell<u64>>) {
    let mut rng = Stream::named(seed, "client");
    loop {
        let (bio, next) = draw(&mut rng, bench.io.pool(), &region.borrow());
        region.borrow_mut().pending = Some(next);
        let done = bench.submit(bio).await;
        assert_eq!(done.result.err(), None, "there is always space");
        let (base, content) = region.borrow_mut().end();
        count.set(count.get() + 1);
        let at = rng.below(BLOCKS - 8);
        let read = bench.values(base + at, 8).await;
        assert_eq!(read, content[at as usize..at as usize + 8], "region {base}, block {at}");
    }
}

/// A world over the medium, from recovery to its sudden end. Tells how many requests were answered and segments
/// cleaned.
fn world(media: &Rc<Media>, regions: &[Shared], seed: u64) -> (u64, f64) {
    let sim = Sim::new(SimConfig { cpus: 2, ..SimConfig::seeded(seed) });
    let (rt, media, regions) = (sim.rt(), media.clone(), regions.to_vec());
    sim.block_on(async move {
        let bench = Bench::open(&rt, device(&rt, &media), SEGMENT, 96 << 10).await;
        for region in &regions {
            let base = region.borrow().base;
            let held = bench.values(base, BLOCKS).await;
            region.borrow_mut().recover(held);
        }
        let count = Rc::new(Cell::new(0));
        for (i, region) in regions.iter().enumerate() {
            let client = client(bench.clone(), region.clone(), seed * CLIENTS + i as u64, count.clone());
            rt.spawn("client", client).detach();
        }
        let other = bench.clone();
        let collect = async move {
            loop {
                other.volume.collect_now(&other.volume.store(other.below())).await;
                other.rt.sleep(Nanos::micros(20)).await;
            }
        };
        rt.spawn("collect", collect).detach();
        rt.sleep(Nanos::micros(Stream::named(seed, "kill").below(8_000))).await;
        (count.get(), bench.stat("segments_cleaned") + bench.stat("gc_remapped"))
    })
}

/// So many worlds, one after another. Tells how many requests were answered and segments cleaned.
fn worlds(seed: u64, count: u64) -> (u64, f64) {
    let (media, regions) = (media(MEDIUM), regions());
    (0..count).map(|i| world(&media, &regions, seed * 1_000_000 + i)).fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
}

#[test]
fn nothing_is_lost_under_load_collection_and_kills() {
    let (requests, cleaned) = worlds(1, 40);
    assert!(requests > 10_000 && cleaned > 1_000.0, "{requests} requests, {cleaned} segments");
}

/// `cargo xtask soak volume`: some ten minutes.
#[test]
#[ignore = "takes many minutes"]
fn nothing_is_lost_in_a_long_time() {
    let SoakLength { times, seed } = SoakLength::told(200);
    let (mut requests, mut cleaned) = (0, 0.0);
    for round in 0..times {
        let (more, segments) = worlds(seed + round, 100);
        (requests, cleaned) = (requests + more, cleaned + segments);
        println!("{} kills, {requests} requests, {cleaned} segments cleaned", (round + 1) * 100);
    }
}
