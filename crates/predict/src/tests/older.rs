//! Comparison with an older result, and the Pareto front.

use super::*;
use crate::Older;

fn memory_and_ssd(speed: f64) -> Comparison {
    let candidates = vec![
        candidate("ssd", "vol = ssd-model size=16GiB @"),
        candidate("disk", "vol = disk-model size=16GiB @"),
        candidate("dear", "vol = disk-model size=16GiB price_usd=9999 active_w=99 idle_w=99 @"),
    ];
    compared(ComparisonPlan { speed: SpeedChoice::Factor(speed), ..plan(vec![busy("t", 300)], candidates) })
}

fn against(old: &str, speed: f64) -> Result<Comparison, PredictError> {
    let older = Some(Older::parse("old.json", old)?);
    let candidates = vec![
        candidate("ssd", "vol = ssd-model size=16GiB read=1ms @"),
        candidate("new", "vol = ssd-model size=16GiB @"),
    ];
    let plan = plan(vec![busy("t", 300)], candidates);
    ComparisonPlan { against: older, speed: SpeedChoice::Factor(speed), ..plan }.compare(&silent())
}

#[test]
fn figures_of_equal_names_are_compared_and_the_rest_is_named() {
    let old = memory_and_ssd(1.0);
    let new = against(&old.to_json(), 1.0).unwrap();
    let differences = new.against.as_ref().unwrap();
    assert_eq!(
        (differences.warnings.len(), &differences.new, &differences.gone),
        (0, &vec!["new".to_string()], &vec!["disk".to_string(), "dear".to_string()])
    );
    let ssd = &differences.runs[0];
    assert!(!ssd.same_stack && differences.runs.len() == 1);
    let of = |name: &str| ssd.figures.iter().find(|figure| figure.figure == name).unwrap();
    assert_eq!(of("read p50").old, old.runs[0].reads.p50_ns as f64);
    assert_eq!(of("read p50").new, new.runs[0].reads.p50_ns as f64);
    assert!(of("read p50").ratio.unwrap() > 2.0, "{ssd:?}");
    assert_eq!(of("price").ratio, Some(1.0));
    let told = text(&new);
    assert!(
        told.contains("Against old.json") && told.contains("only here: new") && told.contains("read p50"),
        "{told}"
    );
    let page = page(&new, &Origin::default()).unwrap();
    assert!(page.contains("Against an older result") && page.contains("ssd (another stack)"));
    let json: serde_json::Value = serde_json::from_str(&new.to_json()).unwrap();
    assert_eq!(json["against"]["file"], "old.json");
}

#[test]
fn what_else_differs_is_warned_of() {
    let new = against(&memory_and_ssd(2.0).to_json(), 1.0).unwrap();
    assert_eq!(new.against.unwrap().warnings, ["the speed was 2, now it is 1"]);
}

#[test]
fn what_is_no_result_is_refused() {
    for text in ["", "{}", "[1]", "{\"written_by\": \"somebody\"}"] {
        let told = against(text, 1.0).unwrap_err().to_string();
        assert!(told.contains("old.json: is no result of `esker try`"), "{told}");
    }
    let foreign = memory_and_ssd(1.0).to_json().replace("\"esker try\"", "\"another\"");
    assert!(against(&foreign, 1.0).unwrap_err().to_string().contains("written_by is \"another\""));
}

#[test]
fn the_front_holds_what_nothing_beats_and_no_stack_that_falls_behind() {
    let comparison = memory_and_ssd(1.0);
    assert!(comparison.pareto.contains(&"ssd".to_string()) && !comparison.pareto.contains(&"dear".to_string()));
    let mut runs = comparison.runs;
    runs[0].saturated = Some("behind".to_string());
    assert!(!crate::pareto::front(&runs).contains(&"ssd".to_string()));
}
