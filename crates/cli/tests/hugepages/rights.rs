//! Users that may not manage memory of others.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Runs the program as nobody; returns its exit status and all that it says. None, with the reason on the screen, where
/// it cannot be.
fn as_nobody(arguments: &[&str], config: &str) -> Option<(Option<i32>, String)> {
    // Where the program itself is, the user `nobody` may lack access.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (program, file) = (folder.path().join("esker"), folder.path().join("config.toml"));
    std::fs::copy(ESKER, &program).unwrap();
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program).args(arguments);
    let told = command.current_dir(folder.path()).output().unwrap();
    let said = [told.stdout, told.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if said.starts_with("setpriv:") {
        skip(Ability::Root, said);
        return None;
    }
    Some((told.status.code(), said))
}

const MISSING: &str = "CAP_SYS_PTRACE and CAP_SYS_NICE are missing; run as root";

#[test]
fn nobody_is_told_which_capabilities_a_manager_needs() {
    let arguments = ["hugepage", "run", "--config", "config.toml", "--control", "control"];
    let config = "state = \"state.json\"\n[[process]]\nname = \"redis-server\"\n";
    let Some((code, said)) = as_nobody(&arguments, config) else { return };
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("huge pages of other processes cannot be managed") && said.contains(MISSING), "{said}");
}

#[test]
fn the_doctor_tells_nobody_what_is_missing_and_what_is_done_without_the_rest() {
    let Some((code, said)) = as_nobody(&["hugepage", "doctor"], "") else { return };
    assert_eq!(code, Some(1), "{said}");
    let line = |what: &str| said.lines().find(|line| line.get(9..).is_some_and(|rest| rest.starts_with(what)));
    let others = line("other processes").unwrap_or_else(|| panic!("{said}"));
    assert!(others.starts_with("MISSING") && others.contains(MISSING), "{others}");
    // What may be wanting, with what is done instead.
    for (what, instead) in [
        ("fault signal", "page tables are looked through instead"),
        ("physical addresses", "access bits are not watched"),
        ("pages freed inside huge ones", "they stay until the kernel splits by itself"),
        ("access bits (page tables)", "without DAMON all huge pages count as in use"),
        ("compaction", "promotions compact for themselves"),
    ] {
        let line = line(what).unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with("without") && line.contains(instead), "{line}");
    }
}
