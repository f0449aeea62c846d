//! A stack that cannot serve says so: at the start, in the status, to clients and in the metrics.

use std::fs;
use std::path::Path;

use crate::harness::{Server, check_esker, esker, missing, tool};

const SPARES: &str = "h = file path=DIR/h.img size=16MiB direct=false; v = shepherd spares=N on h; \
                      w = memory size=1MiB; n = file path=DIR/n.img size=1MiB direct=false; new = pass on n; \
                      export v = v nbd=unix:DIR/sock; export w = w nbd=unix:DIR/sock; export new = new nbd=unix:DIR/sock";

fn text(dir: &Path, spares: &str) -> String {
    SPARES.replace('N', spares).replace("DIR", &dir.display().to_string())
}

/// Makes the medium, so that another number of spares does not fit it, and loses the file of another export.
fn made(dir: &Path) {
    let server = Server::start(dir, &text(dir, "16"), &[]);
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
    fs::remove_file(dir.join("n.img")).unwrap();
}

#[test]
fn a_start_whose_export_cannot_be_used_ends_with_the_reason_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    let control = dir.path().join("ctl").display().to_string();
    let output = esker(&["serve", &text(dir.path(), "32"), "--control", &control]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*out), (Some(1), ""), "{err}");
    let last = err.lines().last().unwrap();
    assert!(
        last.contains("export \"v\" cannot be used: v cannot be used: the device was made with 16 spare blocks"),
        "{err}"
    );
    assert!(last.contains("--degraded-start") && !err.contains("dead"), "{err}");
    let left = ["n.img", "sock", "ctl"].map(|name| dir.path().join(name).exists());
    assert_eq!((left, dir.path().join("h.img").exists()), ([false; 3], true));
}

#[test]
fn a_degraded_start_serves_the_others_and_says_everywhere_what_it_cannot_serve() {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    let metrics = format!("unix:{}", dir.path().join("metrics").display());
    let server = Server::start(dir.path(), &text(dir.path(), "32"), &["--degraded-start", "--metrics", &metrics]);
    let err = check_esker(&["status", "--control", &server.control], 1);
    assert!(err.contains("v cannot be used: the device was made with 16 spare blocks"), "{err}");
    let status = esker(&["status", "--control", &server.control]);
    let page = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(page.starts_with("! v cannot be used: "), "{page}");
    let top = esker(&["top", "--once", "--control", &server.control]);
    assert!(String::from_utf8_lossy(&top.stdout).contains("! v cannot be used: "), "{top:?}");
    let info =
        |uri: &str| tool("nbdinfo", &[uri]).output().unwrap_or_else(|error| panic!("{}", missing("nbdinfo", &error)));
    assert!(!info(&server.uris[0]).status.success());
    let refused = tool("qemu-io", &["-r", "-f", "raw", "-c", "read 0 4k", &server.uris[0]]).output();
    let refused = refused.unwrap_or_else(|error| panic!("{}", missing("qemu-io", &error)));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("v cannot be used: the device was made with 16 spare blocks"), "{told}");
    assert!(info(&server.uris[1]).status.success(), "another export serves");
    let socket = dir.path().join("metrics").display().to_string();
    let got = tool("curl", &["-s", "--unix-socket", &socket, "http://x/metrics"]).output().expect("curl runs");
    let got = String::from_utf8_lossy(&got.stdout).into_owned();
    for line in ["esker_export_up{export=\"v\"} 0.0", "esker_export_up{export=\"w\"} 1.0"] {
        assert!(got.lines().any(|l| l == line), "{line}\n{got}");
    }
    server.signal("TERM");
    assert_eq!(server.wait(), Some(1));
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("v cannot be used: ") && !log.contains(" is dead"), "{log}");
}

/// One byte of both superblocks of a medium, which begin 4 KiB apart, is another one.
fn spoil_superblocks(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    [100, 4196].into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn a_damaged_medium_ends_the_start_with_a_status_of_its_own_and_nothing_is_begun_anew() {
    let stacks = [
        "cache on h, m",
        "spindown on h, m",
        "offload on h, m",
        "tier devices=\"ssd; sata\" on m, h",
        "dedup size=16MiB on m",
    ];
    for layer in stacks {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "h = file path=DIR/h.img size=16MiB direct=false; m = file path=DIR/m.img size=16MiB direct=false; \
             v = {layer}; export v = v nbd=unix:DIR/sock"
        );
        let text = text.replace("DIR", &dir.path().display().to_string());
        let server = Server::start(dir.path(), &text, &[]);
        server.signal("TERM");
        assert_eq!(server.wait(), Some(0), "{layer}");
        let medium = dir.path().join("m.img");
        let spoiled = spoil_superblocks(&medium);
        let control = dir.path().join("ctl").display().to_string();
        let err = check_esker(&["serve", &text, "--control", &control], 3);
        assert!(err.contains("v cannot be used") && err.contains("restore it from a copy"), "{layer}: {err}");
        assert!(fs::read(&medium).unwrap() == spoiled, "{layer}: the medium is as it was");
    }
}

#[test]
fn damage_below_no_export_does_not_change_the_status_of_another_export() {
    let dir = tempfile::tempdir().unwrap();
    let text = |spares: &str| {
        let text = "h = file path=DIR/h.img size=16MiB direct=false; m = file path=DIR/m.img size=16MiB direct=false; \
                    c = cache on h, m; s = file path=DIR/s.img size=16MiB direct=false; \
                    v = shepherd spares=N on s; export v = v nbd=unix:DIR/sock";
        text.replace('N', spares).replace("DIR", &dir.path().display().to_string())
    };
    let server = Server::start(dir.path(), &text("16"), &[]);
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
    spoil_superblocks(&dir.path().join("m.img"));
    let control = dir.path().join("ctl").display().to_string();
    let err = check_esker(&["serve", &text("32"), "--control", &control], 1);
    assert!(err.contains("c cannot be used") && err.contains("v cannot be used: the device was made with 16"), "{err}");
    let exported = format!("{}; export c = c nbd=unix:{}", text("32"), dir.path().join("other").display());
    check_esker(&["serve", &exported, "--control", &control], 3);
}
