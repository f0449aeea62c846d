//! Served stacks as whole processes: foreign clients, changes under load, kills, and what is refused.

#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and look at their files")]

mod activated;
mod attacked;
mod attacks;
mod background;
mod clients;
mod full;
mod handing;
mod harness;
mod hostile;
mod images;
mod killed;
mod ledger;
mod live;
mod load;
mod locks;
mod luks;
mod operating;
mod planted;
mod refusals;
mod running;
mod screens;
mod secured;
mod sending;
mod service;
mod small_disk;
mod stacks;
mod stopping;
mod top;
mod unusable;
