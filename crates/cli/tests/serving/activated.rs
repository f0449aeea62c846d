//! Sockets that a service manager passes.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{ESKER, check_esker, check_tool, tool};
use crate::service::unit;

/// Serves `stack` with two sockets under these names, as descriptors 3 and 4, and waits until it is ready.
fn serve(dir: &Path, stack: &str, sockets: [UnixListener; 2], names: &str) -> Child {
    let [first, second] = sockets.map(OwnedFd::from);
    // The shell, whose number the server keeps, takes them as its standard input and output.
    let script = "exec 3<&0 4<&1 </dev/null >\"$LOG\" && LISTEN_PID=$$ exec \"$@\"";
    Command::new("sh")
        .args(["-c", script, "sh", ESKER, "serve", stack])
        .current_dir(dir)
        .envs([("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", names)])
        .env("LOG", dir.join("out"))
        .stdin(Stdio::from(first))
        .stdout(Stdio::from(second))
        .stderr(File::create(dir.join("err")).unwrap())
        .spawn()
        .unwrap()
}

#[test]
fn passed_sockets_are_served_by_their_names_and_stay_when_the_server_ends() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let sockets = ["nbd", "ctl"].map(|name| UnixListener::bind(dir.path().join(name)).unwrap());
    let copies = sockets.each_ref().map(|socket| socket.try_clone().unwrap());
    // The export has no address of its own.
    let stack = "vol = memory size=1MiB @";
    let mut server = serve(dir.path(), stack, sockets, "esker@x.socket:control");
    // A client that connects before the server is there waits in the socket.
    let uri = format!("nbd+unix:///vol?socket={}", at("nbd"));
    assert_eq!(check_tool("nbdinfo", &["--size", &uri]).trim(), "1048576");
    let status = check_tool(ESKER, &["status", "--control", &at("ctl")]);
    assert!(status.contains(&uri), "{status}");
    assert!(!dir.path().join("esker.ctl").exists(), "the passed socket is the control socket");
    check_esker(&["stop", "--control", &at("ctl")], 0);
    assert!(server.wait().unwrap().success(), "{}", fs::read_to_string(at("err")).unwrap());
    assert!(dir.path().join("nbd").exists() && dir.path().join("ctl").exists(), "they are the manager's");
    // The next one takes the same sockets.
    let mut server = serve(dir.path(), stack, copies, "vol:control");
    assert_eq!(check_tool("nbdinfo", &["--size", &uri]).trim(), "1048576");
    check_esker(&["stop", "--control", &at("ctl")], 0);
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_successor_needs_no_address_that_a_passed_socket_gave() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let sockets = ["nbd", "ctl"].map(|name| UnixListener::bind(dir.path().join(name)).unwrap());
    let stack = "vol = file path=vol.img size=1MiB @";
    let mut server = serve(dir.path(), stack, sockets, "esker@x.socket:control");
    let uri = format!("nbd+unix:///vol?socket={}", at("nbd"));
    assert_eq!(check_tool("nbdinfo", &["--size", &uri]).trim(), "1048576");
    let successor = ["serve", stack, "--take-over", "--control", &at("ctl")];
    let mut successor = tool(ESKER, &successor).current_dir(dir.path()).spawn().unwrap();
    assert!(server.wait().unwrap().success(), "{}", fs::read_to_string(at("err")).unwrap());
    assert_eq!(check_tool("nbdinfo", &["--size", &uri]).trim(), "1048576");
    check_esker(&["stop", "--control", &at("ctl")], 0);
    assert!(successor.wait().unwrap().success());
    assert!(dir.path().join("nbd").exists() && dir.path().join("ctl").exists(), "they are the manager's");
}

#[test]
fn a_socket_that_is_for_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sockets = || {
        ["nbd", "ctl"].map(|name| {
            let path = dir.path().join(name);
            let _gone = fs::remove_file(&path);
            UnixListener::bind(path).unwrap()
        })
    };
    let refused = |stack: &str, names: &str, why: &str| {
        let mut server = serve(dir.path(), stack, sockets(), names);
        assert_eq!(server.wait().unwrap().code(), Some(1));
        let error = fs::read_to_string(dir.path().join("err")).unwrap();
        assert!(error.contains(why), "{error}");
    };
    let stack = "vol = memory size=1MiB @ nbd=unix:sock";
    refused(stack, "other:control", "which belongs to no export");
    assert!(!dir.path().join("sock").exists());
    // Clients of the first one would wait for ever.
    refused("vol = memory size=1MiB @", "vol:vol", "passes two sockets for one purpose");
    // A file is no socket.
    let script = "exec 3</dev/null && LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut server = tool("sh", &["-c", script, "sh", ESKER, "serve", stack]);
    let output = server.current_dir(dir.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("descriptor 3") && error.contains("is no socket that listens"), "{error}");
}

#[test]
fn systemd_starts_a_server_at_the_first_connection() {
    let dir = tempfile::tempdir().unwrap();
    let [socket, control] = ["nbd", "ctl"].map(|name| dir.path().join(name).display().to_string());
    let names = ["--fdname=vol", "--listen", &socket];
    let serve = [ESKER, "serve", "vol = memory size=1MiB @", "--control", &control];
    let started = Command::new("systemd-socket-activate").args(names).args(serve).stderr(Stdio::null()).spawn();
    let mut server = match started {
        Ok(server) => server,
        Err(error) => {
            let why = format_args!("systemd-socket-activate: {error}; apt-get install systemd");
            return esker_testkit::skip(esker_testkit::Ability::Program, why);
        }
    };
    while !Path::new(&socket).exists() {
        assert!(server.try_wait().unwrap().is_none(), "it listens");
    }
    let uri = format!("nbd+unix:///vol?socket={socket}");
    assert_eq!(check_tool("nbdinfo", &["--size", &uri]).trim(), "1048576");
    check_esker(&["stop", "--control", &control], 0);
    assert!(server.wait().unwrap().success());
}

#[test]
fn the_units_of_sockets_name_the_paths_of_the_service() {
    let service = unit("esker@.service");
    for (name, path) in [("esker@.socket", "%t/esker/%i/nbd.sock"), ("esker-control@.socket", "%t/esker/%i/esker.ctl")]
    {
        assert!(unit(name).contains(&format!("ListenStream={path}\n")), "{name}");
    }
    assert!(service.contains("--control %t/esker/%i/esker.ctl") && service.contains("RuntimeDirectoryPreserve=yes"));
    assert!(unit("esker-control@.socket").contains("FileDescriptorName=control\n"));
}
