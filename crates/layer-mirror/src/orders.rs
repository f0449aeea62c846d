//! Orders of operators: what the members do, one that leaves so that its device can be replaced, a scrub.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use esker_block::{Below, BioError, KindError, OrderInfo, Orders, Step};
use serde_json::{Value, json};

use crate::members::State;
use crate::run::Mirror;

/// All of them.
pub const ALL: &[OrderInfo] = &[
    info("members", "", "Shows the members, and how far a resync and a scrub are."),
    info("offline", "MEMBER", "Takes a member out of use, so that its device can be replaced."),
    info("rescan", "", "Looks for all offline members at once, also for those that `offline` took out of use."),
    info("scrub", "[stop]", "Compares all members, and writes what the first one holds where they differ."),
];

const fn info(name: &'static str, arguments: &'static str, doc: &'static str) -> OrderInfo {
    OrderInfo { name, arguments, doc, left: None }
}

/// Takes the orders to the open mirror.
#[derive(Clone, Default)]
pub struct Orderly(pub(crate) Rc<OnceCell<Rc<Mirror>>>);

impl fmt::Debug for Orderly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Orderly")
    }
}

impl Orders for Orderly {
    fn list(&self) -> &'static [OrderInfo] {
        ALL
    }

    fn order(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>> {
        let (opened, words) = (self.0.clone(), words.to_vec());
        Step::later(async move {
            let mirror = opened.get().expect("the stack opens a layer before it is asked");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words[..] {
                ["members"] => {}
                ["offline", member] => mirror.withdraw(&below, member).await?,
                ["rescan"] => mirror.rescan(),
                ["scrub"] => mirror.start_scrub(),
                ["scrub", "stop"] => mirror.stop_scrub(),
                _ => {
                    let known: Vec<String> = ALL.iter().map(OrderInfo::to_string).collect();
                    let what = format!("\"{}\" is no order; there are: {}", words.join(" "), known.join(", "));
                    return Err(KindError::Unfit(what));
                }
            }
            Ok(mirror.describe().to_string())
        })
    }
}

impl Mirror {
    /// Takes a member out of use, durably. It stays so until [`Mirror::rescan`].
    async fn withdraw(&self, below: &Below, member: &str) -> Result<(), KindError> {
        let lowers = self.config.lowers;
        let lower = member.parse().ok().filter(|lower| *lower < lowers).ok_or_else(|| {
            KindError::Unfit(format!("\"{member}\" is no member; there are members 0 to {}", lowers - 1))
        })?;
        let is_last = self.members.state(lower) == State::InSync && self.members.count(State::InSync) == 1;
        if is_last {
            let what = format!("member {lower} is the only one in sync; wait until another one is, or bring one back");
            return Err(KindError::Unfit(what));
        }
        self.members.get(lower).withdrawn.set(true);
        self.lose(lower, &BioError::io("an operator took it out of use"));
        self.commits.ask();
        self.commit(below).await.map_err(|error| KindError::Outside(error.to_string()))
    }

    fn rescan(&self) {
        for member in (0..self.config.lowers).map(|lower| self.members.get(lower)) {
            member.withdrawn.set(false);
            *member.trouble.borrow_mut() = None;
        }
        self.look_now.set(true);
        self.background.wake();
    }

    fn describe(&self) -> Value {
        let member = |lower| {
            let (member, state) = (self.members.get(lower), self.members.state(lower));
            let state = match state {
                State::InSync => "in sync",
                State::Catching => "resyncing",
                State::Out => "offline",
            };
            json!({ "member": lower, "state": state, "trouble": *member.trouble.borrow() })
        };
        let scrub = self.scrub.borrow();
        json!({
            "members": (0..self.config.lowers).map(member).collect::<Vec<_>>(),
            "resync": self.resync.get().map(|(done, all)| json!({ "done_bytes": done, "bytes": all })),
            "scrub": scrub.as_ref().map(|scrub| scrub.describe(self.superblock.borrow().data)),
        })
    }
}
