//! What cannot be mounted is refused, and says why.

use std::fs;

use crate::harness::{ESKER, Place, USER, can_run, can_run_as_user, check_tool, is_mounted, refused, text, transports};

#[test]
fn what_is_wrong_is_named() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    let error = |args: &[&str]| refused(ESKER, &[&["mount"], args].concat());
    assert!(error(&["ram", text(&place.path("nothing"))]).contains("No such file or directory"));
    fs::write(place.path("file"), "").unwrap();
    assert!(error(&["ram", text(&place.path("file"))]).contains("is no directory"));
    let kinds = error(&["rum", text(&at)]);
    assert!(kinds.contains("no file system \"rum\"") && kinds.contains("ram"), "{kinds}");
    assert!(error(&["ram", text(&at), "--on", "vol = memory size=1MiB"]).contains("lies on no device"));
    assert!(error(&["ram", text(&at), "-o", "sise=5"]).contains("-o sise"));
    assert!(error(&["ram", text(&at), "-o", "size=many"]).contains("-o size=many"));
    assert!(error(&["ram", text(&at), "-o", "fast"]).contains("-o fast is no option"));
    let host = |dir: &str| error(&["host", text(&at), "-o", dir]);
    assert!(error(&["host", text(&at)]).contains("add -o dir=PATH"));
    assert!(host("dir=/nothing/here").contains("/nothing/here: No such file or directory"));
    assert!(host(&format!("dir={}", text(&place.path("file")))).contains("Not a directory"));
    assert!(host("size=5").contains("-o size"));
    let behind = error(&["ram", text(&at), "--background", "-o", "size=many"]);
    assert!(behind.contains("-o size=many"), "{behind}");
    assert!(!is_mounted(&at));
}

#[test]
fn a_directory_in_use_is_refused_and_what_is_not_ours_stays() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    let mut server = place.mount(&at, &[]);
    let taken = refused(ESKER, &["mount", "ram", text(&at)]);
    assert!(taken.contains("ram (fuse.esker) is mounted there already"), "{taken}");
    check_tool(ESKER, &["umount", text(&at)]);
    server.end();
    assert!(refused(ESKER, &["umount", text(&at)]).contains("nothing is mounted there"));
    check_tool("mount", &["-t", "tmpfs", "other", text(&at)]);
    assert!(refused(ESKER, &["mount", "ram", text(&at)]).contains("other (tmpfs) is mounted there already"));
    assert!(refused(ESKER, &["umount", text(&at)]).contains("is no file system of Esker"));
    check_tool("umount", &[text(&at)]);
}

#[test]
fn a_user_without_rights_is_told() {
    if !can_run_as_user() {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    let as_user = |args: &[&str]| refused("runuser", &[&["-u", USER, "--", ESKER], args].concat());
    let denied = as_user(&["mount", "ram", text(&at)]);
    assert!(denied.contains("fusermount3 said") && denied.contains("no write access"), "{denied}");
    let privileged = as_user(&["mount", "ram", text(&at), "-o", "dev"]);
    assert!(privileged.contains("take the superuser"), "{privileged}");
    let mut server = place.mount(&at, &[]);
    let others = as_user(&["umount", text(&at)]);
    assert!(others.contains("user 0 mounted it"), "{others}");
    check_tool(ESKER, &["umount", text(&at)]);
    server.end();
    // A path without the helper.
    let line = format!("PATH=/nowhere {ESKER} mount ram {}", text(&at));
    let without = refused("runuser", &["-u", USER, "--", "/bin/sh", "-c", &line]);
    assert!(without.contains("install the package fuse3"), "{without}");
}

#[test]
fn a_kernel_that_lacks_io_uring_is_told_apart_from_one_that_has_it_switched_off() {
    if !can_run(&["unshare"]) || transports().len() == 1 {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    fs::write(place.path("off"), "N\n").unwrap();
    // What the program sees is its own: other tests use the switch.
    let seen = |hidden: &str| {
        let line = format!("{hidden} && exec {ESKER} mount ram {} --transport uring", text(&at));
        refused("unshare", &["--mount", "sh", "-c", &line])
    };
    let switch = "/sys/module/fuse/parameters/enable_uring";
    let off = seen(&format!("mount --bind {} {switch}", text(&place.path("off"))));
    assert!(off.contains(&format!("echo 1 > {switch}")), "{off}");
    let missing = seen("mount -t tmpfs none /sys/module/fuse/parameters");
    assert!(missing.contains("Linux 6.14"), "{missing}");
    assert!(!is_mounted(&at));
}
