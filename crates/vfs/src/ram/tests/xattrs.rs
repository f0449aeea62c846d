//! Extended attributes and privileges.

use super::*;
use crate::change::XattrSet;

fn ask(desk: &mut Desk, ino: Ino, what: Xattr<'_>) -> Result<Vec<u8>, Errno> {
    desk.change(|ram, call| ram.xattr(call, ino, what)).map(Vec::from)
}

fn set(desk: &mut Desk, ino: Ino, text: &[u8], value: &[u8], how: XattrSet) -> Result<(), Errno> {
    ask(desk, ino, Xattr::Set(text, value, how)).map(drop)
}

#[test]
fn values_are_set_listed_read_and_removed() {
    let mut desk = Desk::large();
    let (ino, any) = (desk.make("a", FILE), XattrSet::Any);
    assert_eq!(ask(&mut desk, ino, Xattr::List), Ok(vec![]));
    set(&mut desk, ino, b"user.b", b"1", any).unwrap();
    set(&mut desk, ino, b"trusted.a", b"", any).unwrap();
    set(&mut desk, ino, b"user.b", b"22", any).unwrap();
    assert_eq!(ask(&mut desk, ino, Xattr::List), Ok(b"trusted.a\0user.b\0".to_vec()));
    assert_eq!(ask(&mut desk, ino, Xattr::Get(b"user.b")), Ok(b"22".to_vec()));
    assert_eq!(desk.attr(ino).allocated, 4096);
    assert_eq!(ask(&mut desk, ino, Xattr::Remove(b"user.c")), Err(Errno::ENODATA));
    for text in [&b"user.b"[..], b"trusted.a"] {
        ask(&mut desk, ino, Xattr::Remove(text)).unwrap();
        assert_eq!(ask(&mut desk, ino, Xattr::Get(text)), Err(Errno::ENODATA));
    }
    assert_eq!(desk.attr(ino).allocated, 0);
}

#[test]
fn a_value_is_made_or_replaced_as_asked() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    assert_eq!(set(&mut desk, ino, b"user.a", b"1", XattrSet::Replace), Err(Errno::ENODATA));
    assert_eq!(set(&mut desk, ino, b"user.a", b"1", XattrSet::Create), Ok(()));
    assert_eq!(set(&mut desk, ino, b"user.a", b"2", XattrSet::Create), Err(Errno::EEXIST));
    assert_eq!(set(&mut desk, ino, b"user.a", b"2", XattrSet::Replace), Ok(()));
    assert_eq!(ask(&mut desk, ino, Xattr::Get(b"user.a")), Ok(b"2".to_vec()));
}

#[test]
fn names_and_values_have_limits() {
    let mut desk = Desk::large();
    let (ino, any) = (desk.make("a", FILE), XattrSet::Any);
    let long = [b"user.".to_vec(), vec![b'a'; 250]].concat();
    let cases = [
        (&b""[..], Errno::ERANGE),
        (&[&long[..], b"a"].concat(), Errno::ERANGE),
        (b"user.", Errno::EINVAL),
        (b"system.a", Errno::EOPNOTSUPP),
        (b"a", Errno::EOPNOTSUPP),
    ];
    for (text, errno) in cases {
        assert_eq!(set(&mut desk, ino, text, b"", any), Err(errno), "{}", text.escape_ascii());
        assert_eq!(ask(&mut desk, ino, Xattr::Get(text)), Err(errno));
        assert_eq!(ask(&mut desk, ino, Xattr::Remove(text)), Err(errno));
    }
    assert_eq!(set(&mut desk, ino, &long, &vec![1; 65_537], any), Err(Errno::E2BIG));
    assert_eq!(set(&mut desk, ino, &long, &vec![1; 65_536], any), Ok(()));
}

#[test]
fn a_list_of_names_fits_the_largest_buffer() {
    let mut desk = Desk::large();
    let ino = desk.make("a", FILE);
    let text = |i: u32| format!("user.{i:250}").into_bytes();
    let last = (0..).find(|i| set(&mut desk, ino, &text(*i), b"", XattrSet::Any).is_err()).unwrap();
    assert_eq!((last, ask(&mut desk, ino, Xattr::List).unwrap().len()), (256, 65_536));
    assert_eq!(set(&mut desk, ino, &text(0), b"1", XattrSet::Any), Ok(()), "its name is there");
}

#[test]
fn privileges_are_lost_with_the_bytes_that_had_them() {
    let mut desk = Desk::large();
    let (ino, dir) = (desk.make("a", FILE), desk.make("d", DIR));
    let armed = |desk: &mut Desk, ino| {
        desk.set(ino, SetAttr { mode: Some(0o6755), ..SetAttr::default() }).unwrap();
        set(desk, ino, b"security.capability", b"1", XattrSet::Any).unwrap();
    };
    let is_armed = |desk: &mut Desk, ino| {
        let has = ask(desk, ino, Xattr::Get(b"security.capability")).is_ok();
        assert_eq!(has, desk.attr(ino).mode == 0o6755);
        has
    };
    armed(&mut desk, ino);
    desk.write(ino, 0, b"abc").unwrap();
    assert!(is_armed(&mut desk, ino), "front ends say when");
    let how = Write { kill_privileges: true, ..Write::default() };
    desk.change(|ram, call| Step::Now(ram.write_now(call, ino, At::End, b"abc", how).unwrap())).unwrap();
    assert!(!is_armed(&mut desk, ino));
    let kill = SetAttr { kill_privileges: true, ..SetAttr::default() };
    for ino in [ino, dir] {
        armed(&mut desk, ino);
        desk.set(ino, kill).unwrap();
    }
    assert!(!is_armed(&mut desk, ino) && is_armed(&mut desk, dir), "those of a directory mean something else");
}
