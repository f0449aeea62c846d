//! Mounts from their beginning to their end, by the superuser and by an ordinary user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::{
    ESKER, Place, USER, can_run, can_run_as_user, check_tool, is_mounted, refused, text, transports, users_server,
};

#[test]
fn a_file_system_is_mounted_used_and_taken_away() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    for (cache, transport) in
        ["through", "writeback", "none"].into_iter().flat_map(|cache| transports().iter().map(move |way| (cache, way)))
    {
        let mut server = place.mount(&at, &["--cache", cache, "--transport", transport, "-o", "size=32MiB,mode=1777"]);
        assert_eq!(fs::metadata(&at).unwrap().mode() & 0o7777, 0o1777);
        fs::write(at.join("f"), b"bytes").unwrap();
        assert!(check_tool("df", &["--output=size", "-B1", text(&at)]).contains("33554432"));
        check_tool("runuser", &["-u", USER, "--", "sh", "-c", &format!("cat {0}/f; touch {0}/own", text(&at))]);
        assert!(!check_tool(ESKER, &["umount", text(&at)]).contains("waiting"));
        // `esker umount` has waited for it, but its parent may not have been told yet.
        server.end();
        assert!(!is_mounted(&at) && fs::read_dir(&at).unwrap().next().is_none(), "{cache}");
    }
}

#[test]
fn a_directory_is_mounted_and_what_is_done_there_is_done_below() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let [at, below] = ["mnt", "below"].map(|name| place.directory(name));
    fs::write(below.join("old"), b"old").unwrap();
    let dir = format!("dir={}", text(&below));
    for cache in ["through", "writeback", "none"] {
        let mut server = place.mount_kind("host", &at, &["--cache", cache, "-o", &dir]);
        assert_eq!(fs::read(at.join("old")).unwrap(), b"old");
        fs::write(at.join(cache), b"bytes").unwrap();
        fs::rename(at.join("old"), at.join("moved")).unwrap();
        fs::rename(at.join("moved"), at.join("old")).unwrap();
        check_tool(ESKER, &["umount", text(&at)]);
        server.end();
        assert!(!is_mounted(&at) && fs::read_dir(&at).unwrap().next().is_none(), "{cache}");
        assert_eq!(fs::read(below.join(cache)).unwrap(), b"bytes");
    }
    assert_eq!(fs::read_dir(&below).unwrap().count(), 4);
    // A directory may be mounted over itself: what is mounted is what was there.
    let over = format!("dir={}", text(&below));
    let mut server = place.mount_kind("host", &below, &["-o", &over]);
    assert_eq!(fs::read(below.join("none")).unwrap(), b"bytes");
    check_tool(ESKER, &["umount", text(&below)]);
    server.end();
}

#[test]
fn an_ordinary_user_mounts_through_the_helper() {
    if !can_run_as_user() {
        return;
    }
    let place = Place::new();
    let at = place.users_directory();
    let as_user = |line: String| check_tool("runuser", &["-u", USER, "--", "sh", "-c", &line]);
    let at_text = text(&at);
    let newest = transports()[transports().len() - 1];
    let mut server = place.mount_as_user(&at, &["--transport", newest]);
    as_user(format!("cd {at_text} && mkdir d && echo bytes > d/f && ln -s f d/l && cat d/l && stat -c %u d/f"));
    // Others do not enter it, the superuser included.
    assert_eq!(fs::metadata(at.join("d")).unwrap_err().raw_os_error(), Some(13));
    as_user(format!("{ESKER} umount {at_text}"));
    server.end();
    assert!(!is_mounted(&at));
    // In the background, and by a signal.
    as_user(format!("{ESKER} mount ram {at_text} --background"));
    as_user(format!("echo x > {at_text}/x"));
    as_user(format!("{ESKER} umount {at_text}"));
    assert!(!is_mounted(&at));
    let mut server = place.mount_as_user(&at, &[]);
    check_tool("kill", &["-TERM", &users_server(&at)]);
    server.end();
    assert!(!is_mounted(&at));
}

