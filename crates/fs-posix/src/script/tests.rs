use std::collections::BTreeSet;

use esker_vfs::{FileType, Rename, Stamp, XattrSet};
use proptest::prelude::*;

use super::*;

/// A script with each call and each kind of word.
const ALL: &str = "\
// A comment, and then every call.
open #0 A/foo rdwr,creat,excl 0644
open #1 . tmpfile,rdwr 0600
open #2 \"\" rdonly 0000
close #0
dup #1 #7
read #0 4096
read #0 4096 @512
write #0 100 x7
write #0 100 x7 @-1
seek #0 hole 0
truncate A/foo 10
truncate #0 -1
allocate #0 punch 4096 8192
copy #0 @0 #1 10
copy #0 #1 @5 10
clone #0 #1
sync data #0
sync file #0
sync all
mkdir A\\x20B 0755
mknod A fifo 0644 0
link #0 foo
link foo bar nofollow
symlink ../foo \\x23odd
readlink foo
unlink foo
rmdir A
rename foo bar exchange
stat foo nofollow
access foo rx
access foo -
chmod #0 4755
chown foo 1000 - nofollow
times foo keep 12
times #0 now -5 nofollow
getxattr foo user.a
listxattr #0
setxattr foo user.a 20 x3 create nofollow
removexattr foo user.a
list A
chdir #0
umask 0022
become 1000
";

#[test]
fn every_call_is_a_line_that_reads_back() {
    let calls = ScriptOp::script(ALL).unwrap();
    let lines: Vec<&str> = ALL.lines().skip(1).collect();
    assert_eq!(calls.iter().map(ScriptOp::to_string).collect::<Vec<_>>(), lines);
    let verbs: BTreeSet<_> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    // Extended attributes are one call here and four words.
    assert_eq!(verbs.len() - 3, 29, "26 calls on files and three on the process");
}

#[test]
fn a_broken_line_is_told_with_its_number_and_reason() {
    let broken = [
        ("jump foo", "no call has this name"),
        ("mkdir foo", "a word is missing"),
        ("mkdir foo 0999", "octal"),
        ("read #8 1", "#0 to #7"),
        ("unlink foo bar", "words follow"),
        ("unlink \\q", "backslash"),
        ("unlink #0", "begins with #"),
        ("open #0 foo rdwr,often 0644", "no flag"),
        ("times foo 99999999999999 keep", "too far away"),
    ];
    for (line, why) in broken {
        let error = ScriptOp::script(&format!("sync all\n\n{line}\n")).unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.to_string().contains(why) && error.to_string().contains(line), "{error}");
    }
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..12).prop_map(Word), Just(Word(b"A/foo".to_vec()))]
}

fn held() -> impl Strategy<Value = Held> {
    (0..HELD as u8).prop_map(Held)
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![word().prop_map(Object::Path), held().prop_map(Object::Held)]
}

fn follow() -> impl Strategy<Value = Follow> {
    prop_oneof![Just(Follow::Links), Just(Follow::Nothing)]
}

fn seconds() -> impl Strategy<Value = SetTime> {
    prop_oneof![
        Just(SetTime::Keep),
        Just(SetTime::Now),
        (-1000i64..1000).prop_map(|seconds| SetTime::To(Stamp(seconds * parse::SECOND)))
    ]
}

fn op() -> impl Strategy<Value = ScriptOp> {
    let mode = || 0..0o10000u16;
    let at = || proptest::option::of(any::<i64>());
    prop_oneof![
        (held(), word(), any::<u32>(), mode()).prop_map(|(held, path, flags, mode)| ScriptOp::Open(
            held,
            path,
            printable(flags),
            mode
        )),
        (held(), any::<u32>(), any::<u64>(), at())
            .prop_map(|(held, len, seed, at)| ScriptOp::Write(held, len, seed, at)),
        (held(), at(), held(), at(), any::<u64>()).prop_map(|(from, start, to, goal, len)| ScriptOp::Copy(
            (from, start),
            (to, goal),
            len
        )),
        (object(), any::<i64>()).prop_map(|(object, size)| ScriptOp::Truncate(object, size)),
        (word(), mode(), any::<u64>()).prop_map(|(path, mode, n)| ScriptOp::Mknod(
            path,
            FileType::BlockDevice,
            mode,
            n
        )),
        (object(), word(), follow()).prop_map(|(old, new, follow)| ScriptOp::Link(old, new, follow)),
        (word(), word()).prop_map(|(from, to)| ScriptOp::Rename(from, to, Rename::NoReplace)),
        (word(), 0..8u16).prop_map(|(path, bits)| ScriptOp::Access(path, Access::from_bits_retain(bits))),
        (object(), any::<Option<u32>>(), any::<Option<u32>>(), follow())
            .prop_map(|(object, uid, gid, follow)| ScriptOp::Chown(object, uid, gid, follow)),
        (object(), seconds(), seconds(), follow())
            .prop_map(|(object, accessed, modified, follow)| ScriptOp::Times(object, accessed, modified, follow)),
        (object(), word(), any::<u32>(), any::<u64>(), follow()).prop_map(|(object, name, len, seed, follow)| {
            ScriptOp::Xattr(object, XattrOp::Set(name, len, seed, XattrSet::Replace), follow)
        }),
    ]
}

/// The flags of these bits that have a text.
fn printable(bits: u32) -> OpenFlags {
    let flags = OpenFlags::from_bits_truncate(bits & !OpenFlags::CLOEXEC.bits());
    // Parts of flags of two bits have no text of their own.
    let whole = |flags: OpenFlags, flag: OpenFlags, rest: OpenFlags| {
        if flags.contains(flag) { flags } else { (flags - flag) | (flags & rest) }
    };
    let flags = whole(flags, OpenFlags::TMPFILE, OpenFlags::DIRECTORY);
    whole(flags, OpenFlags::SYNC, OpenFlags::DSYNC)
}

proptest! {
    #[test]
    fn a_line_reads_back_as_its_call(op in op()) {
        let line = op.to_string();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(line.parse::<ScriptOp>(), Ok(op));
    }
}

#[test]
fn a_seed_gives_the_same_script_for_ever() {
    let text = |seed| Random::new(seed).take(500).map(|op| op.to_string()).collect::<Vec<_>>();
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
    let back: Vec<_> = text(3).iter().map(|line| line.parse::<ScriptOp>().unwrap().to_string()).collect();
    assert_eq!(back, text(3));
}

#[test]
fn random_scripts_make_every_call() {
    let verbs: BTreeSet<_> =
        Random::new(1).take(5000).map(|op| op.to_string().split(' ').next().unwrap().to_string()).collect();
    assert_eq!(verbs.len(), 32, "{verbs:?}");
}

#[test]
fn all_scripts_of_a_length_are_numbered() {
    let (one, two) = (Bounded::new(1), Bounded::new(2));
    assert_eq!(two.count(), one.count() * one.count());
    let all: BTreeSet<String> =
        (0..one.count()).map(|number| one.script(number).iter().map(|op| format!("{op}\n")).collect()).collect();
    assert_eq!(all.len() as u64, one.count(), "no script comes twice");
    let (first, last) = (two.script(0), two.script(two.count() - 1));
    assert!(first.len() < last.len(), "the last one has two barriers");
}
