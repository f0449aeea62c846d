//! Random calls of several tasks on a small cache, with an owner that writes back and sometimes fails, against plain
//! bytes.

use esker_base::Stream;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::sync::join_all;
use esker_vfs::Claims;
use esker_vfs::claims::Mode;

use super::*;

const FILES: u64 = 3;
const FRAMES: u64 = 12;

struct World {
    rt: Rt,
    cache: PageCache,
    medium: Rc<Medium>,
    claims: Claims,
    /// The bytes that each file has.
    expected: RefCell<Vec<Vec<u8>>>,
    running: Cell<u32>,
    cuts: Cell<u32>,
}

impl World {
    fn file(ino: Ino) -> usize {
        (ino.0 - 100) as usize
    }

    fn end(&self, ino: Ino) -> u64 {
        self.expected.borrow()[Self::file(ino)].len() as u64
    }

    async fn read(&self, random: &mut Stream, ino: Ino) {
        let _claim = self.claims.claim(&[(ino, Mode::Shared)]).await;
        let end = self.end(ino);
        if end == 0 {
            return;
        }
        let at = random.below(end);
        let len = 1 + random.below((end - at).min(3 * PAGE as u64)) as usize;
        let found = read(&self.cache, &self.medium, ino, at, len, end).await;
        assert!(found == self.expected.borrow()[Self::file(ino)][at as usize..at as usize + len], "{len} at {at}");
    }

    async fn write(&self, random: &mut Stream, ino: Ino) {
        let _claim = self.claims.claim(&[(ino, Mode::Exclusive)]).await;
        let end = self.end(ino);
        let at = random.below(end.min((FRAMES - 3) * PAGE as u64) + 1);
        let len = 1 + random.below(2 * PAGE as u64) as usize;
        let data = vec![random.below(256) as u8; len];
        write(&self.cache, &self.medium, ino, at, &data, end).await;
        let mut expected = self.expected.borrow_mut();
        let file = &mut expected[Self::file(ino)];
        file.resize(file.len().max(at as usize + len), 0);
        file[at as usize..at as usize + len].copy_from_slice(&data);
    }

    /// Cuts a file at a frame.
    async fn cut(&self, random: &mut Stream, ino: Ino) {
        let _claim = self.claims.claim(&[(ino, Mode::Exclusive)]).await;
        let from = random.below(FRAMES);
        self.cuts.set(self.cuts.get() + 1);
        let len = from as usize * PAGE;
        self.expected.borrow_mut()[Self::file(ino)].truncate(len);
        self.cache.discard(ino, from..u64::MAX);
        if let Some(file) = self.medium.files.borrow_mut().get_mut(&ino) {
            file.truncate(len);
        }
    }

    /// Writes dirty frames as long as there is a task that makes some. It claims no file, since writers wait for it.
    /// What a cut may have discarded meanwhile is not stored.
    async fn own(&self, random: &mut Stream) {
        while self.running.get() > 0 {
            self.rt.sleep(Nanos(random.below(60))).await;
            for ino in self.cache.dirty_inodes() {
                for nr in self.cache.dirty_frames(ino, 0..u64::MAX) {
                    let Some(mut frozen) = self.cache.freeze(ino, nr) else { continue };
                    let cuts = self.cuts.get();
                    self.rt.sleep(Nanos(random.below(9))).await;
                    if cuts == self.cuts.get() && random.chance(0.8) {
                        self.medium.store(ino, nr, &frozen.bytes().to_vec());
                        frozen.written();
                    }
                }
            }
        }
    }

    fn check(&self) {
        let stats = self.cache.stats();
        assert!(stats.frames <= 16 && stats.dirty <= 6, "{stats:?}");
    }
}

fn check_life(seed: u64) {
    twice(SimConfig::seeded(seed), live);
}

async fn live(rt: Rt) {
    let config = PageCacheConfig { between: Between::Caps(vec![4, 4, 8]), ..config(16, 6) };
    let (cache, medium) = made(&rt, &config);
    let world = Rc::new(World {
        rt: rt.clone(),
        cache,
        medium,
        claims: Claims::default(),
        expected: RefCell::new(vec![Vec::new(); FILES as usize]),
        running: Cell::new(4),
        cuts: Cell::new(0),
    });
    let tasks = (0..4).map(|task| {
        let (world, mut random) = (world.clone(), rt.rng(&format!("task {task}")));
        rt.spawn("task", async move {
            for _ in 0..300 {
                let ino = Ino(100 + random.below(FILES));
                match random.below(20) {
                    0 => world.cut(&mut random, ino).await,
                    1..9 => world.write(&mut random, ino).await,
                    _ => world.read(&mut random, ino).await,
                }
                world.check();
                world.rt.sleep(Nanos(random.below(20))).await;
            }
            world.running.set(world.running.get() - 1);
        })
    });
    let tasks = tasks.collect::<Vec<_>>();
    world.own(&mut rt.rng("owner")).await;
    join_all(tasks).await;
    flush(&world.cache, &world.medium);
    assert_eq!(world.cache.stats().dirty, 0);
    for (file, bytes) in world.expected.borrow().iter().enumerate() {
        let frames = (bytes.len() as u64).div_ceil(PAGE as u64);
        let stored = world.medium.bytes(Ino(100 + file as u64), &(0..frames));
        assert!(stored[..bytes.len()] == bytes[..], "file {file} on the medium");
    }
}

#[test]
fn readers_see_the_last_write_and_the_medium_gets_it() {
    for seed in 0..20 {
        check_life(seed);
    }
}
