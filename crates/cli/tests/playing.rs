//! `esker fs play --dir`: scripts that the kernel plays in folders of a directory.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use esker_testkit::Ability;

const ESKER: &str = env!("CARGO_BIN_EXE_esker");
const NAMES: &str = "tests/scripts/names.script";

/// Whether this process may change its root, and take the rights of users.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        esker_testkit::skip(Ability::Root, "only root changes its root directory");
    }
    is_root
}

/// A directory that every user may use.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    place
}

fn play(args: &[&str]) -> Output {
    Command::new(ESKER).args(["fs", "play"]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn script(place: &Path, name: &str, lines: &str) -> String {
    let path = place.join(name);
    fs::write(&path, lines).unwrap();
    path.to_str().unwrap().to_string()
}

fn assert_is_empty(dir: &Path) {
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "no folder stays behind");
}

#[test]
fn a_script_comes_out_on_the_kernel_as_on_ram() {
    if !is_root() {
        return;
    }
    let place = place();
    let dir = place.path().to_str().unwrap();
    for more in [&[][..], &["--json"]] {
        let [ram, kernel] = [&["--on", "ram"], &["--dir", dir]].map(|how| play(&[&[NAMES], &how[..], more].concat()));
        assert_eq!((ram.status.code(), kernel.status.code()), (Some(0), Some(0)), "{}", text(&kernel.stderr));
        assert_eq!(text(&ram.stdout), text(&kernel.stdout));
    }
    assert_is_empty(place.path());
}

#[test]
fn each_script_begins_in_an_empty_root_with_the_rights_of_the_superuser() {
    if !is_root() {
        return;
    }
    let [scripts, place] = [(); 2].map(|()| place());
    let first = "list /\n//= 2 entries .:dir ..:dir\numask 0077\n//= 18\nmkdir /A 0777\nsymlink /A link\nbecome 1000\n\
                 mkdir /A/B 0755\n//= EACCES\nchdir ..\n//= ok\nlist .\n//= 4 entries .:dir ..:dir A:dir link:symlink\n";
    let first = script(scripts.path(), "first", first);
    // Nothing of the one before is left.
    let second = script(scripts.path(), "second", "umask 0022\n//= 18\nmkdir /A 0\n//= ok\nstat link\n//= ENOENT\n");
    let played = play(&[&first, &second, "--dir", place.path().to_str().unwrap()]);
    assert_eq!(played.status.code(), Some(0), "{}{}", text(&played.stdout), text(&played.stderr));
    assert_is_empty(place.path());
    let differing = play(&["tests/scripts/expected.script", "--dir", place.path().to_str().unwrap()]);
    assert_eq!(differing.status.code(), Some(4));
    assert!(text(&differing.stderr).contains("expected.script:3: mkdir A 0755: expected ok, got EEXIST"));
    assert_is_empty(place.path());
}

#[test]
fn another_user_plays_what_stays_in_the_folder_and_is_told_the_rest() {
    if !is_root() {
        return;
    }
    let [scripts, place] = [(); 2].map(|()| place());
    let dir = place.path().to_str().unwrap().to_string();
    // The program may lie where the user cannot search.
    let program = scripts.path().join("esker");
    fs::copy(ESKER, &program).unwrap();
    let as_user = |path: &str| {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--"]).arg(&program).args(["fs", "play", path, "--dir", &dir]).current_dir("/");
        command.output().unwrap()
    };
    if Command::new("runuser").arg("--version").output().is_err() {
        return esker_testkit::skip(Ability::Program, "runuser takes the rights of a user");
    }
    // What it leaves cannot be searched by its owner.
    let inside =
        script(scripts.path(), "inside", "mkdir A 0755\n//= ok\nmkdir A/B 0755\n//= ok\nchmod A 0000\n//= ok\n");
    let played = as_user(&inside);
    assert_eq!(played.status.code(), Some(0), "{}{}", text(&played.stdout), text(&played.stderr));
    assert_is_empty(place.path());
    for (line, why) in [("become 0", "rights of users"), ("stat /etc", "absolute paths"), ("stat ../x", "\"..\"")] {
        let refused = as_user(&script(scripts.path(), "outside", &format!("mkdir A 0755\n{line}\n")));
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("outside:2: {line}: only the superuser")) && told.contains(why), "{told}");
        assert_is_empty(place.path());
    }
}
