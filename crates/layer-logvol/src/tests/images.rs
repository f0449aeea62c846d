//! Images that become volumes and volumes that become images; what the map says of volumes.

use std::io;
use std::ops::Range;

use esker_layer_thin::areas::{Held, differences, map};
use esker_layer_thin::images::{Sink, Source, export, import};
use serde_json::Value;

use super::sent::Place;
use super::*;

const KIB: u64 = 1 << 10;

/// An image in memory that tells its data in ranges.
struct Image {
    bytes: Vec<u8>,
    data: Vec<Range<u64>>,
    /// The read that fails.
    fails_at: u64,
    read: u64,
}

impl Image {
    /// `value` in each of the ranges, and zeroes elsewhere.
    fn of(bytes: u64, data: &[(Range<u64>, u8)]) -> Image {
        let mut all = vec![0; bytes as usize];
        data.iter().for_each(|(range, value)| all[range.start as usize..range.end as usize].fill(*value));
        Image { bytes: all, data: data.iter().map(|(range, _)| range.clone()).collect(), fails_at: u64::MAX, read: 0 }
    }

    /// The value of each block of the volume that it becomes.
    fn values(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.chunks(BLOCK).map(|block| block[0]).collect()
    }
}

impl Source for Image {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn next_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        let next = self.data.iter().find(|range| range.end > from);
        Ok(next.map(|range| range.start.max(from)..range.end))
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read += bytes.len() as u64;
        if at + bytes.len() as u64 > self.fails_at {
            return Err(io::Error::other("a bad sector"));
        }
        bytes.copy_from_slice(&self.bytes[at as usize..at as usize + bytes.len()]);
        Ok(())
    }
}

/// What was written.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    data: u64,
    is_ended: bool,
}

