mod slow;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use esker_block::bio::Class;
use esker_block::{Step, Tag};
use esker_rt::mem::Pool;

use super::*;
use crate::attr::{FileType, New, NewKind};
use crate::ram::{Ram, RamConfig};
use crate::word::{Hint, Name, Stamp};

const CALL: Call = Call {
    now: Stamp(7),
    tag: Tag::of(Class::Foreground),
    hint: Hint { storage: 0, lifetime: crate::Lifetime::Unknown },
};

struct Tree {
    ram: Ram,
    /// Directories stay pinned.
    dirs: Vec<Ino>,
}

impl Tree {
    /// A file system in which each path but links is a directory, if it ends with a slash, or a file.
    fn of(paths: &[&str], links: &[(&str, &str)]) -> Tree {
        let mut tree = Tree { ram: Ram::new(RamConfig::sized(1 << 20), Pool::new(0)), dirs: vec![] };
        for path in paths {
            let what = if path.ends_with('/') { NewKind::Directory } else { NewKind::File };
            tree.add(path.trim_end_matches('/'), what);
        }
        links.iter().for_each(|(path, target)| tree.add(path, NewKind::Symlink(target.as_bytes())));
        tree
    }

    fn add(&mut self, path: &str, what: NewKind<'_>) {
        let (dir, text) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.find(dir);
        let new = New { what, mode: 0o755, uid: 0, gid: 0 };
        let Step::Now(made) = self.ram.create(CALL, dir, Some(Name::new(text.as_bytes()).unwrap()), new) else {
            panic!("a call waits")
        };
        self.dirs.push(made.unwrap().ino);
    }

    fn find(&self, path: &str) -> Ino {
        let path = if path.is_empty() { "/" } else { path };
        self.walk("/", path, Last::Itself, &Cred::root()).unwrap()
    }

    /// Both ways must agree, and leave the same pins.
    fn walk(&self, from: &str, path: &str, last: Last, cred: &Cred) -> Result<Ino, Errno> {
        let from = if from == "/" { self.ram.root() } else { self.find(from) };
        let (short, long) = (self.ram.fork(), self.ram.fork());
        let found = poll(walk(&short, CALL, cred, from, path.as_bytes(), last));
        assert_eq!(poll(walk_later(&long, CALL, cred, from, path.as_bytes(), last)), found, "{path}");
        for fs in [&short, &long] {
            found.iter().for_each(|entry| fs.forget(entry.ino, 1));
        }
        assert!(short.is_equal(&self.ram) && long.is_equal(&self.ram), "{path}: all pins are given back");
        found.map(|entry| entry.ino)
    }

    fn check(&self, from: &str, path: &str, last: Last, expected: Result<&str, Errno>) {
        let found = self.walk(from, path, last, &Cred::root());
        assert_eq!(found, expected.map(|path| self.find(path)), "{path:?} from {from} to {last:?}");
    }
}

fn poll<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing waits"),
    }
}

#[test]
fn paths_lead_from_a_directory_or_the_root() {
    let tree = Tree::of(&["a/", "a/b/", "a/b/f"], &[]);
    for (from, path, expected) in [
        ("/", "a/b/f", Ok("a/b/f")),
        ("a/b", "f", Ok("a/b/f")),
        ("a/b", "/a", Ok("a")),
        ("a/b", "../b//./f", Ok("a/b/f")),
        ("a/b", "../../../..", Ok("/")),
        ("/", "/", Ok("/")),
        ("a", ".", Ok("a")),
        ("/", "a/b/", Ok("a/b")),
        ("/", "", Err(Errno::ENOENT)),
        ("/", "x", Err(Errno::ENOENT)),
        ("/", "x/f", Err(Errno::ENOENT)),
        ("/", "a/b/f/", Err(Errno::ENOTDIR)),
        ("/", "a/b/f/.", Err(Errno::ENOTDIR)),
        ("/", "a/b/f/..", Err(Errno::ENOTDIR)),
        ("a/b/f", "x", Err(Errno::ENOTDIR)),
        ("/", "a\0b", Err(Errno::EINVAL)),
    ] {
        tree.check(from, path, Last::Target, expected);
        tree.check(from, path, Last::Itself, expected);
    }
}

#[test]
fn a_walk_to_a_parent_leaves_the_last_component() {
    let tree = Tree::of(&["a/", "a/f"], &[("l", "a")]);
    for (path, expected) in [
        ("a/x", Ok("a")),
        ("a/x/", Ok("a")),
        ("x", Ok("/")),
        ("l/x", Ok("a")),
        ("l", Ok("/")),
        ("l/", Ok("/")),
        ("a/..", Ok("a")),
        ("/", Ok("/")),
        ("x/y", Err(Errno::ENOENT)),
        ("a/f/x", Err(Errno::ENOTDIR)),
        ("a/f/..", Err(Errno::ENOTDIR)),
    ] {
        tree.check("/", path, Last::Parent, expected);
    }
    assert_eq!(tree.walk("/", &format!("a/{}", "n".repeat(256)), Last::Parent, &Cred::root()), Ok(tree.find("a")));
}

