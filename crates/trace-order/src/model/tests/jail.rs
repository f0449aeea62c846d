//! Processes with a root of their own, and names of sockets.

use super::*;
use esker_trace_calls::words::FdSource;

fn made(story: &mut Story, path: &str, fd: i64) {
    let open = Call::Open { at: At::cwd(path), flags: MAKE, mode: 0o644, resolve: ResolveFlags::empty() };
    story.act(0, open, Outcome::Done(fd)).ok(0, Call::Close { fd: Fd(fd as i32) });
}

/// The paths that a replay opens, in their order.
fn opened(program: &Program) -> Vec<String> {
    let path = |step: &crate::compiled::Step| match &step.call {
        Call::Open { at, .. } => Some(at.path.to_string()),
        _ => None,
    };
    program.steps().iter().filter_map(path).collect()
}

#[test]
fn paths_of_a_process_with_its_own_root_lead_below_it() {
    let mut story = Story::new(1, &["/jail/", "/jail/etc/", "/jail/link->/etc/file", "/jail/up->../../etc"]);
    story.ok(0, Call::Chroot { at: At::cwd("/jail") });
    story.ok(0, Call::Chdir { file: Object::Path { at: At::cwd("/etc"), follow: true } });
    for (number, path) in (3..).zip(["/a", "/../b", "../c", "d", "/link", "/up/e", "/etc/./../etc/f"]) {
        made(&mut story, path, number);
    }
    let program = compile(story.trace, &mut |_| {}).expect("a sound trace");
    let expected = ["/a", "/b", "/c", "/etc/d", "/etc/file", "/etc/e", "/etc/f"].map(|path| format!("/jail{path}"));
    assert_eq!(opened(&program), expected);
    assert_eq!(program.about().repairs.tallies().count(), 0, "{:?}", program.about().repairs);
}

#[test]
fn a_link_itself_is_removed_and_renamed_below_another_root() {
    let mut story = Story::new(1, &["/jail/", "/jail/link->/elsewhere"]);
    let at = |path: &str| At::cwd(path);
    story.ok(0, Call::Chroot { at: at("/jail") });
    story.ok(0, Call::Rename { from: at("/link"), to: at("/moved"), flags: RenameFlags::empty() });
    story.ok(0, Call::Mkdir { at: at("/new/"), mode: 0o755 });
    story.ok(0, Call::Unlink { at: at("/moved") });
    let program = compile(story.trace, &mut |_| {}).expect("a sound trace");
    assert_eq!(program.about().repairs.tallies().count(), 0, "{:?}", program.about().repairs);
    let paths: Vec<String> =
        program.steps().iter().skip(1).flat_map(|step| step.call.ats()).map(|at| at.path.to_string()).collect();
    assert_eq!(paths, ["/jail/link", "/jail/moved", "/jail/new/", "/jail/moved"]);
}

#[test]
fn a_socket_that_is_bound_has_a_name() {
    let mut story = Story::new(1, &["/d/", "/d/file"]);
    let socket = Call::MakeFd { source: FdSource::Socket, from: Fd(-1), name: Default::default(), cloexec: false };
    let bind = |path: &str| Call::Bind { fd: Fd(3), at: At::cwd(path), mode: 0o777 };
    story.act(0, socket, Outcome::Done(3)).ok(0, Call::Umask { mask: 0o027 }).ok(0, bind("/d/s"));
    story.fails(0, bind("/d/s"), Errno::EADDRINUSE).fails(0, bind("/d/file"), Errno::EADDRINUSE);
    story.fails(0, bind("/none/s"), Errno::ENOENT).ok(0, Call::Unlink { at: At::cwd("/d/s") }).ok(0, bind("/d/s"));
    let program = compile(story.trace, &mut |_| {}).expect("a sound trace");
    assert_eq!(program.about().repairs.tallies().count(), 0, "{:?}", program.about().repairs);
    let modes: Vec<u16> = program
        .steps()
        .iter()
        .filter_map(|step| if let Call::Bind { mode, .. } = &step.call { Some(*mode) } else { None })
        .collect();
    assert!(modes.len() == 5 && modes.iter().all(|mode| *mode == 0o750), "{modes:?}");
}
