//! Stacks attached as block devices: file systems on them, kills, range operations, and what is refused. Each test
//! needs root, FUSE and loop devices, and says loudly when it is skipped for want of them.

#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and look at their files")]

mod control;
mod file_systems;
mod harness;
mod killed;
mod refusals;
mod replays;
