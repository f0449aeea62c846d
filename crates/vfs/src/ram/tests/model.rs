//! Names against a flat map from paths to what is there.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a path leads to: a directory, or the number of a file, which several paths may share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thing {
    Dir,
    File(u32),
}

/// All paths, without a slash in front. The root is "".
#[derive(Default)]
struct Model {
    things: BTreeMap<String, Thing>,
    files: u32,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    fn get(&self, path: &str) -> Option<Thing> {
        if path.is_empty() { Some(Thing::Dir) } else { self.things.get(path).copied() }
    }

    /// Whether the directories above are there.
    fn reach(&self, path: &str) -> Result<(), Errno> {
        let above = parent(path);
        if above.is_empty() {
            return Ok(());
        }
        self.reach(above)?;
        match self.get(above) {
            Some(Thing::Dir) => Ok(()),
            Some(Thing::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn has_children(&self, path: &str) -> bool {
        self.things.keys().any(|other| is_below(other, path))
    }

    fn create(&mut self, path: &str, is_dir: bool) -> Result<(), Errno> {
        self.reach(path)?;
        if self.get(path).is_some() {
            return Err(Errno::EEXIST);
        }
        self.files += 1;
        let thing = if is_dir { Thing::Dir } else { Thing::File(self.files) };
        self.things.insert(path.into(), thing);
        Ok(())
    }

    fn link(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        self.reach(from)?;
        let thing = self.get(from).ok_or(Errno::ENOENT)?;
        self.reach(to)?;
        if self.get(to).is_some() {
            return Err(Errno::EEXIST);
        }
        if thing == Thing::Dir {
            return Err(Errno::EPERM);
        }
        self.things.insert(to.into(), thing);
        Ok(())
    }

    fn remove(&mut self, path: &str, what: Remove) -> Result<(), Errno> {
        self.reach(path)?;
        match (self.get(path).ok_or(Errno::ENOENT)?, what) {
            (Thing::Dir, Remove::File) => return Err(Errno::EISDIR),
            (Thing::File(_), Remove::Directory) => return Err(Errno::ENOTDIR),
            (Thing::Dir, Remove::Directory) if self.has_children(path) => return Err(Errno::ENOTEMPTY),
            (Thing::Dir, Remove::Directory) | (Thing::File(_), Remove::File) => {}
        }
        self.things.remove(path);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, how: Rename) -> Result<(), Errno> {
        self.reach(from)?;
        self.reach(to)?;
        let old = self.get(from).ok_or(Errno::ENOENT)?;
        let new = self.get(to);
        let is_exchange = how == Rename::Exchange;
        match (how, new) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (Rename::Exchange, None) => return Err(Errno::ENOENT),
            (Rename::Replace | Rename::NoReplace | Rename::Exchange, _) => {}
        }
        if is_below(to, from) {
            return Err(Errno::EINVAL);
        }
        if is_below(from, to) {
            return Err(if is_exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if from == to || new == Some(old) && old != Thing::Dir {
            return Ok(());
        }
        match (old, new) {
            (Thing::Dir, Some(Thing::File(_))) if !is_exchange => return Err(Errno::ENOTDIR),
            (Thing::File(_), Some(Thing::Dir)) if !is_exchange => return Err(Errno::EISDIR),
            (_, Some(_)) if !is_exchange && self.has_children(to) => return Err(Errno::ENOTEMPTY),
            (Thing::Dir | Thing::File(_), _) => {}
        }
        let (moved, back) = (self.take(from), self.take(to));
        self.put(to, moved);
        if is_exchange {
            self.put(from, back);
        }
        Ok(())
    }

    /// A path and all below it, without the path in front.
    fn take(&mut self, path: &str) -> Vec<(String, Thing)> {
        let is_in = |other: &str| other == path || is_below(other, path);
        let taken = self.things.iter().filter(|(other, _)| is_in(other));
        let taken = taken.map(|(other, thing)| (other[path.len()..].to_string(), *thing)).collect();
        self.things.retain(|other, _| !is_in(other));
        taken
    }

    fn put(&mut self, path: &str, things: Vec<(String, Thing)>) {
        self.things.extend(things.into_iter().map(|(rest, thing)| (format!("{path}{rest}"), thing)));
    }
}

#[derive(Clone, Debug)]
enum Act {
    Create(String, bool),
    Link(String, String),
    Remove(String, Remove),
    Rename(String, String, Rename),
}

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..5).prop_map(|parts| parts.join("/"))
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let removes = prop::sample::select(vec![Remove::File, Remove::Directory]);
    let hows = prop::sample::select(vec![Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange]);
    let act = prop_oneof![
        5 => (paths(), prop::bool::weighted(0.7)).prop_map(|(path, is_dir)| Act::Create(path, is_dir)),
        2 => (paths(), paths()).prop_map(|(from, to)| Act::Link(from, to)),
        2 => (paths(), removes).prop_map(|(path, what)| Act::Remove(path, what)),
        5 => (paths(), paths(), hows).prop_map(|(from, to, how)| Act::Rename(from, to, how)),
    ];
    prop::collection::vec(act, 1..80)
}

/// The directory of a path, pinned, and the last name.
fn place<'p>(desk: &mut Desk, path: &'p str) -> Result<(Ino, &'p str), Errno> {
    let root = Cred::root();
    let walk = |ram: &Ram, call| Step::Now(ram.walk_now(call, &root, ROOT, path.as_bytes(), Last::Parent).unwrap());
    Ok((desk.change(walk)?.ino, path.rsplit('/').next().unwrap()))
}

/// Runs a call on the directories of two paths.
fn at_both<T>(
    desk: &mut Desk,
    (one, other): (&str, &str),
    call: impl FnOnce(&mut Desk, (Ino, &str), (Ino, &str)) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let from = place(desk, one)?;
    let result = match place(desk, other) {
        Ok(to) => {
            let result = call(desk, from, to);
            desk.ram.forget(to.0, 1);
            result
        }
        Err(errno) => Err(errno),
    };
    desk.ram.forget(from.0, 1);
    result
}

fn play(desk: &mut Desk, act: &Act) -> Result<(), Errno> {
    match act {
        Act::Create(path, is_dir) => at_both(desk, (path, path), |desk, at, _| {
            let entry = desk.create(at.0, at.1, if *is_dir { DIR } else { FILE })?;
            desk.ram.forget(entry.ino, 1);
            Ok(())
        }),
        Act::Link(from, to) => {
            let found =
                at_both(desk, (from, from), |desk, at, _| desk.change(|ram, call| ram.lookup(call, at.0, name(at.1))));
            let ino = found?.ino;
            let result = at_both(desk, (to, to), |desk, at, _| desk.link(ino, at.0, at.1));
            desk.ram.forget(ino, 1);
            result
        }
        Act::Remove(path, what) => at_both(desk, (path, path), |desk, at, _| desk.remove(at.0, at.1, *what)),
        Act::Rename(from, to, how) => at_both(desk, (from, to), |desk, from, to| desk.rename(from, to, *how)),
    }
}

/// All paths of the file system, with the numbers of inodes for files.
fn tree(desk: &mut Desk, dir: Ino, path: &str, found: &mut BTreeMap<String, (FileType, Ino)>) {
    for text in desk.names(dir) {
        let entry = desk.change(|ram, call| ram.lookup(call, dir, name(&text))).unwrap();
        let path = if path.is_empty() { text } else { format!("{path}/{text}") };
        if entry.attr.kind == FileType::Directory {
            let up = desk.change(|ram, call| ram.parent(call, entry.ino)).unwrap().ino;
            assert_eq!(up, dir, "{path}");
            desk.ram.forget(up, 1);
            tree(desk, entry.ino, &path, found);
        }
        found.insert(path, (entry.attr.kind, entry.ino));
        desk.ram.forget(entry.ino, 1);
    }
}

fn compare(desk: &mut Desk, model: &Model) {
    let mut found = BTreeMap::new();
    tree(desk, ROOT, "", &mut found);
    assert!(found.keys().eq(model.things.keys()), "{:?} and {:?}", found.keys(), model.things.keys());
    let (mut inodes, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    for (path, thing) in &model.things {
        let (kind, ino) = found[path];
        match thing {
            Thing::Dir => assert_eq!(kind, FileType::Directory, "{path}"),
            Thing::File(number) => {
                assert_eq!(*inodes.entry(*number).or_insert(ino), ino, "{path} is a link");
                assert_eq!(*numbers.entry(ino).or_insert(*number), *number, "{path} is no link");
                let links = model.things.values().filter(|other| *other == thing).count();
                assert_eq!(desk.ram.state.borrow().attr(ino).links as usize, links, "{path}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn names_are_those_of_a_flat_map_of_paths(acts in acts()) {
        let (mut desk, mut model) = (Desk::new(RamConfig { links_max: 1000, inodes: 1000, bytes: 1 << 20, size_max: 9 }), Model::default());
        for act in &acts {
            let expected = match act {
                Act::Create(path, is_dir) => model.create(path, *is_dir),
                Act::Link(from, to) => model.link(from, to),
                Act::Remove(path, what) => model.remove(path, *what),
                Act::Rename(from, to, how) => model.rename(from, to, *how),
            };
            prop_assert_eq!(play(&mut desk, act), expected, "{:?}", act);
            compare(&mut desk, &model);
        }
        let pinned: Vec<_> = desk.ram.state.borrow().pins().filter(|(ino, pins)| *pins > 0 && *ino != ROOT).collect();
        prop_assert!(pinned.is_empty(), "{:?} stay pinned", pinned);
    }
}
