use super::*;
use crate::attr::SetAttr;
use crate::word::Stamp;

const OWNER: u32 = 10;
const GROUP: u32 = 20;

fn attr(kind: FileType, mode: u16) -> Attr {
    let now = Stamp(0);
    Attr {
        kind,
        mode,
        links: 1,
        uid: OWNER,
        gid: GROUP,
        device: 0,
        size: 0,
        allocated: 0,
        accessed: now,
        modified: now,
        changed: now,
        born: None,
        flags: FileFlags::NONE,
        version: 0,
    }
}

fn file(mode: u16) -> Attr {
    attr(FileType::File, mode)
}

fn dir(mode: u16) -> Attr {
    attr(FileType::Directory, mode)
}

fn flagged(attr: Attr, flags: FileFlags) -> Attr {
    Attr { flags, ..attr }
}

fn owner() -> Cred {
    Cred::user(OWNER, 99, vec![])
}

fn member() -> Cred {
    Cred::user(11, 99, vec![GROUP])
}

fn other() -> Cred {
    Cred::user(12, 99, vec![98])
}

const DENIED: Result<(), Errno> = Err(Errno::EACCES);
const REFUSED: Result<(), Errno> = Err(Errno::EPERM);

#[test]
fn the_first_class_of_a_caller_decides_alone() {
    let cases = [
        (owner(), 0o077, Wanted::READ, DENIED),
        (owner(), 0o400, Wanted::READ, Ok(())),
        (member(), 0o707, Wanted::READ, DENIED),
        (member(), 0o020, Wanted::WRITE, Ok(())),
        (other(), 0o770, Wanted::EXECUTE, DENIED),
        (other(), 0o001, Wanted::EXECUTE, Ok(())),
        (other(), 0o004, Wanted::READ.and(Wanted::WRITE), DENIED),
        (Cred::root(), 0o000, Wanted::READ.and(Wanted::WRITE), Ok(())),
        (Cred::root(), 0o666, Wanted::EXECUTE, DENIED),
        (Cred::root(), 0o010, Wanted::EXECUTE, Ok(())),
    ];
    for (cred, mode, wanted, expected) in cases {
        assert_eq!(may(&cred, &file(mode), wanted), expected, "{cred:?} {mode:o} {wanted:?}");
    }
}

#[test]
fn directories_are_searched_and_files_are_not() {
    assert_eq!(may_search(&Cred::root(), &dir(0)), Ok(()));
    assert_eq!(may_search(&other(), &dir(0o776)), DENIED);
    assert_eq!(may_search(&Cred::root(), &file(0o777)), Err(Errno::ENOTDIR));
}

#[test]
fn the_immutable_are_not_written_by_anybody() {
    let fixed = flagged(file(0o777), FileFlags::IMMUTABLE);
    assert_eq!(may(&Cred::root(), &fixed, Wanted::WRITE), REFUSED);
    assert_eq!(may(&other(), &fixed, Wanted::READ), Ok(()));
    assert_eq!(may_touch(&owner(), &fixed), REFUSED);
    let grows = flagged(file(0o777), FileFlags::APPEND);
    assert_eq!((may(&other(), &grows, Wanted::WRITE), may_overwrite(&grows)), (Ok(()), REFUSED));
    assert_eq!(may_overwrite(&file(0)), Ok(()));
}

#[test]
fn in_a_sticky_directory_owners_remove() {
    let theirs = Attr { uid: 77, ..file(0) };
    let sticky = Attr { uid: 77, ..dir(0o1777) };
    let cases = [
        (owner(), dir(0o777), theirs, Ok(())),
        (owner(), sticky, theirs, REFUSED),
        (owner(), sticky, file(0), Ok(())),
        (owner(), dir(0o1777), theirs, Ok(())),
        (Cred::root(), sticky, theirs, Ok(())),
        (other(), dir(0o775), theirs, DENIED),
        (other(), dir(0o776), theirs, DENIED),
        (Cred::root(), flagged(dir(0o777), FileFlags::APPEND), theirs, REFUSED),
        (Cred::root(), dir(0o777), flagged(theirs, FileFlags::APPEND), REFUSED),
        (Cred::root(), dir(0o777), flagged(theirs, FileFlags::IMMUTABLE), REFUSED),
    ];
    for (cred, dir, victim, expected) in cases {
        assert_eq!(may_remove(&cred, &dir, &victim), expected, "{cred:?} {dir:?} {victim:?}");
    }
}

