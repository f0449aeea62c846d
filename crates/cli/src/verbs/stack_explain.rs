//! `esker stack explain`: says what a stack's order does, and shows requests that prove it.

use esker_compose::report::{json, text};

use crate::composition::{Answer, Question, draw, judge};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Explain>(About {
    words: &["stack", "explain"],
    summary: "Say what each extension of a stack still sees and does, and prove it",
    details: "Takes the order of the text as it is. Says which extension is the last to handle the requests of each volume, which \
              extensions see none, and where the rule grid of the thesis is wrong. For each volume of an extension's \
              domains on which it is not dominant, shows the path of a request that proves it. Exit status 1 if a goal \
              is met on no volume.",
    examples: &[
        Example { line: "esker stack explain six.toml", does: "explains the order of the text" },
        Example { line: "esker stack explain six.toml LC D", does: "shows why LC is not dominant on D" },
        Example {
            line: "esker stack explain 'vol = memory size=64MiB | delay | stats @'",
            does: "explains a stack that can be built",
        },
    ],
});

#[derive(clap::Args)]
struct Explain {
    #[command(flatten)]
    question: Question,
    /// Shows only this extension's losses
    #[arg(value_name = "EXTENSION")]
    extension: Option<String>,
    /// Shows only losses on this volume
    #[arg(value_name = "VOLUME")]
    volume: Option<String>,
    #[command(flatten)]
    answer: Answer,
}

impl Run for Explain {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let output = self.answer.claim()?;
        let declared = self.question.load(terminal)?;
        let extension = self.extension.as_ref().map(|name| declared.extension(name)).transpose()?;
        let volume = self.volume.as_ref().map(|name| declared.volume(name)).transpose()?;
        if let Some(id) = extension.filter(|id| !declared.order.contains(id)) {
            let name = declared.setting.extension(id).name();
            let what = format!("\"{name}\" is not in the stack; esker stack place shows its places");
            return Err(self.question.refused(what).into());
        }
        let analysis = declared.analysis(&declared.order);
        if self.answer.json {
            terminal.say(&json::analysis(&analysis).to_string())?;
        } else {
            if extension.is_none() {
                terminal.say(&text::analysis(&analysis, &declared.priorities))?;
            }
            terminal.say(text::witnesses(&analysis, (extension, volume)).trim_end())?;
        }
        draw(output, &analysis, &self.question.name())?;
        judge(&analysis)
    }
}
