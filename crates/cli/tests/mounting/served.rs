//! Mounts of a stack text, held by `esker serve`.

use std::fs;
use std::process::Command;

use crate::harness::{ESKER, Place, can_run, check_tool, is_mounted, refused, text};

/// Seconds within which what a server does by itself must be done.
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_stack_of_mounts_alone_is_served_watched_and_stopped() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let (scratch, notes) = (place.directory("scratch"), place.directory("notes"));
    let file = place.path("stack.toml");
    let stack = format!(
        "[[mount]]\nfs = \"ram\"\nat = \"{}\"\noptions = [\"size=32MiB\", \"mode=1777\"]\n\n[[mount]]\nname = \"n\"\n\
         fs = \"ram\"\nat = \"{}\"\ncache = \"writeback\"\n",
        text(&scratch),
        text(&notes)
    );
    fs::write(&file, stack).unwrap();
    assert!(check_tool(ESKER, &["stack", "check", text(&file)]).contains("mounts: 2"));
    let (mut server, told) = place.serve(text(&file), &[]);
    let expected = [format!("mount scratch: ram at {}", text(&scratch)), format!("mount n: ram at {}", text(&notes))];
    assert_eq!(told[..2], expected);
    fs::write(scratch.join("f"), b"bytes").unwrap();
    assert!(check_tool("df", &["--output=size", "-B1", text(&scratch)]).contains("33554432"));
    let control = ["--control", text(&place.path("esker.ctl"))].map(str::to_string);
    let ask = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(control.iter().map(String::as_str)).collect();
        check_tool(ESKER, &words)
    };
    let status = ask(&["status"]);
    let row = |page: &str, words: &[&str]| {
        let has = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(&words.join(" "));
        page.lines().any(has)
    };
    assert!(row(&status, &["scratch", "ram", "-", "through", "mounted", text(&scratch)]), "{status}");
    assert!(row(&status, &["mount scratch", "requests WRITE", "1"]), "{status}");
    let status: serde_json::Value = serde_json::from_str(&ask(&["status", "--json"])).unwrap();
    assert!(
        status["mounts"][0]["requests"]["CREATE"].as_u64() > Some(0)
            || status["mounts"][0]["requests"]["MKNOD"].as_u64() > Some(0),
        "{status}"
    );
    assert_eq!(status["mounts"][1]["cache"], "writeback");
    assert!(ask(&["stack", "dump"]).contains("cache = \"writeback\""));
    // One is taken away: it is flushed, and the other is served on.
    assert!(!check_tool(ESKER, &["umount", text(&scratch)]).contains("waiting"));
    wait_until("the status says so", || row(&ask(&["status"]), &["through", "unmounted"]));
    fs::write(notes.join("f"), b"bytes").unwrap();
    ask(&["stop"]);
    server.end();
    assert!(!is_mounted(&notes) && fs::read_dir(&notes).unwrap().next().is_none());
}

#[test]
fn mounts_stand_beside_exports_and_a_signal_takes_both() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    let stack = format!("vol = memory size=1MiB @ nbd=unix:{}; mount m = ram at={}", text(&place.path("s")), text(&at));
    let (mut server, told) = place.serve(&stack, &["--json"]);
    let told: Vec<serde_json::Value> = told.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&told[0]["export"], &told[1]["mount"], &told[1]["fs"]), (&"vol".into(), &"m".into(), &"ram".into()));
    assert_eq!(told[1]["at"], text(&at));
    let file = fs::File::create(at.join("f")).unwrap();
    server.signal("TERM");
    wait_until("it leaves the tree", || !is_mounted(&at));
    std::io::Write::write_all(&mut &file, b"still served").unwrap();
    assert!(!server.ended());
    drop(file);
    server.end();
}

#[test]
fn a_mount_that_fails_undoes_the_start_unless_it_may_be_missing() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    let image = place.path("d.img");
    let stack = format!(
        "d = file path={} size=1MiB direct=false @ nbd=unix:{}; mount good = ram at={}; mount bad = ram at={}",
        text(&image),
        text(&place.path("s")),
        text(&at),
        text(&place.path("none")),
    );
    let control = place.path("esker.ctl");
    let error = refused(ESKER, &["serve", &stack, "--control", text(&control)]);
    assert!(error.contains("mount \"bad\" cannot be used: ") && error.contains("No such file"), "{error}");
    assert!(!is_mounted(&at) && !image.exists(), "nothing stays of it");
    let (mut server, told) = place.serve(&stack, &["--degraded-start"]);
    assert!(told.iter().any(|line| line.starts_with("mount good: ")), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("bad")), "{told:?}");
    let unwell = refused(ESKER, &["status", "--control", text(&control)]);
    assert!(unwell.contains("! mount \"bad\" cannot be used: "), "{unwell}");
    server.signal("TERM");
    server.end();
    let wrong = refused(ESKER, &["serve", &stack.replace("= ram", "= rum"), "--control", text(&control)]);
    assert!(wrong.contains("no file system \"rum\"; kinds: ram"), "{wrong}");
}

