//! What power cuts leave.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::store::SparseStore;
use esker_block::{Bio, Buf, Device, Kind, Tag};
use esker_framing::superblock::SuperblockError;
use esker_layer_kit::slots::MapError;
use esker_layer_kit::slots::check::check as check_map;
use esker_rt::mem::Pool;
use esker_stack::Export;
use esker_testkit::power::{self, RECORDED};
use esker_testkit::{Bound, bench};

static KINDS: &[&Kind] = &[&crate::KIND, &esker_layers::delay::KIND, &RECORDED];

fn check(args: &str, area: &str, states_min: u64) {
    let text = format!(
        "h = recorded size=64KiB latency=7us; r = recorded size={area} latency=3us; \
         a = delay write=1us jitter=20us on r; vol = reorg {args} on h, a"
    );
    power::check_text(KINDS, &text, 1..=3, 11, states_min);
}

#[test]
fn a_reorganised_volume_keeps_its_promises_in_every_crash_state() {
    check("", "224KiB", 1000);
    check("write_buffer=0.9", "224KiB", 1000);
    check("write_buffer=0.5", "172KiB", 1000);
}

const PAGE: u64 = 4096;

fn stat(vol: &Export, name: &str) -> u64 {
    bench::stat(vol, "vol", name) as u64
}

fn of_process(bio: Bio, pid: u32) -> Bio {
    bio.tagged(Tag { pid, ..Tag::default() })
}

/// Two plans, each carried out while a client writes: copies come, go and move at every point.
async fn replan(vol: Rc<Export>, top: Rc<dyn Device>) {
    let (pool, rt) = (Pool::default(), vol.stack().rt());
    let mut random = rt.rng("replan");
    let mut fill = 0u8;
    for order in [[9, 2, 14, 5, 11, 0].as_slice(), &[5, 2, 12, 9, 7]] {
        for _ in 0..3 {
            for page in order {
                let read = Bio::read(page * PAGE, Buf::unique(&pool, PAGE as usize));
                assert!(top.submit(of_process(read, 1)).await.result.is_ok());
            }
            rt.sleep(Nanos::secs(2)).await;
        }
        // Copies in the ring: one that the plan has, and others.
        for page in [order[4], 3, 6] {
            let write = Bio::write(page * PAGE, Buf::from_bytes(&pool, &[page as u8; PAGE as usize]));
            assert!(top.submit(of_process(write, 2)).await.result.is_ok());
            rt.sleep(Nanos::millis(10)).await;
        }
        vol.stack().order("vol", &["plan".to_string()]).await.unwrap();
        while stat(&vol, "steps_left") > 0 {
            fill += 1;
            let (at, len) = (random.below(120) * 512, 512 * (1 + random.below(8)));
            let (at, len) = if random.chance(0.5) { (at / PAGE * PAGE, PAGE) } else { (at, len) };
            let write = Bio::write(at, Buf::from_bytes(&pool, &vec![fill; len as usize]));
            assert!(top.submit(of_process(write, 2)).await.result.is_ok());
            if random.chance(0.4) {
                assert!(top.submit(Bio::flush()).await.result.is_ok());
            }
            rt.sleep(Nanos(5_000_000 + random.below(200_000))).await;
        }
        assert!(top.submit(Bio::flush()).await.result.is_ok());
    }
    for name in ["dropped", "moved", "fetched", "written_back", "write_misses"] {
        let all = ["slots", "buffer_slots", "planned", "dropped", "moved", "fetched", "written_back", "buffer_full"];
        let told = all.map(|name| (name, stat(&vol, name)));
        assert!(stat(&vol, name) > 0, "{name}: {told:?}");
    }
}

/// Bytes of the area below.
const AREA_BYTES: u64 = 188 << 10;
const PLANNED: &str = "h = recorded size=64KiB latency=7us; r = recorded size=188KiB latency=3us; \
                       a = delay write=1us jitter=20us on r; vol = reorg write_buffer=0.4 assoc=1ms on h, a";

/// Item 19.
#[test]
fn a_crash_in_any_phase_of_a_plan_loses_nothing() {
    let states = power::check_script(KINDS, PLANNED, 1..=8, 11, replan);
    assert!(states >= 5_000, "only {states} states");
}

/// Item 18.
#[test]
fn a_page_has_one_copy_at_most_in_every_crash_state_of_a_plan() {
    let (mut maps, mut blanks) = (0, 0);
    let script = |vol: Rc<Export>| replan(vol.clone(), vol);
    let count = power::check_media(KINDS, PLANNED, Bound { states_max: 11, seed: 1 }, script, |media| {
        let area = media[1].over(&SparseStore::default());
        let read = &mut |at, out: &mut [u8]| {
            area.read(at, out);
            Ok(())
        };
        match check_map(AREA_BYTES, read) {
            Ok(verdict) if verdict.findings.is_empty() => maps += 1,
            // Until the first head is durable.
            Err(MapError::Superblock(SuperblockError::Blank)) => blanks += 1,
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    });
    assert!(maps >= 500 && blanks < 100, "{maps} of {} states have a map, and {blanks} are blank", count.states);
    println!("{maps} maps");
}
