//! A stack as a drawing: volumes are columns, extensions are rows, and lines are what requests do between them.
//! Requests that were passed on are drawn through, those that an extension created are dashed. The colours are Okabe
//! and Ito's, which people with any colour vision can tell apart.

use maud::{Markup, PreEscaped, html};

use crate::exact::{Hop, How};
use crate::explain::Analysis;
use crate::report::handlers_text;
use crate::set::{ExtId, Member, VolId, VolSet};

const FONT: &str = "sans-serif";
/// Of lines that created requests take.
const DASHES: &str = "6 4";
const FORWARD: &str = "#0072b2";
const CREATED: &str = "#d55e00";
/// Pixels.
const LEFT: usize = 190;
const TOP: usize = 96;
const COLUMN: usize = 150;
const ROW: usize = 92;
const BOX: (usize, usize) = (104, 36);
const FOOT: usize = 120;
/// Letters of a name that a box has room for.
const LETTERS: usize = 22;

/// The drawing; `title` stands above it.
pub fn draw(analysis: &Analysis<'_>, title: &str) -> String {
    let mut drawing = Drawing { analysis, elements: Vec::new() };
    drawing.head(title);
    drawing.lines();
    for (row, id) in analysis.run.order().iter().enumerate() {
        drawing.extension(row, *id);
    }
    drawing.volumes();
    let width = LEFT + analysis.setting.volumes.len().max(2) * COLUMN + 20;
    let height = row_top(analysis.run.order().len()) + FOOT;
    let view = format!("0 0 {width} {height}");
    let svg = html! {
        (PreEscaped("<!-- Written by esker stack -->\n"))
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(width) height=(height) role="img" aria-label=(title) {
            rect width="100%" height="100%" fill="white" {}
            @for element in &drawing.elements { "\n" (element) }
        }
    };
    svg.into_string() + "\n"
}

struct Drawing<'a> {
    analysis: &'a Analysis<'a>,
    elements: Vec<Markup>,
}

fn short(text: &str) -> String {
    match text.chars().count() {
        count if count > LETTERS => format!("{}…", text.chars().take(LETTERS - 1).collect::<String>()),
        _ => text.to_string(),
    }
}

fn column(volume: VolId) -> usize {
    LEFT + volume.index() * COLUMN + COLUMN / 2
}

/// The upper edge of a row; the row below the last one is that of the volumes.
fn row_top(row: usize) -> usize {
    TOP + row * ROW
}

impl Drawing<'_> {
    fn text(&mut self, x: usize, y: usize, size: usize, anchor: &str, text: &str) {
        self.elements.push(html! {
            text x=(x) y=(y) font-size=(size) text-anchor=(anchor) font-family=(FONT) fill="#222" { (text) }
        });
    }

    fn head(&mut self, title: &str) {
        self.text(16, 26, 16, "start", title);
        let key = [(FORWARD, None, "requests passed on"), (CREATED, Some(DASHES), "requests created")];
        for (at, (colour, dashes, what)) in key.into_iter().enumerate() {
            let x = 16 + at * 190;
            self.line(&format!("M{x} 44 L{} 44", x + 34), colour, dashes);
            self.text(x + 42, 48, 12, "start", what);
        }
    }

    fn line(&mut self, path: &str, colour: &str, dashes: Option<&str>) {
        self.elements.push(html! {
            path d=(path) fill="none" stroke=(colour) stroke-width="2" stroke-dasharray=[dashes] {}
        });
    }

    /// All requests from the clients down: what no extension of a row sees goes straight on.
    fn lines(&mut self) {
        let setting = self.analysis.setting;
        let mut present: VolSet = setting.visible();
        for volume in present.iter() {
            let (x, y) = (column(volume), row_top(0));
            self.line(&format!("M{x} {} L{x} {y}", y - 22), FORWARD, None);
        }
        for (row, (id, taken)) in self.analysis.run.seen().enumerate() {
            let here = self.analysis.run.hops(id);
            for volume in (present - taken).iter() {
                let (x, y) = (column(volume), row_top(row));
                self.line(&format!("M{x} {y} L{x} {}", y + ROW), FORWARD, None);
            }
            here.iter().for_each(|hop| self.hop(row, hop));
            present = (present - taken) | here.iter().map(|hop| hop.to).collect();
        }
    }

    fn hop(&mut self, row: usize, hop: &Hop) {
        let (from, to) = (column(hop.from), column(hop.to));
        let (top, end) = (row_top(row) + BOX.1, row_top(row) + ROW);
        let is_created = matches!(hop.how, How::Generated | How::Spontaneous);
        // Both kinds may lead the same way: side by side they can be told apart.
        let (colour, dashes, shift) = if is_created { (CREATED, Some(DASHES), 7) } else { (FORWARD, None, 0) };
        let (from, to, middle) = (from + shift, to + shift, (top + end) / 2);
        self.line(&format!("M{from} {top} C{from} {middle} {to} {middle} {to} {end}"), colour, dashes);
    }

    fn extension(&mut self, row: usize, id: ExtId) {
        let setting = self.analysis.setting;
        let extension = setting.extension(id);
        let seen = self.analysis.run.seen().find(|(other, _)| *other == id).map_or(VolSet::EMPTY, |(_, seen)| seen);
        let y = row_top(row);
        self.text(16, y + 16, 15, "start", &short(extension.name()));
        let note = if seen.is_empty() { "starved".to_string() } else { extension.goals().join(", ") };
        self.text(16, y + 32, 11, "start", &short(&note));
        if self.analysis.fixed.iter().any(|(other, _)| *other == id) {
            self.text(16, y + 47, 11, "start", "fixed");
        }
        for volume in extension.input().iter() {
            let (x, fill) = (column(volume) - BOX.0 / 2, if seen.has(volume) { "#cfe8f7" } else { "#eeeeee" });
            self.rounded(x, y, BOX.0, fill);
            self.text(column(volume), y + 23, 13, "middle", &short(extension.name()));
        }
    }

    fn rounded(&mut self, x: usize, y: usize, width: usize, fill: &str) {
        self.elements.push(html! { rect x=(x) y=(y) width=(width) height=(BOX.1) rx="6" fill=(fill) stroke="#555" {} });
    }

    fn volumes(&mut self) {
        let setting = self.analysis.setting;
        let y = row_top(self.analysis.run.order().len());
        for view in &self.analysis.volumes {
            let (x, volume) = (column(view.volume), setting.volume(view.volume));
            if volume.visible {
                self.text(x, TOP - 26, 13, "middle", &short(&volume.name));
            }
            self.rounded(x - BOX.0 / 2, y, BOX.0, "#f6efd9");
            self.text(x, y + 23, 13, "middle", &short(&volume.name));
            self.text(x, y + 54, 11, "middle", &short(&handlers_text(setting, view.handlers)));
        }
        self.text(16, TOP - 26, 13, "start", "clients");
        self.text(16, y + 54, 11, "start", "handled last by");
    }
}
