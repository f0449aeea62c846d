use std::collections::BTreeMap;

use esker_block::kind::{Arity, Kind, KindError, Param, ParamType};
use proptest::prelude::*;

use super::check::DEPTH_MAX;
use super::*;

mod mounts;

const fn kind(name: &'static str, lowers: Arity, params: &'static [Param]) -> Kind {
    let layer = Kind::layer(name, "A kind of the tests.", params, |_| {
        Err(KindError::Unfit("the tests of the text build nothing".to_string()))
    });
    Kind { lowers, ..layer }
}

static FILE: Kind = kind(
    "file",
    Arity::None,
    &[
        Param::required("path", ParamType::Text, "Path of the file."),
        Param::with_default("size", ParamType::Size, "1MiB", "Size of the device."),
    ],
);
static DELAY: Kind =
    kind("delay", Arity::One, &[Param::with_default("read", ParamType::Span, "0", "Added to each read.")]);
static STRIPE: Kind =
    kind("stripe", Arity::AtLeast(2), &[Param::with_default("chunk", ParamType::Size, "64KiB", "Bytes in a row.")]);
static KINDS: &[&Kind] = &[&FILE, &DELAY, &STRIPE];

const TOML: &str = r#"# A slow disk.
[device.d1]
kind = "file"
path = "data/d1.img"
size = "64GiB"

[device.slow]
kind = "delay"
on = "d1"
read = "2ms"

[[export]]
name = "vol"
device = "slow"
nbd = "unix:run/vol.sock"
"#;

