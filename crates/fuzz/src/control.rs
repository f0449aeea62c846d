//! The control socket: lines come out of any bytes within their bound, and commands read back as they were written.

use esker_serve::Command;
use esker_serve::command::{parse_answer, parse_layer};
use esker_serve::lines::{LINE_MAX, Lines};

const LINES: &str = r#"{"do":"status"}
{"do":"dump"}
{"do":"insert","device":"st = stats","above":"d1","patience_ms":100}
{"do":"remove","name":"st"}
{"do":"reorder","names":["a","b"]}
{"do":"ranges","export":"vol","ops":[{"clone":{"from":0,"len":4096,"to":8192}},{"delete":{"at":0,"len":4096}}]}
{"do":"stop"}
{"ok":false,"error":"no"}
{"ok":true,"result":{"dead":null}}
"#;

pub fn corpus() -> Vec<Vec<u8>> {
    let single = LINES.lines().map(|line| format!("{line}\n").into_bytes());
    single.chain([LINES.as_bytes().to_vec()]).collect()
}

pub fn try_input(input: &[u8]) -> Result<bool, String> {
    let (mut lines, mut understood) = (Lines::default(), false);
    for piece in input.chunks(97) {
        lines.feed(piece);
        while let Ok(Some(line)) = lines.take() {
            if line.len() > LINE_MAX {
                return Err(format!("a line of {} bytes came out", line.len()));
            }
            understood |= try_line(line)?;
        }
    }
    Ok(understood)
}

fn try_line(line: &[u8]) -> Result<bool, String> {
    // Its answer is a text whatever it says.
    let _answer = parse_answer(line);
    let Ok(command) = Command::parse(line) else { return Ok(false) };
    if let Command::Insert { device, .. } = &command {
        let _layer = parse_layer(device);
    }
    if let Command::Ranges { ops, .. } = &command {
        let sound =
            ops.iter().filter_map(|op| op.op()?.ranges()).all(|(src, dst)| src.is_none_or(|s| s.len() == dst.len()));
        if !sound {
            return Err(format!("{command:?} has a range that wraps"));
        }
    }
    match Command::parse(command.line().as_bytes()) {
        Ok(again) if again == command => Ok(true),
        other => Err(format!("{command:?} reads back as {other:?}")),
    }
}
