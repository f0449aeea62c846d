use super::*;
use crate::built::BuiltDevice;
use crate::setting::Properties;

const HEAD: &str = "[volume.D]\n[volume.E]\n[extension.A]\ngoal = \"space\"\ninput = \"D\"\noutput = \"E\"\n";

/// What is said about `text`, one error a line.
fn errors(text: &str) -> String {
    match Declaration::parse("t", text, &Built::default()) {
        Ok(declared) => panic!("taken: {declared:?}"),
        Err(errors) => errors.to_string(),
    }
}

fn refused(text: &str, wanted: &str) {
    let text = format!("{HEAD}{text}");
    assert_eq!(errors(&text), format!("t:{wanted}"));
}

#[test]
fn unknown_words_are_refused_with_line_and_nearest_word() {
    let property = "there is no property \"modifier\"; choose from accessor, mutator, generator";
    refused(
        "[extension.B]\ninput = \"DD\"\noutput = \"E\"\n",
        "8: extension \"B\": there is no volume \"DD\"; did you mean \"D\"?",
    );
    refused(
        "[extension.B]\ninput = \"D\"\noutput = \"E\"\nproperties = \"modifier\"\n",
        &format!("10: extension \"B\": {property}"),
    );
    let known = "unknown field `inptu`, expected one of";
    assert!(errors(&format!("{HEAD}[extension.B]\ninptu = \"D\"\n")).starts_with(&format!("t:8: {known}")));
}

#[test]
fn unknown_extensions_and_goals_are_refused_where_they_stand() {
    let with = |first: &str| errors(&format!("{first}\n{HEAD}"));
    assert_eq!(with("stack = [\"A\", \"B\"]"), "t:1: `stack`: there is no extension \"B\"; the extensions are: A");
    assert_eq!(with("stack = [\"A\", \"A\"]"), "t:1: `stack` names \"A\" twice; remove one");
    assert_eq!(with("goals = \"spcae\""), "t:1: no extension serves the goal \"spcae\"; did you mean \"space\"?");
    assert_eq!(with("goals = [\"space\", \"space\"]"), "t:1: the list of goals names \"space\" twice; remove one");
}

#[test]
fn empty_domains_are_refused() {
    let empty = |which: &str| format!("its {which} domain is empty; write {which} = [\"VOLUME\", ...]");
    refused("[extension.B]\ninput = []\noutput = \"E\"\n", &format!("7: extension \"B\": {}", empty("input")));
    refused("[extension.B]\ninput = \"D\"\n", &format!("7: extension \"B\": {}", empty("output")));
}

#[test]
fn maps_that_domains_or_properties_deny_are_refused() {
    let of_b = |rest: &str, wanted: &str| {
        let text = format!("[extension.B]\ninput = \"D\"\noutput = [\"D\"]\n{rest}\n");
        refused(&text, &format!("7: extension \"B\": {wanted}"));
    };
    of_b("forward = \"E\"", "from \"D\" it leads to E, outside its output; add that to `output`, or change the map");
    of_b("forward = { D = [] }", "requests to \"D\" are forwarded nowhere; write forward = { D = [\"VOLUME\"] }");
    of_b(
        "properties = \"accessor\"\ngenerate = \"D\"",
        "it is no generator, but creates requests for those to \"D\"; add \"generator\" to `properties`, or remove \
         `generate`",
    );
    refused(
        "[extension.B]\ninput = \"D\"\noutput = [\"D\", \"E\"]\nproperties = \"generator\"\nforward = \"E\"\n",
        "7: extension \"B\": it is no mutator, but sends requests to \"D\" elsewhere; add \"mutator\" to `properties`, or \
         forward each volume to itself",
    );
    refused(
        "[extension.B]\ninput = \"D\"\noutput = \"E\"\nforward = { E = \"E\" }\n",
        "10: extension \"B\": a map begins at \"E\", which is not in its input domain; add it there, or remove it from \
         the map",
    );
}

#[test]
fn names_stand_once_and_are_sound() {
    assert!(errors(&format!("{HEAD}[extension.A]\ninput = \"D\"\n")).contains("duplicate key"));
    refused(
        "[volume.\"a b\"]\n",
        "7: \"a b\" is no name; use letters, digits, _, - and ., at most 64 of them, and do not begin with -",
    );
}

#[test]
fn contradicting_constraints_are_refused() {
    let with = |rest: &str, wanted: &str| {
        let text = format!("[extension.B]\ninput = \"D\"\noutput = \"E\"\n[constraints]\n{rest}\n");
        refused(&text, wanted);
    };
    with(
        "above = [[\"A\", \"B\"], [\"B\", \"A\"]]",
        "11: constraints: they stand above each other: A > B > A; remove one of these demands from `above`",
    );
    with("pinned = { A = 2 }", "11: constraints: \"A\" is pinned to place 2; places are 0 (the top) to 1");
    with(
        "pinned = { A = 0, B = 0 }",
        "11: constraints: \"A\" and \"B\" are pinned to one place; give one of them another place",
    );
    with(
        "forbidden = [[\"A\"]]",
        "11: `forbidden` takes pairs: [[\"UPPER\", \"LOWER\"], ...]; see `esker help stack compose` for the form",
    );
    with("above = [[\"A\", \"C\"]]", "11: `above`: there is no extension \"C\"; the extensions are: A, B");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = format!("{HEAD}[extension.B]\ninput = \"X\"\noutput = \"Y\"\n[extension.C]\noutput = \"D\"\n");
    let lines: Vec<String> = errors(&text).lines().map(|line| line[..4].to_string()).collect();
    assert_eq!(lines, ["t:8:", "t:9:", "t:10"]);
}

