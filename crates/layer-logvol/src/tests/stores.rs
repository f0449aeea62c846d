//! A volume whose segments are objects in memory: only pages and slots are on its device.

use std::collections::BTreeMap;
use std::ops::Range;

use esker_base::Stream;
use esker_block::{Op, Tag};

use super::crash::{BLOCKS, CHECKPOINT, Content, MEDIUM, SEGMENT, apply_to, draw, try_perform};
use super::*;
use crate::format::{Geometry, SLOTS, slots_of};
use crate::number::SegmentNo;
use crate::store::{SegmentStore, Stores};

/// What was written of a segment, and how many bytes of it are durable.
#[derive(Default)]
struct Object {
    bytes: Vec<u8>,
    durable: usize,
}

/// Segments that can only be extended, and replaced from their first block on.
struct Objects {
    rt: RefCell<Rt>,
    objects: RefCell<BTreeMap<SegmentNo, Object>>,
    /// Segments of which an end may have been lost that the volume does not count: they are cut once.
    uncut: RefCell<Vec<SegmentNo>>,
}

impl Objects {
    fn new(rt: &Rt) -> Rc<Objects> {
        Rc::new(Objects { rt: RefCell::new(rt.clone()), objects: RefCell::default(), uncut: RefCell::default() })
    }

    /// A power cut: of what is not durable, some is there.
    fn cut_power(&self, rng: &mut Stream) {
        for object in self.objects.borrow_mut().values_mut() {
            let blocks = (object.bytes.len() - object.durable) / BLOCK;
            object.bytes.truncate(object.durable + rng.below(blocks as u64 + 1) as usize * BLOCK);
            object.durable = object.bytes.len();
        }
        *self.uncut.borrow_mut() = self.objects.borrow().keys().copied().collect();
    }

    fn later(&self, bio: Bio) -> Step<Done> {
        let rt = self.rt.borrow().clone();
        Step::later(async move {
            rt.sleep(Nanos::micros(2)).await;
            bio.ok()
        })
    }
}

impl SegmentStore for Objects {
    fn append(&self, _: &Below, segment: SegmentNo, block: u64, buf: Buf, _: Tag) -> Step<Done> {
        let mut objects = self.objects.borrow_mut();
        let object = objects.entry(segment).or_default();
        let at = block as usize * BLOCK;
        let may_be_cut = self.uncut.borrow().contains(&segment);
        assert!(
            at == 0 || at == object.bytes.len() || may_be_cut && at < object.bytes.len(),
            "segment {segment}, block {block}"
        );
        self.uncut.borrow_mut().retain(|other| *other != segment);
        object.bytes.truncate(at);
        object.durable = object.durable.min(at);
        object.bytes.extend(buf.to_vec());
        self.later(Bio::write(0, buf))
    }

    fn read(&self, _: &Below, segment: SegmentNo, block: u64, mut buf: Buf, _: Tag) -> Step<Done> {
        let objects = self.objects.borrow();
        let bytes = objects.get(&segment).map_or(&[][..], |object| &object.bytes);
        let at = (block as usize * BLOCK).min(bytes.len());
        let mut whole = bytes[at..bytes.len().min(at + buf.len())].to_vec();
        whole.resize(buf.len(), 0);
        buf.fill(0, &whole);
        self.later(Bio::read(0, buf))
    }

    fn flush(&self, _: &Below) -> Step<Done> {
        self.objects.borrow_mut().values_mut().for_each(|object| object.durable = object.bytes.len());
        self.later(Bio::flush())
    }

    fn erase(&self, _: &Below, segments: Range<SegmentNo>) -> Step<Done> {
        self.objects.borrow_mut().retain(|segment, _| !segments.contains(segment));
        self.later(Bio::flush())
    }

    fn reserve(&self, _: &Below, _: SegmentNo, _: u64) -> Step<Done> {
        self.later(Bio::flush())
    }

    fn place(&self, _: u64) -> Option<u64> {
        None
    }
}

async fn open(rt: &Rt, device: Rc<dyn Device>, objects: &Rc<Objects>) -> Bench {
    *objects.rt.borrow_mut() = rt.clone();
    let config = Config { volatile: true, ..config(&*device, SEGMENT, CHECKPOINT) };
    let io = Io::over(rt, &Pool::default(), vec![device]);
    let stores = |geometry: Geometry| Stores::apart(objects.clone(), geometry);
    let volume = Volume::open_in(&stores, config, rt, io.pool(), io.below().clone()).await;
    Bench { rt: rt.clone(), io, volume: volume.unwrap_or_else(|e| panic!("{e}")) }
}

