//! A file system that answers nothing at once: the long ways come to the same as the short ones.

use esker_base::ByteRange;
use esker_block::{Buf, Step};
use esker_rt::{Rt, Sim, SimConfig};
use esker_vfs::{
    About, Allocate, Answer, At, Attr, Call, Cookie, Copying, Entry, Ino, Listing, Name, New, Remove, Rename, Seek,
    SetAttr, Space, Sync, Write, Written, Xattr,
};

use super::*;
use crate::script::{Actor, Bounded, Random, ScriptOp, audit, play};

/// `Ram` behind a wait. It has none of the shortcuts.
struct Late(Ram, Rt);

impl Late {
    fn later<T: Unpin + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let rt = self.1.clone();
        Step::later(async move {
            rt.yield_now().await;
            answer.await
        })
    }
}

/// Methods that wait and are `Ram`'s otherwise.
macro_rules! late {
    ($( fn $name:ident(&self, $( $arg:ident: $type:ty ),*) -> $answer:ty; )*) => {
        $( fn $name(&self, $( $arg: $type ),*) -> Answer<$answer> {
            self.later(self.0.$name($( $arg ),*))
        } )*
    };
}

impl FileSystem for Late {
    fn about(&self) -> &About {
        self.0.about()
    }

    fn root(&self) -> Ino {
        self.0.root()
    }

    fn forget(&self, ino: Ino, pins: u64) {
        self.0.forget(ino, pins);
    }

    fn close(&self) -> Answer<()> {
        self.0.close()
    }

    late! {
        fn lookup(&self, call: Call, dir: Ino, name: Name<'_>) -> Entry;
        fn parent(&self, call: Call, dir: Ino) -> Entry;
        fn pin(&self, call: Call, ino: Ino) -> Entry;
        fn create(&self, call: Call, dir: Ino, name: Option<Name<'_>>, new: New<'_>) -> Entry;
        fn link(&self, call: Call, ino: Ino, dir: Ino, name: Name<'_>) -> Entry;
        fn remove(&self, call: Call, dir: Ino, name: Name<'_>, what: Remove) -> ();
        fn rename(&self, call: Call, from: (Ino, Name<'_>), to: (Ino, Name<'_>), how: Rename) -> ();
        fn target(&self, call: Call, ino: Ino) -> Box<[u8]>;
        fn list(&self, call: Call, dir: Ino, from: Cookie, into: Listing) -> Listing;
        fn attr(&self, call: Call, ino: Ino) -> Attr;
        fn set_attr(&self, call: Call, ino: Ino, set: SetAttr) -> Attr;
        fn xattr(&self, call: Call, ino: Ino, what: Xattr<'_>) -> Box<[u8]>;
        fn read(&self, call: Call, ino: Ino, at: u64, len: usize) -> Buf;
        fn write(&self, call: Call, ino: Ino, at: At, data: Buf, how: Write) -> Written;
        fn allocate(&self, call: Call, ino: Ino, range: ByteRange, how: Allocate) -> ();
        fn copy(&self, call: Call, from: (Ino, u64), to: (Ino, u64), len: u64, how: Copying) -> u64;
        fn seek(&self, call: Call, ino: Ino, at: u64, what: Seek) -> u64;
        fn sync(&self, call: Call, what: Sync) -> ();
        fn space(&self, call: Call) -> Space;
    }
}

#[test]
fn scripts_come_to_the_same_on_a_file_system_that_waits() {
    for seed in 0..20 {
        println!("seed {seed}");
        let script: Vec<ScriptOp> = Random::new(seed).take(300).collect();
        let mut prompt = Actor::new(process());
        let answers = at_once(play(&script, &mut prompt));
        let tree = at_once(audit(&mut prompt));
        let sim = Sim::new(SimConfig::seeded(seed));
        let files = Late(ram(), sim.rt());
        let (late, late_tree) = sim.block_on({
            let script = script.clone();
            async move {
                let mut late = Actor::new(world(files).process(Cred::root()));
                (play(&script, &mut late).await, audit(&mut late).await)
            }
        });
        for ((op, prompt), late) in script.iter().zip(&answers).zip(&late) {
            assert_eq!(prompt, late, "{op}");
        }
        assert_eq!(tree, late_tree);
    }
}

#[test]
fn every_pin_is_given_back() {
    for seed in 100..110 {
        println!("seed {seed}");
        let ram = ram();
        let mut actor = Actor::new(world(ram.clone()).process(Cred::root()));
        let script: Vec<ScriptOp> = Random::new(seed).take(500).collect();
        at_once(play(&script, &mut actor));
        at_once(actor.process().exit()).unwrap();
        drop(actor);
        // A file system that is removed whole holds nothing any more, unless a pin keeps an inode.
        let process = world(ram.clone()).process(Cred::root());
        remove_all(&process, "/");
        let stats = ram.stats();
        let inodes = stats.iter().find(|stat| stat.name == "used_inodes").unwrap().value;
        assert_eq!(inodes, 1.0, "the root alone");
    }
}

fn remove_all(process: &Process, path: &str) {
    let dir = open(process, path, OpenFlags::DIRECTORY).unwrap();
    let entries = at_once(process.list(dir, 1 << 16)).unwrap();
    at_once(process.close(dir)).unwrap();
    for entry in entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b"..")) {
        let below = format!("{}/{}", path.trim_end_matches('/'), String::from_utf8_lossy(&entry.name));
        if entry.kind == esker_vfs::FileType::Directory {
            remove_all(process, &below);
            at_once(process.rmdir(&below[..])).unwrap();
        } else {
            at_once(process.unlink(&below[..])).unwrap();
        }
    }
}

#[test]
fn a_look_leaves_times_of_access_alone() {
    let script = "open #0 foo creat 2755\nmkdir B 0755\ntimes foo 941858476 972999328\nopen #1 B/bar wronly,creat 0777\n\
                  truncate foo 4097\ncopy #0 @65536 #1 65536\nread #0 0\nstat foo\n";
    let script = ScriptOp::script(script).unwrap();
    let mut actor = Actor::new(process());
    let answers = at_once(play(&script, &mut actor));
    assert!(answers.last().unwrap().contains("accessed=941858476"), "{answers:?}");
    let tree = at_once(audit(&mut actor));
    assert!(tree.last().unwrap().contains("accessed=941858476"), "{tree:#?}");
}

#[test]
fn all_scripts_of_one_step_come_to_the_same_on_a_file_system_that_waits() {
    let scripts = Bounded::new(1);
    let mut succeeded = 0;
    for number in 0..scripts.count() {
        let script = scripts.script(number);
        let mut prompt = Actor::new(process());
        let answers = at_once(play(&script, &mut prompt));
        let tree = at_once(audit(&mut prompt));
        let sim = Sim::new(SimConfig::seeded(number));
        let files = Late(ram(), sim.rt());
        let text = format!("{script:?}");
        let late = sim.block_on(async move {
            let mut late = Actor::new(world(files).process(Cred::root()));
            (play(&script, &mut late).await, audit(&mut late).await)
        });
        assert_eq!((&answers, &tree), (&late.0, &late.1), "script {number}: {text}");
        succeeded += u64::from(answers.iter().all(|answer| !answer.starts_with('E')));
    }
    assert!(succeeded > scripts.count() / 3, "{succeeded} of {} scripts fail nowhere", scripts.count());
}
