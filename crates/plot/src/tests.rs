use super::*;

fn figure(x: Axis, y: Axis, points: &[(f64, f64)]) -> Figure {
    let series = vec![
        Series::line("one", points.to_vec()),
        Series { name: "two".into(), style: Style::Marks, points: points.to_vec() },
        Series { name: String::new(), style: Style::Guide, points: points.to_vec() },
    ];
    Figure { title: "A <figure>".into(), says: "What \"it\" shows".into(), x, y, series }
}

#[test]
fn every_pair_of_axes_draws_every_style() {
    let axes = [Axis::linear("a"), Axis::logarithmic("b")];
    for (x, y) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let svg = figure(axes[x].clone(), axes[y].clone(), &[(1.0, 2.0), (10.0, 30.0), (100.0, 4.0)]).svg().unwrap();
        assert!(svg.starts_with("<svg viewBox") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("one") && svg.contains("two"), "{svg}");
        assert!(svg.matches("<polygon").count() >= 4, "three triangles and one in the legend");
    }
}

#[test]
fn nothing_zero_and_nonsense_are_drawn_without_a_fault() {
    for points in [&[][..], &[(0.0, 0.0)], &[(-1.0, 5.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)]] {
        for axis in [Axis::linear("a"), Axis::logarithmic("b")] {
            let svg = figure(axis.clone(), axis, points).svg().unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn a_page_escapes_text_and_needs_nothing_else() {
    let figures = html::figures(&[figure(Axis::linear("a"), Axis::linear("b"), &[(1.0, 1.0)])]).unwrap();
    let page =
        html::page("A & B", "Written by -- a test", &(html::section("<S>", &html::verbatim("x < y")) + &figures));
    for expected in
        ["<h1>A &amp; B</h1>", "&lt;S&gt;", "x &lt; y", "A &lt;figure&gt;", "What &quot;it&quot; shows", "by - - a"]
    {
        assert!(page.contains(expected), "{expected} is missing");
    }
    for outside in ["http:", "https:", "src=", "@import"] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
}
