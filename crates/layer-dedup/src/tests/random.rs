//! Random requests against a model, with restarts between them.

use std::collections::BTreeMap;

use super::*;

/// One step of a random life.
#[derive(Clone, Debug)]
enum Ask {
    Write(u64, Vec<u64>),
    Discard(u64, u64),
    Flush,
    Restart,
}

fn ask() -> impl proptest::strategy::Strategy<Value = Ask> {
    use proptest::prelude::*;
    let content = prop_oneof![3 => 1u64..6, 1 => 100u64..400, 1 => Just(0)];
    prop_oneof![
        8 => (0u64..90, proptest::collection::vec(content, 1..6)).prop_map(|(at, contents)| Ask::Write(at, contents)),
        2 => (0u64..90, 1u64..9).prop_map(|(at, len)| Ask::Discard(at, len)),
        1 => Just(Ask::Flush),
        1 => Just(Ask::Restart),
    ]
}

fn block_of(content: u64) -> Vec<u8> {
    if content == 0 { vec![0; BLOCK] } else { unique(content) }
}

/// Contents of a volume's blocks that are not zeroes.
type Model = BTreeMap<u64, u64>;

async fn step(volume: &Volume, model: &mut Model, ask: &Ask) {
    match ask {
        Ask::Write(at, contents) => {
            let bytes: Vec<u8> = contents.iter().flat_map(|content| block_of(*content)).collect();
            write(volume, *at, &bytes).await;
            model.extend((*at..).zip(contents.iter().copied()));
        }
        Ask::Discard(at, len) => {
            discard(volume, *at, *len).await;
            model.extend((*at..at + len).map(|block| (block, 0)));
        }
        Ask::Flush | Ask::Restart => flush(volume).await,
    }
    model.retain(|_, content| *content != 0);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_volume_is_its_model_and_keeps_each_content_once(asks in proptest::collection::vec(ask(), 1..60), verify: bool) {
        let media = Media::new(96 << 10);
        let mut model = Model::new();
        let lives: Vec<Vec<Ask>> = asks.split_inclusive(|ask| matches!(ask, Ask::Restart)).map(<[Ask]>::to_vec).collect();
        for life in lives {
            let before = model.clone();
            model = on(&media, |config| config.verify = verify, async move |volume| {
                let mut model = before;
                for ask in &life {
                    step(&volume, &mut model, ask).await;
                }
                for block in 0..100 {
                    let content = model.get(&block).copied().unwrap_or(0);
                    assert!(read(&volume, block, 1).await == block_of(content), "block {block} is not {content}");
                }
                let mut contents: Vec<u64> = model.values().copied().collect();
                contents.sort_unstable();
                contents.dedup();
                let counts = (stat(&volume, "logical_blocks") as usize, stat(&volume, "physical_blocks") as usize);
                assert_eq!(counts, (model.len(), contents.len()));
                flush(&volume).await;
                model
            });
            let verdict = checked(&media);
            assert_eq!((verdict.wrong, verdict.unindexed), (0, 0), "{verdict:?}");
        }
    }
}
