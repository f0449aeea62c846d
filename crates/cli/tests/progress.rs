//! How far verbs say they are: the table of the page of commands is walked, and each verb that may take long is run so
//! that every report is a line. The page is made from the records of verbs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run the program and look at its files")]

use std::fs;
use std::path::Path;
use std::process::Command;

use esker_testkit::{Ability, skip};

const ESKER: &str = env!("CARGO_BIN_EXE_esker");
const PAGE: &str = include_str!("../../../docs/reference/commands.md");

/// How a verb that may take long is seen at work.
struct Case {
    verb: &'static str,
    /// Lines of a shell. That which begins with `%` is `esker`, whose reports are looked at.
    script: &'static str,
    /// Parts and units that are told with an end in sight.
    parts: &'static [(&'static str, &'static str)],
    needs: Needs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Root, and a file system of its own.
    Mounts,
    /// Root, and programs in the kernel.
    Bpf,
}

const fn case(verb: &'static str, script: &'static str, parts: &'static [(&'static str, &'static str)]) -> Case {
    Case { verb, script, parts, needs: Needs::Nothing }
}

impl Case {
    const fn needs(self, needs: Needs) -> Case {
        Case { needs, ..self }
    }
}

/// A trace of 9,000 requests.
const LOAD: &str = "esker blktrace generate uniform load.csv --to msr --hours 0.005 2>/dev/null\n";
/// A recording of a program.
const DESK: &str = "esker trace generate desk.etrace --seed 3 --threads 4 --scripts 20\n";
/// A server of a mirror whose members do not differ, and whose first one reads slowly.
const MIRROR: &str = "dd if=/dev/zero of=a.img bs=1M seek=1 count=15 2>/dev/null\n\
     esker serve 'a0 = file path=a.img size=16MiB; a = delay read=20ms on a0; b = file path=b.img size=16MiB; \
     vol = mirror initial=assume-clean window=1 on a, b @ nbd=unix:vol.sock' >ready 2>log &\n\
     trap 'esker stop; wait' EXIT\n\
     until grep -q control ready; do sleep 0.05; done\n";

/// A server of a cache.
const CACHE: &str = "esker serve 'home = file path=home.img size=64MiB; fast = file path=fast.img size=16MiB; \
     vol = cache on home, fast @ nbd=unix:vol.sock' >ready 2>log &\n\
     trap 'esker stop; wait' EXIT\n\
     until grep -q control ready; do sleep 0.05; done\n";

