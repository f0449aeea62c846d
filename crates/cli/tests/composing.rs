//! Composing stacks that can be built: which layers keep their places, and orders that are written into texts.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Every layer that keeps something on its medium, and three that do not.
const STACK: &str = r#"# Two disks and a log.
[device.a]
kind = "memory"   # the first half
size = "64MiB"
[device.b]
kind = "memory"
size = "64MiB"
[device.log]
kind = "memory"
size = "32MiB"

[device.pair]
kind = "mirror"
on = ["a", "b"]  # both
[device.off]
kind = "offload"
on = ["pair", "log"]
[device.guard]
kind = "shepherd"
on = "off"
[device.once]
kind = "dedup"
on = "guard"   # blocks once
[device.vol]
kind = "logvol"
on = "once"
segment = "1MiB"
[device.count]
kind = "verify"
on = "vol"
[device.slow]
kind = "delay"
read = "1ms"
on = "count"     # the upper one of two
[device.look]
kind = "stats"
on = 'slow'
[device.secret]
kind = "crypt"
on = "look"
key = "env:KEY"

[[export]]
name = "main"
device = "secret" # all of it
"#;

const GOALS: &str = "goals = [\"speed\"]\n[extension.look]\ngoal = \"speed\"\n[extension.once]\ngoal = \"space\"\n\
                     [extension.secret]\ngoal = \"security\"\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.put("live.stack", STACK);
        folder.put("goals.toml", GOALS);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn esker(&self, args: &[&str]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_esker"));
        Command::new(program).args(args).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs it, checks the exit status, and returns both outputs.
    fn check(&self, args: &[&str], status: i32) -> (String, String) {
        let output = self.esker(args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(status), "{args:?}: {out}{err}");
        (out, err)
    }

    /// `stack compose` of the text with its declarations.
    fn compose(&self, more: &[&str], status: i32) -> (String, String) {
        let args = [&["stack", "compose", "live.stack", "--declarations", "goals.toml"], more].concat();
        self.check(&args, status)
    }
}

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn fixed(object: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_string();
    object["fixed"].as_array().unwrap().iter().map(|one| (word(&one["name"]), word(&one["reason"]))).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, reason)| (name.to_string(), reason.to_string())).collect()
}

const KEEPERS: [(&str, &str); 6] = [
    ("secret", "arranged"),
    ("vol", "tables"),
    ("once", "tables"),
    ("guard", "tables"),
    ("off", "tables"),
    ("pair", "tables"),
];

#[test]
fn layers_that_keep_their_places_are_named_and_nothing_is_claimed_of_them() {
    let folder = Folder::new();
    let found = object(&folder.compose(&["--json"], 1).0);
    assert_eq!(fixed(&found), pairs(&KEEPERS));
    assert!(found["fixed"][1]["why"].as_str().unwrap().contains("tables of its own"));
    assert_eq!((&found["search"]["proven"], &found["search"]["proven_for_movable"]), (&json!(false), &json!(true)));
    let (told, _) = folder.compose(&[], 1);
    for (name, _) in KEEPERS {
        assert!(told.contains(&format!("\n  {name}: it ")), "{told}");
    }
    assert!(told.contains("best of the orders of 3 extensions that may move, around 6 fixed layers"), "{told}");
    assert!(told.contains("--anew also moves") && !told.contains("none is better"), "{told}");
}

#[test]
fn a_stack_in_which_nothing_may_move_is_compared_with_nothing() {
    let folder = Folder::new();
    let text = "x = memory size=64MiB; y = memory size=64MiB; o = offload on x,y; d = dedup on o; export d = d";
    folder.put("live.stack", text);
    folder.put(
        "goals.toml",
        "goals = [\"space\", \"energy\"]\n[extension.d]\ngoal = \"space\"\n[extension.o]\ngoal = \"energy\"\n",
    );
    let (told, _) = folder.compose(&[], 1);
    assert!(told.contains("nothing was compared: 2 fixed layers and no other extension"), "{told}");
    assert_eq!(object(&folder.compose(&["--json"], 1).0)["search"]["proven"], json!(false));
}