fn parse(text: &str) -> Spec {
    Spec::parse("s", text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// The whole report about a text, of reading or of checking it.
fn report(text: &str) -> String {
    let checked = Spec::parse("s", text).and_then(|spec| spec.check(KINDS));
    checked.expect_err(text).to_string()
}

fn check_report(text: &str, expected: &[&str]) {
    assert_eq!(report(text).lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn toml_says_devices_and_exports_with_their_lines() {
    let spec = parse(TOML);
    let [d1, slow] = &spec.devices[..] else { panic!("two devices") };
    assert_eq!((d1.name.as_str(), d1.at.line, d1.place_of("size").line), ("d1", 2, 5));
    assert_eq!(
        (slow.kind.as_str(), slow.on.as_slice(), slow.args["read"].as_str()),
        ("delay", &["d1".to_string()][..], "2ms")
    );
    let export = &spec.exports[0];
    assert_eq!(
        (export.device.as_str(), export.nbd.as_deref(), export.at.line),
        ("slow", Some("unix:run/vol.sock"), 12)
    );
    let plan = spec.check(KINDS).unwrap();
    assert_eq!(plan.warnings(), []);
}

#[test]
fn a_chain_names_what_is_below_after_its_top() {
    let chain = parse("vol = file path=data/d1.img size=64GiB | delay read=2ms @ nbd=unix:run/vol.sock");
    let general = parse(
        "vol-1 = file path=data/d1.img size=64GiB; vol = delay read=2ms on vol-1; export vol = vol nbd=unix:run/vol.sock",
    );
    assert_eq!(chain, general);
    assert!(chain.check(KINDS).is_ok());
}

#[test]
fn links_of_a_chain_may_stand_on_more() {
    let spec = parse("a = file path=a; b = file path=b | stripe on a @");
    assert_eq!(spec.device("b").unwrap().on, ["b-1", "a"]);
    assert_eq!((spec.exports[0].name.as_str(), spec.exports[0].nbd.as_deref()), ("b", None));
}

#[test]
fn statements_may_stand_on_lines_with_comments() {
    let spec = parse(
        "# disks\nd1 = file path=a#1 # first\nd2 = file path=\"b;|\\\" \\u{e9}\"\ns = stripe on d1,\n  d2\n  | delay\n  @ read_only=true\n",
    );
    assert_eq!(spec.device("d1").unwrap().args["path"], "a#1");
    assert_eq!(spec.device("d2").unwrap().args["path"], "b;|\" é");
    assert_eq!(spec.device("s").unwrap().at.line, 6);
    assert_eq!(spec.device("s-1").unwrap().on, ["d1", "d2"]);
    assert!(spec.exports[0].read_only);
}

#[test]
fn both_forms_of_one_stack_are_equal_and_canonical() {
    let spec = parse(TOML);
    assert_eq!(spec.to_toml(), TOML.strip_prefix("# A slow disk.\n").unwrap());
    assert_eq!(
        spec.to_line(),
        "d1 = file path=data/d1.img size=64GiB; slow = delay read=2ms on d1; export vol = slow nbd=unix:run/vol.sock"
    );
    assert_eq!(parse(&spec.to_line()), spec);
}

#[test]
fn numbers_and_flags_need_no_quotes_in_toml() {
    let spec = parse("[device.a]\nkind = \"x\"\nn = 0x10\nm = 1_000\nr = 0.50\nf = true\n");
    let args: Vec<_> = spec.devices[0].args.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(args, ["f=true", "m=1000", "n=16", "r=0.50"]);
    assert!(spec.to_toml().contains("r = 0.50\n"));
}

#[test]
fn an_empty_text_is_an_empty_stack() {
    assert_eq!(parse(" \n# nothing\n"), Spec::default());
}

#[test]
fn broken_toml_names_its_line() {
    check_report(
        "[device.a]\nkind = \n",
        &["s:2: this is not TOML: string values must be quoted, expected literal string"],
    );
}

#[test]
fn everything_that_is_not_of_the_toml_form_is_reported_at_once() {
    check_report(
        "name = \"x\"\n[device.a]\npath = [1]\n[device.b]\nkind = 1\non = [1]\n[[export]]\nport = 1\n",
        &[
            "s:1: unknown key `name`; only [device.NAME], [[export]] and [[mount]] stand at the top",
            "s:2: device \"a\" has no `kind`; write kind = \"file\", or another kind",
            "s:3: parameter `path` is a array; a parameter is one text, number or flag",
            "s:5: `kind` is no text; write kind = \"...\"",
            "s:6: the list `on` holds something else than texts; write on = [\"A\", \"B\"]",
            "s:7: an export has no `name`; write name = \"vol\"",
            "s:7: an export has no `device`; write device = \"NAME\"",
            "s:8: an export has no key `port`; it has name, device, nbd and read_only",
        ],
    );
}

#[test]
fn each_broken_statement_is_reported() {
    check_report(
        "a = file path; b = file path=\"x\nc = file path=a path=b; d = file on=a; e = file |\nexport f g; h = file path=\"\\q\"; i = file path=; j = file path=a\"b\"",
        &[
            "s:1: `path` stands alone; write path=VALUE without blanks",
            "s:1: a quote is not closed on its line; close it with \"",
            "s:2: `path` stands twice; write it once",
            "s:2: `on` is no parameter; write KIND PARAM=VALUE on NAME",
            "s:3: `f` stands alone; write f=VALUE without blanks",
            "s:3: unknown escape in quotes; write \\\\ \\\" \\n \\r \\t or \\u{HEX}",
            "s:3: `path=` has no value; write \"\" for an empty one",
            "s:3: a quote inside the value of `path`; put the whole value in quotes",
        ],
    );
}

#[test]
fn a_device_without_a_name_is_told_how_to_write_one() {
    let said = "s:1: no `=` behind `file`; write NAME = KIND ..., export NAME = DEVICE or mount NAME = KIND ...";
    check_report("file path=c.img size=1GiB", &[said]);
}

#[test]
fn an_unknown_kind_gets_the_nearest_one() {
    check_report("a = fiel path=x @", &["s:1: unknown kind \"fiel\"; did you mean \"file\"?"]);
    check_report("a = zzz @", &["s:1: unknown kind \"zzz\"; the kinds are: file, delay, stripe"]);
}

#[test]
fn parameters_are_judged_where_they_stand() {
    check_report(
        "[device.a]\nkind = \"file\"\nsize = \"many\"\ncolour = \"red\"\n",
        &[
            "s:1: device \"a\": file needs the parameter \"path\" (Path of the file.)",
            "s:3: device \"a\": size = \"many\": expected a size: a whole number of bytes, or one with a unit such as 4KiB, 512MiB, 64GiB, 2TiB or 1PiB",
            "s:4: device \"a\": unknown parameter \"colour\"; file has: path, size",
        ],
    );
}

#[test]
fn references_to_nothing_are_named() {
    check_report(
        "disk1 = file path=x; a = delay on disk2\nb = delay on zzz.port; export c = q",
        &[
            "s:1: device \"a\" is on \"disk2\", but there is no device \"disk2\"; did you mean \"disk1\"?",
            "s:2: device \"b\" is on \"zzz.port\", but there is no device \"zzz\"; the devices are: a, b, disk1",
            "s:2: export \"c\" is on \"q\", but there is no device \"q\"; the devices are: a, b, disk1",
        ],
    );
}

#[test]
fn a_cycle_is_printed_as_a_path() {
    check_report(
        "top = delay on a\na = delay on b\nb = stripe on d,c\nc = delay on a\nd = file path=x\nself = delay on self",
        &[
            "s:2: devices stand on each other: a -> b -> c -> a; a chain must end at a device that is on nothing",
            "s:6: devices stand on each other: self -> self; a chain must end at a device that is on nothing",
        ],
    );
}

#[test]
fn the_number_of_lower_ends_is_that_of_the_kind() {
    check_report(
        "a = file path=x on b; b = delay\nc = delay on a,b; d = stripe on a",
        &[
            "s:1: device \"a\" is on 1 device, but file needs none; remove `on`",
            "s:1: device \"b\" is on nothing, but delay needs one; name one device behind `on`",
            "s:2: device \"c\" is on 2 devices, but delay needs one; name one device behind `on`",
            "s:2: device \"d\" is on 1 device, but stripe needs at least 2; name at least 2 devices behind `on`",
        ],
    );
}

#[test]
fn names_are_sound_and_stand_once() {
    check_report(
        "a = file path=x; a = file path=y\n-b = delay on a\nexport v = a; export v = -b nbd=tcp:x",
        &[
            "s:1: device \"a\" is also at s:1; rename one of them",
            "s:2: \"-b\" is no name; use letters, digits, _ and -, at most 64 of them, and do not begin with -",
            "s:3: export \"v\" is also at s:3; rename one of them",
            "s:3: export \"v\": nbd = \"tcp:x\": the port is missing; write unix:PATH or tcp:HOST:PORT",
        ],
    );
}

#[test]
fn what_nothing_uses_is_a_warning() {
    let plan = parse("a = file path=x @; b = file path=y").check(KINDS).unwrap();
    let warnings: Vec<String> = plan.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["s:1: device \"b\" is used by nothing; export it, put a device on it, or remove it"]);
}

fn chain_of(devices: usize) -> String {
    let layers = (1..devices).map(|i| format!("d{i} = delay on d{}\n", i - 1));
    "d0 = file path=x\n".to_string() + &layers.collect::<String>()
}

#[test]
fn a_chain_of_the_greatest_depth_is_ordered_and_a_deeper_one_is_refused_once() {
    let plan = parse(&chain_of(DEPTH_MAX)).check(KINDS).unwrap();
    assert!(plan.lowers_first().eq(0..DEPTH_MAX));
    assert!(plan.uppers_first().eq((0..DEPTH_MAX).rev()));
    let refusal = "s:65: device \"d64\" has more than 64 devices above each other, itself among them; leave layers out";
    check_report(&chain_of(DEPTH_MAX + 1), &[refusal]);
    check_report(&chain_of(20_000), &[refusal]);
}

static LOCK: Kind = kind("lock", Arity::One, &[Param::required("key", ParamType::Secret, "Where the key is.")]);
static LOCKED: &[&Kind] = &[&FILE, &LOCK];
const KEY: &str = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";

#[test]
fn no_refusal_repeats_a_key_that_stands_in_the_text() {
    let wrong = ["key=KEY", "key=env:KEY", "key=file:KEY", "key=\"KEY\"", "key=KEY\"", "key= KEY", "KEY", "kye=KEY"];
    let texts = wrong.map(|param| format!("a = file path=x | lock {param} @").replace("KEY", KEY));
    let toml = [format!("key = \"{KEY}\""), format!("key = [\"{KEY}\"]"), format!("key = {KEY}")];
    let toml =
        toml.map(|key| format!("[device.f]\nkind=\"file\"\npath=\"x\"\n[device.a]\nkind=\"lock\"\non=\"f\"\n{key}\n"));
    for text in texts.iter().chain(&toml) {
        let told = Spec::parse("s", text).and_then(|spec| spec.check(LOCKED)).expect_err(text).to_string();
        assert!(!told.contains(&KEY[..16]), "{text}: {told}");
    }
    let told = Spec::parse("s", &texts[0]).unwrap().check(LOCKED).unwrap_err().to_string();
    let wanted = "file:PATH or env:NAME; a stack text names the place of a key and does not hold the key";
    assert_eq!(told, format!("s:1: device \"a\": key = \"(not shown)\": expected {wanted}"));
}

#[test]
fn a_log_shows_only_values_that_cannot_be_a_secret() {
    let shown = |text: &str| parse(text).devices.remove(0).shown(LOCKED).args.into_values().collect::<Vec<_>>();
    assert_eq!(shown("a = lock key=env:NAME check=strict"), ["strict", "env:NAME"]);
    assert_eq!(shown("a = file path=KEY size=1MiB"), ["KEY", "1MiB"]);
    for text in ["a = lock key=KEY", "a = lock kye=KEY", "a = luck key=KEY"] {
        assert_eq!(shown(text), ["(not shown)"], "{text}");
    }
}

fn name() -> impl Strategy<Value = String> {
    let words = proptest::sample::select(vec!["on", "export", "mount"]).prop_map(str::to_string);
    prop_oneof![4 => "[a-zA-Z0-9_][a-zA-Z0-9_-]{0,8}", 2 => words]
}

fn reference() -> impl Strategy<Value = String> {
    (name(), proptest::option::of(name())).prop_map(|(name, port)| match port {
        Some(port) => format!("{name}.{port}"),
        None => name,
    })
}

/// Texts of all sorts, among them what each form treats in its own way.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9]{1,22}",
        "[0-9]{0,4}\\.[0-9]{0,4}",
        "[a-z0-9 ;|@#=\"'\\\\\n\r\t{}]{0,12}",
        Just("true".to_string()),
        Just("inf".to_string()),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let at = || Location::new("s", 1);
    let key = name().prop_filter("words of the form itself", |key| key != "on" && key != "kind");
    let args = proptest::collection::btree_map(key, value(), 0..4);
    let device = ("[a-z][a-z0-9-]{0,8}", proptest::collection::vec(reference(), 0..4), args);
    let devices = proptest::collection::btree_map(name(), device, 0..5).prop_shuffle_map();
    let export = (name(), reference(), proptest::option::of(value()), any::<bool>());
    let exports = proptest::collection::vec(export, 0..3);
    let mounts = proptest::collection::vec(mount(), 0..3);
    (devices, exports, mounts).prop_map(move |(devices, exports, mounts)| Spec {
        devices: devices
            .into_iter()
            .map(|(name, (kind, on, args))| DeviceSpec::new(&name, &kind, on, args, at()))
            .collect(),
        exports: exports
            .into_iter()
            .map(|(name, device, nbd, read_only)| ExportSpec { name, device, nbd, read_only, at: at() })
            .collect(),
        mounts,
    })
}

fn mount() -> impl Strategy<Value = MountSpec> {
    let option = any::<String>().prop_filter("an option", |option| !option.is_empty() && !option.contains(','));
    let options = proptest::collection::vec(option, 0..3);
    let device = proptest::option::of(reference());
    let said =
        (name(), "[a-z][a-z0-9-]{0,8}", value(), device, proptest::sample::select(KernelCache::ALL.to_vec()), options);
    said.prop_map(|(name, fs, dir, device, cache, options)| MountSpec {
        name,
        fs,
        dir,
        device,
        cache,
        options,
        at: Location::new("s", 1),
    })
}

/// Gives the entries of a map in a random order: a text has its own.
trait ShuffleMap<K, V>: Strategy<Value = BTreeMap<K, V>> + Sized {
    fn prop_shuffle_map(self) -> impl Strategy<Value = Vec<(K, V)>>;
}

impl<K, V, S> ShuffleMap<K, V> for S
where
    K: std::fmt::Debug + Clone + 'static,
    V: std::fmt::Debug + Clone + 'static,
    S: Strategy<Value = BTreeMap<K, V>>,
{
    fn prop_shuffle_map(self) -> impl Strategy<Value = Vec<(K, V)>> {
        self.prop_flat_map(|map| Just(map.into_iter().collect::<Vec<_>>()).prop_shuffle())
    }
}

/// Pieces of both forms, so that random texts get far into the readers.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        3 => "[a-z]{1,3}",
        2 => " ",
        8 => proptest::sample::select(vec![
            "=", " = ", "|", ";", "@", ",", "\"", "#", "\n", " on ", "export ", "mount ", " at=", "\\u{", "}", "[device.",
            "]\n", "[[export]]\n", "[[mount]]\n", "fs = \"ram\"\nat = \"/m\"\n",
            "kind = \"file\"\n", "{", "[", "'", "0x1f", "é", ".",
        ]).prop_map(str::to_string),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(scrap, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn toml_reads_back(spec in spec()) {
        let text = spec.to_toml();
        prop_assert_eq!(Spec::parse("s", &text).map_err(|e| format!("{text}\n{e}")), Ok(spec));
    }

    #[test]
    fn lines_read_back(spec in spec()) {
        let text = spec.to_line();
        prop_assert_eq!(Spec::parse("s", &text).map_err(|e| format!("{text}\n{e}")), Ok(spec));
    }

    #[test]
    fn any_text_gives_a_spec_or_errors_with_lines_inside_it(text in prop_oneof![scraps(), any::<String>()]) {
        let lines = text.matches('\n').count() as u32 + 1;
        match Spec::parse("s", &text).and_then(|spec| spec.check(KINDS).map(|plan| (spec, plan))) {
            Ok((spec, plan)) => {
                prop_assert_eq!(&parse(&spec.to_toml()), &spec);
                prop_assert_eq!(plan.lowers_first().count(), spec.devices.len());
            }
            Err(errors) => {
                prop_assert!(!errors.list().is_empty());
                prop_assert!(errors.list().iter().all(|e| (1..=lines).contains(&e.place.line)), "{}", errors);
            }
        }
    }

    #[test]
    fn lowers_come_before_uppers(edges in proptest::collection::vec(proptest::collection::vec(any::<proptest::sample::Index>(), 0..3), 1..12)) {
        // Device i may stand on later devices only, so there is no cycle.
        let count = edges.len();
        let device = |(i, on): (usize, &Vec<proptest::sample::Index>)| {
            let below = count - i - 1;
            let on = on.iter().filter(|_| below > 0).map(|at| format!("d{}", i + 1 + at.index(below))).collect::<Vec<_>>();
            let (kind, args) = match on.len() { 0 => ("file", "path=x"), 1 => ("delay", ""), _ => ("stripe", "") };
            let on = if on.is_empty() { String::new() } else { format!("on {}", on.join(",")) };
            format!("d{i} = {kind} {args} {on}")
        };
        let spec = parse(&edges.iter().enumerate().map(device).collect::<Vec<_>>().join(";"));
        let order: Vec<usize> = spec.check(KINDS).unwrap().lowers_first().collect();
        prop_assert_eq!(order.len(), count);
        for (at, i) in order.iter().enumerate() {
            for lower in &spec.devices[*i].on {
                let lower: usize = lower[1..].parse().unwrap();
                prop_assert!(order[..at].contains(&lower));
            }
        }
    }
}
