//! Foreign clients see what was exported, and their bytes come back.

use std::fs;
use std::path::Path;

use crate::harness::{Server, check_tool, fio_verify, tool, write_image};

const FILE: &str = "d = file path=DIR/d.img size=32MiB direct=false | stats @ nbd=unix:DIR/sock";
const BACKENDS: [&str; 2] = ["uring", "threads"];

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn nbdinfo_sees_size_blocks_and_abilities() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = memory size=32MiB block=4096; export rw = d nbd=unix:DIR/sock; \
                 export ro = d nbd=unix:DIR/sock read_only=true";
    let server = Server::start(dir.path(), stack, &[]);
    let seen = |uri: &str| -> serde_json::Value {
        serde_json::from_str(&check_tool("nbdinfo", &["--json", uri])).expect("nbdinfo prints JSON")
    };
    let [rw, ro] = [&server.uris[0], &server.uris[1]].map(|uri| seen(uri)["exports"][0].clone());
    assert_eq!(rw["export-size"].as_u64(), Some(32 << 20), "{rw}");
    assert_eq!(rw["block_minimum"].as_u64().or(rw["block_size_minimum"].as_u64()), Some(4096), "{rw}");
    for ability in ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn", "can_df"] {
        assert_eq!(rw[ability].as_bool(), Some(true), "{ability}: {rw}");
    }
    assert_eq!([&rw, &ro].map(|export| export["is_read_only"].as_bool()), [Some(false), Some(true)]);
    let list = check_tool("nbdinfo", &["--list", "--json", &server.uris[0]]);
    assert!(list.contains("\"rw\"") && list.contains("\"ro\""), "{list}");
    server.stop();
}

#[test]
fn copied_images_come_back_byte_for_byte_on_both_backends() {
    for io in BACKENDS {
        let dir = tempfile::tempdir().unwrap();
        let (image, copy) = (dir.path().join("in.img"), dir.path().join("out.img"));
        write_image(&image, 32 << 20);
        let server = Server::start(dir.path(), FILE, &["--io", io]);
        let uri = &server.uris[0];
        check_tool("nbdcopy", &["--flush", &text(&image), uri]);
        check_tool("nbdcopy", &[uri, &text(&copy)]);
        check_tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &text(&image), uri]);
        assert!(check_tool("qemu-img", &["info", uri]).contains("32 MiB"));
        let bytes = fs::read(&image).unwrap();
        assert!(bytes == fs::read(&copy).unwrap(), "{io}: the copy differs");
        let status = server.check_status();
        assert_eq!(status["bounced_bytes"].as_u64(), Some(0), "{io}: payload was copied");
        assert_eq!(status["io"].as_str(), Some(if io == "uring" { "io_uring" } else { io }));
        server.stop();
        assert!(bytes == fs::read(dir.path().join("d.img")).unwrap(), "{io}: the file differs");
    }
}

/// A port has sectors of 512 bytes over blocks of 4 KiB: disk images come and go, and what writes sectors loses none.
#[test]
fn a_named_volume_takes_images_and_writes_of_small_sectors() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = file path=DIR/d.img size=512MiB direct=false; vm = thin segment=4MiB ports=\"a=32MiB,b=32MiB\" on d; \
                 export a = vm.a nbd=unix:DIR/sock; export b = vm.b nbd=unix:DIR/sock";
    let (image, copy) = (dir.path().join("in.img"), dir.path().join("out.img"));
    write_image(&image, 32 << 20);
    let server = Server::start(dir.path(), stack, &[]);
    let [a, b] = [&server.uris[0], &server.uris[1]];
    let seen: serde_json::Value = serde_json::from_str(&check_tool("nbdinfo", &["--json", a])).unwrap();
    let seen = &seen["exports"][0];
    let size = |name: &str| seen[format!("block_{name}")].as_u64().or(seen[format!("block_size_{name}")].as_u64());
    assert_eq!((size("minimum"), size("preferred")), (Some(512), Some(4096)), "{seen}");
    check_tool("nbdcopy", &["--flush", "--request-size=4096", &text(&image), a]);
    check_tool("nbdcopy", &[a, &text(&copy)]);
    check_tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &text(&image), b]);
    check_tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &text(&image), b]);
    assert!(fs::read(&image).unwrap() == fs::read(&copy).unwrap(), "the copy differs");
    let words: Vec<String> = fio_verify(a, 3).into_iter().map(|word| word.replace("4k-64k", "512-6k")).collect();
    check_tool("fio", &words.iter().map(String::as_str).collect::<Vec<_>>());
    check_tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &text(&image), b]);
    server.stop();
}