#[test]
fn links_are_followed_in_the_midst_and_at_the_end_if_asked_for() {
    let links = [("l", "d"), ("d/up", "../d/f"), ("abs", "/d/"), ("to-l", "l"), ("gone", "x"), ("slash", "d/f/")];
    let tree = Tree::of(&["d/", "d/f"], &links);
    for (path, target, itself) in [
        ("l", Ok("d"), Ok("l")),
        ("l/", Ok("d"), Ok("d")),
        ("l/f", Ok("d/f"), Ok("d/f")),
        ("l/up", Ok("d/f"), Ok("d/up")),
        ("l/up/", Err(Errno::ENOTDIR), Err(Errno::ENOTDIR)),
        ("abs/f", Ok("d/f"), Ok("d/f")),
        ("abs", Ok("d"), Ok("abs")),
        ("to-l/f", Ok("d/f"), Ok("d/f")),
        ("to-l/", Ok("d"), Ok("d")),
        ("l/..", Ok("/"), Ok("/")),
        ("gone", Err(Errno::ENOENT), Ok("gone")),
        ("gone/", Err(Errno::ENOENT), Err(Errno::ENOENT)),
        ("slash", Err(Errno::ENOTDIR), Ok("slash")),
    ] {
        tree.check("/", path, Last::Target, target);
        tree.check("/", path, Last::Itself, itself);
    }
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let names: Vec<String> = (0..=41).map(|i| format!("l{i}")).collect();
    let links: Vec<(&str, &str)> = names.windows(2).map(|pair| (&*pair[1], &*pair[0])).collect();
    let tree = Tree::of(&["l0"], &links);
    tree.check("/", "l40", Last::Target, Ok("l0"));
    tree.check("/", "l41", Last::Target, Err(Errno::ELOOP));
    tree.check("/", "l41", Last::Itself, Ok("l41"));
    let circle = Tree::of(&["d/"], &[("d/c", "../d/c")]);
    circle.check("/", "d/c", Last::Target, Err(Errno::ELOOP));
    circle.check("/", "d/c/x", Last::Parent, Err(Errno::ELOOP));
}

#[test]
fn long_paths_and_names_are_refused() {
    let tree = Tree::of(&["a/"], &[]);
    tree.check("/", &format!("a{}", "/".repeat(4094)), Last::Target, Ok("a"));
    tree.check("/", &format!("a{}", "/".repeat(4095)), Last::Target, Err(Errno::ENAMETOOLONG));
    tree.check("/", &"n".repeat(255), Last::Target, Err(Errno::ENOENT));
    tree.check("/", &"n".repeat(256), Last::Target, Err(Errno::ENAMETOOLONG));
    tree.check("/", &format!("x/{}", "n".repeat(256)), Last::Target, Err(Errno::ENOENT));
}

#[test]
fn each_directory_on_the_way_must_be_searchable() {
    let tree = Tree::of(&["a/", "a/b/", "a/b/f"], &[("l", "a/b")]);
    let closed = crate::SetAttr { mode: Some(0o766), ..Default::default() };
    let Step::Now(set) = tree.ram.set_attr(CALL, tree.find("a/b"), closed) else { panic!("a call waits") };
    assert_eq!(set.unwrap().kind, FileType::Directory);
    let user = Cred::user(1, 1, vec![]);
    for (path, last, expected) in [
        ("a/b", Last::Target, Ok(tree.find("a/b"))),
        ("a/b/", Last::Target, Ok(tree.find("a/b"))),
        ("a/b/f", Last::Target, Err(Errno::EACCES)),
        ("a/b/.", Last::Target, Err(Errno::EACCES)),
        ("a/b/..", Last::Target, Err(Errno::EACCES)),
        ("a/b/x", Last::Parent, Err(Errno::EACCES)),
        ("l/x", Last::Target, Err(Errno::EACCES)),
        ("l", Last::Target, Ok(tree.find("a/b"))),
    ] {
        assert_eq!(tree.walk("/", path, last, &user), expected, "{path}");
    }
}

#[test]
fn a_path_is_split_at_its_last_component() {
    for (path, tail, has_slash) in [
        ("a", Tail::Name(b"a"), false),
        ("/x/a//", Tail::Name(b"a"), true),
        ("a/.", Tail::Dot, false),
        ("..", Tail::DotDot, false),
        ("a/../", Tail::DotDot, true),
        ("/", Tail::Nothing, true),
        ("", Tail::Nothing, false),
        ("a/...", Tail::Name(b"..."), false),
    ] {
        assert_eq!(split(path.as_bytes()), Split { tail, has_slash }, "{path}");
    }
}

#[test]
fn a_walk_that_waits_arrives_and_one_that_is_dropped_gives_its_pins_back() {
    let tree = Tree::of(&["a/", "a/b/", "a/b/f"], &[("a/l", "/a/../a/b")]);
    let (root, target) = (tree.ram.root(), tree.find("a/b/f"));
    for waits in 0.. {
        let fs = slow::Slow(tree.ram.fork());
        let (cred, mut cx) = (Cred::root(), Context::from_waker(Waker::noop()));
        let mut walk = Box::pin(walk(&fs, CALL, &cred, root, b"a/l/f", Last::Target));
        let mut polls = (0..=waits).map(|_| walk.as_mut().poll(&mut cx));
        let arrived = polls.find_map(|poll| if let Poll::Ready(found) = poll { Some(found) } else { None });
        drop(polls);
        drop(walk);
        if let Some(found) = arrived {
            assert_eq!((found.map(|entry| entry.ino), waits > 8), (Ok(target), true));
            fs.forget(target, 1);
        }
        assert!(fs.0.is_equal(&tree.ram), "after {waits} waits");
        if arrived.is_some() {
            break;
        }
    }
}
