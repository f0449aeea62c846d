//! Names that mean a descriptor, and locks.

use super::*;

fn alias(slot: i32) -> At {
    At { dir: Fd(slot), path: PathBytes::from("/proc/self/fd/3") }
}

fn through(slot: i32) -> Object {
    Object::Path { at: alias(slot), follow: true }
}

fn mode(scene: &Scene, name: &str) -> u32 {
    fs::metadata(scene.path(name)).unwrap().mode() & 0o7777
}

fn open(scene: &Scene, at: At, flags: OpenFlags, slot: i32) -> Result<i64, Traced> {
    let call = Call::Open { at, flags, mode: 0o600, resolve: ResolveFlags::empty() };
    scene.call_as(call, Outcome::Done(4), vec![SlotEffect::Made(Fd(slot))]).result
}

#[test]
fn a_name_of_a_descriptor_is_what_that_is_open_on() {
    let scene = scene(OPTIONS);
    // As `fchmodat` of glibc does: a descriptor without access.
    scene.open("/f", OpenFlags::O_PATH | OpenFlags::O_NOFOLLOW, 0).unwrap();
    fs::rename(scene.path("f"), scene.path("moved")).unwrap();
    assert_eq!(scene.call(Call::Chmod { file: through(0), mode: 0o751 }), Ok(0));
    assert_eq!(mode(&scene, "moved"), 0o751);
    let times = Call::SetTimes { file: through(0), accessed: None, modified: Some(5_000_000_000) };
    assert_eq!(scene.call(times), Ok(0));
    assert_eq!(fs::metadata(scene.path("moved")).unwrap().mtime(), 5);
    assert_eq!(scene.call(Call::Chown { file: through(0), uid: u32::MAX, gid: u32::MAX }), Ok(0));
    assert_eq!(scene.call(Call::Access { file: through(0), mode: AccessMode::R_OK }), Ok(0));
    assert_eq!(scene.call(Call::Truncate { file: through(0), len: 77 }), Ok(0));
    let seen = scene.call_as(Call::Stat { file: through(0), seen: None }, Outcome::Done(0), Vec::new()).seen;
    assert_eq!(seen, Some((FileKind::Regular, 77)));
    let own = Object::Path { at: alias(0), follow: false };
    let seen = scene.call_as(Call::Stat { file: own, seen: None }, Outcome::Done(0), Vec::new()).seen;
    assert_eq!(seen, Some((FileKind::Regular, 77)), "a forged trace does not reach the link itself");
    assert_eq!(open(&scene, alias(0), RW, 1), Ok(0));
    assert_eq!(scene.call(Call::Read { fd: Fd(1), len: 100, parts: 0 }), Ok(77));
    assert!(!scene.path("proc").exists());
}

#[test]
fn a_file_without_a_name_is_published_by_the_name_of_its_descriptor() {
    let scene = scene(OPTIONS);
    scene.open("/d", RW | OpenFlags::O_TMPFILE, 0).unwrap();
    scene.call(Call::Write { fd: Fd(0), len: 79, parts: 0 }).unwrap();
    assert_eq!(scene.call(Call::Link { from: through(0), to: At::cwd("/d/new") }), Ok(0));
    assert_eq!(read_all(&scene.path("d/new")).len(), 79);
}

#[test]
fn a_pipe_is_opened_again_by_the_name_of_its_descriptor() {
    let scene = scene(OPTIONS);
    let pipe = Call::Pipe { seen_read: Fd(0), seen_write: Fd(1), flags: OpenFlags::empty() };
    let made = vec![SlotEffect::Made(Fd(0)), SlotEffect::Made(Fd(1))];
    scene.call_as(pipe, Outcome::Done(0), made).result.unwrap();
    assert_eq!(open(&scene, alias(0), OpenFlags::READ, 2), Ok(0));
    let advice = Call::Advise { fd: Fd(2), offset: 0, len: 0, advice: Advice::Sequential };
    assert_eq!(scene.call(advice), Err(Traced::ESPIPE));
    scene.call_as(Call::Write { fd: Fd(1), len: 5, parts: 0 }, Outcome::Done(5), Vec::new()).result.unwrap();
    let read = scene.call_as(Call::Read { fd: Fd(2), len: 100, parts: 0 }, Outcome::Done(5), Vec::new());
    assert_eq!(read.result, Ok(5));
}

#[test]
fn a_name_of_a_descriptor_outside_is_left_alone() {
    let scene = scene(OPTIONS);
    let socket = Call::MakeFd { source: FdSource::Socket, from: Fd(-1), name: Word::default(), cloexec: true };
    scene.call_as(socket, Outcome::Done(3), vec![SlotEffect::Made(Fd(0))]).result.unwrap();
    let asked = scene.call_as(Call::Chmod { file: through(0), mode: 0o600 }, Outcome::Done(0), Vec::new());
    assert_eq!(asked.skipped, Some(Skip::Outside));
    assert_eq!(scene.call(Call::Chmod { file: through(7), mode: 0o600 }), Err(Traced::EBADF));
}

#[test]
fn a_lock_that_another_holds_is_not_waited_for() {
    let scene = scene(OPTIONS);
    scene.open("/f", RW, 0).unwrap();
    scene.open("/f", RW, 1).unwrap();
    let lock = |fd, kind| {
        let call = Call::Flock { fd: Fd(fd), kind, wait: true };
        scene.call_as(call, Outcome::Done(0), Vec::new()).skipped
    };
    assert_eq!(lock(0, LockKind::Exclusive), None);
    assert_eq!(lock(1, LockKind::Exclusive), Some(Skip::Contended));
    assert_eq!(lock(0, LockKind::Unlock), None);
    assert_eq!(lock(1, LockKind::Exclusive), None);
}
