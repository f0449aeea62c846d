//! Attacks on doors that no other client of these tests makes: old TLS, papers of others, other users, texts that
//! exhaust.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use esker_testkit::{Ability, skip};

use crate::harness::{ESKER, Server, check_tool, esker};
use crate::secured::{start_secured, write_papers};

/// Agrees on TLS with the server at a socket, at most in version `most` and with the named ciphers, shows the papers of
/// `owner`, lists the exports inside, and prints what came of it. `twice` agrees once more inside TLS and prints the
/// type of the answer.
const CLIENT: &str = r"
import socket, ssl, struct, sys
path, folder, owner, most, ciphers, twice = sys.argv[1:7]
def take(stream, count):
    got = b''
    while len(got) < count:
        part = stream.recv(count - len(got))
        if not part: raise OSError('it hung up')
        got += part
    return got
def option(stream, number):
    stream.sendall(struct.pack('>QII', 0x49484156454F5054, number, 0))
    _, _, kind, size = struct.unpack('>QIII', take(stream, 20))
    take(stream, size)
    return kind
bare = socket.socket(socket.AF_UNIX)
bare.settimeout(20)
bare.connect(path)
take(bare, 18)
bare.sendall(struct.pack('>I', 3))
assert option(bare, 5) == 1, 'no agreement'
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.load_verify_locations(folder + '/ca-cert.pem')
if owner != 'none': context.load_cert_chain(folder + '/' + owner + '-cert.pem', folder + '/' + owner + '-key.pem')
context.minimum_version = ssl.TLSVersion.TLSv1
context.maximum_version = getattr(ssl.TLSVersion, most)
context.set_ciphers(ciphers + ':@SECLEVEL=0')
try:
    inside = context.wrap_socket(bare)
    kind = option(inside, 5 if twice == 'twice' else 3)
    print('inside', inside.version(), hex(kind))
except (ssl.SSLError, OSError) as error:
    print('refused', error)
";

/// What a client with these papers and settings says.
fn told(dir: &Path, owner: &str, most: &str, ciphers: &str, twice: &str) -> String {
    let (socket, folder) = (dir.join("sock").display().to_string(), dir.display().to_string());
    check_tool("python3", &["-W", "ignore", "-c", CLIENT, &socket, &folder, owner, most, ciphers, twice])
}

#[test]
fn old_tls_papers_of_servers_and_a_second_agreement_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_papers(dir.path());
    let ca = dir.path().join("ca-cert.pem").display().to_string();
    let server = start_secured(dir.path(), "require", &["--tls-client-ca", &ca]);
    let good = "ECDHE+AESGCM";
    for (owner, most, ciphers, twice, expected) in [
        ("client", "TLSv1_3", good, "once", "inside TLSv1.3 0x2"),
        ("client", "TLSv1_2", good, "once", "inside TLSv1.2 0x2"),
        ("client", "TLSv1_1", "ALL", "once", "refused"),
        ("client", "TLSv1", "ALL", "once", "refused"),
        // In version 1.2 the message-authenticating ciphers of old are the other choice.
        ("client", "TLSv1_2", "ECDHE+SHA1:ECDHE+SHA256:ECDHE+SHA384:!AESGCM:!CHACHA20:!AESCCM", "once", "refused"),
        ("server", "TLSv1_3", good, "once", "refused"),
        ("server", "TLSv1_2", good, "once", "refused"),
        ("none", "TLSv1_3", good, "once", "refused"),
        ("client", "TLSv1_3", good, "twice", "inside TLSv1.3 0x80000003"),
    ] {
        let told = told(dir.path(), owner, most, ciphers, twice);
        assert!(told.starts_with(expected), "{owner} {most} {ciphers} {twice}: {told}");
    }
    let uri = format!("{}&tls-certificates={}", server.uris[0], dir.path().display());
    check_tool("nbdinfo", &["--size", &uri]);
    server.stop();
}

#[test]
fn another_user_is_kept_from_the_control_socket() {
    const CONNECT: &str = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('in')";
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(dir.path(), "d = memory size=1MiB @ nbd=unix:DIR/sock", &[]);
    let here = check_tool("python3", &["-c", CONNECT, &server.control]);
    assert_eq!(here.trim(), "in", "its owner gets in");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-I", "-c", CONNECT, &server.control];
    // The system's Python: another one may lie in the caller's private folder.
    let output = Command::new("setpriv").args(nobody).env("PATH", "/usr/bin:/bin").output();
    let output = output.expect("util-linux is installed");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("setresuid failed") || error.contains("setresgid failed") || error.contains("setgroups failed") {
        return skip(Ability::Root, "only root becomes another user");
    }
    assert!(!output.status.success() && error.contains("PermissionError"), "{error}");
    server.stop();
}

#[test]
fn a_file_of_passwords_is_no_key_and_no_answer_shows_it() {
    const LINE: &str = "root:$6$planted$0123456789abcdef:20000:0:99999:7:::";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shadow");
    fs::write(&file, format!("{LINE}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = Server::start(dir.path(), "d = memory size=1MiB @ nbd=unix:DIR/sock", &["--log", "debug"]);
    let insert = format!("x = crypt key=file:{}", file.display());
    let output = esker(&["stack", "insert", &insert, "--above", "d", "--control", &server.control]);
    assert_eq!(output.status.code(), Some(1), "it is refused");
    let shown = [&output.stdout[..], &output.stderr, server.log().as_bytes()].concat();
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("crypt") && !shown.contains("planted"), "{shown}");
    server.check_status();
    server.stop();
}

#[test]
fn requests_for_metrics_that_are_none_get_their_status() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "d = memory size=1MiB @ nbd=unix:DIR/sock";
    let server = Server::start(dir.path(), stack, &["--metrics", "tcp:127.0.0.1:0"]);
    let at = server.metrics.clone().unwrap().replace("tcp:", "");
    let line = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9 << 10));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2000));
    for (request, expected) in [
        (line.as_str(), "431"),
        (many.as_str(), "431"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404"),
        ("\u{0}\u{1}\u{2}\r\n\r\n", "400"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "200"),
    ] {
        let mut stream = TcpStream::connect(&at).unwrap();
        // The server may answer, and close, before it has all.
        let _sent = stream.write_all(request.as_bytes());
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap_or_else(|error| panic!("{expected}: {error}"));
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {expected}"));
    }
    server.stop();
}

#[test]
fn texts_that_exhaust_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    let chain = format!("d = memory size=1MiB {} @", "| pass ".repeat(20_000));
    let brackets = format!("d = memory size={}1MiB @", "(".repeat(50_000));
    let toml = format!("x = {}", "[".repeat(50_000));
    let cycle = "a = pass on b; b = pass on a; export a = a".to_string();
    let large = "d = memory size=16EiB @".to_string();
    let shadow = "root:$6$planted$0123456789abcdef:20000:0:99999:7:::\n".to_string();
    let mut places: Vec<String> = vec!["/dev/zero".to_string()];
    for (at, text) in [chain, brackets, toml, cycle, large, shadow].into_iter().enumerate() {
        let path = file.with_extension(at.to_string());
        fs::write(&path, text).unwrap();
        places.push(path.display().to_string());
    }
    for place in places {
        let limited = ["-c", "ulimit -v 4000000; exec timeout 30 \"$0\" stack check \"$1\"", ESKER, &place];
        let output = Command::new("bash").args(limited).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{place}: {}", &error[..error.len().min(500)]);
        assert!(!error.is_empty() && error.len() < 16 << 10, "{place}: {} bytes", error.len());
        assert!(!error.contains("out of memory"), "{place}: {error}");
    }
}