const CASES: &[Case] = &[
    case(
        "try",
        "LOAD% try load.csv --stack 'm = disk-model size=64GiB @' --busy 0.5 --json",
        &[("reading traces", ""), ("probe 1 of at most 8", "requests"), ("candidates 1 of 1", "requests")],
    ),
    case(
        "advise",
        "LOADprintf '[[device]]\\nname = \"hdd-7200-2021\"\\n' > shop.toml\n\
         % advise load.csv --catalogue shop.toml --speed 0.05 --target p95=4s --json",
        &[
            ("reading traces", ""),
            ("measuring devices", "devices"),
            ("screening", "proposals"),
            ("candidates", "requests"),
        ],
    ),
    case("calibrate", "% calibrate --rounds 1 --json", &[("round 1 of 1", "steps")]),
    case("init", "% init 'a = file path=a.img size=64MiB; vol = dedup on a @' --json", &[("tables of dedup", "")]),
    case(
        "check",
        "esker init 'a = file path=a.img size=8MiB; b = file path=b.img size=8MiB; vol = mirror on a, b @'\n\
         % check a.img b.img --json",
        &[("a.img", ""), ("b.img", "")],
    ),
    case("order", "CACHE% order vol write-back", &[("write-back", "lines")]),
    case("stack compose", "% stack compose PAIR --goals space", &[("stacks", "looks at most")]),
    case("volume send", "VOLUMES% volume send one --stack 'STACK' >sent", &[("sent", "")]),
    case(
        "volume receive",
        "VOLUMESesker volume send one --stack 'STACK' >sent\n\
         % volume receive copy --stack 'b = file path=b.img size=64MiB; vm = thin ports=\"other=1MiB\" on b' <sent",
        &[("received", "")],
    ),
    case("volume import", "IMPORT% volume import disk.img again --stack 'STACK'", &[("imported", "")]),
    case("volume export", "IMPORT% volume export copy out.img --stack 'STACK'", &[("exported", "")]),
    case("mirror scrub", "MIRROR% mirror scrub vol", &[("scrub", "")]),
    case("mirror replace", "MIRROR% mirror replace vol b 'c = file path=c.img size=16MiB'", &[("resync", "")]),
    case("mirror attach", "MIRROR% mirror attach vol 'c = file path=c.img size=16MiB'", &[("resync", "")]),
    case("blktrace record", "% blktrace record DEVICE --for 3s -o out.blktrace --json", &[("requests of", "s")])
        .needs(Needs::Bpf),
    case("blktrace stat", "LOAD% blktrace stat load.csv --json", &[("load.csv", "")]),
    case("blktrace convert", "LOAD% blktrace convert load.csv out.ebt --json", &[("load.csv", "")]),
    case("blktrace check", "LOAD% blktrace check load.csv --json", &[("load.csv", "")]),
    case(
        "blktrace generate",
        "% blktrace generate uniform out.iolog --hours 0.02 --json",
        &[("out.iolog", "seconds of the trace")],
    ),
    case(
        "blktrace from-fio",
        "printf '[job]\\nrw=randread\\nsize=64M\\nbs=4k\\n' > job.fio\n% blktrace from-fio job.fio -o out.ebt --json",
        &[("out.ebt", "% of the jobs")],
    ),
    case("curve", "LOAD% curve load.csv --json", &[("load.csv, pass 1 of 2", ""), ("load.csv, pass 2 of 2", "")]),
    case("trace import", "DESK% trace import desk.etrace -o other.etrace --json", &[("desk.etrace", "")]),
    case("trace show", "DESK% trace show desk.etrace --json", &[("desk.etrace", "")]),
    case("trace generate", "% trace generate desk.etrace --scripts 20", &[("patterns", "20 patterns")]),
    case(
        "trace compile",
        "DESK% trace compile desk.etrace -o desk.ectr --json",
        &[("desk.etrace", ""), ("compiling", "actions")],
    ),
    case("trace deps", "DESK% trace deps desk.etrace --json", &[("desk.etrace", ""), ("compiling", "actions")]),
    case(
        "trace predict",
        "DESK% trace predict desk.etrace --dir run --json",
        &[("initial tree", ""), ("caches of the program", "files"), ("replay of desk.etrace", "actions")],
    ),
    case(
        "trace prepare",
        "DESK% trace prepare desk.etrace --dir run --json",
        &[("compiling", "actions"), ("initial tree", "")],
    ),
    case(
        "trace replay",
        "DESK% trace replay desk.etrace --dir run --repeat 2 --json -",
        &[("initial tree", ""), ("replay 2 of 2 of desk.etrace", "actions")],
    ),
    case(
        "fs check",
        "IMAGE% fs check lfs --on 'disk = file path=lfs.img @' --json",
        &[("logs", "segments"), ("trees", "checkpoints"), ("the DAT", "entries")],
    ),
    case("fs play", "% fs play NAMES --json", &[("names.script", "calls")]),
    case("lfs clean", "IMAGE% lfs clean --on 'disk = file path=lfs.img @'", &[("cleaning", "segments")]),
    case(
        "nfs replay",
        "esker nfs generate --operations 2000 --users 5 --scale 0.05 >day.txt 2>/dev/null\nmkdir home\n\
         % nfs replay day.txt home --json",
        &[("day.txt", "")],
    ),
    case("nfs generate", "% nfs generate --operations 2000 --users 5 --scale 0.05", &[("trace", "operations")]),
    case(
        "hotcold",
        "mkdir small\nmount -t tmpfs -o size=4100k tmpfs small\ntrap 'umount small' EXIT\n\
         % hotcold small --utilisation 50 --writes 200 --json",
        &[("round 1 of 1, making", "files"), ("round 1 of 1, overwriting", "files")],
    )
    .needs(Needs::Mounts),
    case("lab repeat", "% lab repeat edt-table --quick --repeat 2 --json", &[("experiments", "runs")]),
    case("lab run", "% lab run able-theory --quick --json", &[("able-theory", "s")]),
];

/// Words that stand for longer ones in scripts.
fn whole(script: &str) -> String {
    let names = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/names.script");
    let pair = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stacks/pair.toml");
    let volumes = "esker volume snapshot db one --stack 'STACK'\n";
    let stack = "a = file path=a.img size=64MiB; vm = thin ports=\"db=1MiB\" on a";
    let import = "dd if=/dev/urandom of=disk.img bs=1M count=4 2>/dev/null\n\
                  esker volume import disk.img copy --stack 'STACK' >/dev/null\n";
    let image = "esker fs mkfs lfs --on 'disk = file path=lfs.img size=32MiB @' >/dev/null\n";
    [
        ("LOAD", LOAD),
        ("DESK", DESK),
        ("MIRROR", MIRROR),
        ("IMAGE", image),
        ("IMPORT", import),
        ("VOLUMES", volumes),
        ("STACK", stack),
    ]
    .into_iter()
    .chain([
        ("CACHE", CACHE),
        ("NAMES", names),
        ("PAIR", pair),
        ("LOGVOL", "a = file path=a.img size=64MiB; vol = logvol on a @"),
    ])
    .fold(script.to_string(), |text, (word, long)| text.replace(word, long))
}

