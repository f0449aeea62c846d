//! Orders of operators: what the members do, one that leaves so that its device can be replaced, a scrub.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use esker_block::{Below, Bio, BioError, Buf, KindError, OrderInfo, Orders, Step};
use esker_rt::Level;
use serde_json::{Value, json};

use crate::members::State;
use crate::run::Mirror;
use crate::superblock::DATA_START;

/// All of them.
pub const ALL: &[OrderInfo] = &[
    info("members", "", "Shows the members, and how far a resync and a scrub are."),
    info("offline", "MEMBER", "Takes a member out of use, so that its device can be replaced."),
    info("detach", "MEMBER", "Takes a member out of the mirror for good, and zeroes its superblock."),
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
                ["offline", member] => drop(mirror.withdraw(&below, member).await?),
                ["detach", member] => mirror.detach(&below, member).await?,
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
    async fn withdraw(&self, below: &Below, member: &str) -> Result<usize, KindError> {
        let lowers = self.members.total();
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
        self.commit(below).await.map_err(|error| KindError::Outside(error.to_string()))?;
        Ok(lower)
    }

    /// Takes a member out of the set: first out of use, then, with a superblock of the others, out of the table of
    /// members. Its own superblock goes last, so that what a crash leaves of it is known as that of a former member.
    async fn detach(&self, below: &Below, member: &str) -> Result<(), KindError> {
        let lower = self.withdraw(below, member).await?;
        if !self.is_at_rest() {
            let what = "the mirror resyncs or scrubs; wait for the end, or stop the scrub, and detach the member then";
            return Err(KindError::Unfit(what.to_string()));
        }
        let member = self.members.get(lower);
        member.joins.set(false);
        if let Some(number) = member.number.take() {
            self.superblock.borrow_mut().detach(number);
            self.commits.ask();
            self.commit(below).await.map_err(|error| KindError::Outside(error.to_string()))?;
        }
        let blank = Buf::from_bytes(self.pool(), &[0; DATA_START as usize]);
        let done = below.submit(Bio::write(0, blank).fua().to(below.lower(lower))).await;
        if let Err(error) = done.result {
            self.log_event(Level::Warn, lower, &format!("keeps its superblock: it cannot be written ({error})"));
        }
        Ok(())
    }

    /// Whether nothing goes on that counts members by their place.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.has_copying() && self.wanted_scrub().is_none()
    }

    /// Whether the member at a place was taken out of the set.
    pub(crate) fn is_detached(&self, lower: usize) -> bool {
        let member = self.members.get(lower);
        self.members.state(lower) == State::Out && member.number.get().is_none() && !member.joins.get()
    }

    fn rescan(&self) {
        for member in (0..self.members.total()).map(|lower| self.members.get(lower)) {
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
                State::Out if self.is_detached(lower) => "detached",
                State::Out => "offline",
            };
            json!({ "member": lower, "state": state, "trouble": *member.trouble.borrow() })
        };
        let scrub = self.scrub.borrow();
        json!({
            "members": (0..self.members.total()).map(member).collect::<Vec<_>>(),
            "resync": self.resync.get().map(|(done, all)| json!({ "done_bytes": done, "bytes": all })),
            "scrub": scrub.as_ref().map(|scrub| scrub.describe(self.superblock.borrow().data)),
        })
    }
}
