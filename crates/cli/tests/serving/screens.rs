//! What a user sees of the program itself: colours, headings of the help, completions of a shell.

use std::path::Path;
use std::process::Command;

use esker_testkit::{Ability, skip};

use crate::harness::{ESKER, Server, check_tool};

/// What `esker kinds nothing ARGS` writes to standard error with these variables.
fn error(args: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(ESKER);
    command.args(["kinds", "nothing"]).args(args).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn errors_have_colours_where_they_are_wanted() {
    let plain = "error: unknown kind";
    let is_colored = |text: &str| text.starts_with("\u{1b}[") && text.contains("error:");
    assert!(error(&[], &[]).starts_with(plain), "a pipe gets none");
    assert!(is_colored(&error(&["--color", "always"], &[])));
    assert!(is_colored(&error(&["--color=always"], &[("NO_COLOR", "1")])), "the command line counts most");
    assert!(is_colored(&error(&[], &[("CLICOLOR_FORCE", "1")])));
    assert!(error(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]).starts_with(plain));
    assert!(error(&[], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]).starts_with(plain));
    let help = check_tool(ESKER, &["--color", "always", "--help"]);
    assert!(help.contains("\u{1b}[1m\u{1b}[4mPredict:"), "{help:?}");
    let json = check_tool(ESKER, &["--color", "always", "kinds", "--json"]);
    assert!(!json.contains('\u{1b}'));
    assert!(!check_tool(ESKER, &["--color", "always", "completions", "bash"]).contains('\u{1b}'));
}

/// What bash offers for the last word of a line.
fn offered(dir: &Path, words: &[&str]) -> Vec<String> {
    let script = "PATH=\"$BIN:$PATH\"; eval \"$(esker completions bash)\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  COMP_TYPE=9; _clap_complete_esker esker \"${COMP_WORDS[COMP_CWORD]}\" ''; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).args(words).current_dir(dir);
    let output = command.env("BIN", Path::new(ESKER).parent().unwrap()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_verbs_names_and_what_a_server_has() {
    if Command::new("bash").arg("--version").output().is_err() {
        return skip(Ability::Program, "bash is not there");
    }
    let dir = tempfile::tempdir().unwrap();
    let check = |words: &[&str], expected: &[&str]| assert_eq!(offered(dir.path(), words), expected, "{words:?}");
    check(&["esker", "adv"], &["advise"]);
    check(&["esker", "lab", "run", "file-vs"], &["file-vs-fio"]);
    check(&["esker", "kinds", "mirr"], &["mirror"]);
    check(&["esker", "mount", "lf"], &["lfs"]);
    check(&["esker", "resize", "--pat"], &["--patience"]);
    let stack = "d = file path=DIR/d.img size=64MiB; vm = thin ports=\"web=1MiB,db=1MiB\" on d; \
                 export web = vm.web nbd=unix:DIR/sock; export db = vm.db";
    let server = Server::start(dir.path(), stack, &[]);
    let control = server.control.as_str();
    check_tool(ESKER, &["volume", "snapshot", "db", "db-monday", "--control", control]);
    check(&["esker", "volume", "delete", "--control", control, "db"], &["db", "db-monday"]);
    check(&["esker", "resize", "--control", control, "w"], &["web"]);
    check(&["esker", "stack", "remove", "--control", control, "v"], &["vm"]);
    // The socket where no other one is named.
    check(&["esker", "resize", "d"], &["db"]);
    server.stop();
}

#[test]
fn each_shell_has_a_file_that_asks_the_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = check_tool(ESKER, &["completions", shell]);
        assert!(text.contains("ESKER_COMPLETE") && text.contains("esker"), "{text}");
    }
    assert!(check_tool(ESKER, &["completions", "zsh"]).starts_with("#compdef esker\n"));
}
