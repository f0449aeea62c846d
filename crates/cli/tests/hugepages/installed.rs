//! What `dist/install` puts into place, and programs that use it there.

use std::path::PathBuf;

use super::*;
use esker_hugepage_linux::linux::merging;
use esker_hugepage_linux::linux::system::faults_now;
use esker_testkit::Puppet;

const LIBRARY: &str = "libesker_hugepage_preload.so";

/// Installs what was built below a folder.
fn install(built: &Path, root: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/install");
    assert!(Command::new(script).arg(root).env("BUILT", built).status().unwrap().success());
}

/// The program with a library, as cargo has them in one folder.
fn built(library: impl AsRef<[u8]>) -> tempfile::TempDir {
    let built = tempfile::tempdir().unwrap();
    std::fs::copy(ESKER, built.path().join("esker")).unwrap();
    std::fs::write(built.path().join(LIBRARY), library).unwrap();
    built
}

#[test]
fn what_is_installed_is_where_units_and_manuals_look_for_it() {
    let (built, root) = (built("a library"), tempfile::tempdir().unwrap());
    install(built.path(), root.path());
    let read = |path: &str| std::fs::read_to_string(root.path().join(path)).unwrap();
    assert_eq!(read(&format!("usr/lib/esker/{LIBRARY}")), "a library");
    assert!(read("usr/share/man/man1/esker-hugepage-run.1").contains("hugepage.toml"));
    for unit in ["esker@.service", "esker-hugepage.service", "esker-rotate@.service"] {
        let unit = read(&format!("usr/lib/systemd/system/{unit}"));
        let program = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
        assert!(root.path().join(program.split(' ').next().unwrap()).is_file(), "{program}");
    }
    for unit in ["esker@.socket", "esker-control@.socket"] {
        assert!(read(&format!("usr/lib/systemd/system/{unit}")).contains("ListenStream=%t/esker/%i/"), "{unit}");
    }
    let completions =
        ["bash-completion/completions/esker", "zsh/vendor-completions/_esker", "fish/vendor_completions.d/esker.fish"];
    for file in completions {
        assert!(read(&format!("usr/share/{file}")).contains("ESKER_COMPLETE"), "{file} asks the program");
    }
    assert!(read("usr/lib/systemd/system/esker-rotate@.timer").contains("OnCalendar=hourly"));
    let config = root.path().join("etc/esker/hugepage.toml");
    std::fs::write(&config, "mine").unwrap();
    install(built.path(), root.path());
    assert_eq!(std::fs::read_to_string(config).unwrap(), "mine", "a configuration that is there stays");
}

/// The text that a program prints, without regard to its status.
fn told(program: &str, args: &[&str]) -> String {
    String::from_utf8(Command::new(program).args(args).output().unwrap().stdout).unwrap()
}

#[test]
fn a_package_has_what_is_installed_and_equal_inputs_give_equal_bytes() {
    if !["dpkg-deb", "dpkg-shlibdeps"].iter().all(|program| Command::new(program).arg("--version").output().is_ok()) {
        return skip(Ability::Program, "dpkg-deb or dpkg-shlibdeps is not there");
    }
    let (built, folder) = (built(std::fs::read(ESKER).unwrap()), tempfile::tempdir().unwrap());
    let package = |name: &str| {
        let made = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/deb"))
            .arg(folder.path().join(name))
            .env("BUILT", built.path())
            .envs([("SOURCE_DATE_EPOCH", "1700000000"), ("DEBEMAIL", "us@esker.example"), ("DEBFULLNAME", "We")])
            // A program with symbols is large, and this test reads no ratio.
            .envs([("DPKG_DEB_COMPRESSOR_TYPE", "gzip"), ("DPKG_DEB_COMPRESSOR_LEVEL", "1")])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap().trim_end().to_string()
    };
    let (first, second) = (package("first"), package("second"));
    let same = std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap();
    assert!(same, "the packages differ");
    let listed = told("dpkg-deb", &["--contents", &first]);
    let paths = [
        "./usr/bin/esker",
        "./usr/lib/systemd/system/esker@.service",
        "./usr/lib/systemd/system/esker-rotate@.service",
        "./usr/lib/systemd/system/esker-rotate@.timer",
        "./usr/share/man/man1/esker-serve.1.gz",
        "./usr/share/bash-completion/completions/esker",
        "./usr/share/doc/esker/copyright",
    ];
    for path in paths {
        assert!(listed.lines().any(|line| line.ends_with(path)), "{path} is not in\n{listed}");
    }
    assert!(told("dpkg-deb", &["--field", &first, "Depends"]).contains("libc6"));
}