#[test]
fn qemu_img_converts_onto_an_export_and_maps_its_holes() {
    let dir = tempfile::tempdir().unwrap();
    let (image, packed, back) = (dir.path().join("in.img"), dir.path().join("in.qcow2"), dir.path().join("back.qcow2"));
    write_image(&image, 32 << 20);
    check_tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &text(&image), &text(&packed)]);
    let server = Server::start(dir.path(), FILE, &[]);
    let uri = &server.uris[0];
    // The export is there already (-n), new and all zeroes: only data is written.
    let onto = ["convert", "-n", "--target-is-zero", "-f", "qcow2", "-O", "raw", &text(&packed), uri];
    check_tool("qemu-img", &onto);
    check_tool("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", uri, &text(&packed)]);
    let map = check_tool("qemu-img", &["map", "-f", "raw", "--output=json", uri]);
    let map: Vec<serde_json::Value> = serde_json::from_str(&map).expect("the map is JSON");
    let sum = |zero: bool| -> u64 {
        map.iter().filter(|piece| piece["zero"] == zero).filter_map(|piece| piece["length"].as_u64()).sum()
    };
    // Every other 64 KiB is a hole.
    assert_eq!((sum(true), sum(false)), (16 << 20, 16 << 20), "{map:?}");
    let seen = check_tool("nbdinfo", &["--map", "--totals", "--json", uri]);
    assert!(seen.contains(&(16 << 20).to_string()), "{seen}");
    check_tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", uri, &text(&back)]);
    check_tool("qemu-img", &["compare", &text(&packed), &text(&back)]);
    let status = server.check_status();
    assert_eq!(status["bounced_bytes"].as_u64(), Some(0), "payload was copied");
    server.stop();
}

#[test]
fn fio_verifies_what_it_wrote_over_unix_and_tcp() {
    for address in ["unix:DIR/sock", "tcp:127.0.0.1:0"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &FILE.replace("unix:DIR/sock", address), &[]);
        let args = fio_verify(&server.uris[0], 2);
        check_tool("fio", &args.iter().map(String::as_str).collect::<Vec<_>>());
        let status = server.check_status();
        let stats = &status["parts"][1]["stats"];
        assert!(stats["writes"].as_f64() > Some(100.0) && stats["failed"].as_f64() == Some(0.0), "{address}: {stats}");
        server.stop();
    }
}

#[test]
fn a_grown_file_has_its_new_size_when_it_is_served_anew() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = file path=DIR/d.img @ nbd=unix:DIR/sock";
    let sized = |bytes: u64| {
        let file = fs::File::options().create(true).append(true).open(dir.path().join("d.img")).unwrap();
        file.set_len(bytes).unwrap();
        let server = Server::start(dir.path(), stack, &[]);
        assert_eq!(check_tool("nbdinfo", &["--size", &server.uris[0]]).trim(), bytes.to_string());
        server
    };
    let first = sized(8 << 20);
    check_tool("qemu-io", &["-f", "raw", "-c", "write -P 9 7M 1M", &first.uris[0]]);
    first.stop();
    let second = sized(24 << 20);
    let script = ["-f", "raw", "-c", "read -P 9 7M 1M", "-c", "write -P 8 23M 1M", "-c", "read -P 0 8M 15M"];
    check_tool("qemu-io", &[&script[..], &[&second.uris[0]]].concat());
    second.stop();
}

#[test]
fn a_read_only_export_is_read_and_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("d.img");
    write_image(&image, 4 << 20);
    let before = fs::read(&image).unwrap();
    let server =
        Server::start(dir.path(), "d = file path=DIR/d.img; export d = d nbd=unix:DIR/sock read_only=true", &[]);
    let uri = &server.uris[0];
    assert_eq!(check_tool("nbdinfo", &["--is", "read-only", uri]), "");
    check_tool("nbdcopy", &[uri, &text(&dir.path().join("out.img"))]);
    assert!(before == fs::read(dir.path().join("out.img")).unwrap(), "the copy differs");
    let writes: [(&str, &[&str], &str); 2] = [
        ("nbdcopy", &[&text(&image), uri], "read-only"),
        ("qemu-io", &["-f", "raw", "-c", "write 0 4k", uri], "Permission denied"),
    ];
    for (program, args, refusal) in writes {
        let output = tool(program, args).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(refusal), "{program}: {said}");
    }
    server.stop();
    assert!(before == fs::read(image).unwrap(), "the file was changed");
}

#[test]
fn four_connections_of_one_client_share_an_export() {
    let dir = tempfile::tempdir().unwrap();
    let (image, copy) = (dir.path().join("in.img"), dir.path().join("out.img"));
    write_image(&image, 32 << 20);
    let server = Server::start(dir.path(), FILE, &[]);
    let uri = &server.uris[0];
    assert_eq!(check_tool("nbdinfo", &["--can", "multi-conn", uri]), "");
    check_tool("nbdcopy", &["--flush", "--connections=4", "--requests=16", &text(&image), uri]);
    check_tool("nbdcopy", &["--connections=4", uri, &text(&copy)]);
    assert!(fs::read(&image).unwrap() == fs::read(&copy).unwrap(), "the copy differs");
    server.stop();
}