#[test]
fn an_ordinary_user_makes_an_lfs_fills_it_and_reads_a_snapshot() {
    if !can_run_as_user() {
        return;
    }
    let place = Place::new();
    let home = text(&place.users_directory()).to_string();
    let as_user = |line: &str| {
        let line = format!("cd {home} && ON='disk = file path=lfs.img size=64MiB direct=false @' && {line}");
        check_tool("runuser", &["-u", USER, "--", "sh", "-c", &line.replace("esker ", &format!("{ESKER} "))])
    };
    as_user("mkdir m && esker fs mkfs lfs --on \"$ON\"");
    as_user("esker mount lfs m --on \"$ON\" --control lfs.ctl --background");
    as_user("mkdir m/d && echo bytes > m/d/f && ln -s d m/l");
    let number = as_user("esker lfs snapshot --mount lfs --control lfs.ctl");
    as_user("rm -r m/d m/l && esker lfs clean --mount lfs --control lfs.ctl");
    assert!(as_user("esker top --once --control lfs.ctl").contains("clean_segments"));
    as_user("esker umount m");
    as_user(&format!("esker mount lfs m --on \"$ON\" --background -o checkpoint={}", number.trim()));
    assert_eq!(as_user("cat m/l/f; esker umount m"), "bytes\n");
    assert!(as_user("esker fs check lfs --on \"$ON\"").starts_with("clean: "));
}

#[test]
fn a_killed_server_fails_calls_at_once_and_is_cleaned_up() {
    if !can_run(&[]) {
        return;
    }
    for transport in transports() {
        killed_under_load(transport);
    }
}

fn killed_under_load(transport: &str) {
    let place = Place::new();
    let at = place.directory("mnt");
    let mut server = place.mount(&at, &["--cache", "writeback", "--transport", transport]);
    let open = fs::File::create(at.join("f")).unwrap();
    // Calls that wait when it is killed end too.
    let held = at.clone();
    let busy = std::thread::spawn(move || while fs::write(held.join("g"), [1; 5000]).is_ok() {});
    std::thread::sleep(Duration::from_millis(50));
    server.kill();
    busy.join().unwrap();
    fails_at_once(&at.join("new"));
    let error = refused(ESKER, &["mount", "ram", text(&at)]);
    assert!(error.contains("has ended") && error.contains("esker umount"), "{error}");
    assert!(check_tool(ESKER, &["umount", text(&at)]).contains("had ended"), "also while a file is open");
    assert!(!is_mounted(&at));
    drop(open);
}

/// The kernel ends requests in its queues with ECONNABORTED (103), and each later call with ENOTCONN (107).
fn fails_at_once(path: &Path) {
    let start = Instant::now();
    loop {
        match fs::metadata(path).unwrap_err().raw_os_error() {
            Some(107) => return,
            Some(103) if start.elapsed() < Duration::from_secs(5) => {}
            other => panic!("errno {other:?} after {:?}", start.elapsed()),
        }
    }
}

#[test]
fn a_killed_server_of_a_user_is_cleaned_up_by_the_user() {
    if !can_run_as_user() {
        return;
    }
    let place = Place::new();
    let at = place.users_directory();
    let mut server = place.mount_as_user(&at, &[]);
    check_tool("kill", &["-KILL", &users_server(&at)]);
    server.wait();
    check_tool("runuser", &["-u", USER, "--", ESKER, "umount", text(&at)]);
    assert!(!is_mounted(&at));
}

#[test]
fn what_is_in_use_is_named_and_a_signal_serves_it_to_the_end() {
    if !can_run(&[]) {
        return;
    }
    for transport in transports() {
        stopped_in_use(transport);
    }
}

fn stopped_in_use(transport: &str) {
    let place = Place::new();
    let at = place.directory("mnt");
    let mut server = place.mount(&at, &["--transport", transport]);
    let file = fs::File::create(at.join("f")).unwrap();
    let error = refused(ESKER, &["umount", text(&at)]);
    let own = format!("process {} (", std::process::id());
    assert!(error.contains("in use") && error.contains(&own) && error.contains("/f open"), "{error}");
    assert!(is_mounted(&at));
    server.signal("TERM");
    let start = Instant::now();
    while is_mounted(&at) {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    std::io::Write::write_all(&mut &file, b"still served").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 12);
    assert!(!server.ended());
    drop(file);
    server.end();
}
