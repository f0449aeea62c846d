//! Members that are replaced, and members that are compared.

use esker_stack::LiveError;
use serde_json::Value;

use super::*;

const PATIENCE: Nanos = Nanos::millis(100);

async fn order(vol: &Export, words: &str) -> Result<Value, String> {
    let words: Vec<String> = words.split(' ').map(str::to_string).collect();
    let answer = vol.stack().order("vol", &words).await.map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&answer).unwrap())
}

async fn replace(vol: &Export, old: &str, new: &str) -> Result<(), LiveError> {
    let spec = Spec::parse("new", new).unwrap_or_else(|error| panic!("{error}"));
    vol.stack().replace(old, spec.devices[0].clone(), PATIENCE).await
}

#[test]
fn a_member_is_replaced_while_the_mirror_goes_on() {
    with(&format!("{TWO} vol = mirror region=4KiB rescan=1ms on a, b"), async |vol| {
        write(&vol, 0, &[1; 128 << 10]).await;
        until(&vol, "suspect_regions", 0.0).await;
        let told = order(&vol, "offline 1").await.unwrap();
        assert_eq!(told["members"][1]["state"], "offline");
        write(&vol, 4096, &[2; 4096]).await;
        vol.stack().rt().sleep(Nanos::secs(20)).await;
        assert_eq!(stat(&vol, "members_offline"), 1.0, "it is not looked for");
        replace(&vol, "b", "c = memory size=300KiB defer=always latency=9us").await.unwrap();
        assert!(vol.stack().device("b").is_none() && vol.stack().spec().device("vol").unwrap().on == ["a", "c"]);
        write(&vol, 8192, &[3; 4096]).await;
        order(&vol, "rescan").await.unwrap();
        until(&vol, "members_in_sync", 2.0).await;
        let data = read(&vol, 0, 128 << 10).await;
        assert_eq!((data[0], data[4096], data[8192]), (1, 2, 3));
        assert!(member(&vol, "a", 0, 128 << 10).await == data && member(&vol, "c", 0, 128 << 10).await == data);
    });
}

#[test]
fn what_cannot_be_a_member_takes_no_place_and_changes_nothing() {
    with(&format!("{TWO} s = stats on b; vol = mirror rescan=1ms on a, s"), async |vol| {
        until(&vol, "suspect_regions", 0.0).await;
        let check = async |old: &str, new: &str, words: &str| {
            let error = replace(&vol, old, new).await.unwrap_err().to_string();
            assert!(error.contains(words), "{old}, {new}: {error}");
            assert!(vol.stack().device("c").is_none(), "{new}");
        };
        check("a", "c = memory size=256KiB", "only an offline member").await;
        check("s", "c = memory size=256KiB", "it is a layer").await;
        check("vol", "c = memory size=256KiB", "it is a layer").await;
        check("x", "c = memory size=256KiB", "there is no \"x\"").await;
        order(&vol, "offline 0").await.unwrap();
        check("a", "c = memory size=128KiB", "131072 bytes, and 262144 are needed").await;
        check("a", "c = memory size=256KiB block=4096", "blocks of 4096 bytes").await;
        check("a", "b = memory size=256KiB", "of this name already").await;
        check("b", "c = memory size=256KiB", "uses it").await;
    });
}

#[test]
fn a_device_that_is_not_blank_takes_no_place() {
    use esker_testkit::{KEPT, kept};
    static KINDS: &[&Kind] = &[&crate::KIND, &esker_dev::memory::KIND, &KEPT];
    kept::poke(7100, "c", 100, &[1]);
    bench::with(KINDS, &format!("{TWO} vol = mirror rescan=1ms on a, b"), async |vol| {
        order(&vol, "offline 1").await.unwrap();
        let error = replace(&vol, "b", "c = kept bed=7100 size=256KiB").await.unwrap_err().to_string();
        assert!(error.contains("\"c\" is not blank"), "{error}");
        order(&vol, "rescan").await.unwrap();
        until(&vol, "members_in_sync", 2.0).await;
    });
}

#[test]
fn orders_that_cannot_be_done_say_why() {
    with(&format!("{TWO} vol = mirror rescan=1ms on a, b"), async |vol| {
        assert!(order(&vol, "offline 2").await.unwrap_err().contains("members 0 to 1"));
        assert!(order(&vol, "detach").await.unwrap_err().contains("detach MEMBER"));
        order(&vol, "offline 1").await.unwrap();
        assert!(order(&vol, "offline 0").await.unwrap_err().contains("the only one in sync"));
    });
}

#[test]
fn a_scrub_finds_what_differs_and_mends_it() {
    with(&format!("{TWO} vol = mirror region=4KiB on a, b"), async |vol| {
        write(&vol, 0, &[1; 128 << 10]).await;
        until(&vol, "suspect_regions", 0.0).await;
        let scrubbed = async || {
            order(&vol, "scrub").await.unwrap();
            loop {
                vol.stack().rt().sleep(Nanos::micros(100)).await;
                let told = order(&vol, "members").await.unwrap();
                if told["scrub"]["running"] == false {
                    return told["scrub"].clone();
                }
            }
        };
        let found = scrubbed().await;
        assert_eq!((&found["differing_bytes"], &found["done_bytes"]), (&0.into(), &found["bytes"]));
        write(&vol.stack().device("b").unwrap(), DATA_START + 8192, &[9; 512]).await;
        assert!(scrubbed().await["differing_bytes"].as_u64().unwrap() > 0);
        check_equal(&vol, 128 << 10).await;
        assert_eq!(member(&vol, "b", 8192, 512).await, [1; 512], "the first member counts");
        assert_eq!(scrubbed().await["differing_bytes"], 0);
    });
}

#[test]
fn a_scrub_writes_again_what_a_member_cannot_read() {
    let text = "a = memory size=256KiB; b = latent size=256KiB; vol = mirror region=4KiB initial=assume-clean on a, b";
    with(text, async |vol| {
        order(&vol, "scrub").await.unwrap();
        vol.stack().rt().sleep(Nanos::millis(10)).await;
        let told = order(&vol, "members").await.unwrap();
        assert!(told["scrub"]["unreadable_bytes"].as_u64().unwrap() > 0, "{told}");
        check_equal(&vol, 128 << 10).await;
    });
}