/// Acts of one opening, until the power is cut. Gives what may be found then.
async fn act(bench: &Bench, rng: &mut Stream, acts: u8, first: Content) -> Vec<Content> {
    let mut contents = vec![first];
    for _ in 0..acts {
        let value = 1 + rng.below(250) as u8;
        let act = draw(rng, value);
        let mut next = contents.last().unwrap().clone();
        apply_to(&mut next, &act);
        contents.push(next);
        if try_perform(bench, &act).await.unwrap_or_else(|error| panic!("{act:?}: {error}")) {
            contents.drain(..contents.len() - 1);
        }
    }
    assert_eq!(bench.values(0, BLOCKS).await, *contents.last().unwrap());
    contents
}

#[test]
fn a_volume_of_objects_behaves_like_one_on_a_device_across_power_cuts() {
    let (mut moved, mut replayed, mut lost) = (0.0, 0.0, 0);
    for seed in 1..=12 {
        let (media, objects, mut rng) = (media(MEDIUM), RefCell::new(None), Stream::named(seed, "acts"));
        let mut contents = vec![vec![0; BLOCKS as usize]];
        for opening in 0..8 {
            let sim = Sim::new(SimConfig::seeded(seed * 100 + opening));
            let rt = sim.rt();
            let objects = objects.borrow_mut().get_or_insert_with(|| Objects::new(&rt)).clone();
            let (media, before, mut draws) = (media.clone(), contents.clone(), rng.clone());
            let acts = 10 + rng.below(30) as u8;
            let (found, after, told) = sim.block_on(async move {
                let bench = open(&rt, device(&rt, &media), &objects).await;
                let found = bench.values(0, BLOCKS).await;
                let after = act(&bench, &mut draws, acts, found.clone()).await;
                let told = (bench.stat("moved_bytes"), bench.stat("records_replayed"));
                objects.cut_power(&mut draws);
                (found, after, told)
            });
            assert!(before.contains(&found), "seed {seed}, opening {opening}: {found:?}");
            lost += usize::from(before.last() != Some(&found));
            (moved, replayed) = (moved + told.0, replayed + told.1);
            contents = after;
        }
    }
    assert!(moved > 0.0 && replayed > 0.0 && lost > 5, "{moved} bytes moved, {replayed} records replayed, {lost} lost");
}

/// A device that refuses what does not lie in pages or slots.
struct MapOnly {
    inner: Rc<dyn Device>,
    /// Bytes of slots, and first bytes of segments.
    slots: Vec<u64>,
    refused: Rc<Cell<u64>>,
    written: Rc<RefCell<Vec<u64>>>,
}

impl Device for MapOnly {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let at = bio.offset();
        match bio.op {
            Op::Write if !self.slots.contains(&at) => self.written.borrow_mut().push(at),
            Op::Read if !self.slots.contains(&at) && !self.written.borrow().contains(&at) => {
                self.refused.set(self.refused.get() + 1);
            }
            _ => {}
        }
        self.inner.submit(bio)
    }
}

#[test]
fn segments_of_objects_never_touch_the_device() {
    run(async |rt| {
        let (media, objects) = (media(MEDIUM), Objects::new(&rt));
        let slots = (0..SLOTS).flat_map(|generation| slots_of(generation, MEDIUM)).collect();
        let (refused, written) = (Rc::new(Cell::new(0)), Rc::default());
        let below = device(&rt, &media);
        let device = Rc::new(MapOnly { inner: below, slots, refused: refused.clone(), written: Rc::clone(&written) });
        let bench = open(&rt, device, &objects).await;
        let of_map = |bench: &Bench| -> Vec<SegmentNo> {
            let segments = SegmentNo::all(bench.volume.geometry().segments).zip(bench.volume.segments());
            segments.filter(|(_, segment)| segment.state == crate::segments::State::Map).map(|(at, _)| at).collect()
        };
        let (mut rng, mut pages) = (Stream::seeded(3), Vec::new());
        let mut content = vec![0; BLOCKS as usize];
        for number in 0..120 {
            let act = draw(&mut rng, number + 1);
            apply_to(&mut content, &act);
            try_perform(&bench, &act).await.unwrap();
            pages.extend(of_map(&bench));
        }
        assert_eq!(bench.values(0, BLOCKS).await, content);
        let g = bench.volume.geometry();
        let segment_of = |at: u64| g.segment_of_page(crate::number::PageNo(at / u64::from(g.page)));
        let astray = written.borrow().iter().filter(|at| segment_of(**at).is_none_or(|s| !pages.contains(&s))).count();
        assert_eq!((astray, refused.get()), (0, 0), "requests below that are of no page or slot");
        assert!(!written.borrow().is_empty());
    });
}
