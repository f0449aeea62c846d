//! The screen of `esker hugepage top`: for each process a heat map of its memory.

use esker_hugepage_linux::Status;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;

use super::text::{done_line, group_line, headline, process_line};

/// What the characters of a map mean.
const LEGEND: [(char, &str); 4] = [
    ('H', "huge and hot"),
    ('h', "huge and idle"),
    ('9', "base pages, all in use"),
    ('0', "base pages, hardly in use"),
];

/// Draws a status, or why there is none. `scrolled` lines of processes are above the screen.
pub fn draw(frame: &mut Frame<'_>, place: &str, status: &Result<Status, String>, scrolled: usize) {
    let [top, bottom] = Layout::vertical([Constraint::Length(4), Constraint::Min(0)]).areas(frame.area());
    let mut head =
        vec![Line::styled(format!("esker hugepage top  {place}  q: leave"), Style::new().add_modifier(Modifier::BOLD))];
    match status {
        Ok(status) => {
            head.extend([Line::raw(headline(status)), Line::raw(done_line(&status.done)), legend()]);
            let lines = processes(status, usize::from(bottom.width));
            let lines: Vec<Line<'_>> = lines.into_iter().skip(scrolled).take(usize::from(bottom.height)).collect();
            frame.render_widget(Paragraph::new(Text::from(lines)), bottom);
        }
        Err(error) => head.push(Line::styled(format!("! {error}"), Style::new().fg(Color::Red))),
    }
    frame.render_widget(Paragraph::new(Text::from(head)), top);
}

fn legend() -> Line<'static> {
    let one = |(cell, means): (char, &'static str)| [heat(cell), Span::raw(format!(" {means}  "))];
    Line::from(LEGEND.into_iter().flat_map(one).collect::<Vec<_>>())
}

fn processes(status: &Status, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = status.groups.iter().map(|group| Line::raw(group_line(group))).collect();
    for process in &status.processes {
        lines.push(Line::styled(process_line(process), Style::new().add_modifier(Modifier::BOLD)));
        let cells: Vec<char> = process.map.chars().collect();
        let row = |row: &[char]| Line::from(row.iter().map(|cell| heat(*cell)).collect::<Vec<_>>());
        lines.extend(cells.chunks(width.max(1)).map(row));
    }
    lines
}

/// Colours from cold to hot; without colours the characters say the same.
fn heat(cell: char) -> Span<'static> {
    let colour = match cell {
        'H' => Color::Red,
        'h' => Color::Magenta,
        '7'..='9' => Color::Yellow,
        '3'..='6' => Color::Green,
        _ => Color::Blue,
    };
    Span::styled(cell.to_string(), Style::new().fg(Color::Black).bg(colour))
}

#[cfg(test)]
mod tests {
    use esker_hugepage_linux::status::ProcessStatus;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_map_is_wrapped_and_coloured_and_scrolled() {
        let process = ProcessStatus { pid: 7, map: "Hh95H".repeat(5), map_regions: 1, ..ProcessStatus::default() };
        let status = Ok(Status { processes: vec![process], ..Status::default() });
        let mut terminal = Terminal::new(TestBackend::new(20, 8)).unwrap();
        terminal.draw(|frame| draw(frame, "here", &status, 1)).unwrap();
        let buffer = terminal.backend().buffer();
        let cell = |x, y| (buffer[(x, y)].symbol().to_string(), buffer[(x, y)].bg);
        assert_eq!(cell(0, 4), ("H".to_string(), Color::Red), "the line of the process is scrolled away");
        assert_eq!(cell(2, 4), ("9".to_string(), Color::Yellow));
        assert_eq!(cell(0, 5), ("H".to_string(), Color::Red));
        assert_eq!(cell(5, 5).0, " ", "25 cells are one row of 20 and one of 5");
    }
}
