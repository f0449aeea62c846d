//! Errors that are planted under right sums: the check names each.

use std::rc::Rc;

use esker_dev::Media;
use esker_rt::Rt;
use esker_vfs::{Call, FileSystem, Name, Stamp};

use super::{device, media, run, small};
use crate::format::superblock::FIRST_OFFSET;
use crate::format::{DirRecords, LfsSuperblock, MapRoot};
use crate::map::{Addressing, MappedFile};
use crate::medium::SuperblockCopy;
use crate::sums::Summed;
use crate::{LfsReader, Volume, check};

/// Where a structure lies in the image.
struct Places {
    volume: Rc<Volume>,
    reader: LfsReader,
}

impl Places {
    async fn of(rt: &Rt, media: &Rc<Media>) -> Places {
        let volume = Rc::new(Volume::open(rt, device(rt, media)).await.unwrap());
        let reader = LfsReader::of(volume.clone(), None).await.unwrap();
        Places { volume, reader }
    }

    /// Offset of byte `at` of block `index` of a file.
    async fn byte(&self, file: &MappedFile, index: u64, at: usize) -> usize {
        let place = self.volume.find(file, index).await.unwrap().unwrap();
        place as usize * self.volume.geometry().block_bytes + at
    }

    async fn ino(&self, name: &str) -> u64 {
        let name = Name::new(name.as_bytes()).unwrap();
        self.reader.lookup(Call::at(Stamp(0)), self.reader.root(), name).await.unwrap().ino.0
    }

    fn ifile(&self) -> MappedFile {
        self.volume.ifile(self.reader.checkpoint())
    }

    async fn inode(&self, name: &str, at: usize) -> usize {
        let place = self.volume.geometry().inodes.place(self.ino(name).await).unwrap();
        self.byte(&self.ifile(), place.block, place.offset + at).await
    }

    /// The map of a file of the latest checkpoint.
    async fn file(&self, name: &str) -> MappedFile {
        let ino = self.ino(name).await;
        let inode = self.volume.inode(&self.ifile(), ino).await.unwrap().unwrap();
        MappedFile::new(ino, &inode, Addressing::Virtual(self.volume.latest().cno))
    }

    /// The entry of the DAT of the first block of a small file.
    async fn dat(&self, name: &str, at: usize) -> usize {
        let file = self.file(name).await;
        let Ok(MapRoot::Direct(addresses)) = MapRoot::read(&file.map) else { panic!("{name} is small") };
        let place = self.volume.geometry().dat.place(addresses[0]).unwrap();
        self.byte(&self.volume.dat(), place.block, place.offset + at).await
    }

    /// Byte `at` of the record of a name in the first block of a directory.
    async fn record(&self, dir: &str, name: &str, at: usize) -> usize {
        let file = self.file(dir).await;
        let block = self.volume.file_block(&file, 0).await.unwrap().unwrap();
        let records = DirRecords::new(&block).map(Result::unwrap);
        let record = records.filter(|record| record.name == name.as_bytes()).last().unwrap();
        self.byte(&file, 0, record.at + at).await
    }

    async fn checkpoint(&self, cno: u64, at: usize) -> usize {
        let (block, offset) = self.volume.geometry().checkpoints.place(cno);
        self.byte(&self.volume.cpfile(), block, offset + at).await
    }

    async fn usage(&self, segment: u64, at: usize) -> usize {
        let (block, offset) = self.volume.geometry().usages.place(segment);
        self.byte(&self.volume.sufile(), block, offset + at).await
    }
}

/// Changes a byte that `place` finds; a finding must have these words.
fn check_planted(
    words: &str,
    place: impl AsyncFnOnce(&Places) -> usize + 'static,
    change: impl Fn(u8) -> u8 + 'static,
) {
    let (image, words) = (small().image, words.to_string());
    run(|rt| async move {
        let at = place(&Places::of(&rt, &media(&image)).await).await;
        assert_ne!(change(image[at]), image[at], "{words}: a change");
        let wrong = patched(&image, at, change(image[at]));
        let found = check(&rt, device(&rt, &media(&wrong))).await.unwrap();
        let told: Vec<_> = found.findings.iter().map(ToString::to_string).collect();
        assert!(!found.is_clean() && told.iter().any(|told| told.contains(&words)), "{words}: {}", told.join("\n"));
    });
}

macro_rules! planted {
    ($($test:ident: $words:literal, |$places:ident| $place:expr, $change:expr;)*) => { $(
        #[test]
        fn $test() {
            check_planted($words, async |$places: &Places| $place, $change);
        }
    )* };
}