impl Sink for Written {
    fn begin(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes = vec![0; bytes as usize];
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.data += bytes.len() as u64;
        self.bytes[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_ended = true;
        Ok(())
    }
}

fn imported(place: &mut Place, volume: &str, image: &mut Image, force: bool) -> Result<Value, String> {
    let mut last = (1, 0);
    let made = import(place, volume, force, image, &mut |done, all| last = (done, all)).map_err(|e| e.to_string())?;
    assert_eq!(last, (image.bytes(), image.bytes()), "the last word of the progress");
    Ok(made)
}

fn held(place: &mut Place, volume: &str, origin: Option<&str>) -> Vec<(u64, u64, Held)> {
    let areas = map(place, volume, origin).unwrap_or_else(|e| panic!("{e}"));
    areas.iter().map(|area| (area.bytes.start / KIB, area.bytes.end / KIB, area.held)).collect()
}

#[test]
fn an_image_becomes_a_volume_whose_holes_and_zeroes_take_no_room() {
    let mut place = Place::new(1, "db=8KiB");
    // The third one ends inside a unit, where the fourth one begins; the fifth one is zeroes; the last one is cut.
    let data = [(0..512, 1), (128 * KIB..136 * KIB, 2), (150 * KIB..151 * KIB, 3), (151 * KIB..153 * KIB, 4)];
    let rest = [(192 * KIB..256 * KIB, 0), (259 * KIB..259 * KIB + 512, 5)];
    let mut image = Image::of(259 * KIB + 512, &[&data[..], &rest].concat());
    let made = imported(&mut place, "new", &mut image, false).unwrap();
    assert_eq!((&made["name"], &made["snapshot"], &made["bytes"]), (&"new".into(), &false.into(), &(260 * KIB).into()));
    assert_eq!((place.names(), place.values("new")), (vec!["db".into(), "new".into()], image.values()));
    place.reopen();
    assert_eq!(place.values("new"), image.values());
    let want = [
        (0, 4, Held::Data),
        (4, 128, Held::Hole),
        (128, 136, Held::Data),
        (136, 148, Held::Hole),
        (148, 156, Held::Data),
        (156, 256, Held::Hole),
        (256, 260, Held::Data),
    ];
    assert_eq!(held(&mut place, "new", None), want);
    assert_eq!(image.read, (4 + 8 + 8 + 64 + 3) * KIB + 512, "holes are not read");
}

#[test]
fn an_import_that_fails_leaves_nothing_and_one_over_a_volume_needs_force() {
    let mut place = Place::new(1, "db=8KiB");
    place.write("db", 0, 16, 9);
    let mut image = Image::of(12 * KIB, &[(0..4 * KIB, 1), (8 * KIB..12 * KIB, 2)]);
    for volume in ["new", "db"] {
        image.fails_at = 9 * KIB;
        let error = imported(&mut place, volume, &mut image, true).unwrap_err();
        assert!(error.contains("the image cannot be read: a bad sector"), "{error}");
        assert_eq!((place.names(), place.values("db")), (vec!["db".to_string()], vec![9; 16]));
    }
    image.fails_at = u64::MAX;
    assert!(imported(&mut place, "db", &mut image, false).unwrap_err().contains("has a port"));
    imported(&mut place, "db", &mut image, true).unwrap();
    imported(&mut place, "new", &mut image, false).unwrap();
    assert!(imported(&mut place, "new", &mut image, false).unwrap_err().contains("a volume \"new\" already"));
    let mut small = Image::of(512, &[(0..512, 7)]);
    assert!(imported(&mut place, "db", &mut small, true).unwrap_err().contains("a port of 12288 bytes"));
    imported(&mut place, "new", &mut small, true).unwrap();
    assert!(imported(&mut place, "none", &mut Image::of(0, &[]), false).unwrap_err().contains("cannot be a size"));
    place.reopen();
    assert_eq!(place.names(), ["db", "new"]);
    assert_eq!((place.values("db"), place.values("new")), (image.values(), small.values()));
    assert_eq!(held(&mut place, "db", None), [(0, 4, Held::Data), (4, 8, Held::Hole), (8, 12, Held::Data)]);
}

#[test]
fn a_snapshot_becomes_an_image_of_its_data_alone() {
    let mut place = Place::new(1, "db=64KiB");
    place.write("db", 3, 2, 1);
    place.write("db", 100, 20, 2);
    place.done("snapshot db s");
    place.write("db", 0, 128, 9);
    let (mut image, mut last) = (Written::default(), (1, 0));
    let told = export(&mut place, "s", &mut image, &mut |done, all| last = (done, all)).unwrap();
    assert!(
        told == (64 * KIB, 22 * BLOCK as u64) && image.data == told.1 && image.is_ended && last == (told.1, told.1)
    );
    let values: Vec<u8> = image.bytes.chunks(BLOCK).map(|block| block[7]).collect();
    assert_eq!(values, place.values("s"));
    let error = export(&mut place, "db", &mut image, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("is a volume that changes"), "{error}");
}

#[test]
fn the_map_tells_what_is_shared_and_where_two_volumes_differ() {
    let mut place = Place::new(1, "db=8KiB");
    place.write("db", 0, 8, 1);
    place.done("snapshot db s");
    place.write("db", 2, 2, 2);
    place.write("db", 12, 2, 3);
    let zero = Bio::zero((place.run(async |named| named.entry("db").start) + 6) * BLOCK as u64, 2 * BLOCK as u64);
    place.run(async move |named| named.bench.ok(zero).await);
    assert_eq!(
        held(&mut place, "s", Some("db")),
        [(0, 1, Held::Shared), (1, 2, Held::Data), (2, 3, Held::Shared), (3, 4, Held::Data), (4, 8, Held::Hole)]
    );
    assert_eq!(held(&mut place, "s", None), [(0, 4, Held::Data), (4, 8, Held::Hole)]);
    let apart = |place: &mut Place, first: &str, second: &str| -> Vec<_> {
        let apart = differences(place, first, second).unwrap_or_else(|e| panic!("{e}"));
        apart.iter().map(|one| (one.bytes.start / KIB, one.bytes.end / KIB, one.first, one.second)).collect()
    };
    let want = [(1, 2, true, true), (3, 4, true, false), (6, 7, false, true)];
    assert_eq!(apart(&mut place, "s", "db"), want);
    let turned = want.map(|(start, end, first, second)| (start, end, second, first));
    assert_eq!(apart(&mut place, "db", "s"), turned);
    assert_eq!(apart(&mut place, "s", "s"), []);
    // Equal bytes that were written again are told.
    place.done("clone s c");
    place.write("c", 0, 2, 1);
    assert_eq!(apart(&mut place, "s", "c"), [(0, 1, true, true)]);
    // Behind the end of the shorter one.
    place.done("resize c 12KiB");
    place.write("c", 20, 2, 4);
    assert_eq!(apart(&mut place, "s", "c"), [(0, 1, true, true), (10, 11, false, true)]);
    assert_eq!(apart(&mut place, "c", "s"), [(0, 1, true, true), (10, 11, true, false)]);
    assert!(differences(&mut place, "s", "nothing").unwrap_err().to_string().contains("no volume"));
}
