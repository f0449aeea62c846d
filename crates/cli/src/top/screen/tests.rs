use std::time::Duration;

use esker_serve::Status;
use esker_serve::status::{ClientStatus, EndStatus, ExportStatus, FrozenStatus, Load, OpLoad, PartStatus, UsageStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::top::app::Wish;
use crate::top::columns::Sort;

fn load(reads: u64, writes: u64) -> Load {
    let op = |op: &str, count: u64, ns: u64| OpLoad {
        op: op.into(),
        count,
        bytes: count * 4096,
        time_ns: count * ns,
        latency_ns: vec![(ns, count)],
        ..OpLoad::default()
    };
    Load { in_flight: 3, in_flight_max: 9, ops: vec![op("read", reads, 130_000), op("write", writes, 2_100_000)] }
}

fn status(uptime_s: f64, times: u64) -> Status {
    let part = |name: &str, kind: &str, on: &[&str], load: Option<Load>| PartStatus {
        name: name.into(),
        kind: kind.into(),
        on: on.iter().map(ToString::to_string).collect(),
        ends: vec![EndStatus { name: name.into(), load, ..EndStatus::default() }],
        ..PartStatus::default()
    };
    let usage = UsageStatus { energy_j: 6.5 * uptime_s, busy_s: 0.42 * uptime_s, ..UsageStatus::default() };
    let disk = PartStatus { usage: Some(usage), ..part("hd0", "disk-model", &[], Some(load(2000 * times, 0))) };
    let client = |client, peer: &str, requests| ClientStatus {
        client,
        peer: peer.into(),
        export: Some("vol".into()),
        for_s: uptime_s,
        requests,
        ..ClientStatus::default()
    };
    Status {
        uptime_s,
        io: "io_uring".into(),
        measured: "devices".into(),
        connections: 2,
        inflight: 3,
        exports: vec![ExportStatus { name: "vol".into(), load: load(4000 * times, 100 * times), ..Default::default() }],
        parts: vec![disk, part("cache", "stats", &["hd0"], None)],
        clients: vec![client(1, "pid 10 uid 0", 40 * times), client(7, "127.0.0.1:4711", 4000 * times)],
        ..Status::default()
    }
}

fn app() -> App {
    let mut app = App::new("run/esker.ctl".into(), Duration::from_secs(1), Sort::Text, false);
    app.take(Ok(status(3600.0, 1)));
    app.take(Ok(status(3602.0, 2)));
    app
}

fn screen(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
    (0..height).map(line).collect()
}

fn press(app: &mut App, key: char) -> Option<Wish> {
    app.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))
}

#[test]
fn a_wide_screen_shows_everything() {
    let seen = screen(&app(), 132, 6);
    let wanted = [
        "esker top  run/esker.ctl  every 1 s  by text  h: help",
        "up 1 h 0 min, io_uring, 2 clients, 3 in flight, 2.05k ops/s, measuring devices",
        "name                                    kind  ops/s r MB/s w MB/s     p50     p99     max queue mean q err/s     W  busy    WA",
        "vol                                   export  2.05k   8.19   0.20  130 us 2.10 ms 2.10 ms     3   0.36     0",
        "hd0                               disk-model  1.00k   4.10      0  130 us  130 us  130 us     3   0.13     0  6.50  42 %",
        "cache                                  stats      -      -      -       -       -       -     -      -     -",
    ];
    assert_eq!(seen, wanted, "{}", seen.join("\n"));
}

#[test]
fn a_narrow_screen_keeps_names_rates_and_what_fits() {
    let seen = screen(&app(), 40, 5);
    let wanted = [
        "esker top  run/esker.ctl  every 1 s  by",
        "up 1 h 0 min, io_uring, 2 clients, 3 in",
        "name                 ops/s r MB/s w MB/s",
        "vol                  2.05k   8.19   0.20",
        "hd0                  1.00k   4.10      0",
    ];
    assert_eq!(seen, wanted, "{}", seen.join("\n"));
    for (width, height) in [(1, 1), (3, 2), (10, 40), (300, 3)] {
        assert_eq!(screen(&app(), width, height).len(), height as usize, "nothing breaks at {width} x {height}");
    }
}

#[test]
fn alarms_stand_above_the_table() {
    let mut app = app();
    let frozen = Some(FrozenStatus { freeze: 1, for_s: 1.0, left_s: 4.25 });
    app.take(Ok(Status {
        frozen,
        dead: Some("the stack is latched: a layer lost a buffer.".into()),
        ..status(3603.0, 3)
    }));
    app.take(Err("esker.ctl: no server answers".into()));
    let seen = screen(&app, 80, 8);
    let wanted = [
        "! esker.ctl: no server answers",
        "! the stack is latched: a layer lost a buffer.",
        "! frozen: requests are held for 4.2 s more at most",
    ];
    assert_eq!(seen[2..5], wanted, "{}", seen.join("\n"));
    assert!(seen[6].starts_with("vol "), "the last numbers stay");
}

#[test]
fn keys_sort_turn_scroll_and_switch() {
    let mut app = app();
    let names = |app: &App| {
        screen(app, 80, 6)[3..].iter().map(|l| l.split(' ').next().unwrap().into()).collect::<Vec<String>>()
    };
    assert_eq!(names(&app), ["vol", "hd0", "cache"]);
    assert_eq!(press(&mut app, 's'), Some(Wish::Draw));
    assert_eq!(names(&app), ["cache", "hd0", "vol"], "by name");
    press(&mut app, 's');
    assert_eq!(names(&app), ["vol", "hd0", "cache"], "by operations");
    press(&mut app, 'r');
    assert_eq!(names(&app), ["cache", "hd0", "vol"]);
    press(&mut app, 'j');
    assert_eq!(names(&app), ["hd0", "vol", ""]);
    press(&mut app, 'c');
    let clients = screen(&app, 80, 5);
    assert!(clients[2].starts_with("client") && clients[4].starts_with("7 127.0.0.1:4711"), "{clients:?}");
    press(&mut app, 'r');
    assert!(screen(&app, 80, 5)[3].starts_with("7 127.0.0.1:4711"), "by operations");
}

#[test]
fn keys_ask_for_help_other_measures_intervals_and_the_end() {
    let mut app = app();
    press(&mut app, '?');
    assert!(screen(&app, 80, 24).iter().any(|line| line.contains("q, Esc    leave")));
    assert_eq!(app.press(KeyEvent::from(KeyCode::Esc)), Some(Wish::Draw), "it closes the help first");
    assert_eq!(press(&mut app, 'm'), Some(Wish::Measure(esker_serve::command::Measured::All)));
    let intervals = ['+', '+', '-', '-', '-', '-', '-'].map(|key| {
        press(&mut app, key);
        app.interval.as_millis()
    });
    assert_eq!(intervals, [2000, 5000, 2000, 1000, 500, 200, 200]);
    assert_eq!(press(&mut app, 'x'), None);
    assert_eq!(press(&mut app, 'q'), Some(Wish::Quit));
    assert_eq!(app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Wish::Quit));
}
