//! Generated stacks, each served several times: a load whose every answer is noted, injected faults, layers that come
//! and go, kills and stops. After each restart every block must hold what its client was promised.
//!
//! A sample of the pairs runs with the tests; `cargo xtask soak stacks` runs all of them, and more with `--times`.

mod life;
mod text;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

use esker_base::Stream;
use esker_testkit::SoakLength;

use crate::harness::{Server, esker};
use crate::ledger::Ledger;
use crate::load::{CHECK_BYTES, Met, check_export, clear, size_of};
use life::End;
use text::Sample;

/// Stacks that are tried with all other tests.
const SAMPLE: u64 = 14;
/// How often each is served under load.
const LIVES: u64 = 3;
/// Bytes of an export that the load uses, at most.
const LOAD_BYTES: u64 = 2 * CHECK_BYTES;

const KEY: &str = "key";

/// What came of all stacks.
#[derive(Default)]
struct Totals {
    stacks: u64,
    refused: u64,
    requests: u64,
    /// Requests that were answered with an error: faults were injected.
    failed: u64,
    commands: u64,
    restarts: u64,
    promises: u64,
    wrong: u64,
    hangs: u64,
    /// What an operator should read.
    told: Vec<String>,
}

#[test]
fn stacks_of_all_layers_keep_what_they_promised_under_faults_kills_and_changes() {
    let SoakLength { times: count, seed } = SoakLength::told(SAMPLE);
    let mut totals = Totals::default();
    for (index, sample) in (1..).zip(text::samples(seed, count)) {
        let before = totals.told.len();
        totals.try_stack(&sample, Stream::named(seed, &format!("stack {index}")));
        println!("{index} of {count}: {}", sample.layers.join(" on "));
        totals.told[before..].iter().for_each(|told| println!("    {told}"));
    }
    let Totals { stacks, refused, requests, failed, commands, restarts, promises, wrong, hangs, told } = totals;
    println!(
        "{stacks} stacks tried, {refused} refused, {requests} requests ({failed} failed), {commands} live commands, \
         {restarts} restarts, {promises} promised writes, {wrong} wrong blocks, {hangs} hangs"
    );
    assert_eq!((wrong, hangs), (0, 0), "{}", told.join("\n"));
    assert!(refused * 8 <= stacks, "{refused} of {stacks} stacks were refused:\n{}", told.join("\n"));
    assert!(promises > 20 * (stacks - refused), "only {promises} writes were flushed: this shows little");
}

impl Totals {
    fn try_stack(&mut self, sample: &Sample, mut random: Stream) {
        self.stacks += 1;
        let dir = tempfile::tempdir().unwrap();
        write_key(&dir.path().join(KEY));
        let first = match begin(dir.path(), sample) {
            Ok(server) => server,
            Err(reason) => {
                self.refused += 1;
                self.told.push(format!("refused: {reason}"));
                return;
            }
        };
        let size = size_of(&first.uris[0]);
        let bytes = (size / CHECK_BYTES * CHECK_BYTES).min(LOAD_BYTES);
        assert!(bytes > 0, "an export of {size} bytes is too small for the load: {}", sample.text);
        // The middle: there the ends of a concatenation meet.
        let base = (size - bytes) / 2 / CHECK_BYTES * CHECK_BYTES;
        clear(&first.uris[0], base, bytes);
        let book = Rc::new(RefCell::new(Ledger::new(bytes)));
        let mut server = first;
        for start in 1..=LIVES {
            let met = Rc::new(Met::default());
            let life = life::Life { sample, base, book: book.clone(), met: met.clone(), has_faults: start == 2 };
            let uri = server.uris[0].clone();
            let (end, commands) = life.run(server, &uri, &mut random);
            book.borrow_mut().server_died();
            self.note(sample, &met, commands);
            if let End::Hung(what) = &end {
                self.hangs += 1;
                self.told.push(format!("HANG: {what}: {}", sample.text));
            }
            server = match Server::try_start(dir.path(), &sample.at_start(start), &[]) {
                Ok(next) => next,
                Err(log) => {
                    self.wrong += 1;
                    return self
                        .told
                        .push(format!("WRONG: does not start again after {end:?}: {log}: {}", sample.text));
                }
            };
            self.restarts += 1;
            match check_export(&server.uris[0], base, &book) {
                Ok(lost) => self.count_lost(sample, &lost, &format!("after {end:?}")),
                Err(fault) => self.count_lost(sample, &[fault], &format!("cannot be read after {end:?}")),
            }
        }
        self.promises += book.borrow().promises;
        server.stop();
    }

    fn note(&mut self, sample: &Sample, met: &Met, commands: u64) {
        self.requests += met.requests.get();
        self.failed += met.refused.get();
        self.commands += commands;
        self.hangs += met.hangs.get();
        if met.hangs.get() > 0 {
            self.told.push(format!("HANG: a request without an answer: {}", sample.text));
        }
        self.count_lost(sample, &met.lost.borrow(), "while it is served");
    }

    fn count_lost(&mut self, sample: &Sample, lost: &[impl std::fmt::Display], when: &str) {
        self.wrong += lost.len() as u64;
        if let Some(first) = lost.first() {
            self.told.push(format!("WRONG: {} {when}: {first}: {}", lost.len(), sample.text));
        }
    }
}

/// Makes the media of a stack and serves it; if it is refused, the reason, and then nothing is left behind.
fn begin(dir: &Path, sample: &Sample) -> Result<Server, String> {
    let text = sample.at_start(0).replace("DIR", &dir.display().to_string());
    let made = esker(&["init", &text]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    if !made.status.success() && !said.contains("nothing is to be made") {
        check_nothing_left(dir, sample);
        return Err(said);
    }
    Server::try_start(dir, &sample.at_start(0), &[])
}

/// The key of every layer that encrypts.
fn write_key(path: &Path) {
    fs::write(path, ["5a".repeat(32), "a5".repeat(32)].concat()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A stack that cannot be made leaves no file.
fn check_nothing_left(dir: &Path, sample: &Sample) {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name != KEY).collect();
    assert!(left.is_empty(), "{left:?} were left by {}", sample.text);
}
