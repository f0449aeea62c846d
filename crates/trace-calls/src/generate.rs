//! Made traces: patterns of Apple's desktop programs, as the study of their traces describes them: documents saved by
//! rename, packages that are renamed while threads work in them, farms of links, some broken and repaired later, hard
//! links, extended attributes, exchanged files, databases with many `fsync`s, temporary names, descriptors whose
//! numbers threads pass on to each other.
//!
//! Each pattern is a *script* in a folder of its own, played by two or three threads; scripts run beside each other on
//! one simulated desk ([`desk`]). What a call answers is known from its script, so that the trace is one that a kernel
//! could have made. Seed and shape decide every byte. [`hostile`] makes traces of an attacker.

mod desk;
mod hostile;
mod scripts;

use esker_base::Stream;

use crate::trace::Trace;
use desk::ScriptRunner;
pub use hostile::hostile;

/// How much is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Decides all choices.
    pub seed: u64,
    /// Threads, at least 2.
    pub threads: u32,
    /// Scripts, at least 1; each is some 10 to 60 actions.
    pub scripts: u32,
}

impl Shape {
    /// Every pattern, a few times.
    pub fn tiny(seed: u64) -> Shape {
        Shape { seed, threads: 4, scripts: 40 }
    }
}

/// A trace of an Apple desktop program, with its snapshot.
pub fn apple_desktop(shape: Shape) -> Trace {
    apple_desktop_told(shape, &mut |_| {})
}

/// The same. `tell` hears how many scripts have ended.
pub fn apple_desktop_told(shape: Shape, tell: &mut dyn FnMut(u64)) -> Trace {
    let threads = shape.threads.max(2);
    let mut desk = ScriptRunner::new(threads, Stream::named(shape.seed, "desk"));
    let mut choice = Stream::named(shape.seed, "scripts");
    for number in 0..shape.scripts.max(1) {
        // Every pattern comes once before chance decides.
        let which = if (number as usize) < scripts::ALL.len() {
            u64::from(number)
        } else {
            choice.below(scripts::ALL.len() as u64)
        };
        let mut script = scripts::Script::new(number, threads, &mut choice);
        scripts::ALL[which as usize](&mut script, &mut choice);
        desk.add(script);
    }
    desk.play(tell)
}

#[cfg(test)]
mod tests;
