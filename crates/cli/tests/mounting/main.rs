//! `esker mount` and `esker umount` as programs: by the superuser and by an ordinary user, killed servers, and what is
//! refused. Each test needs root and FUSE, and says loudly when it is skipped for want of them.

#![allow(unreachable_pub, reason = "a program has no public interface: `pub` shows what its modules share")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests run programs and look at their files")]

mod harness;
mod killed;
mod refusals;
mod served;
mod users;
