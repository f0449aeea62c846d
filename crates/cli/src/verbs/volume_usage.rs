//! `esker volume usage`: tells what volumes take.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, bytes, name, table};

/// The record.
pub const VERB: Verb = Verb::of::<Usage>(About {
    words: &["volume", "usage"],
    summary: "Tell what each volume takes",
    details: "`mapped` is all its blocks, `own` those that its deletion gives back, `shared` those that other volumes use too. Found by a pass \
              over all mappings, while requests go on. Write amplification is what goes below for each byte of data: of the last writes, \
              about as many as the device below has room for.",
    examples: &[Example { line: "esker volume usage", does: "tells it of the server at esker.ctl" }],
});

#[derive(clap::Args)]
struct Usage {
    #[command(flatten)]
    volumes: Volumes,
}

impl Run for Usage {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["usage".to_string()], render)
    }
}

fn render(answer: &serde_json::Value) -> String {
    let row = |volume: &serde_json::Value| {
        let cells = ["bytes", "apparent_bytes", "exclusive_bytes", "shared_bytes"].map(|key| bytes(volume, key));
        [name(volume).to_string()].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> =
        answer["volumes"].as_array().map_or_else(Vec::new, |all| all.iter().map(row).collect());
    let table = table(&["name", "size", "mapped", "own", "shared"], &rows);
    let amplification = answer["write_amplification"].as_f64().unwrap_or(0.0);
    let all = bytes(answer, "used_bytes");
    format!("{table}\nall together: {all}\nwrite amplification of the last writes: {amplification:.2}")
}
