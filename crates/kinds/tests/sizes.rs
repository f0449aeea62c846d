//! No kind takes much memory because a size in its text, or of the device below it, is large: it works, or says what to
//! do.

#![allow(clippy::disallowed_methods, reason = "these tests limit the memory of their process")]

use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::{Spec, Stack};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Address space of this process, in bytes. An allocation beyond it aborts the process.
const SPACE: u64 = 4 << 30;

/// Opens a stack, writes nothing and closes it. What it was refused for.
fn refusal(text: &str) -> Option<String> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let sim = Sim::new(SimConfig::seeded(1));
    let rt: Rt = sim.rt();
    sim.block_on(async move {
        let stack = match Stack::build(&rt, &Pool::default(), esker_kinds::ALL, &spec) {
            Ok(stack) => stack,
            Err(error) => return Some(error.to_string()),
        };
        stack.opened().await;
        let refused = stack.stats().into_iter().find_map(|part| part.unusable);
        stack.close().await;
        refused
    })
}

fn is_sound(message: &str) -> bool {
    let place_or_part = message.contains("device \"") || message.contains("cannot be used");
    place_or_part && message.len() < 600
}

#[test]
fn endless_devices_and_parameters_are_borne_or_refused_with_words() {
    setrlimit(Resource::As, Rlimit { current: Some(SPACE), ..getrlimit(Resource::As) }).unwrap();
    let layers = [
        "pass",
        "offset",
        "align block=512",
        "emulate",
        "emulate staging=9223372036854775807 width=4000000000 ranges=4000000000",
        "delay read=1ms",
        "rate bytes=18446744073709551615",
        "error",
        "stats",
        "verify",
        "mirror",
        "mirror region=9223372036854775807",
        "mirror window=64",
        "logvol",
        "logvol segment=1MiB",
        "logvol checkpoint_interval=18446744073709551615 gc_memory=18446744073709551615",
        "logvol gc_threads=4000000000",
        "thin ports=\"a=1TiB\"",
        "thin segment=1GiB ports=\"a=1MiB\"",
        "dedup size=1GiB",
        "dedup",
        "dedup block=1MiB",
        "dedup size=64MiB cache=18446744073709551615",
        "shepherd",
        "shepherd retries=18446744073709551615",
    ];
    let sizes = [1u64 << 20, 1 << 40, 1 << 50, 1 << 60, (1 << 63) - 4096];
    for (layer, size) in layers.iter().flat_map(|layer| sizes.iter().map(move |size| (layer, size))) {
        let below = "d = memory block=4096 size=SIZE".replace("SIZE", &size.to_string());
        let text = format!("{below}; v = {layer} on d");
        println!("{text}");
        let refused = refusal(&text);
        assert!(refused.as_deref().is_none_or(is_sound), "{text}: {refused:?}");
    }
    for size in sizes {
        let (memory, pair) =
            (format!("memory block=4096 size={size}"), format!("a = memory size={size}; b = memory size={size}"));
        let models =
            ["ssd-model", "nvm-model", "disk-model", "array-model"].map(|kind| format!("v = {kind} size={size}"));
        let pairs = ["concat", "stripe", "mirror", "offload", "offload index_max=18446744073709551615"];
        let over = ["logvol on v", "thin ports=\"a=1MiB\" on v", "dedup on v", "mirror on v", "shepherd on v"];
        let endless = over.map(|layer| format!("d = {memory}; v = logvol segment=1GiB on d; w = {layer}"));
        let pairs = pairs.map(|layer| format!("{pair}; v = {layer} on a,b"));
        for text in models.into_iter().chain(pairs).chain(endless) {
            println!("{text}");
            let refused = refusal(&text);
            assert!(refused.as_deref().is_none_or(is_sound), "{text}: {refused:?}");
        }
    }
}

#[test]
fn volumes_on_an_endless_volume_are_refused_with_what_to_do_also_without_a_device() {
    let text = "d = file path=none.img size=48MiB; v = logvol segment=2MiB on d; vm = thin ports=\"a=1MiB\" on v";
    let errors = Spec::parse("test", text).unwrap().trial(esker_kinds::ALL, |_| None);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts.len() == 1 && texts[0].contains("device \"vm\"") && texts[0].contains("gives `size`"), "{texts:?}");
    let sized = text.replace("logvol segment=2MiB", "logvol size=2GiB segment=2MiB");
    assert_eq!(Spec::parse("test", &sized).unwrap().trial(esker_kinds::ALL, |_| None), []);
}

#[test]
fn a_trial_refuses_only_what_is_refused_whatever_the_block_of_a_file_is() {
    let trial = |text: &str, size: Option<u64>| {
        let errors = Spec::parse("test", text).unwrap().trial(esker_kinds::ALL, |_| size);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let pair = "a = file path=a; b = file path=b";
    for layer in ["align block=4096 on a", "crypt key=env:NONE on a", "tap path=t on a"] {
        assert_eq!(
            trial(&format!("{pair}; v = {layer}; w = logvol block=512 segment=1MiB on b"), Some(1 << 26)),
            [""; 0]
        );
    }
    assert_eq!(trial(&format!("{pair}; v = stripe chunk=1000 on a,b"), None), [""; 0], "sizes are not known");
    let errors = trial(&format!("{pair}; v = stripe chunk=1000 on a,b; w = logvol on v"), Some(1 << 26));
    assert!(errors.len() == 1 && errors[0].contains("chunk = 1000"), "{errors:?}");
}