#[test]
fn a_killed_server_leaves_mounts_that_the_next_start_names() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let at = place.directory("mnt");
    let stack = format!("mount m = ram at={}", text(&at));
    let (mut server, _) = place.serve(&stack, &[]);
    server.kill();
    let control = place.path("esker.ctl");
    let error = refused(ESKER, &["serve", &stack, "--control", text(&control)]);
    assert!(error.contains("has ended; `esker umount"), "{error}");
    assert!(check_tool(ESKER, &["umount", text(&at)]).contains("had ended"));
    let (mut server, _) = place.serve(&stack, &[]);
    server.signal("TERM");
    server.end();
    assert!(!is_mounted(&at));
}

#[test]
fn verbs_that_mount_nothing_pass_mounts_over_or_refuse_them() {
    let stack = "vol = memory size=1MiB @; mount m = ram at=/nowhere";
    let output = Command::new(ESKER).args(["stack", "explain", stack]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = Command::new(ESKER).args(["try", "--stack", stack]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("has mounts; block traces are played on exports"), "{told}");
}

#[test]
fn an_lfs_keeps_snapshots_gives_room_back_and_is_whole_behind_a_kill() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let (at, old, image) = (place.directory("mnt"), place.directory("old"), place.path("lfs.img"));
    let disk = format!("disk = file path={} size=256MiB direct=false @", text(&image));
    let on = ["--on", &disk];
    assert!(check_tool(ESKER, &[&["fs", "mkfs", "lfs", "--live-counters"][..], &on].concat()).starts_with("made "));
    let stack = format!("{}; mount m = lfs at={} on disk", disk.trim_end_matches(" @"), text(&at));
    let control = ["--control", text(&place.path("esker.ctl"))].map(str::to_string);
    let ask = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(control.iter().map(String::as_str)).collect();
        check_tool(ESKER, &words)
    };
    let (mut server, _) = place.serve(&stack, &[]);
    let bytes: Vec<u8> = (0..40_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(at.join("kept"), &bytes).unwrap();
    let number = ask(&["lfs", "snapshot", "--mount", "m"]).trim().to_string();
    fs::remove_file(at.join("kept")).unwrap();
    for round in 0..6 {
        fs::write(at.join("other"), &bytes[round..]).unwrap();
        check_tool("sync", &["-f", text(&at)]);
        fs::File::open(at.join("other")).unwrap().sync_all().unwrap();
    }
    assert!(ask(&["lfs", "clean", "--mount", "m"]).contains("clean segments"));
    assert!(
        ask(&["lfs", "checkpoints", "--mount", "m"]).lines().any(|line| line.starts_with(&format!("{number} ss ")))
    );
    server.kill();
    check_tool("umount", &["-l", text(&at)]);
    let checked = check_tool(ESKER, &[&["fs", "check", "lfs"][..], &on].concat());
    assert!(checked.starts_with("clean: ") && checked.contains("1 of them snapshots"), "{checked}");
    let both = format!("checkpoint={number},cleaner=off");
    let error = refused(ESKER, &[&["mount", "lfs", text(&old), "-o", &both][..], &on].concat());
    assert!(error.contains("-o cleaner has no effect beside -o checkpoint"), "{error}");
    let stack =
        format!("{}; mount o = lfs at={} options=checkpoint={number} on disk", disk.trim_end_matches(" @"), text(&old));
    let (mut server, _) = place.serve(&stack, &[]);
    assert!(fs::read(old.join("kept")).unwrap() == bytes, "the snapshot has what was deleted");
    assert!(fs::write(old.join("new"), b"").is_err(), "a checkpoint takes no changes");
    ask(&["stop"]);
    server.end();
    let undone = check_tool(ESKER, &[&["lfs", "snapshot", &number, "--undo"][..], &on].concat());
    assert_eq!(undone.trim(), number);
}

