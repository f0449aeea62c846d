//! The screen of `esker top`, drawn for any size of terminal.

use esker_serve::View;
use esker_serve::rates::{ClientRow, Row};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::app::App;
use super::columns::{CLIENTS, Column, PLACES, lines as lines_of};
use super::text::{alarms, headline, states};

const HELP: [&str; 10] = [
    "q, Esc    leave",
    "h, ?      this help",
    "s         sort by the next column",
    "r         turn the order round",
    "c         clients, or places",
    "m         measure layers too, or devices alone",
    "space     stop and go",
    "+, -      longer or shorter interval",
    "up, down  scroll",
    "Rates and latencies are of the last interval.",
];

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let alarm_lines = alarm_lines(app);
    let states: Vec<Line<'static>> = app.view.iter().flat_map(states).map(Line::raw).collect();
    let heights = [2, alarm_lines.len() as u16, states.len() as u16].map(Constraint::Length);
    let [top, middle, about, bottom] =
        Layout::vertical(heights.into_iter().chain([Constraint::Min(0)])).areas(frame.area());
    frame.render_widget(Paragraph::new(Text::from(title(app))), top);
    let alarm = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(Text::from(alarm_lines)).style(alarm), middle);
    frame.render_widget(Paragraph::new(Text::from(states)), about);
    if let Some(view) = &app.view {
        let lines = match app.clients {
            true => table(&CLIENTS, &sorted_clients(app, view), bottom, app.scrolled),
            false => table(&PLACES, &sorted_places(app, view), bottom, app.scrolled),
        };
        frame.render_widget(Paragraph::new(Text::from(lines)), bottom);
    }
    if app.help {
        draw_help(frame);
    }
}

fn title(app: &App) -> Vec<Line<'static>> {
    let state = if app.paused { "stopped" } else { "every" };
    let order = if app.reversed { "reversed" } else { "by" };
    let how = format!(
        "esker top  {}  {state} {} s  {order} {}  h: help",
        app.place,
        app.interval.as_secs_f64(),
        app.sort.word()
    );
    let what = app.view.as_ref().map_or_else(|| "no answer yet".to_string(), headline);
    vec![Line::styled(how, Style::new().add_modifier(Modifier::BOLD)), Line::raw(what)]
}

fn alarm_lines(app: &App) -> Vec<Line<'static>> {
    let server = app.error.iter().cloned();
    server.chain(app.view.iter().flat_map(alarms)).map(|alarm| Line::raw(format!("! {alarm}"))).collect()
}

fn sorted_places(app: &App, view: &View) -> Vec<Row> {
    let mut rows = view.rows.clone();
    app.sort.places(&mut rows);
    turned(rows, app.reversed)
}

fn sorted_clients(app: &App, view: &View) -> Vec<ClientRow> {
    let mut rows = view.clients.clone();
    app.sort.clients(&mut rows);
    turned(rows, app.reversed)
}

fn turned<R>(mut rows: Vec<R>, reversed: bool) -> Vec<R> {
    if reversed {
        rows.reverse();
    }
    rows
}

fn table<R>(columns: &'static [Column<R>], rows: &[R], area: Rect, scrolled: usize) -> Vec<Line<'static>> {
    let shown = rows.iter().skip(scrolled).take(area.height.saturating_sub(1) as usize);
    let mut lines: Vec<Line<'static>> =
        lines_of(columns, shown, area.width as usize).into_iter().map(Line::raw).collect();
    lines[0] = lines[0].clone().style(Style::new().add_modifier(Modifier::REVERSED));
    lines
}

fn draw_help(frame: &mut Frame<'_>) {
    let whole = frame.area();
    let (width, height) = (50.min(whole.width), (HELP.len() as u16 + 2).min(whole.height));
    let area = Rect::new((whole.width - width) / 2, (whole.height - height) / 2, width, height);
    let text = Text::from(HELP.map(Line::raw).to_vec());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" keys ")), area);
}

#[cfg(test)]
mod tests;
