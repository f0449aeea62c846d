//! What layers keep on files is looked at without them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::path::Path;
use std::process::Command;

use esker_base::ByteRange;
use esker_layer_mirror::superblock::Superblock;
use esker_layer_offload::format::{AREA_START, Content, Record, place};
use esker_layer_offload::superblock::Superblock as LogSuperblock;

/// Exit status, standard output and standard error of `esker check` of these files.
fn check(folder: &Path, names: &[&str]) -> (Option<i32>, String, String) {
    esker(folder, &[&["check"], names].concat())
}

fn esker(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_esker")).args(words).current_dir(folder).output();
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("messages are text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn members_of_a_mirror_are_compared_where_no_superblock_tells_of_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let mut superblock = Superblock::new(9, 2, 64 << 10, 4096);
    superblock.sequence = 2;
    superblock.dirty.set(2);
    let medium = |member| [superblock.encode(member), vec![0; 4096], vec![7; 64 << 10]].concat();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("a.img", &medium(0));
    write("b.img", &medium(1));
    let (status, out, _) = check(folder.path(), &["a.img", "b.img"]);
    let expected = "a.img, b.img: mirror of 2 members and 65536 bytes, generation 1 (in sync, in sync): 61440 bytes compared, \
                    1 of 16 regions may differ; sound\n";
    assert_eq!((status, out.as_str()), (Some(0), expected));
    let mut other = medium(1);
    other[8192 + 5 * 4096] ^= 1;
    write("b.img", &other);
    let (status, out, err) = check(folder.path(), &["a.img", "b.img"]);
    assert!(status == Some(1) && out.contains("DIFFER although no superblock says so, in 1 places"), "{out}{err}");
    let (status, out, _) = check(folder.path(), &["a.img", "a.img", "--json"]);
    assert!(status == Some(1) && out.contains("are the same member"), "{out}");
}

#[test]
fn a_log_is_read_to_its_end_and_damage_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = LogSuperblock::new(5, 1 << 20, 8192, 512);
    (head.sequence, head.durable) = (2, 2);
    let mut bytes = vec![0; (AREA_START + 8192) as usize];
    bytes[..512].copy_from_slice(&head.encode());
    for number in 0..2u64 {
        let range = ByteRange::new(number * 4096, 512).unwrap();
        let content = Content::Data(crc32fast::hash(&[number as u8; 512]));
        let record = Record { number, epoch: 0, position: number * 1024, range, content, durable: 0 };
        let at = place(&head, record.position) as usize;
        bytes[at..at + 512].copy_from_slice(&record.encode(&head));
        bytes[at + 512..at + 1024].fill(number as u8);
    }
    let write = |bytes: &[u8]| fs::write(folder.path().join("log.img"), bytes).unwrap();
    write(&bytes);
    let (status, out, _) = check(folder.path(), &["log.img"]);
    let expected =
        "log.img: log of off-loaded writes for a volume of 1048576 bytes: 2 records, 1024 bytes not at home; sound\n";
    assert_eq!((status, out.as_str()), (Some(0), expected));
    bytes[AREA_START as usize + 1024 + 600] ^= 1;
    write(&bytes);
    let (status, out, _) = check(folder.path(), &["log.img"]);
    assert!(status == Some(1) && out.contains("the log is damaged at byte 9216: record 1 is not there"), "{out}");
    fs::write(folder.path().join("else"), vec![3; 20_000]).unwrap();
    let (status, _, err) = check(folder.path(), &["else"]);
    assert!(status == Some(1) && err.contains("else: holds nothing that is known here"), "{err}");
}

#[test]
fn a_deduplicated_volume_is_read_in_full_and_a_changed_byte_of_its_data_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut image = zstd::decode_all(&include_bytes!("../../layer-dedup/golden/volume-v2.img.zst")[..]).unwrap();
    let path = folder.path().join("dedup.img");
    fs::write(&path, &image).unwrap();
    let (status, out, err) = check(folder.path(), &["dedup.img"]);
    assert!(
        status == Some(0) && out.starts_with("dedup.img: deduplicated volume: ") && out.ends_with("; sound\n"),
        "{out}{err}"
    );
    let data = image.iter().rposition(|byte| *byte != 0).unwrap();
    image[data] ^= 1;
    fs::write(&path, &image).unwrap();
    let (status, out, _) = check(folder.path(), &["dedup.img", "--json"]);
    assert!(status == Some(1) && out.contains("are not those of its fingerprint"), "{out}");
}

#[test]
fn an_image_of_nilfs2_is_made_checked_shown_and_kept_from_being_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let stack = "disk = file path=lfs.img size=64MiB @ nbd=unix:lfs.sock";
    let run = |words: &[&str]| {
        let (status, out, err) = esker(folder.path(), &[&["fs"], words, &["--on", stack]].concat());
        (status, out + &err)
    };
    let (status, told) = run(&["mkfs", "lfs", "--label", "notes"]);
    assert!(status == Some(0) && told.starts_with("made 31 segments of 512 blocks, uuid "), "{told}");
    let (status, told) = run(&["check", "lfs"]);
    let expected = "clean: 1 checkpoints, 0 of them snapshots; 2 segments with 1 logs; ";
    assert!(status == Some(0) && told.starts_with(expected), "{told}");
    for (what, words) in [
        (&["superblocks"][..], "label \"notes\""),
        (&["segments"], " -d- "),
        (&["checkpoints"], "cp"),
        (&["logs", "0"], "begin end super-root"),
        (&["inode", "2"], "mode 40755"),
    ] {
        let (status, told) = run(&[&["dump", "lfs"], what].concat());
        assert!(status == Some(0) && told.contains(words), "{what:?}: {told}");
    }
    let (status, told) = run(&["stat", "lfs"]);
    assert!(status == Some(0) && told.contains("32000 names of a file"), "{told}");
    let (status, told) = run(&["mkfs", "lfs"]);
    assert!(status == Some(1) && told.contains("holds data; mkfs destroys it with --force"), "{told}");
    let (status, told) = run(&["mkfs", "lfs", "--force", "--block", "1KiB", "--segment", "1MiB"]);
    assert!(status == Some(0) && told.starts_with("made 63 segments of 1024 blocks"), "{told}");
    let file = fs::OpenOptions::new().write(true).open(folder.path().join("lfs.img")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 1024).unwrap();
    let (status, told) = run(&["check", "lfs", "--json"]);
    let noticed = told.contains("\"clean\":false") && told.contains("the superblock at byte 1024");
    assert!(status == Some(1) && noticed && told.contains("not everything is sound"), "{told}");
}
