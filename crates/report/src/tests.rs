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