#[test]
fn a_directory_moves_only_with_the_right_to_write_it() {
    assert_eq!(may_move(&owner(), &dir(0o500)), DENIED);
    assert_eq!(may_move(&owner(), &file(0o400)), Ok(()));
}

#[test]
fn links_are_made_by_owners_and_to_harmless_files() {
    let cases = [
        (owner(), file(0), Ok(())),
        (other(), file(0o666), Ok(())),
        (other(), file(0o664), REFUSED),
        (other(), file(0o4666), REFUSED),
        (other(), file(0o2676), REFUSED),
        (other(), file(0o2666), Ok(())),
        (other(), attr(FileType::Fifo, 0o666), REFUSED),
        (Cred::root(), attr(FileType::Fifo, 0), Ok(())),
        (Cred::root(), flagged(file(0), FileFlags::APPEND), REFUSED),
    ];
    for (cred, attr, expected) in cases {
        assert_eq!(may_link(&cred, &attr), expected, "{cred:?} {attr:?}");
    }
}

#[test]
fn a_new_inode_inherits_from_a_set_group_id_directory() {
    let (plain, inherits) = (dir(0o777), dir(0o2777));
    let made = |cred: &Cred, dir: &Attr, kind, bits| {
        let owner = new_owner(cred, dir, kind, bits);
        assert_eq!(owner.uid, cred.uid);
        (owner.gid, owner.mode)
    };
    let (file, directory) = (FileType::File, FileType::Directory);
    assert_eq!(made(&other(), &plain, file, 0o6755), (99, 0o6755));
    assert_eq!(made(&other(), &inherits, file, 0o2644), (GROUP, 0o2644));
    assert_eq!(made(&other(), &inherits, file, 0o6755), (GROUP, 0o4755), "not in the group");
    assert_eq!(made(&member(), &inherits, file, 0o6755), (GROUP, 0o6755));
    assert_eq!(made(&other(), &inherits, directory, 0o755), (GROUP, 0o2755));
    assert_eq!(made(&other(), &plain, directory, 0o7755), (99, 0o1755), "mkdir takes no more bits");
}

#[test]
fn a_change_of_bytes_takes_privileges_away() {
    for (before, after) in [(0o4755, 0o755), (0o2755, 0o755), (0o2745, 0o2745), (0o6645, 0o2645), (0o1777, 0o1777)] {
        assert_eq!(kill_privileges(before), after, "{before:o}");
    }
    assert!(loses_privileges(&owner(), &file(0o4755)) && loses_privileges(&other(), &file(0o2755)));
    assert!(!loses_privileges(&owner(), &file(0o2745)) && !loses_privileges(&Cred::root(), &file(0o6777)));
    assert!(!loses_privileges(&owner(), &dir(0o6777)));
}

const KEEP: SetAttr = SetAttr {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    accessed: None,
    modified: None,
    flags: None,
    kill_privileges: false,
};

#[test]
fn owners_set_modes_and_times() {
    let sets = [
        SetAttr { mode: Some(0o600), ..KEEP },
        SetAttr { accessed: Some(Stamp(1)), ..KEEP },
        SetAttr { modified: Some(Stamp(1)), ..KEEP },
        SetAttr { flags: Some(FileFlags::NODUMP), ..KEEP },
    ];
    for set in sets {
        assert_eq!(may_set(&owner(), &file(0), set), Ok(set));
        assert_eq!(may_set(&Cred::root(), &file(0), set), Ok(set));
        assert_eq!(may_set(&member(), &file(0o777), set), Err(Errno::EPERM));
    }
    let fixed = flagged(file(0o777), FileFlags::APPEND);
    assert!(sets[..3].iter().all(|set| may_set(&Cred::root(), &fixed, *set) == Err(Errno::EPERM)));
    assert_eq!((may_touch(&other(), &file(0o002)), may_touch(&other(), &file(0o004))), (Ok(()), DENIED));
}

