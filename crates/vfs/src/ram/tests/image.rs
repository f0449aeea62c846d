//! Images: what has a name comes back, and bytes that are no image are refused.

use super::*;
use crate::change::XattrSet;

/// A small tree with each kind of inode, of page and of name.
fn desk() -> Desk {
    let mut desk = Desk::new(RamConfig::tiny());
    let (file, dir) = (desk.make("file", FILE), desk.make("dir", DIR));
    desk.put(file, 0, b"begin");
    desk.put(file, 9000, b"end");
    let reserve = Allocate { kind: crate::change::AllocateKind::Reserve, keep_size: true };
    desk.change(|ram, call| ram.allocate(call, file, ByteRange::new(16_384, 4096).unwrap(), reserve)).unwrap();
    desk.change(|ram, call| ram.xattr(call, file, Xattr::Set(b"user.a", b"value", XattrSet::Any))).unwrap();
    desk.link(file, dir, "other").unwrap();
    desk.make("link", NewKind::Symlink(b"dir/other"));
    desk.make("pipe", NewKind::Node(FileType::Fifo, 0));
    desk.make("device", NewKind::Node(FileType::CharDevice, 7));
    let below = desk.create(dir, "below", DIR).unwrap().ino;
    desk.make("gone", FILE);
    desk.remove(ROOT, "gone", Remove::File).unwrap();
    desk.rename((dir, "below"), (ROOT, "above"), Rename::Replace).unwrap();
    desk.ram.forget(below, 1);
    desk
}

fn read(image: &[u8]) -> Result<Ram, RamImageError> {
    Ram::from_image(RamConfig::tiny(), Pool::new(0), image)
}

#[test]
fn an_image_holds_what_has_a_name_with_numbers_and_cookies() {
    let mut desk = desk();
    let image = desk.ram.to_image();
    assert!(image.len() as u64 <= RamConfig::tiny().image_bytes_max());
    let back = read(&image).unwrap();
    back.state.borrow().check();
    assert_eq!(back.digest(), desk.ram.digest());
    assert_eq!(back.to_image(), image);
    let (file, rows) = (desk.find(ROOT, "file").unwrap(), desk.list(ROOT, Cookie::BEGINNING, 100));
    let gone = desk.space().inodes_free;
    desk.ram = back;
    assert_eq!((desk.find(ROOT, "file"), desk.list(ROOT, Cookie::BEGINNING, 100)), (Ok(file), rows));
    assert_eq!(desk.space().inodes_free, gone + 1, "the inode without a name is not in the image");
}

#[test]
fn numbers_of_inodes_without_a_name_are_not_given_again() {
    let mut desk = desk();
    let orphan = desk.make("orphan", FILE);
    desk.remove(ROOT, "orphan", Remove::File).unwrap();
    desk.ram = read(&desk.ram.to_image()).unwrap();
    let made: Vec<Ino> = ["a", "b", "c"].into_iter().map(|text| desk.make(text, FILE)).collect();
    assert!(!made.contains(&orphan), "{made:?}");
}

#[test]
fn no_damaged_image_breaks_the_rules_of_the_state() {
    let image = desk().ram.to_image();
    let (mut refused, mut taken) = (0, 0);
    for at in 0..image.len() {
        for bits in [0x01, 0x80, 0xff] {
            let mut damaged = image.clone();
            damaged[at] ^= bits;
            match read(&damaged) {
                Err(error) => {
                    assert!(error.to_string().contains("restore"), "{error}");
                    refused += 1;
                }
                Ok(ram) => {
                    ram.state.borrow().check();
                    ram.digest().unwrap();
                    taken += 1;
                }
            }
        }
        assert!(read(&image[..at]).is_err(), "cut at {at}");
    }
    assert!(refused > 100 && taken > 100, "{refused} refused, {taken} taken");
    assert_eq!(read(&[&image[..], &[0]].concat()).err(), Some(RamImageError::Rule("nothing follows the last inode")));
}

#[test]
fn an_image_that_exceeds_the_limits_is_refused() {
    let image = desk().ram.to_image();
    let of = |config: RamConfig| Ram::from_image(config, Pool::new(0), &image).err().map(|error| error.to_string());
    let refused = |config, why: &str| of(config).is_some_and(|text| text.contains(why));
    assert!(refused(RamConfig { inodes: 3, ..RamConfig::tiny() }, "inodes"));
    assert!(refused(RamConfig { bytes: 4096, ..RamConfig::tiny() }, "data"));
    assert!(refused(RamConfig { size_max: 4096, ..RamConfig::tiny() }, "limit"));
}
