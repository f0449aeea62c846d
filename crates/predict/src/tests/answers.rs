//! What the page says first, and how it looks.

use super::*;

/// The page's begin without its markup: the advice, and each answer behind its question.
fn head(comparison: &Comparison) -> Vec<String> {
    let page = page(comparison, &Origin::default()).unwrap();
    let text = |part: &str| part.split('<').filter_map(|piece| Some(piece.split_once('>')?.1)).collect::<String>();
    let part = |begin: &str, end: &str| page.split_once(begin).and_then(|(_, rest)| Some(rest.split_once(end)?.0));
    let advice = format!("<h1>{}", part("<h1>", "</h1>").unwrap());
    let answers = part("<dl", "</dl>").unwrap().split("<dt>").skip(1).map(|answer| text(&format!("<dt>{answer}")));
    [text(&advice)].into_iter().chain(answers).collect()
}

#[test]
fn the_page_begins_with_what_to_buy_and_what_that_bears_costs_and_lasts() {
    let drives = vec![
        candidate("ssd", "vol = ssd-model profile=ssd-sata-2021 size=16GiB @"),
        candidate("disk", "vol = disk-model size=16GiB @"),
    ];
    let head = head(&compared(ComparisonPlan { headroom: true, ..plan(vec![busy("t", 400)], drives) }));
    assert_eq!(head[0], "Buy 1 \u{d7} Samsung 870 EVO, 1 TB, for $140.");
    assert!(head[1].starts_with("p99") && head[1].ends_with("the target is 20.0 ms."), "{head:?}");
    assert!(head[2].starts_with("headroomIt bears ") && head[2].ends_with(" within a p99 of 20.0 ms."), "{head:?}");
    assert_eq!(head[3], "price per TB$140: $140 for 1.0 TB of devices, at prices of 2021.");
    assert!(head[4].starts_with("lifetime writesSamsung 870 EVO, 1 TB: rated for 600 TB; "), "{head:?}");
    assert!(head[4].contains(" years at ") && head[4].ends_with(" a day."), "{head:?}");
}

#[test]
fn several_devices_are_counted_and_what_the_catalogue_lacks_is_said() {
    let mirror = "a = disk-model size=16GiB; b = disk-model size=16GiB; vol = stripe chunk=64KiB on a,b @";
    let slow =
        ComparisonPlan { target_p99: Nanos::secs(60), ..plan(vec![busy("t", 300)], vec![candidate("two", mirror)]) };
    let told = head(&compared(slow));
    let (what, price) =
        ("2 \u{d7} WD Ultrastar DC HC310, 4 TB, for $300", "price per TB$37: $300 for 8.0 TB of devices");
    assert_eq!(told[0], format!("Buy {what}, and use the stack \u{201c}two\u{201d}."));
    assert_eq!(told[3], format!("{price}, at prices of 2021."));
    assert_eq!(told[4], "lifetime writesWD Ultrastar DC HC310, 4 TB: the catalogue has no rating of its writes.");
    let memory = head(&compared(plan(vec![steady("t", 50)], vec![candidate("m", "vol = memory size=1MiB @")])));
    assert!(memory[0].starts_with("Use m ("), "{memory:?}");
    assert_eq!(memory[3], "price per TBNot known: no device is a model with a price.");
    assert_eq!(memory[4], "lifetime writesNot known: no device is a model.");
}

#[test]
fn a_target_that_none_meets_is_said_first() {
    let disk = || vec![candidate("disk", "vol = disk-model size=16GiB @")];
    let missed = ComparisonPlan { target_p99: Nanos(1000), ..plan(vec![busy("t", 300)], disk()) };
    let missed = head(&compared(missed));
    assert!(missed[0].starts_with("No candidate has a p99 of at most 1.00 us; disk ("), "{missed:?}");
    let flood =
        compared(ComparisonPlan { speed: SpeedChoice::Factor(100_000.0), ..plan(vec![busy("t", 4000)], disk()) });
    assert!(head(&flood)[0].starts_with("No candidate "), "{:?}", head(&flood));
}

#[test]
fn a_browser_shows_the_page_wide_and_narrow_light_and_dark() {
    let mut comparison = compared(plan(vec![busy("<x>&", 400)], Vec::new()));
    comparison.runs[0].saturated = Some("it fell <behind>".to_string());
    let origin = Origin { command: "esker try '<x>&'".to_string(), stack: "# stack".to_string() };
    esker_testkit::browser::check("try", &page(&comparison, &origin).unwrap());
    let one = compared(plan(vec![steady("one", 1)], vec![candidate("m", "vol = memory size=1MiB @")]));
    esker_testkit::browser::check("try-one-request", &page(&one, &origin).unwrap());
}
