//! Figures of an experiment as a chart beside those of its source, and as CSV.

use esker_report::dots::{DotRow, Panel};
use esker_report::{DotChart, PlotError};

use crate::experiment::{Figure, Report};

/// First line of the CSV of an experiment.
const HEAD: &str = "id,value,unit,source,peer,peer_value";

impl Report {
    /// All figures as dots beside the source's own values, in one panel for each unit.
    pub fn chart(&self) -> DotChart {
        let world = if self.simulated { ", simulated" } else { "" };
        let part = if self.quick { ", quick subset" } else { "" };
        DotChart {
            title: format!("{}, seed {}{part}{world}", self.experiment, self.seed),
            says: self.source.clone(),
            found: if self.simulated { "simulated" } else { "measured" },
            panels: panels(&self.figures),
        }
    }

    /// The main plot as an SVG file: the first that the experiment drew, or else the chart of its figures.
    ///
    /// # Errors
    /// If the drawing library refuses.
    pub fn plot(&self, comment: &str) -> Result<String, PlotError> {
        match self.plots.first() {
            Some(plot) => plot.file(comment),
            None => self.chart().file(comment),
        }
    }

    /// All figures as CSV, in full precision: a head, and one row for each.
    pub fn csv(&self) -> String {
        let rows = self.figures.iter().map(|figure| {
            let peer = figure.peer.as_ref();
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            [
                figure.id.clone(),
                figure.value.to_string(),
                figure.unit.to_string(),
                number(figure.paper),
                peer.map(|peer| peer.name.clone()).unwrap_or_default(),
                number(peer.map(|peer| peer.value)),
            ]
            .map(|field| quoted(&field))
            .join(",")
        });
        [HEAD.to_string()].into_iter().chain(rows).map(|row| row + "\n").collect()
    }
}

/// Figures whose units begin with the same word share a panel, for instance all shares.
fn panels(figures: &[Figure]) -> Vec<Panel> {
    let mut panels: Vec<(&str, Vec<&Figure>)> = Vec::new();
    for figure in figures {
        let word = scale(figure.unit);
        match panels.iter_mut().find(|(known, _)| *known == word) {
            Some((_, figures)) => figures.push(figure),
            None => panels.push((word, vec![figure])),
        }
    }
    let panel = |(word, figures): (&str, Vec<&Figure>)| {
        let is_one = figures.iter().all(|figure| figure.unit == figures[0].unit);
        let unit = if is_one { figures[0].unit } else { word }.to_string();
        let row = |figure: &&Figure| DotRow { name: figure.id.clone(), ours: figure.value, source: figure.paper };
        Panel { unit, rows: figures.iter().map(row).collect() }
    };
    panels.into_iter().map(panel).collect()
}

/// The word of a unit that says its scale, or all of a unit that begins with "of".
fn scale(unit: &str) -> &str {
    let word = unit.split_whitespace().next().unwrap_or_default();
    if word == "of" { unit } else { word.trim_end_matches([',', ':', ';']) }
}

/// A field of CSV, in quotation marks where it needs them.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Options};
    use esker_report::{Axis, Figure as Plot, Series};

    const THREE: Experiment = Experiment::simulated("three", |lab| {
        if lab.seed == 2 {
            lab.draw(Plot {
                title: "drawn".to_string(),
                says: String::new(),
                x: Axis::linear("x"),
                y: Axis::linear("y"),
                series: vec![Series::marks("a", vec![(1.0, 2.0)])],
            });
        }
        Ok(vec![
            Figure::alone("gain", 2.0 / 3.0, "share, too long if positive").paper(0.5),
            Figure::alone("time", 12.0, "ms").peer("other \"best\", ms", 24.5),
            Figure::alone("loss", 0.25, "share"),
        ])
    })
    .after("a test");

    fn report(seed: u64) -> Report {
        THREE.report(&Options { quick: true, seed, scratch: ".".into() }, &mut |_| {}).unwrap()
    }

    #[test]
    fn a_row_of_csv_has_value_unit_source_and_peer() {
        let rows = [
            HEAD,
            "gain,0.6666666666666666,\"share, too long if positive\",0.5,,",
            "time,12,ms,,\"other \"\"best\"\", ms\",24.5",
            "loss,0.25,share,,,",
        ];
        assert_eq!(report(1).csv(), rows.join("\n") + "\n");
    }

    #[test]
    fn units_of_one_scale_share_a_panel() {
        let chart = report(1).chart();
        let panels: Vec<_> = chart.panels.iter().map(|panel| (panel.unit.as_str(), panel.rows.len())).collect();
        assert_eq!(panels, [("share", 2), ("ms", 1)]);
        assert_eq!(["of 30 pairs", "ms", "", "1: yes"].map(scale), ["of 30 pairs", "ms", "", "1"]);
        assert_eq!((chart.title.as_str(), chart.says.as_str()), ("three, seed 1, quick subset, simulated", "a test"));
        assert_eq!(chart.panels[0].rows[0].source, Some(0.5));
    }

    #[test]
    fn the_main_plot_is_the_drawn_one_if_there_is_one() {
        let [chart, drawn] = [1, 2].map(|seed| report(seed).plot("ours").unwrap());
        assert!(chart.contains("0.6667 (source 0.5)"), "{chart}");
        assert!(!drawn.contains("0.6667") && drawn.starts_with("<!-- ours -->"), "{drawn}");
    }
}
