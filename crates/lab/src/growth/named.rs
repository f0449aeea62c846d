//! Named volumes: how long it takes to make them, and to list them.

use std::rc::Rc;

use esker_stack::Stack;

use super::Series;
use crate::ingens::thread_cpu;
use esker_lab_kit::{Figure, Lab, LabError, Rig};

/// Blocks are small, so that many entries of the catalogue fit into memory.
const STACK: &str = "a = memory size=512MiB; vm = thin block=512 page=512 segment=256KiB ports=\"first=1MiB\" on a; export vol = vm.first";
const SIZES: [u64; 5] = [2_048, 4_096, 8_192, 16_384, 32_768];
/// A list of the fewest takes about a millisecond.
const LISTS: u32 = 4;

pub(crate) fn figures(rounds: u32, lab: &Lab<'_>) -> Result<[Figure; 2], LabError> {
    let (mut create, mut list) = (Series::default(), Series::default());
    for _ in 0..rounds.div_ceil(2) {
        let Rig { world, stack } = Rig::simulated(lab.seed, STACK)?;
        let costs = world.block_on(async move { costs(stack, &SIZES).await })?;
        for Cost { size, created, listed } in costs {
            create.note(size, created);
            list.note(size, listed);
        }
        lab.say(format!("{} volumes were made", SIZES[SIZES.len() - 1]));
    }
    Ok([create.figure("volumes_create_cpu", "ms", lab), list.figure("volumes_list_cpu", "ms", lab)])
}

/// What it costs, in milliseconds of CPU time, to make so many volumes, and to list them [`LISTS`] times.
struct Cost {
    size: u64,
    created: f64,
    listed: f64,
}

async fn costs(stack: Rc<Stack>, sizes: &[u64]) -> Result<Vec<Cost>, LabError> {
    stack.opened().await;
    let (mut made, mut created, mut all) = (1, 0.0, Vec::new());
    for size in sizes {
        let begun = thread_cpu();
        while made < *size {
            ask(&stack, &["create", &format!("v{made}"), "1MiB"]).await?;
            made += 1;
        }
        created += (thread_cpu() - begun).as_secs_f64() * 1e3;
        let begun = thread_cpu();
        for _ in 0..LISTS {
            ask(&stack, &["list"]).await?;
        }
        all.push(Cost { size: *size, created, listed: (thread_cpu() - begun).as_secs_f64() * 1e3 });
    }
    Ok(all)
}

async fn ask(stack: &Stack, words: &[&str]) -> Result<String, LabError> {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    stack.order("vm", &words).await.map_err(LabError::data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_volumes_are_made_as_are_counted() {
        let Rig { world, stack } = Rig::simulated(1, STACK).unwrap();
        world.block_on(async move {
            let costs = costs(stack.clone(), &[5, 20]).await.unwrap();
            assert!(costs.iter().map(|cost| cost.size).eq([5, 20]) && costs[1].created > costs[0].created);
            let listed: serde_json::Value = serde_json::from_str(&ask(&stack, &["list"]).await.unwrap()).unwrap();
            assert_eq!(listed.as_array().unwrap().len(), 20, "the one of the port is one of them");
        });
    }
}