/// Memory of some regions whose pages hold one of sixteen contents.
const SCRIPT: &str = r"
import mmap, sys
P = 4096
n = int(sys.argv[1]) * 512
m = mmap.mmap(-1, n * P, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
page = [bytes([c + 1]) * P for c in range(16)]
for p in range(n): m[p * P:p * P + P] = page[p % 16]
print(0, flush=True)
for line in sys.stdin:
    if line.strip() == 'write': m[5 * P] = 99
    print(sum(m[p * P:p * P + P] != page[p % 16] for p in range(n)), flush=True)
";

/// The library that cargo has built beside the program, if it was asked to.
fn library() -> Option<PathBuf> {
    let folder = Path::new(ESKER).parent().unwrap();
    [folder.join(LIBRARY), folder.join("deps").join(LIBRARY)].into_iter().find(|path| path.is_file())
}

#[test]
fn programs_that_preload_the_installed_library_share_equal_pages() {
    let _alone = alone();
    let Some(library) = library().filter(|_| merging::is_there()) else {
        let why = format!("this kernel has no KSM, or {LIBRARY} is not built: cargo build -p esker-hugepage-preload");
        return skip(Ability::Ksm, why);
    };
    let (built, root, folder) =
        (built(std::fs::read(library).unwrap()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    install(built.path(), root.path());
    let (library, socket) = (root.path().join("usr/lib/esker").join(LIBRARY), folder.path().join("share.sock"));
    let environment = [("LD_PRELOAD", library.as_os_str()), ("ESKER_HUGEPAGE_SHARE", socket.as_os_str())];
    let Ok(mut puppets) = (0..2).map(|_| Puppet::start(SCRIPT, 9, &environment)).collect::<Result<Vec<_>, _>>() else {
        return skip(Ability::Program, "python3 is not there");
    };
    let config = format!(
        "sharing = \"all\"\nsharing_socket = {socket:?}\nksm_pages_to_scan = 5000\nksm_sleep = \"10ms\"\n\
         [access]\nperiod = \"300ms\"\ninterval = \"200ms\"\n[[process]]\npid = {}\n[[process]]\npid = {}\n",
        puppets[0].pid(),
        puppets[1].pid()
    );
    let ksm = || std::fs::read_to_string("/sys/kernel/mm/ksm/run").unwrap();
    let (before, program) = ((ksm(), faults_now()), root.path().join("usr/bin/esker"));
    let Some(mut manager) = Manager::start(program.as_os_str(), folder.path(), &config) else { return };
    let shared = |manager: &Manager<'_>| -> Vec<u64> {
        let status = manager.status();
        status.processes.iter().filter_map(|one| Some(one.sharing.as_ref()?.merged_bytes)).collect()
    };
    // Eight whole regions of each at least.
    let is_shared = |bytes: &[u64]| bytes.len() == 2 && bytes.iter().all(|bytes| *bytes >= 8 << 20);
    assert!(comes(|| is_shared(&shared(&manager))), "{:?}", shared(&manager));
    assert_eq!(puppets.iter_mut().map(|puppet| puppet.send("check")).collect::<Vec<_>>(), [0, 0]);
    assert_eq!((puppets[0].send("write"), puppets[1].send("check")), (1, 0), "a write is seen by the writer alone");
    manager.signal("INT");
    assert!(manager.ends_well());
    assert_eq!((ksm(), faults_now()), before);
    assert_eq!((puppets[0].send("check"), puppets[1].send("check")), (1, 0));
}