#[test]
fn only_members_of_a_group_make_files_run_as_it() {
    let mode = |cred: &Cred, set| may_set(cred, &file(0), set).unwrap().mode;
    let set = SetAttr { mode: Some(0o6755), ..KEEP };
    assert_eq!(mode(&owner(), set), Some(0o4755));
    assert_eq!(mode(&Cred::user(OWNER, GROUP, vec![]), set), Some(0o6755));
    assert_eq!(mode(&Cred::root(), set), Some(0o6755));
}

#[test]
fn files_are_given_to_groups_of_their_owner_and_by_the_superuser() {
    let to = |uid, gid| SetAttr { uid, gid, ..KEEP };
    let is_allowed = |cred: &Cred, set| may_set(cred, &file(0o644), set).is_ok();
    assert!(is_allowed(&owner(), to(Some(OWNER), Some(99))) && is_allowed(&owner(), to(None, Some(GROUP))));
    assert!(!is_allowed(&owner(), to(Some(11), None)) && !is_allowed(&owner(), to(None, Some(98))));
    assert!(!is_allowed(&member(), to(None, Some(GROUP))) && is_allowed(&Cred::root(), to(Some(1), Some(2))));
}

#[test]
fn a_file_with_a_new_owner_has_no_privileges() {
    let given = |cred: &Cred, attr: &Attr| {
        let set = may_set(cred, attr, SetAttr { gid: Some(99), ..KEEP }).unwrap();
        (set.mode, set.kill_privileges)
    };
    assert_eq!(given(&Cred::root(), &file(0o6755)), (Some(0o755), true));
    assert_eq!(given(&Cred::root(), &file(0o2745)), (None, true), "no program of a group");
    assert_eq!(given(&owner(), &file(0o2745)), (Some(0o745), true), "not in the former group");
    assert_eq!(given(&owner(), &dir(0o6755)), (None, false));
}

#[test]
fn the_superuser_alone_fixes_and_releases() {
    let set = |flags| SetAttr { flags: Some(flags), ..KEEP };
    let fixed = flagged(file(0), FileFlags::IMMUTABLE);
    assert!(may_set(&owner(), &file(0), set(FileFlags::APPEND)).is_err());
    assert!(may_set(&owner(), &fixed, set(FileFlags::NONE)).is_err());
    assert!(may_set(&Cred::root(), &fixed, set(FileFlags::NONE)).is_ok());
    assert!(may_set(&owner(), &fixed, set(FileFlags(FileFlags::IMMUTABLE.0 | FileFlags::NODUMP.0))).is_ok());
}

#[test]
fn extended_attributes_have_rules_for_each_prefix() {
    let cases = [
        (other(), file(0o004), &b"user.a"[..], false, Ok(())),
        (other(), file(0o004), b"user.a", true, DENIED),
        (owner(), file(0o200), b"user.a", true, Ok(())),
        (owner(), attr(FileType::Symlink, 0o777), b"user.a", true, REFUSED),
        (Cred::root(), attr(FileType::Fifo, 0o777), b"user.a", false, Err(Errno::ENODATA)),
        (other(), dir(0o1777), b"user.a", true, REFUSED),
        (owner(), dir(0o1777), b"user.a", true, Ok(())),
        (owner(), file(0o777), b"trusted.a", false, Err(Errno::ENODATA)),
        (owner(), file(0o777), b"trusted.a", true, REFUSED),
        (Cred::root(), file(0), b"trusted.a", true, Ok(())),
        (other(), file(0), b"security.a", false, Ok(())),
        (owner(), file(0o777), b"security.a", true, REFUSED),
        (Cred::root(), flagged(file(0), FileFlags::IMMUTABLE), b"user.a", true, REFUSED),
    ];
    for (cred, attr, name, changes, expected) in cases {
        assert_eq!(may_xattr(&cred, &attr, name, changes), expected, "{attr:?} {} {changes}", name.escape_ascii());
    }
    assert!(shows_xattr(&Cred::root(), b"trusted.a") && !shows_xattr(&owner(), b"trusted.a"));
    assert!(shows_xattr(&other(), b"user.a"));
}
