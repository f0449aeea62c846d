//! Mounts in both forms, and devices with more than one writer.

use super::*;

const TOML: &str = r#"[device.d]
kind = "file"
path = "d.img"

[[mount]]
name = "scratch"
fs = "ram"
at = "/mnt/scratch"
options = ["size=1GiB", "noexec"]

[[mount]]
name = "files"
fs = "whole"
at = "run/my files"
device = "d"
cache = "writeback"
"#;

#[test]
fn both_forms_say_mounts() {
    let spec = parse(TOML);
    let [scratch, files] = &spec.mounts[..] else { panic!("two mounts") };
    assert_eq!((scratch.fs.as_str(), scratch.dir.as_str(), scratch.at.line), ("ram", "/mnt/scratch", 5));
    assert_eq!((scratch.cache, scratch.options.join(" ").as_str()), (KernelCache::Through, "size=1GiB noexec"));
    assert_eq!((files.device.as_deref(), files.cache), (Some("d"), KernelCache::WriteBack));
    assert_eq!(spec.to_toml(), TOML);
    let line = "d = file path=d.img; mount scratch = ram at=/mnt/scratch options=size=1GiB,noexec; \
                mount files = whole at=\"run/my files\" cache=writeback on d";
    assert_eq!(spec.to_line(), line);
    assert_eq!(parse(line), spec);
    assert_eq!(spec.check(KINDS).unwrap().warnings(), [], "the mount uses the device");
    assert_eq!(parse("mount a = ram at=/a\n").mounts.len(), 1, "a text may begin with a mount");
}

#[test]
fn a_mount_is_named_by_its_directory_and_options_may_be_one_text() {
    let short = parse("[[mount]]\nfs = \"ram\"\nat = \"/mnt/scratch\"\noptions = \"size=1GiB,,noexec\"\n");
    assert_eq!(short.mounts[0], parse(TOML).mounts[0]);
    check_report(
        "[[mount]]\nfs = \"ram\"\nat = \"/mnt/my files\"\n",
        &["s:1: the mount at \"/mnt/my files\" has no `name`; write name = \"scratch\", or another name"],
    );
}

#[test]
fn what_is_wrong_with_mounts_is_told_in_both_forms() {
    check_report(
        "mount = 1\n[[export]]\nname = \"v\"\ndevice = \"d\"\n",
        &["s:1: `mount` is no list; write [[mount]]"],
    );
    check_report(
        "[[mount]]\ncache = \"fast\"\noptions = 1\n[[mount]]\nfs = 1\nat = \"/a\"\nsize = 1\n",
        &[
            "s:1: a mount has no `fs`; write fs = \"ram\", or another kind",
            "s:1: a mount has no `at`; write at = \"/mnt/x\", or another directory",
            "s:2: \"fast\" is no mode of a cache; write through, writeback or none",
            "s:3: `options` is neither a text nor a list; write options = \"A\" or options = [\"A\", \"B\"]",
            "s:5: `fs` is no text; write fs = \"...\"",
            "s:7: a mount has no key `size`; it has name, fs, at, device, cache and options",
        ],
    );
    check_report(
        "mount a = ram\nmount b = ram at=/b cache=fast\nmount c = ram at=/c size=1; mount d = ram at=/d at=/e",
        &[
            "s:1: mount \"a\" has no `at`; write at=/mnt/x, or another directory",
            "s:2: \"fast\" is no mode of a cache; write through, writeback or none",
            "s:3: a mount has no option `size`; it has at, cache and options, and may stand on a device",
            "s:3: `at` stands twice; write it once",
        ],
    );
    check_report(
        "mount a = ram at=\"\"\nmount b = ram at=/b on q\nmount b = ram at=/c",
        &[
            "s:1: mount \"a\": `at` names no directory; write at = \"/mnt/x\", or another one",
            "s:2: mount \"b\" is on \"q\", but there is no device \"q\"; there is none",
            "s:3: mount \"b\" is also at s:2; rename one of them",
        ],
    );
}

#[test]
fn exports_and_mounts_share_their_names_and_devices_have_their_own() {
    let refusal = "s:2: export or mount \"b\" is also at s:1; rename one of them";
    check_report("a = file path=x; export b = a\nmount b = ram at=/b", &[refusal]);
    assert!(parse("b = file path=x @ nbd=unix:b; mount m = ram at=/m").check(KINDS).is_ok());
}

/// What is refused of a text with mounts on line 2, without the words that all such refusals have.
fn second_writers(text: &str) -> Vec<String> {
    let told = Spec::parse("s", text).and_then(|spec| spec.check(KINDS)).err();
    let lines = told.map_or(String::new(), |told| told.to_string());
    lines.lines().map(|line| line.split(" too,").next().unwrap().to_string()).collect()
}

#[test]
fn a_file_system_is_the_only_writer_of_its_device() {
    let devices = "d = file path=d; e = file path=e; t = delay on d; s = stripe on t,e\n";
    let with = |rest: &str| second_writers(&format!("{devices}{rest}"));
    assert_eq!(with("mount m = whole at=/m on d; export v = e; export w = d read_only=true"), [""; 0]);
    for (rest, other, device) in [
        ("mount m = whole at=/m on d; export v = d", "export \"v\"", "d"),
        ("mount m = whole at=/m on d; export v = t", "export \"v\"", "d"),
        ("mount m = whole at=/m on d; export v = s", "export \"v\"", "d"),
        ("mount m = whole at=/m on s; export v = e", "export \"v\"", "s"),
        ("mount a = whole at=/a on t; mount m = whole at=/m on t", "mount \"a\"", "t"),
        ("mount a = whole at=/a on s; mount m = whole at=/m on d", "mount \"a\"", "d"),
    ] {
        assert_eq!(with(rest), [format!("s:2: mount \"m\": {other} may change \"{device}\"")], "{rest}");
    }
    let ports = "d = file path=d; p = delay on d\n";
    let with = |rest: &str| second_writers(&format!("{ports}{rest}"));
    assert_eq!(with("mount m = whole at=/m on p.a; export v = p.b; mount n = whole at=/n on p.c"), [""; 0]);
    assert_eq!(with("mount m = whole at=/m on p.a; export v = p.a").len(), 1);
    // Devices on a cycle are told as such, and asking for their writers ends.
    assert_eq!(second_writers("a = delay on b; b = delay on a; mount m = whole at=/m on a; export v = b").len(), 2);
}
