//! The control socket: lines come out of any bytes within their bound, and commands read back as they were written. So
//! do the lines of a hand-over.

use esker_serve::command::{parse_answer, parse_layer};
use esker_serve::hand_over::parcel::Parcel;
use esker_serve::lines::{LINE_MAX, Lines};
use esker_serve::{Command, Status, View, metrics};

const LINES: &str = r#"{"do":"status"}
{"do":"dump"}
{"do":"insert","device":"st = stats","above":"d1","patience_ms":100}
{"do":"remove","name":"st"}
{"do":"reorder","names":["a","b"]}
{"do":"remap","export":"vol","ops":[{"clone":{"from":0,"len":4096,"to":8192}},{"delete":{"at":0,"len":4096}}]}
{"do":"attach","device":"m","with":"c = file path=c.img size=1MiB"}
{"do":"detach","device":"c"}
{"do":"hello"}
{"do":"sync","patience_ms":5}
{"do":"freeze","limit_ms":7,"patience_ms":5}
{"do":"thaw","freeze":3}
{"do":"meters","what":"all"}
{"do":"stop"}
{"do":"hand_over","formats":{"mirror":2,"thin":4},"patience_ms":100}
{"is":"door","text":"unix:a.sock","address":"unix:a.sock","managers":false}
{"is":"client","door":"unix:a.sock","export":"vol","form":"structured","contexts":["base:allocation"],"flags":293,"min_block":512,"pending":[37,96]}
{"is":"changes","export":"vol","runs":[[0,65536],[131072,65536]]}
{"is":"end"}
{"ok":false,"error":{"code":"busy","what":"held","where":"vol","do":"wait"}}
{"ok":true,"result":{"dead":null,"exports":[{"name":"vol","load":{"ops":[{"op":"read","count":3,"latency_ns":[[10,1],[20,2]]}]}}]}}
"#;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let single = LINES.lines().map(|line| format!("{line}\n").into_bytes());
    single.chain([LINES.as_bytes().to_vec()]).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
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
    let answered = match parse_answer(line) {
        Ok(result) => try_status(result)?,
        // A refusal is a text whatever it says.
        Err(refusal) => refusal.code != "strange" && !refusal.to_string().is_empty(),
    };
    if let Ok(parcel) = Parcel::parse(line) {
        return try_parcel(&parcel);
    }
    let Ok(command) = Command::parse(line) else { return Ok(answered) };
    if let Command::Insert { device, .. } = &command {
        let _layer = parse_layer(device);
    }
    if let Command::Remap { ops, .. } = &command {
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

fn try_parcel(parcel: &Parcel) -> Result<bool, String> {
    if let Parcel::Client(client) = parcel {
        let _known = client.clone().agreed();
    }
    match Parcel::parse(parcel.line().as_bytes()) {
        Ok(again) if again == *parcel => Ok(true),
        other => Err(format!("{parcel:?} reads back as {other:?}")),
    }
}

/// What claims to be a status is compared with itself and told to Prometheus.
fn try_status(result: serde_json::Value) -> Result<bool, String> {
    let Ok(status) = serde_json::from_value::<Status>(result) else { return Ok(false) };
    let view = View::between(Some(&status), &status);
    if view.rows.iter().filter_map(|row| row.flow).any(|flow| !flow.ops_s.is_finite() || flow.ops_s < 0.0) {
        return Err(format!("{status:?} has rates that are none"));
    }
    let page = metrics::page(status);
    if page.ends_with("# EOF\n") { Ok(true) } else { Err(format!("the page has no end: {page}")) }
}
