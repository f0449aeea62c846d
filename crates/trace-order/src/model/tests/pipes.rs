//! `vmsplice` in both directions, and directories that the kernel makes up.

use super::*;

#[test]
fn a_vmsplice_on_the_end_that_is_read_is_a_read() {
    let mut story = Story::new(1, &[]);
    let pipe = Call::Pipe { seen_read: Fd(3), seen_write: Fd(4), flags: OpenFlags::empty() };
    let write = |fd, parts| Call::Write { fd: Fd(fd), len: 60, parts };
    story.ok(0, pipe).act(0, write(4, 1), Outcome::Done(60)).act(0, write(3, 1), Outcome::Done(60));
    story.fails(0, write(3, 0), Errno::EBADF);
    let program = compile(story.trace, &mut |_| {}).expect("a sound trace");
    let names: Vec<&str> = program.steps().iter().map(|step| step.call.name()).collect();
    assert_eq!(names, ["pipe", "write", "read", "write"]);
}

#[test]
fn what_a_directory_of_proc_lists_is_not_compared() {
    let mut story = Story::new(1, &["/proc/", "/proc/1/", "/d/"]);
    for (fd, path) in (3..).zip(["/proc/1", "/d"]) {
        let list = Call::ReadDir { fd: Fd(fd), len: 512 };
        story.opens(0, path, OpenFlags::READ, i64::from(fd)).act(0, list, Outcome::Done(48));
    }
    let program = compile(story.trace, &mut |_| {}).expect("a sound trace");
    let reads = program.steps().iter().filter(|step| matches!(step.call, Call::ReadDir { .. }));
    let not_compared: Vec<bool> = reads.map(|step| step.notes.contains(Notes::MADE_UP)).collect();
    assert_eq!(not_compared, [true, false]);
}
