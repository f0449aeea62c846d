//! Reports of the thesis' scenario.

use super::{order, read};
use crate::explain::{Analysis, Cause};
use crate::report::{json, svg, text};
use crate::samples;

#[test]
fn a_lost_goal_is_reported_with_the_request_that_shows_it() {
    let declared = read(samples::OFFLOAD_DEDUP);
    let order = order(&declared.setting, "IO DD");
    let analysis = Analysis::of(&declared.setting, &order, &declared.priorities);
    let failed: Vec<&str> = analysis.failed().map(|goal| goal.goal.as_str()).collect();
    assert_eq!(failed, ["energy"]);
    let shown = text::analysis(&analysis, &declared.priorities);
    let why = "D: DD handles a request after IO: a client sends to D, IO leads to D_r, DD passes on";
    assert!(shown.contains(why), "{shown}");
    let value = json::analysis(&analysis);
    assert_eq!(value["goals"][1]["lost"][0]["path"][1]["to"], "D_r");
    assert_eq!(value["score"], serde_json::json!([2, 0]));
}

#[test]
fn a_starved_extension_shows_who_led_its_requests_away() {
    let setting = super::six();
    let order = order(&setting, "IO LC");
    let analysis = Analysis::of(&setting, &order, &crate::goals::Priorities::general(&["performance"]));
    let view = analysis.extension(order[1]).unwrap();
    assert!(view.is_starved);
    assert_eq!(view.lost[0].cause, Cause::Starved);
    assert_eq!(view.lost[0].path.last().unwrap().by, Some(order[0]));
    let shown = text::witnesses(&analysis, (Some(order[1]), None));
    assert!(shown.contains("LC sees no request: a client sends to D, IO leads to D_r"), "{shown}");
}

#[test]
fn a_wrong_claim_of_the_grid_is_flagged() {
    let declared = read(
        "[volume.v0]\n[volume.v1]\n[volume.v2]\n[extension.A]\ninput = [\"v0\", \"v1\"]\noutput = [\"v0\", \"v2\"]\n\
         properties = \"mutator\"\nforward = { v0 = \"v2\", v1 = \"v0\" }\n[extension.B]\ninput = \"v2\"\noutput = \"v2\"\n",
    );
    let analysis = Analysis::of(&declared.setting, &declared.order, &declared.priorities);
    let shown = text::analysis(&analysis, &declared.priorities);
    assert!(shown.contains("v0: the grid says B is dominant, which is wrong (split: A, B)"), "{shown}");
}

#[test]
fn the_drawing_is_sound_xml_with_every_name_escaped() {
    let setting = super::six();
    let order = order(&setting, "BV IO DD MF IS LC");
    let analysis = Analysis::of(&setting, &order, &crate::goals::Priorities::default());
    let drawn = svg::draw(&analysis, "six & \"more\"");
    assert!(drawn.starts_with("<!-- Written by esker stack -->\n<svg ") && drawn.ends_with("</svg>\n"));
    assert!(drawn.contains("six &amp; &quot;more&quot;") && !drawn.contains("& "));
    for name in setting.names(&order) {
        assert!(drawn.contains(&format!(">{name}</text>")), "{name}");
    }
    let opened = drawn.matches("<text").count();
    assert_eq!(opened, drawn.matches("</text>").count());
    assert!(drawn.matches("stroke-dasharray").count() > 5, "created requests are dashed");
}