#[test]
fn a_cleaner_as_a_process_of_its_own_cleans_a_mount_and_heeds_its_file() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let (at, image, file) = (place.directory("mnt"), place.path("lfs.img"), place.path("cleaner.conf"));
    let disk = format!("disk = file path={} size=128MiB direct=false", text(&image));
    let made = ["fs", "mkfs", "lfs", "--live-counters", "--segment", "512KiB", "--on", &format!("{disk} @")];
    check_tool(ESKER, &made);
    let stack = |options: &str| format!("{disk}; mount m = lfs at={} options={options} on disk", text(&at));
    let (mut server, _) = place.serve(&stack("cleaner=off"), &[]);
    for round in 0..4_u8 {
        fs::write(at.join("file"), vec![round; 8 << 20]).unwrap();
        fs::File::open(at.join("file")).unwrap().sync_all().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    let (control, log) = (place.path("esker.ctl"), place.path("cleaner.log"));
    let words = |more: &[&'static str]| {
        let own =
            ["lfs", "cleaner", "m", "--config", text(&file), "--control", text(&control), "--log-file", text(&log)];
        own.into_iter().map(str::to_string).chain(more.iter().map(ToString::to_string)).collect::<Vec<_>>()
    };
    let once = || {
        let output = Command::new(ESKER).args(words(&["--once"])).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let is_busy = || {
        let (is_done, told) = once();
        !is_done && told.contains("another cleaner works") && told.contains("mount with -o cleaner=off")
    };
    fs::write(&file, "min_clean_segments 100%\nselection_policy best\n").unwrap();
    let (is_done, error) = once();
    assert!(!is_done && error.contains("cleaner.conf: line 2: there is no policy `best`"), "{error}");
    fs::write(&file, "min_clean_segments 100%\nmax_clean_segments 100%\nmc_cleaning_interval 0\n").unwrap();
    let (is_done, error) = once();
    assert!(is_done, "{error}");
    let told = fs::read_to_string(&log).unwrap();
    let steps = told.lines().filter(|line| line.contains("cleaner: cleaned: segments [")).count();
    assert!(steps > 2, "{told}");
    assert_eq!(fs::read(at.join("file")).unwrap(), vec![3; 8 << 20]);
    // One that goes on, with a file that changes.
    fs::write(&file, "min_clean_segments 0\n").unwrap();
    let begin = || Command::new(ESKER).args(words(&[])).spawn().unwrap();
    let mut running = begin();
    wait_until("it has the claim", || {
        // A look may take the claim before it does, which ends it.
        if running.try_wait().unwrap().is_some() {
            running = begin();
        }
        is_busy()
    });
    let hang_up = || check_tool("kill", &["-HUP", &running.id().to_string()]);
    fs::write(&file, "late_abort\n").unwrap();
    hang_up();
    let says = |what: &str| fs::read_to_string(&log).unwrap().contains(what);
    wait_until("it refuses the file", || says("line 1: `late_abort` has no value"));
    fs::write(&file, "late_abort off\n").unwrap();
    hang_up();
    wait_until("it reads the file anew", || says("read anew"));
    check_tool("kill", &["-TERM", &running.id().to_string()]);
    assert!(running.wait().unwrap().success());
    let clean = ["status", "--control", text(&control)];
    assert!(check_tool(ESKER, &clean).contains("clean_segments"));
    check_tool(ESKER, &["stop", "--control", text(&control)]);
    server.end();
    // The mount's own cleaner has the claim.
    let (mut server, _) = place.serve(&stack("cleaner=greedy"), &[]);
    fs::write(&file, "").unwrap();
    wait_until("it has the claim", is_busy);
    check_tool(ESKER, &["stop", "--control", text(&control)]);
    server.end();
    assert!(check_tool(ESKER, &["fs", "check", "lfs", "--on", &format!("{disk} @")]).starts_with("clean: "));
}

#[test]
fn a_mount_without_a_server_takes_orders_at_a_socket() {
    if !can_run(&[]) {
        return;
    }
    let place = Place::new();
    let (at, control, file) = (place.directory("mnt"), place.path("lfs.ctl"), place.path("cleaner.conf"));
    let disk = format!("disk = file path={} size=64MiB direct=false @", text(&place.path("lfs.img")));
    check_tool(ESKER, &["fs", "mkfs", "lfs", "--on", &disk]);
    fs::write(&file, "").unwrap();
    let mut server = place.mount_kind("lfs", &at, &["--on", &disk, "-o", "cleaner=off", "--control", text(&control)]);
    let at_socket = ["--control", text(&control)];
    let number = check_tool(ESKER, &[&["lfs", "snapshot", "--mount", "lfs"][..], &at_socket].concat());
    let listed = check_tool(ESKER, &[&["lfs", "checkpoints", "--mount", "lfs"][..], &at_socket].concat());
    assert!(listed.contains(&format!("{} ss ", number.trim())), "{listed}");
    check_tool(ESKER, &[&["lfs", "cleaner", "lfs", "--once", "--config", text(&file)][..], &at_socket].concat());
    let shown = check_tool(ESKER, &[&["top", "--once"][..], &at_socket].concat());
    assert!(
        shown.contains("lfs (lfs): ") && shown.contains("clean_segments") && shown.contains("measuring devices"),
        "{shown}"
    );
    assert!(
        refused(ESKER, &[&["lfs", "clean", "--mount", "home"][..], &at_socket].concat())
            .contains("the mount is named \"lfs\"")
    );
    assert!(
        refused(ESKER, &[&["sync"][..], &at_socket].concat())
            .contains("one mount tells its status and takes orders; `esker serve` takes the other commands")
    );
    check_tool(ESKER, &["umount", text(&at)]);
    server.end();
    assert!(
        refused(ESKER, &[&["lfs", "clean", "--mount", "lfs"][..], &at_socket].concat()).contains("no control socket")
    );
}
