//! Foreign clients inside TLS, permissions of sockets, and ranges changed beside NBD.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::{ESKER, Server, check_esker, check_tool, tool, write_image};

const STACK: &str = "vol = memory size=32MiB @ nbd=unix:DIR/sock";

/// An authority, a server's and a client's certificate, under the names that libnbd and qemu look for.
pub fn write_papers(dir: &Path) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(vec![]).unwrap();
    // Another name than its holders have: OpenSSL takes papers whose issuer is their owner for self-signed.
    authority.distinguished_name.push(rcgen::DnType::CommonName, "authority");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
    let authority = authority.self_signed(&authority_key).unwrap();
    fs::write(dir.join("ca-cert.pem"), authority.pem()).unwrap();
    for (who, usage) in
        [("server", rcgen::ExtendedKeyUsagePurpose::ServerAuth), ("client", rcgen::ExtendedKeyUsagePurpose::ClientAuth)]
    {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let signed = params.signed_by(&key, &authority, &authority_key).unwrap();
        fs::write(dir.join(format!("{who}-cert.pem")), signed.pem()).unwrap();
        let path = dir.join(format!("{who}-key.pem"));
        fs::write(&path, key.serialize_pem()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// A server with the papers in `dir`; `mode` is `on` or `require`.
pub fn start_secured(dir: &Path, mode: &str, extra: &[&str]) -> Server {
    let file = |name: &str| dir.join(name).display().to_string();
    let (cert, key) = (file("server-cert.pem"), file("server-key.pem"));
    let fixed = ["--tls", mode, "--tls-cert", &cert, "--tls-key", &key];
    Server::start(dir, STACK, &[&fixed[..], extra].concat())
}

#[test]
fn images_are_copied_inside_tls_and_nothing_is_told_outside() {
    let dir = tempfile::tempdir().unwrap();
    write_papers(dir.path());
    let ca = dir.path().join("ca-cert.pem").display().to_string();
    let server = start_secured(dir.path(), "require", &["--tls-client-ca", &ca]);
    let (image, copy) = (dir.path().join("in.img"), dir.path().join("out.img"));
    write_image(&image, 32 << 20);
    assert!(server.uris[0].starts_with("nbds+unix://"), "{}", server.uris[0]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    assert!(limits.contains("Max core file size        0"), "a server with a private key writes no core: {limits}");
    let uri = format!("{}&tls-certificates={}", server.uris[0], dir.path().display());
    assert!(check_tool("nbdinfo", &["--size", &uri]).trim() == (32 << 20).to_string());
    check_tool("nbdcopy", &[&image.display().to_string(), &uri]);
    check_tool("nbdcopy", &[&uri, &copy.display().to_string()]);
    assert!(fs::read(&image).unwrap() == fs::read(&copy).unwrap(), "the copy differs");
    let creds = format!("tls-creds-x509,id=t,endpoint=client,dir={}", dir.path().display());
    let options = format!(
        "driver=nbd,server.type=unix,server.path={}/sock,export=vol,tls-creds=t,tls-hostname=localhost",
        dir.path().display()
    );
    let info = check_tool("qemu-img", &["info", "--object", &creds, "--image-opts", &options]);
    assert!(info.contains("32 MiB"), "{info}");
    let status = server.check_status();
    assert_eq!(status["bounced_bytes"].as_u64(), Some(0), "payload was copied below TLS");
    // Half of the image is holes, which travel in neither direction.
    assert!(status["tls_bytes"].as_u64() >= Some(32 << 20), "{status}");
    let bare = server.uris[0].replace("nbds+unix", "nbd+unix");
    assert!(!tool("nbdinfo", &["--size", &bare]).output().unwrap().status.success(), "served in the clear");
    server.stop();
}

#[test]
fn papers_and_modes_that_do_not_fit_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    write_papers(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let stack = STACK.replace("DIR", &dir.path().display().to_string());
    let open = file("open.pem");
    fs::copy(file("server-key.pem"), &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o640)).unwrap();
    let (cert, key, other) = (file("server-cert.pem"), file("server-key.pem"), file("client-key.pem"));
    for (args, status, why) in [
        (vec!["--tls", "on"], 2, "needs --tls-cert and --tls-key"),
        (vec!["--tls-cert", &cert, "--tls-key", &key], 2, "of no use without --tls on"),
        (vec!["--tls", "on", "--tls-cert", &cert, "--tls-key", &other], 1, "certificate with its key cannot be used"),
        (vec!["--tls", "on", "--tls-cert", &cert, "--tls-key", "nowhere"], 1, "nowhere: cannot be read"),
        (
            vec!["--tls", "on", "--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &cert],
            2,
            "needs --tls require",
        ),
        (vec!["--tls", "on", "--tls-cert", &cert, "--tls-key", &open], 1, "chmod 600 it"),
        (vec!["--tls-subject", "CN=x"], 2, "--tls-client-ca"),
        (vec!["--connections", "0"], 2, "--connections"),
        (vec!["--socket-mode", "999"], 2, "three octal digits"),
    ] {
        let error = check_esker(&[&["serve", &stack][..], &args].concat(), status);
        assert!(error.contains(why), "{args:?}: {error}");
    }
}

#[test]
fn a_socket_has_its_mode_and_ranges_are_changed_beside_nbd() {
    let dir = tempfile::tempdir().unwrap();
    let stack = "vol = memory size=32MiB | emulate @ nbd=unix:DIR/sock";
    let server = Server::start(dir.path(), stack, &["--socket-mode", "600"]);
    let mode = fs::metadata(dir.path().join("sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let uri = &server.uris[0];
    let qemu = |command: &str| check_tool("qemu-io", &["-f", "raw", "-c", command, uri]);
    qemu("write -P 0x5a 0 64k");
    check_esker(&["remap", "--control", &server.control, "vol", "clone:0:64KiB:1MiB", "delete:0:4KiB"], 0);
    qemu("read -P 0x5a 1M 64k");
    qemu("read -P 0 0 4k");
    let error = check_esker(&["remap", "--control", &server.control, "vol", "clone:0:64KiB:32MiB"], 1);
    assert!(error.contains("nothing was changed"), "{error}");
    server.stop();
}

#[test]
fn control_socket_image_and_log_have_modes_of_their_own_whatever_the_mask_says() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let text = |name: &str| file(name).display().to_string();
    for (mode, told) in [(None, 0o600), (Some("660"), 0o660)] {
        let stack = format!("vol = file path={} size=1MiB @ nbd=unix:{}", text("d.img"), text("sock"));
        let (log, control) = (text("log"), text("esker.ctl"));
        let mut args = vec!["serve", &stack, "--control", &control, "--log-file", &log];
        args.extend(mode.iter().flat_map(|mode| ["--control-mode", mode]));
        let mut child = tool("sh", &["-c", "umask 0; exec \"$@\"", "sh", ESKER]).args(&args).spawn().unwrap();
        while !tool(ESKER, &["status", "--control", &control]).output().unwrap().status.success() {
            assert!(child.try_wait().unwrap().is_none(), "the server ended");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let seen = |name: &str| fs::metadata(file(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((seen("esker.ctl"), seen("d.img"), seen("log")), (told, 0o640, 0o640));
        check_esker(&["stop", "--control", &control], 0);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn an_answer_without_end_ends_a_verb() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("esker.ctl");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let liar = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let piece = vec![b'x'; 1 << 20];
        (0..1000).take_while(|_| stream.write_all(&piece).is_ok()).count()
    });
    let error = check_esker(&["status", "--control", &path.display().to_string()], 1);
    assert!(error.contains("no end of the answer"), "{error}");
    assert!(liar.join().unwrap() < 100, "the verb has read on");
}