planted! {
    a_block_that_died_too_early: "lives from", |places| places.dat("small", 16).await, |_| 1;
    a_block_that_is_elsewhere: "the log tells of", |places| places.dat("small", 0).await, |old| old ^ 1;
    a_block_of_the_future: "and the latest is", |places| places.dat("small", 15).await, |_| 1;
    a_free_entry_of_the_dat_too_many: "free entries", |places| places.byte(&places.volume.dat(), 0, 0).await, |old| old ^ 1;
    a_bit_of_the_dat: "free entries", |places| places.byte(&places.volume.dat(), 1, 900).await, |_| 0x40;
    a_clean_segment_too_many: "clean segments", |places| places.byte(&places.volume.sufile(), 0, 0).await, |old| old + 1;
    a_segment_that_is_not_dirty: "dirty segments", |places| places.usage(0, 12).await, |_| 0;
    a_segment_with_fewer_blocks: "segment 0", |places| places.usage(0, 8).await, |old| old - 1;
    a_snapshot_too_many: "snapshots", |places| places.byte(&places.volume.cpfile(), 0, 8).await, |_| 2;
    a_snapshot_that_is_none: "snapshots", |places| {
        let all = places.volume.checkpoints().await.unwrap();
        let snapshot = all.iter().find(|entry| entry.is_snapshot()).unwrap().head.cno;
        places.checkpoint(snapshot, 0).await
    }, |old| old & !1;
    an_inode_too_many: "inodes", |places| {
        places.checkpoint(places.volume.latest().cno, 48).await
    }, |old| old + 1;
    a_block_too_many: "blocks, and there are", |places| {
        places.checkpoint(places.volume.latest().cno, 56).await
    }, |old| old + 1;
    a_link_too_many: "links, and there are", |places| places.inode("small", 50).await, |old| old + 1;
    a_mode_of_no_kind: "names no kind", |places| places.inode("small", 49).await, |_| 0xf1;
    a_size_too_small: "it has 0 bytes", |places| places.inode("small", 8).await, |_| 0;
    more_space_than_blocks: "units of 512 bytes", |places| places.inode("small", 0).await, |old| old + 1;
    an_address_of_nothing: "entry of the DAT", |places| places.inode("small", 70).await, |_| 0x7f;
    a_name_of_another_kind: "calls inode", |places| places.record("d", "hard", 11).await, |old| old ^ 2;
    a_record_of_another_length: "the record at byte", |places| places.record("d", ".", 8).await, |_| 3;
    a_parent_that_is_another: "\"..\" leads to", |places| places.record("f", "..", 0).await, |old| old ^ 0x40;
}

#[test]
fn a_node_whose_keys_are_not_those_of_its_parent() {
    let find = async |places: &Places| {
        let file = places.file("sparse").await;
        let mut walk = crate::map::MapWalk::new(&places.volume, file, 0).unwrap();
        let mut lowest = None;
        while let Some((block, place)) = walk.next().await {
            if block.level == 1 {
                lowest = Some(place.unwrap());
            }
        }
        // The last byte of the first key.
        lowest.expect("the file has a tree") as usize * places.volume.geometry().block_bytes + 16 + 7
    };
    check_planted("a node of the map of inode", find, |_| 0xff);
}

#[test]
fn the_superblock_with_the_newer_checkpoint_counts() {
    let mut image = small().image;
    let first = FIRST_OFFSET as usize..FIRST_OFFSET as usize + 1024;
    let mut superblock = LfsSuperblock::parse(&image[first.clone()]).unwrap();
    superblock.last_cno -= 1;
    image[first].copy_from_slice(&superblock.sealed());
    run(|rt| async move {
        let volume = Volume::open(&rt, device(&rt, &media(&image))).await.unwrap();
        assert_eq!((volume.chosen().from, volume.chosen().repair), (SuperblockCopy::Second, None));
    });
}

/// The image with a byte changed under right sums.
fn patched(image: &[u8], at: usize, value: u8) -> Vec<u8> {
    let (mut wrong, summed) = (image.to_vec(), Summed::of(image).unwrap());
    wrong[at] = value;
    let log = summed.logs().iter().find(|log| log.contains(&at)).expect("it lies in a log").clone();
    summed.reseal_log(&mut wrong, log);
    wrong
}

#[test]
fn a_block_that_died_too_early_is_not_read() {
    let image = small().image;
    run(|rt| async move {
        let places = Places::of(&rt, &media(&image)).await;
        // All bytes of the end but the lowest are zeroes then: it is before its start.
        let mut wrong = image.clone();
        for at in 16..24 {
            wrong = patched(&wrong, places.dat("small", at).await, 0);
        }
        let media = media(&wrong);
        let reader = LfsReader::open(&rt, device(&rt, &media), None).await.unwrap();
        let (call, name) = (Call::at(Stamp(0)), Name::new(b"small").unwrap());
        let file = reader.lookup(call, reader.root(), name).await.unwrap().ino;
        assert_eq!(reader.read(call, file, 0, 10).await.unwrap_err(), esker_base::Errno::EIO);
    });
}

#[test]
fn a_node_beyond_its_parent_is_refused() {
    let image = small().image;
    run(|rt| async move {
        let places = Places::of(&rt, &media(&image)).await;
        let file = places.file("sparse").await;
        // The root in the inode begins at a key behind those of the node below it.
        let inode = places.inode("sparse", 56 + 8).await;
        let wrong = media(&patched(&image, inode, 1));
        let volume = Volume::open(&rt, device(&rt, &wrong)).await.unwrap();
        let inode = volume.inode(&volume.ifile(places.reader.checkpoint()), file.ino).await.unwrap().unwrap();
        let file = MappedFile::new(file.ino, &inode, Addressing::Virtual(volume.latest().cno));
        let found = volume.find(&file, 40).await.unwrap_err().to_string();
        assert!(found.contains("beyond those of its parent"), "{found}");
    });
}