#[test]
fn more_than_can_be_reasoned_about_is_refused() {
    let volumes: String = (0..65).map(|at| format!("[volume.v{at}]\n")).collect();
    assert_eq!(errors(&volumes), "t:1: 65 volumes, and at most 64 can be reasoned about; leave some out");
    let extension = |at| format!("[extension.e{at}]\ninput = \"D\"\noutput = \"D\"\n");
    let extensions: String = (0..33).map(extension).collect();
    let text = format!("[volume.D]\n{extensions}");
    assert_eq!(errors(&text), "t:1: 33 extensions, and at most 32 can be reasoned about; leave some out");
    let long = " ".repeat(TEXT_MAX + 1);
    assert!(errors(&long).starts_with("t:1: the text has 1048577 bytes"));
}

#[test]
fn what_is_not_declared_is_the_worst_case() {
    let text = "[volume.D]\n[volume.E]\n[extension.A]\ninput = \"D\"\noutput = [\"D\", \"E\"]\n";
    let declared = Declaration::parse("t", text, &Built::default()).unwrap();
    let extension = &declared.setting.extensions[0];
    let route = extension.route(declared.setting.find_volume("D").unwrap()).unwrap();
    assert_eq!((route.forward, route.generate), (extension.output(), extension.output()));
    assert!(extension.properties().mutator && extension.properties().generator);
}

#[test]
fn a_command_lines_goals_replace_the_texts() {
    let text = format!("goals = \"space\"\n{HEAD}");
    let mut declared = Declaration::parse("t", &text, &Built::default()).unwrap();
    declared.want("D=space").unwrap();
    assert_eq!(declared.priorities.of_volume.len(), 1);
    let told = declared.want("X=space").unwrap_err().to_string();
    assert_eq!(told, "--goals: there is no volume \"X\"; the volumes are: D, E");
    let told = declared.want("speed").unwrap_err().to_string();
    assert_eq!(told, "no extension serves the goal \"speed\"; goals of the extensions are: space");
}

fn built() -> Built {
    let device = |name: &str, on: &[&str]| BuiltDevice {
        name: name.to_string(),
        on: on.iter().map(ToString::to_string).collect(),
        properties: Properties::ACCESSOR,
        forward: None,
        generate: None,
        is_transparent: !on.is_empty(),
        medium: crate::Medium::Plain,
    };
    Built {
        devices: vec![device("top", &["low"]), device("low", &["d"]), device("d", &[])],
        exports: vec!["top".into()],
        is_anew: false,
    }
}

#[test]
fn layers_of_a_stack_and_declared_extensions_share_volumes() {
    let text = "[extension.low]\ngoal = \"speed\"\n[extension.X]\ninput = \"d\"\noutput = \"d\"\n";
    let declared = Declaration::parse("t", text, &built()).unwrap();
    assert_eq!(declared.setting.names(&declared.order), ["X", "top", "low"]);
    assert_eq!(declared.setting.volumes.len(), 1);
    let low = declared.setting.extension(declared.setting.find("low").unwrap());
    assert!(low.properties().is_accessor() && low.goals() == ["speed"]);
    assert_eq!(declared.setting.names(&declared.built), ["top", "low"]);
}

#[test]
fn domains_of_layers_follow_from_their_stack() {
    let errors = Declaration::parse("t", "[extension.low]\ninput = \"d\"\n", &built()).unwrap_err().to_string();
    let wanted = "t:2: extension \"low\" is a layer of the stack here, from which its input follows; remove `input`";
    assert_eq!(errors, wanted);
}

#[test]
fn the_stacks_text_is_cut_out_line_by_line() {
    let text = "goals = [\n  \"a\",\n]\n[device.d1]\nkind = \"file\" # [volume.x]\npath = '''\n[volume.x]\n'''\n\n\
                [constraints]\nabove = [\n[\"a\", \"b\"]\n]\n[[export]]\nname = \"v\"\n[[mount]]\nfs = \"ram\"\n[volume.v]\n";
    let wanted = "\n\n\n[device.d1]\nkind = \"file\" # [volume.x]\npath = '''\n[volume.x]\n'''\n\n\n\n\n\n[[export]]\nname = \"v\"\n[[mount]]\nfs = \"ram\"\n\n";
    assert_eq!(stack_part(text).as_deref(), Some(wanted));
    assert_eq!(stack_part("[device.d]\nkind = \"x\"\n"), None, "all of it is a stack's text");
    assert_eq!(stack_part("vol = memory size=1MiB @"), None);
}
