//! Calls on a checkpoint.

use std::rc::Rc;

use esker_base::Errno;
use esker_rt::Rt;
use esker_vfs::{
    At, Call, Cookie, FileSystem, Listing, Name, New, NewKind, Remove, Rename, Seek, SetAttr, Stamp, Sync, Write,
};

use super::{device, media, run, small};
use crate::{LfsError, LfsReader};

const CALL: fn() -> Call = || Call::at(Stamp(0));

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

async fn open(rt: &Rt) -> LfsReader {
    LfsReader::open(rt, device(rt, &media(&small().image)), None).await.unwrap()
}

#[test]
fn changes_are_refused() {
    run(|rt| async move {
        let fs = open(&rt).await;
        let (root, new) = (fs.root(), New { what: NewKind::File, mode: 0o644, uid: 0, gid: 0 });
        let file = fs.lookup(CALL(), root, name("small")).await.unwrap().ino;
        let buf = esker_block::Buf::empty();
        assert_eq!(fs.create(CALL(), root, Some(name("x")), new).await.unwrap_err(), Errno::EROFS);
        assert_eq!(fs.link(CALL(), file, root, name("x")).await.unwrap_err(), Errno::EROFS);
        assert_eq!(fs.remove(CALL(), root, name("small"), Remove::File).await.unwrap_err(), Errno::EROFS);
        let renamed = fs.rename(CALL(), (root, name("small")), (root, name("x")), Rename::Replace).await;
        assert_eq!(renamed.unwrap_err(), Errno::EROFS);
        assert_eq!(fs.write(CALL(), file, At::End, buf, Write::default()).await.unwrap_err(), Errno::EROFS);
        assert_eq!(fs.set_attr(CALL(), file, SetAttr::default()).await.unwrap_err(), Errno::EROFS);
        assert_eq!(fs.sync(CALL(), Sync::All).await, Ok(()));
        assert_eq!(fs.lookup(CALL(), root, name("nothing")).await.unwrap_err(), Errno::ENOENT);
        assert_eq!(fs.lookup(CALL(), file, name("nothing")).await.unwrap_err(), Errno::ENOTDIR);
        assert_eq!(fs.read(CALL(), root, 0, 1).await.unwrap_err(), Errno::EISDIR);
        fs.forget(file, 1);
        assert_eq!(fs.attr(CALL(), file).await.unwrap_err(), Errno::ENOENT);
        fs.close().await.unwrap();
        assert_eq!(fs.attr(CALL(), root).await.unwrap_err(), Errno::EIO);
    });
}

#[test]
fn a_cookie_is_an_offset_and_one_within_a_record_means_the_next() {
    run(|rt| async move {
        let fs = open(&rt).await;
        let dir = fs.lookup(CALL(), fs.root(), name("f")).await.unwrap().ino;
        let list = async |from| {
            let listing = fs.list(CALL(), dir, Cookie(from), Listing::new(1 << 20, 24, 8)).await.unwrap();
            listing.rows().map(|row| (row.name.bytes().to_vec(), row.next.0)).collect::<Vec<_>>()
        };
        let all = list(0).await;
        assert!(all.len() > 10 && all.windows(2).all(|two| two[0].1 < two[1].1));
        for (number, (_, next)) in all.iter().enumerate() {
            assert_eq!(list(*next).await, all[number + 1..]);
            assert_eq!(list(*next - 1).await, all[number + 1..], "within the record before");
        }
        // One at a time gives each name once.
        let (mut from, mut names) = (Cookie::BEGINNING, Vec::new());
        loop {
            let listing = fs.list(CALL(), dir, from, Listing::new(300, 24, 8)).await.unwrap();
            let Some(last) = listing.rows().last() else { break };
            from = last.next;
            names.extend(listing.rows().map(|row| row.name.bytes().to_vec()));
        }
        assert_eq!(names, all.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
        let up = fs.parent(CALL(), dir).await.unwrap().ino;
        assert_eq!(up, fs.root());
    });
}

#[test]
fn holes_are_told() {
    run(|rt| async move {
        let fs = open(&rt).await;
        let file = fs.lookup(CALL(), fs.root(), name("sparse")).await.unwrap().ino;
        let seek = async |at, what| fs.seek(CALL(), file, at, what).await;
        assert_eq!(seek(0, Seek::Data).await, Ok(0));
        assert_eq!(seek(0, Seek::Hole).await, Ok(2048));
        assert_eq!(seek(5000, Seek::Data).await, Ok(40 * 1024));
        assert_eq!(seek(40 * 1024 + 7, Seek::Data).await, Ok(40 * 1024 + 7));
        assert_eq!(seek(1024 * 1024, Seek::Data).await, Ok(3000 * 1024));
        let size = fs.attr(CALL(), file).await.unwrap().size;
        assert_eq!(seek(70_000 * 1024, Seek::Hole).await, Ok(size));
        assert_eq!(seek(size, Seek::Data).await, Err(Errno::ENXIO));
        let middle = fs.read(CALL(), file, 41 * 1024 - 2, 8).await.unwrap().to_vec();
        assert_eq!(middle, *b"\0\0hello\n");
        assert!(fs.read(CALL(), file, size, 10).await.unwrap().is_empty());
        assert_eq!(fs.read(CALL(), file, size - 2, 10).await.unwrap().to_vec(), *b"o\n");
    });
}

#[test]
fn a_checkpoint_that_is_not_there_is_told() {
    let image = small().image;
    run(|rt| async move {
        let media = media(&image);
        for cno in [0, 9999, u64::MAX] {
            let opened = LfsReader::open(&rt, device(&rt, &media), Some(cno)).await.map(|_| ());
            assert_eq!(opened, Err(LfsError::Unknown(cno)));
        }
        let fs: Rc<dyn FileSystem> = Rc::new(LfsReader::open(&rt, device(&rt, &media), Some(1)).await.unwrap());
        assert_eq!(fs.space(CALL()).await.unwrap().bytes, (32 - 8) << 16, "8 segments are kept back");
    });
}
