//! `esker order`: has a layer, or the file system of a mount, do what only its kind can do.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use esker_base::Progress;
use esker_block::OrderLeft;
use esker_serve::Command;
use esker_serve::status::PartStatus;

use crate::control::{Control, PROMPT};
use crate::failure::Failure;
use crate::progress::{Pace, Watcher};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<OrderArgs>(About {
    words: &["order"],
    summary: "Have a layer do what only its kind can do",
    details: "The orders of a kind stand on its page, and in `esker kinds KIND`. The answer is JSON, on one line. Some \
              orders are answered when the work is queued; --wait waits for its end.",
    examples: &[
        Example { line: "esker order vol policy arc", does: "has the cache vol go on with the policy arc" },
        Example { line: "esker order vol write-back", does: "has the cache vol write all dirty lines home" },
        Example { line: "esker order vol drain 1 --wait", does: "has the tier vol empty an end, and waits for that" },
    ],
});

/// Time between two looks at what is left.
const LOOK: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
struct OrderArgs {
    /// The layer or mount
    #[arg(value_name = "DEVICE")]
    device: String,
    /// The order, in words of its kind
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Wait until nothing of the order is queued
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    control: Control,
}

impl Run for OrderArgs {
    const PACE: Option<Pace> = Some(Pace::Shows("what is left of an order, by a statistic of the layer"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let order = Command::Order { device: self.device.clone(), words: self.words.clone() };
        let Some(left) = self.left() else {
            let _waits = terminal.watcher().takes("waiting for the answer of the layer", None);
            return terminal.say(&self.control.ask(&order)?.to_string());
        };
        let mut looks = Looks { order: &self, left, watcher: terminal.watcher(), most: 0 };
        looks.look();
        let (ended, end) = mpsc::channel::<()>();
        let answer = thread::scope(|scope| {
            let looks = &mut looks;
            scope.spawn(move || looks.follow(&end));
            let answer = self.control.ask(&order);
            drop(ended);
            answer
        })?;
        while looks.look() > Some(0) && self.wait {
            thread::sleep(LOOK);
        }
        terminal.say(&answer.to_string())
    }
}

impl OrderArgs {
    /// What tells how much is left, if the order may take long.
    fn left(&self) -> Option<OrderLeft> {
        let kind = self.part()?.kind;
        let kind = esker_kinds::ALL.iter().find(|known| known.name == kind)?;
        kind.orders.iter().find(|order| Some(order.name) == self.words.first().map(String::as_str))?.left
    }

    /// The layer as the server sees it; none of a mount, or if the server does not answer.
    fn part(&self) -> Option<PartStatus> {
        self.control.status(PROMPT).ok()?.parts.into_iter().find(|part| part.name == self.device)
    }
}

/// Looks at what is left of an order.
struct Looks<'a> {
    order: &'a OrderArgs,
    left: OrderLeft,
    watcher: Watcher,
    /// The most that was left.
    most: u64,
}

impl Looks<'_> {
    /// Shows what is left, if the server tells it.
    fn look(&mut self) -> Option<u64> {
        let left = *self.order.part()?.stats.get(self.left.stat)? as u64;
        self.most = self.most.max(left);
        let words = self.order.words.join(" ");
        self.watcher.tell(Progress::of(&words, self.left.unit, self.most - left, self.most));
        Some(left)
    }

    fn follow(&mut self, end: &Receiver<()>) {
        while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            self.look();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_left_of_an_order_is_a_statistic_of_its_kind() {
        let mut count = 0;
        for kind in esker_kinds::ALL {
            for left in kind.orders.iter().filter_map(|order| order.left) {
                assert!(kind.stats.iter().any(|stat| stat.name == left.stat), "{}: {}", kind.name, left.stat);
                count += 1;
            }
        }
        assert!(count >= 5, "{count} orders tell what is left");
    }
}