#[test]
fn an_explanation_and_its_drawing_name_fixed_layers_too() {
    let folder = Folder::new();
    let args = ["stack", "explain", "live.stack", "--declarations", "goals.toml"];
    assert!(folder.check(&args, 1).0.contains("fixed layers, which keep their places:\n  secret: it "));
    let (told, _) = folder.check(&[&args[..], &["--json", "--svg", "stack.svg"]].concat(), 1);
    assert_eq!(fixed(&object(&told)), pairs(&KEEPERS));
    assert_eq!(folder.get("stack.svg").matches(">fixed</text>").count(), KEEPERS.len());
}

#[test]
fn a_stack_without_fixed_layers_is_proven() {
    let folder = Folder::new();
    folder.put("live.stack", "vol = memory size=1MiB | stats | delay @");
    folder.put("goals.toml", "goals = \"speed\"\n[extension.vol]\ngoal = \"speed\"\n");
    let found = object(&folder.compose(&["--json"], 0).0);
    assert_eq!((fixed(&found), &found["search"]["proven"]), (vec![], &json!(true)));
    assert!(folder.compose(&[], 0).0.contains("none is better"));
}

#[test]
fn an_order_is_written_into_the_file_and_everything_else_in_it_stays() {
    let folder = Folder::new();
    fs::set_permissions(folder.path("live.stack"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("live.stack", folder.path("link")).unwrap();
    let declared = ["--declarations", "goals.toml", "--write"];
    let (told, _) = folder.check(&[&["stack", "compose", "link"][..], &declared].concat(), 1);
    assert!(told.contains("while it is served: esker stack reorder slow count look\nwritten to "), "{told}");
    let wanted = STACK
        .replace("on = 'slow'", "on = \"vol\"")
        .replace("kind = \"verify\"\non = \"vol\"", "kind = \"verify\"\non = \"look\"")
        .replace("on = \"look\"\nkey", "on = \"slow\"\nkey");
    assert_eq!(folder.get("live.stack"), wanted);
    assert_eq!(fs::metadata(folder.path("live.stack")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(folder.path("link")).unwrap().is_symlink());
    folder.check(&["stack", "check", "live.stack"], 0);
    let before = fs::metadata(folder.path("live.stack")).unwrap().modified().unwrap();
    let (told, _) = folder.compose(&["--write"], 1);
    assert!(told.contains("the text has this order already") && !told.contains("written to"), "{told}");
    assert_eq!(fs::metadata(folder.path("live.stack")).unwrap().modified().unwrap(), before);
}

#[test]
fn a_named_file_gets_the_text_and_is_not_replaced_unasked() {
    let folder = Folder::new();
    let written = object(&folder.compose(&["--write=new.stack", "--json"], 1).0);
    assert_eq!(written["written"], json!("new.stack"));
    assert_eq!(folder.get("live.stack"), STACK);
    let new = folder.get("new.stack");
    assert_ne!(new, STACK);
    let (_, err) = folder.compose(&["--write=new.stack"], 1);
    assert!(err.contains("new.stack: is there already") && err.contains("--force"), "{err}");
    folder.put("new.stack", "mine");
    folder.compose(&["--write=new.stack", "--force"], 1);
    assert_eq!(folder.get("new.stack"), new);
}

#[test]
fn media_that_are_made_anew_let_their_layers_move_and_a_warning_names_them() {
    let folder = Folder::new();
    let (told, err) = folder.compose(&["--anew", "--json", "--goals", "security,space", "--write=new.stack"], 1);
    let found = object(&told);
    assert_eq!(fixed(&found), pairs(&[("off", "ends"), ("pair", "ends")]));
    let order: Vec<&str> = found["order"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(order[order.len() - 3..], ["secret", "off", "pair"], "what is wanted most handles requests last");
    let anew: Vec<&str> = found["anew"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(anew, ["vol", "once", "guard", "secret"]);
    assert!(err.contains("warning: vol, once, guard, secret changed places with other layers"), "{err}");
    assert!(folder.get("new.stack").contains("kind = \"crypt\"\non = \"off\"\n"));
    folder.check(&["stack", "check", "new.stack"], 0);
    let (told, err) = folder.compose(&["--anew", "--goals", "speed", "--json"], 1);
    assert_eq!(object(&told)["anew"], json!([]), "only layers moved that keep nothing");
    assert!(!err.contains("media anew"), "{err}");
    let (told, _) = folder.compose(&["--anew", "--goals", "speed"], 1);
    assert!(!told.contains("stack reorder"), "layers with media cannot be reordered live: {told}");
}

#[test]
fn a_text_of_one_line_is_written_anew_and_its_comments_are_told_to_be_lost() {
    let folder = Folder::new();
    folder.put("live.stack", "# small\nvol = memory size=1MiB | stats | delay read=1ms @ nbd=unix:run/v.sock\n");
    folder.put("goals.toml", "goals = \"speed\"\n[extension.vol]\ngoal = \"speed\"\n");
    let (_, err) = folder.compose(&["--write"], 0);
    assert!(err.contains("warning: the one-line form is written anew: comments and line breaks are lost"), "{err}");
    let wanted = "vol-1 = memory size=1MiB; vol-2 = stats on vol; vol = delay read=1ms on vol-1; \
                  export vol = vol-2 nbd=unix:run/v.sock\n";
    assert_eq!(folder.get("live.stack"), wanted);
}

#[test]
fn a_text_that_is_in_no_file_needs_a_name() {
    let folder = Folder::new();
    let text = "vol = memory size=1MiB | stats | delay @";
    let (_, err) = folder.check(&["stack", "compose", text, "--write"], 1);
    assert!(
        err.contains("command line: there is no file to write the order into; name one with --write=FILE"),
        "{err}"
    );
    let (_, err) = folder.check(&["stack", "compose", "-", "--write"], 1);
    assert!(err.contains("standard input: there is no file"), "{err}");
    folder.check(&["stack", "compose", text, "--write=new.stack"], 0);
    assert_eq!(folder.get("new.stack"), text);
}

#[test]
fn declarations_that_give_layers_an_order_of_their_own_are_not_overruled() {
    let folder = Folder::new();
    let order = "\"secret\", \"look\", \"slow\", \"count\", \"vol\", \"once\", \"guard\", \"off\", \"pair\"";
    folder.put("goals.toml", &format!("stack = [{order}]\n{GOALS}"));
    let (_, err) = folder.compose(&["--write"], 1);
    assert!(err.contains("write stack = [\"secret\", \"slow\", \"count\", \"look\", "), "{err}");
    assert!(err.contains("into goals.toml"), "{err}");
    assert_eq!(folder.get("live.stack"), STACK);
}

#[test]
fn a_text_with_declarations_gets_references_and_its_list() {
    let folder = Folder::new();
    let extra = "[extension.mind]\ngoal = \"speed\"\ninput = \"vol\"\noutput = \"vol\"\n";
    folder.put("both.toml", &format!("{GOALS}{extra}{STACK}"));
    folder.check(&["stack", "compose", "both.toml", "--write"], 1);
    let text = folder.get("both.toml");
    assert!(
        text.starts_with("stack = [\"secret\", "),
        "an extension that is only declared has its place there: {text}"
    );
    assert!(text.contains("# both\n") && text.contains("# all of it\n"));
    let found = object(&folder.check(&["stack", "compose", "both.toml", "--json", "--write"], 1).0);
    assert_eq!(found["written"], json!(null), "it has this order now");
    let (_, err) = folder.check(&["stack", "compose", "both.toml", "--declarations", "goals.toml"], 1);
    assert!(err.contains("both.toml: it has declarations of its own"), "{err}");
    let (_, err) = folder.check(&["stack", "compose", "live.stack", "--declarations", "both.toml"], 1);
    assert!(err.contains("both.toml: it has devices of its own"), "{err}");
}

#[test]
fn twelve_extensions_over_all_of_eight_volumes_are_composed_and_explained() {
    let folder = Folder::new();
    let volumes: Vec<String> = (0..8).map(|at| format!("\"v{at}\"")).collect();
    let all = volumes.join(", ");
    let mut text: String = (0..8).map(|at| format!("[volume.v{at}]\n")).collect();
    for at in 0..12 {
        text += &format!("[extension.e{at}]\ngoal = \"g{}\"\ninput = [{all}]\noutput = [{all}]\n", at % 3);
    }
    folder.put("wide.toml", &text);
    let found = object(&folder.check(&["stack", "compose", "wide.toml", "--goals", "g1", "--json"], 0).0);
    assert_eq!((&found["score"], &found["search"]["proven"]), (&json!([8]), &json!(true)));
    folder.check(&["stack", "explain", "wide.toml", "--goals", "g2"], 0);
    let (_, err) = folder.check(&["stack", "compose", "wide.toml", "--looks", "3", "--goals", "g1"], 1);
    assert!(err.contains("in 3 looks; allow more"), "{err}");
}
