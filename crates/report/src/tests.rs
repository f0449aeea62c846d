use maud::html;

use super::*;

fn figure(x: Axis, y: Axis, points: &[(f64, f64)]) -> Figure {
    let series = vec![
        Series::line("one", points.to_vec()),
        Series::marks("two", points.to_vec()),
        Series::help(Style::Guide, points.to_vec()),
        Series::help(Style::Dashed, points.to_vec()),
    ];
    Figure { title: "A <figure>".into(), says: "What \"it\" shows".into(), x, y, series }
}

#[test]
fn a_file_has_a_comment_and_the_name_space() {
    let figure = figure(Axis::linear("a"), Axis::linear("b"), &[(1.0, 2.0)]);
    let (file, element) = (figure.file("ours").unwrap(), figure.svg().unwrap().into_string());
    let begin = "<!-- ours -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox";
    let drawn = element.split_once('>').unwrap().1;
    assert!(file.starts_with(begin) && file.ends_with(&format!("fill=\"white\"></rect>{drawn}\n")), "{file}");
}

#[test]
fn every_pair_of_axes_draws_every_style() {
    let axes = [Axis::linear("a"), Axis::logarithmic("b")];
    for (x, y) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let svg = figure(axes[x].clone(), axes[y].clone(), &[(1.0, 2.0), (10.0, 30.0), (100.0, 4.0)]);
        let svg = svg.svg().unwrap().into_string();
        assert!(svg.starts_with("<svg viewBox") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("one") && svg.contains("two"), "{svg}");
        assert!(svg.matches("<polygon").count() >= 4, "three triangles and one in the legend");
    }
}

#[test]
fn lines_of_one_point_are_bars_with_their_values() {
    let lines = |points: [(f64, f64); 2]| {
        let series = ["all", "reads"].iter().zip(points).map(|(name, point)| Series::line(name, vec![point]));
        Figure { series: series.collect(), ..figure(Axis::linear("hour"), Axis::linear("requests"), &[]) }
    };
    let page = html::figures(&[lines([(0.0, 1235.0), (0.0, 77.0)])]).unwrap().into_string();
    for text in ["\nall\n", "1235", "77", "requests, at hour 0"] {
        assert!(page.contains(text), "{text} is missing in {page}");
    }
    assert!(page.matches("<rect").count() == 2 && !page.contains("<circle"), "{page}");
    let apart = lines([(0.0, 1.0), (3.0, 2.0)]).svg().unwrap().into_string();
    assert!(apart.contains("all at 0") && apart.contains("reads at 3"), "{apart}");
    let longer = Series::line("writes", vec![(0.0, 1.0), (1.0, 2.0)]);
    let mut drawn = lines([(0.0, 1.0), (0.0, 2.0)]);
    drawn.series.push(longer);
    assert!(!drawn.svg().unwrap().into_string().contains("<rect"), "a line is among them");
}

#[test]
fn named_points_have_their_names_and_error_bars_and_no_legend() {
    let point = |name: &str, at: f64| Series {
        errors: vec![(at, [at, 3.0 * at])],
        ..Series::of(Style::Named, name, vec![(at, 2.0 * at)])
    };
    let drawn = |series| {
        Figure { series, ..figure(Axis::linear("a"), Axis::logarithmic("b"), &[]) }.svg().unwrap().into_string()
    };
    let (one, both) = (drawn(vec![point("one", 1.0)]), drawn(vec![point("one", 1.0), point("two", 5.0)]));
    assert_eq!((one.matches(">\none\n<").count(), both.matches(">\ntwo\n<").count()), (1, 1), "{both}");
    let bars = |svg: &str| svg.matches("opacity=\"0.7\"").count();
    assert_eq!((bars(&one), bars(&both)), (3, 6), "a line and its ends for each: {both}");
}

#[test]
fn a_figure_without_points_says_so() {
    let svg = figure(Axis::linear("a"), Axis::linear("b"), &[]).svg().unwrap().into_string();
    assert!(svg.contains("Nothing was measured for this figure."), "{svg}");
}

#[test]
fn lines_of_help_are_behind_and_leave_colours_as_they_are() {
    let points = vec![(1.0, 1.0), (2.0, 2.0)];
    let drawn = |series: Vec<Series>| {
        Figure { series, ..figure(Axis::linear("a"), Axis::linear("b"), &[]) }.svg().unwrap().into_string()
    };
    let (line, dashed) = (Series::line("one", points.clone()), Series::help(Style::Dashed, points));
    let svg = drawn(vec![line.clone(), dashed]);
    let (alone, first) = (drawn(vec![line]), "stroke=\"#0072B2\"");
    let help = svg.find("opacity=\"0.6\"").expect("dashes");
    let start = svg.rfind("<polyline").expect("the line of the series");
    assert!(help < start && svg[start..].contains(first), "{svg}");
    assert!(alone.contains(first) && !alone.contains("opacity=\"0.6\""));
}

