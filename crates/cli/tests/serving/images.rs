//! Images that become volumes of a served stack, and volumes that become images.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{ESKER, Server, check_esker, check_tool, esker, write_image};

const STACK: &str = "a = file path=DIR/a.img size=128MiB; vm = thin ports=\"db=16MiB\" on a; \
                     export db = vm.db nbd=unix:DIR/db.sock";
const BYTES: usize = 16 << 20;

/// What `esker volume WORDS` prints.
fn volume(server: &Server, words: &[&str]) -> String {
    let done = esker(&[&["volume"], words, &["--control", &server.control]].concat());
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("it is text")
}

fn json(server: &Server, words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&volume(server, &[words, &["--json"]].concat())).expect("it is JSON")
}

fn names(server: &Server) -> Vec<String> {
    let list = json(server, &["list"]);
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_string()).collect()
}

/// Checks that two images or exports hold the same bytes.
fn compare(format: &str, one: &str, other: &str) {
    check_tool("qemu-img", &["compare", "-f", "raw", "-F", format, one, other]);
}

#[test]
fn an_image_becomes_a_volume_that_changes_and_becomes_images_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    write_image(Path::new(&at("in.raw")), BYTES);
    check_tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &at("in.raw"), &at("in.qcow2")]);
    let server = Server::start(dir.path(), STACK, &[]);
    let refused = check_esker(&["volume", "import", &at("in.qcow2"), "db", "--control", &server.control], 1);
    assert!(refused.contains("\"db\" has a port"), "{refused}");
    assert_eq!(volume(&server, &["import", &at("in.qcow2"), "db", "--force"]), "volume db: 16.0 MiB\n");
    compare("raw", &at("in.raw"), &server.uris[0]);
    let info = json(&server, &["info", "db"]);
    assert_eq!((&info["mapped_bytes"], &info["exclusive_bytes"]), (&(8 << 20).into(), &(8 << 20).into()));

    volume(&server, &["snapshot", "db", "monday"]);
    volume(&server, &["hold", "monday"]);
    check_tool("qemu-io", &["-f", "raw", "-c", "write -P 7 64k 128k", "-c", "flush", &server.uris[0]]);
    let apart = json(&server, &["diff", "monday", "db"]);
    let range = |start: u64, first: &str| serde_json::json!({ "start": start << 10, "length": 64 << 10, "first": first, "second": "data" });
    assert_eq!(apart, serde_json::json!([range(64, "hole"), range(128, "data")]));
    let map = json(&server, &["map", "monday"]);
    let wanted = serde_json::json!({
        "start": 128 << 10, "length": 64 << 10, "depth": 0, "present": true, "zero": false, "data": true,
    });
    assert_eq!((&map[0]["depth"], &map[2]), (&1.into(), &wanted), "what changed since is no more shared");
    let info = json(&server, &["info", "db"]);
    let kept = serde_json::json!([{ "name": "monday", "bytes": BYTES, "held": true }]);
    assert_eq!((&info["snapshots"], &info["shared_bytes"]), (&kept, &((8 << 20) - (64 << 10)).into()));

    for (format, name) in [("qcow2", "out.qcow2"), ("vmdk", "out.vmdk"), ("raw", "out.raw")] {
        volume(&server, &["export", "monday", &at(name)]);
        compare(format, &at("in.raw"), &at(name));
        assert!(fs::metadata(at(name)).unwrap().blocks() * 512 < 9 << 20, "{name} has holes");
    }
    volume(&server, &["export", "db", &at("now"), "--format", "vhdx"]);
    check_tool("qemu-img", &["compare", "-f", "vhdx", "-F", "raw", &at("now"), &server.uris[0]]);
    assert_eq!(names(&server), ["db", "monday"], "nothing stays of an export");
    let refused = check_esker(&["volume", "export", "db", &at("out.raw"), "--control", &server.control], 1);
    assert!(refused.contains("add --force"), "{refused}");
    // Another stack takes the export itself.
    let to = format!("b = file path={} size=128MiB; vm = thin ports=\"other=1MiB\" on b", at("b.img"));
    check_esker(&["volume", "import", &server.uris[0], "copy", "--stack", &to], 0);
    check_esker(&["volume", "export", "copy", &at("copy.raw"), "--stack", &to], 0);
    compare("raw", &at("copy.raw"), &server.uris[0]);
    server.stop();
}

/// The same with no other program within reach.
fn alone(words: &[&str]) -> Output {
    Command::new(ESKER).arg("volume").args(words).env("PATH", "").output().expect("the program starts")
}

#[test]
fn raw_images_need_no_other_program_and_others_name_the_package() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let stack = format!("a = file path={} size=64MiB; vm = thin ports=\"db=1MiB\" on a", at("a.img"));
    write_image(Path::new(&at("in.raw")), 1_000_000);
    check_tool("qemu-img", &["create", "-q", "-f", "qcow2", &at("in.qcow2"), "1M"]);
    let done = alone(&["import", &at("in.raw"), "new", "--stack", &stack]);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "volume new: 980.0 KiB\n", "{done:?}");
    let done = alone(&["export", "new", &at("out.raw"), "--stack", &stack]);
    assert!(done.status.success(), "{done:?}");
    let mut wanted = fs::read(at("in.raw")).unwrap();
    wanted.resize(980 << 10, 0);
    assert!(fs::read(at("out.raw")).unwrap() == wanted, "the bytes differ");
    for words in [["import", &at("in.qcow2"), "other"], ["export", "new", &at("out.qcow2")]] {
        let done = alone(&[&words[..], &["--stack", &stack]].concat());
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(1) && told.contains("package `qemu-utils`"), "{told}");
    }
    let done = esker(&["volume", "list", "--stack", &stack]);
    assert!(!String::from_utf8_lossy(&done.stdout).contains("-exporting"), "nothing stays of what was refused");
    assert!(!Path::new(&at("out.qcow2.part")).exists());
}

#[test]
fn an_image_that_names_other_files_is_taken_only_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let stack = format!("a = file path={} size=64MiB; vm = thin ports=\"db=1MiB\" on a", at("a.img"));
    fs::write(at("secret"), vec![7; 1 << 20]).unwrap();
    check_tool("qemu-img", &["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &at("secret"), &at("in.qcow2")]);
    let refused = check_esker(&["volume", "import", &at("in.qcow2"), "new", "--stack", &stack], 1);
    assert!(refused.contains(&at("secret")) && refused.contains("--format qcow2"), "{refused}");
    check_esker(&["volume", "import", &at("in.qcow2"), "new", "--format", "qcow2", "--stack", &stack], 0);
    fs::write(at("bad.qcow2"), b"QFI\xfb and no more").unwrap();
    let refused = check_esker(&["volume", "import", &at("bad.qcow2"), "bad", "--stack", &stack], 1);
    assert!(refused.contains("qemu-img fails: "), "{refused}");
}
