//! Declarations of extensions: what is taken can be searched, analysed and reported, and the answers fit each other.

use esker_compose::report::{json, svg, text};
use esker_compose::search::branch::compose;
use esker_compose::text::stack_part;
use esker_compose::{Analysis, Built, BuiltDevice, Declaration, samples};

/// Stacks that a search looks at: enough to get to whole ones.
const LOOKS: u64 = 50;

const MIXED: &str = "goals = [\"a\"]\nstack = [\"x\", \"low\"]\n[device.d]\nkind = \"memory\"\n[extension.low]\ngoal = \"a\"\n\
                     [extension.x]\ninput = \"d\"\noutput = \"d\"\nspontaneous = true\n[volume.d]\nweight = 3\n\
                     goals = [\"a\"]\n[constraints]\nabove = [[\"x\", \"low\"]]\npinned = { x = 0 }\nstarved_max = 1\n\
                     forbidden = [[\"low\", \"x\"]]\n";

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    [samples::SIX, samples::OFFLOAD_DEDUP, MIXED].iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(false) };
    if let Some(part) = stack_part(text) {
        let (lines, whole) = (part.lines().count(), text.lines().count());
        if lines != whole {
            return Err(format!("the stack's part has {lines} lines of {whole}"));
        }
    }
    let declared = match Declaration::parse("fuzz", text, &built()) {
        Ok(declared) => declared,
        Err(errors) if errors.list().is_empty() => return Err("refused without a reason".to_string()),
        Err(_) => return Ok(false),
    };
    let problem = declared.problem();
    if let Ok(found) = compose(&problem, LOOKS)
        && problem.judge(&found.order).as_ref() != Some(&found.score)
    {
        return Err(format!("the search says {:?} of {:?}", found.score, found.order));
    }
    let analysis = Analysis::of(&declared.setting, &declared.order, &declared.priorities);
    let drawn = svg::draw(&analysis, "fuzz");
    let told = text::analysis(&analysis, &declared.priorities);
    let known = json::analysis(&analysis)["volumes"].as_array().map_or(0, Vec::len);
    match known == declared.setting.volumes.len() && drawn.ends_with("</svg>\n") && !told.is_empty() {
        true => Ok(true),
        false => Err("a report leaves something out".to_string()),
    }
}

/// A layer on a device.
fn built() -> Built {
    let device = |name: &str, on: &[&str]| BuiltDevice {
        name: name.to_string(),
        on: on.iter().map(ToString::to_string).collect(),
        properties: esker_compose::setting::Properties::ACCESSOR,
        forward: None,
        generate: None,
        is_transparent: !on.is_empty(),
        medium: esker_compose::Medium::Plain,
    };
    Built { devices: vec![device("low", &["d"]), device("d", &[])], exports: vec!["low".to_string()], is_anew: false }
}