#[test]
fn a_table_names_its_rows_explains_its_columns_and_marks_the_best() {
    let rows = [vec!["<a>".to_string(), "1".to_string()], vec!["b".to_string(), "2 & 3".to_string()]];
    let table = html::table(&[("name", "what \"it\" is"), ("n", "count")], &rows, Some(1)).into_string();
    assert!(table.contains("<th scope=\"col\" title=\"what &quot;it&quot; is\">name</th>"), "{table}");
    assert!(table.contains("<tr><th scope=\"row\">&lt;a&gt;</th><td>1</td></tr>"), "{table}");
    assert!(table.contains("<tr class=\"best\"><th scope=\"row\">b</th><td>2 &amp; 3</td></tr>"), "{table}");
    assert_eq!(html::list(&["<x>".to_string()]).into_string(), "<ul><li>&lt;x&gt;</li></ul>");
}

#[test]
fn nothing_zero_and_nonsense_are_drawn_without_a_fault() {
    for points in [&[][..], &[(0.0, 0.0)], &[(-1.0, 5.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)]] {
        for axis in [Axis::linear("a"), Axis::logarithmic("b")] {
            let svg = figure(axis.clone(), axis, points).svg().unwrap().into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn a_page_escapes_text_and_needs_nothing_else() {
    let figures = html::figures(&[figure(Axis::linear("a"), Axis::linear("b"), &[(1.0, 1.0)])]).unwrap();
    let body = html! { (html::section("<S>", &html::verbatim("x < y"))) (figures) };
    let page = html::page("A & B", "Written by -- a test", &body);
    for expected in
        ["<h1>A &amp; B</h1>", "&lt;S&gt;", "x &lt; y", "A &lt;figure&gt;", "What &quot;it&quot; shows", "by - - a"]
    {
        assert!(page.contains(expected), "{expected} is missing");
    }
    for outside in ["http:", "https:", "src=", "@import"] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
}

#[test]
fn a_browser_shows_every_kind_of_figure_wide_and_narrow_light_and_dark() {
    let curve = |factor: f64| (1..200u32).map(|at| (f64::from(at), f64::from(at).sqrt() * factor)).collect();
    let lines = (1..=9u32).map(|at| Series::line(&format!("candidate-{at}"), curve(f64::from(at)))).collect();
    let near = [("disk", 150.0, 285.0), ("disk-1tb", 45.0, 1070.0), ("cached", 290.0, 162.0), ("tiered", 290.0, 246.0)];
    let named = near.iter().map(|(name, x, y)| Series {
        errors: vec![(*x, [y / 1.3, y / 0.7])],
        ..Series::of(Style::Named, name, vec![(*x, *y)])
    });
    let figure = |title: &str, series| Figure { title: title.into(), ..figure_of(series) };
    let figures = [
        figure("Lines", lines),
        figure("Named points", named.collect()),
        figure("One point", vec![Series::line("all", vec![(0.0, 12_345.0)]), Series::line("reads", vec![(0.0, 3.0)])]),
        figure("Nothing", Vec::new()),
    ];
    let categories = ["open", "read", "write"].map(|name| {
        let bar = |value: f64| Bar { error: Some((value * 0.8, value * 1.3)), ..Bar::of(value) };
        Category { name: name.to_string(), bars: vec![bar(12.0), bar(30.5)] }
    });
    let bars = BarChart {
        title: "Categories".to_string(),
        says: "Where time goes.".to_string(),
        unit: "ms".to_string(),
        series: ["/tmp/long/folder/ext4.json", "xfs.json"].map(str::to_string).to_vec(),
        categories: categories.to_vec(),
    };
    let row = |id: &str| dots::DotRow { name: id.to_string(), ours: 0.5, source: Some(0.6) };
    let panels = vec![dots::Panel { unit: "ratio".to_string(), rows: vec![row("a_figure"), row("another_figure")] }];
    let dots =
        DotChart { title: "Dots".to_string(), says: "Beside their source.".to_string(), found: "measured", panels };
    let all = figures.iter().map(|figure| figure as &dyn Drawn).chain([&bars as &dyn Drawn, &dots]);
    let columns: Vec<(&str, &str)> = (0..14).map(|_| ("a wide column", "means")).collect();
    let cells = vec!["a cell <with> & marks".to_string(); 14];
    let body = html! {
        p.label { "simulated" }
        (html::list(&["run `a < b` now".to_string()]))
        (html::figures(all).unwrap())
        (html::table(&columns, &[cells.clone(), cells], Some(1)))
        (html::verbatim(&"a long line of text ".repeat(30)))
    };
    esker_testkit::browser::check("report", &html::page("A page of everything", "a test", &body));
}

fn figure_of(series: Vec<Series>) -> Figure {
    Figure { series, ..figure(Axis::linear("price in US dollars"), Axis::logarithmic("p99 in ms"), &[]) }
}