/// Whether this machine can run a case.
fn is_able(needs: Needs) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    match needs {
        Needs::Nothing => true,
        Needs::Mounts if !is_root => {
            skip(Ability::Root, "only root mounts a file system of a few MiB");
            false
        }
        Needs::Bpf if !is_root || !Path::new("/sys/kernel/btf/vmlinux").exists() => {
            skip(Ability::Bpf, "the kernel takes no programs of this user, or does not describe its types");
            false
        }
        Needs::Mounts | Needs::Bpf => true,
    }
}

/// A block device of this machine.
fn device() -> String {
    let found = fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names = found.map(|name| name.to_string_lossy().into_owned());
    names.map(|name| format!("/dev/{name}")).find(|path| Path::new(path).exists()).unwrap_or_default()
}

impl Case {
    /// Runs it with a line for each report: standard output and standard error of the verb.
    fn run(&self) -> (String, String) {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut script = "set -e\n".to_string();
        for line in whole(self.script).replace("DEVICE", &device()).lines() {
            let verb = line.strip_prefix("% ").map(|words| {
                let out = if words.contains('>') { "" } else { " >out" };
                format!("ESKER_PROGRESS=0s esker {words}{out} 2>err")
            });
            script += &format!("{}\n", verb.as_deref().unwrap_or(line));
        }
        let path = format!("{}:{}", Path::new(ESKER).parent().expect("a folder").display(), env!("PATH"));
        let mut shell = Command::new("sh");
        let done = shell.args(["-c", &script]).current_dir(folder.path()).env("PATH", path).output();
        let done = done.expect("sh starts");
        let text = |name| fs::read(folder.path().join(name)).unwrap_or_default();
        let [out, err] = ["out", "err"].map(|name| String::from_utf8_lossy(&text(name)).into_owned());
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {}: {told}{err}\n{script}", self.verb, done.status);
        (out, err)
    }

    fn check(&self) {
        if !is_able(self.needs) {
            return;
        }
        let (out, err) = self.run();
        let begin = format!("esker {}: ", self.verb);
        let lines: Vec<&str> = err.lines().filter_map(|line| line.strip_prefix(begin.as_str())).collect();
        for (part, unit) in self.parts {
            let is_told = |line: &&&str| line.contains(part) && line.contains(" of ") && line.contains(unit);
            assert!(lines.iter().any(|line| is_told(&line)), "{}: {part} of {unit}:\n{err}", self.verb);
        }
        assert!(!out.contains(&begin), "{}: standard output has the result alone: {out}", self.verb);
    }
}

/// The verbs that may take long, from the page of commands.
fn long_verbs() -> Vec<&'static str> {
    let table = PAGE.split("<!-- generated: progress -->").nth(1).and_then(|rest| rest.split("<!-- end -->").next());
    let rows = table.unwrap_or_default().lines().filter(|row| row.starts_with("| `") && !row.contains("| waits for "));
    rows.map(|row| row.trim_start_matches("| `").split('`').next().unwrap_or_default()).collect()
}

#[test]
fn each_verb_that_may_take_long_has_a_case_here() {
    let cases: Vec<&str> = CASES.iter().map(|case| case.verb).collect();
    assert_eq!(long_verbs(), cases, "the table of the page, and the cases of this file");
}

/// One test for each part of the table, so that they run beside each other.
fn check_some(of: usize) {
    CASES.iter().skip(of).step_by(4).for_each(Case::check);
}

#[test]
fn verbs_tell_how_far_they_are_first_part() {
    check_some(0);
}

#[test]
fn verbs_tell_how_far_they_are_second_part() {
    check_some(1);
}

#[test]
fn verbs_tell_how_far_they_are_third_part() {
    check_some(2);
}

#[test]
fn verbs_tell_how_far_they_are_fourth_part() {
    check_some(3);
}

#[test]
fn a_start_tells_what_layers_recover() {
    let script = "esker run 'LOGVOL' -- true\n% run 'LOGVOL' -- true";
    let parts =
        &[("heads of the volume", "segments"), ("map of the volume", "pages"), ("log of the volume", "segments")];
    case("run", script, parts).check();
}

#[test]
fn a_wait_tells_what_for() {
    let case = case(
        "stop",
        "esker serve 'm = memory size=1MiB @ nbd=unix:vol.sock' >ready 2>log &\n\
         until grep -q control ready; do sleep 0.05; done\n% stop\nwait",
        &[],
    );
    let (_, err) = case.run();
    let strange = err.lines().find(|line| !line.starts_with("esker stop: waiting for the end of the server, "));
    assert_eq!(strange, None, "{err}");
}

#[test]
fn work_that_ends_at_once_is_silent() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for variable in ["10s", "off"] {
        let mut esker = Command::new(ESKER);
        let args = ["blktrace", "generate", "uniform", "out.iolog", "--hours", "0.02", "--json", "--force"];
        let done = esker.args(args).current_dir(folder.path()).env("ESKER_PROGRESS", variable).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
