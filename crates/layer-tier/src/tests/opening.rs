//! Starts: what is found again, and what is refused.

use esker_testkit::bench::{self, read, write};
use esker_testkit::kept::{peek, poke};

use super::{KINDS, end_of, moved, open, residents, stat, with};

const SIZE: u64 = 64 << 10;
/// Twenty extents: nine on end 0, the others on end 1.
const SIZES: &str = "extent=4KiB size=80KiB";

fn text_of(bed: u64, on: &str, args: &str) -> String {
    let sheets = ["ssd", "sas", "sata"][..on.split(',').count()].join("; ");
    let ends = ["a", "b", "c", "d"].map(|end| format!("{end} = kept bed={bed} size=64KiB;")).join(" ");
    format!("{ends} vol = tier devices=\"{sheets}\" plan=none throttle=false {args} on {on}")
}

fn text(bed: u64) -> String {
    text_of(bed, "a,b,c", SIZES)
}

/// Makes a tier with an extent that has moved, and stops it.
fn make(bed: u64) {
    // Another seed for each bed: maps have numbers of their own.
    let sim = esker_rt::Sim::new(esker_rt::SimConfig::seeded(bed));
    let rt = sim.rt();
    sim.block_on(async move {
        let (vol, _) = open(&rt, &text(bed)).await;
        write(&vol, 0, &[7; 8192]).await;
        moved(&vol, "place 0-1 2").await;
        moved(&vol, "place 15 0").await;
        vol.stack().close().await;
    });
}

#[test]
fn item_10_a_restart_keeps_the_placement() {
    for stops in [true, false] {
        let bed = 9100 + u64::from(stops);
        with(&text(bed), async move |vol| {
            write(&vol, 0, &[7; 8192]).await;
            moved(&vol, "place 0-1 2").await;
            moved(&vol, "place 0 1").await;
            if stops {
                vol.stack().close().await;
            }
        });
        with(&text(bed), async |vol| {
            assert_eq!(read(&vol, 0, 8192).await, [7; 8192]);
            assert_eq!([end_of(&vol, 0).await, end_of(&vol, 1).await, end_of(&vol, 2).await], [1, 2, 0]);
            let found = residents(&vol).await;
            assert_eq!((found.iter().sum::<u64>(), found[0]), (stat(&vol, "extents"), 7));
            moved(&vol, "place 0 0").await;
            assert_eq!((read(&vol, 0, 8192).await, end_of(&vol, 0).await), (vec![7; 8192], 0));
        });
    }
}

#[test]
fn ends_that_are_not_those_of_the_tier_are_refused() {
    make(9110);
    let cases = [
        ("a,c,b", "end 1 is end 2 of its tier; name the devices in their order"),
        ("b,a,c", "end 1 holds a map of slots, and is no further end of a tier"),
        ("a,b", "end 1 belongs to a tier of 3 ends, and 2 are named"),
        ("a,b,d", "end 2 is blank, and this tier has data there"),
        ("d,b,c", "end 0 is blank, but end 1 belongs to a tier"),
    ];
    for (on, why) in cases {
        let refused = bench::refusal(KINDS, &text_of(9110, on, SIZES));
        assert!(refused.contains(why), "on {on}: {refused}");
    }
    let blank = peek(9110, "d", SIZE);
    assert!(blank.iter().all(|byte| *byte == 0), "nothing was written there");
    let refused = bench::refusal(KINDS, &text_of(9110, "a,b,c", "extent=8KiB size=80KiB"));
    assert!(refused.contains("has extents of 4096 bytes; write extent=4096"), "{refused}");
    let refused = bench::refusal(KINDS, &text_of(9110, "a,b,c", "extent=4KiB size=32KiB"));
    assert!(refused.contains("end 0 holds the map of a tier with 20 extents"), "{refused}");
    with(&text(9110), async |vol| assert_eq!(read(&vol, 0, 8192).await, [7; 8192]));
}

#[test]
fn an_end_of_another_tier_is_refused() {
    make(9120);
    make(9121);
    poke(9120, "b", 0, &peek(9121, "b", SIZE));
    let refused = bench::refusal(KINDS, &text(9120));
    assert!(refused.contains("end 1 belongs to another tier"), "{refused}");
}

#[test]
fn another_medium_is_refused_and_kept() {
    let foreign = [b"a file system".as_slice(), &[5; 9000]].concat();
    for end in ["a", "b"] {
        let bed = 9130 + u64::from(end == "a");
        poke(bed, end, 0, &foreign);
        let refused = bench::refusal(KINDS, &text(bed));
        assert!(refused.contains("holds no superblock of"), "{refused}");
        assert_eq!(peek(bed, end, 9013), foreign);
    }
}

#[test]
fn item_8_a_map_with_two_damaged_images_is_refused() {
    make(9140);
    let map = peek(9140, "a", 24 << 10);
    poke(9140, "a", 16 << 10, &[9; 64]);
    with(&text(9140), async |vol| {
        assert_eq!((read(&vol, 0, 8192).await, end_of(&vol, 0).await), (vec![7; 8192], 2));
        vol.stack().close().await;
    });
    poke(9140, "a", 0, &map);
    poke(9140, "a", 16 << 10, &[9; 64]);
    poke(9140, "a", 20 << 10, &[9; 64]);
    let refused = bench::refusal(KINDS, &text(9140));
    assert!(refused.contains("end 0 has a damaged cell at byte"), "{refused}");
}

#[test]
fn a_damaged_label_is_refused_unless_its_twin_is_sound() {
    make(9150);
    poke(9150, "c", 64, &[9]);
    with(&text(9150), async |vol| assert_eq!(read(&vol, 0, 8192).await, [7; 8192]));
    poke(9150, "c", 4096 + 64, &[9]);
    let refused = bench::refusal(KINDS, &text(9150));
    assert!(refused.contains("end 2 holds a superblock whose checksum is wrong"), "{refused}");
}

#[test]
fn what_does_not_fit_is_said_before_anything_is_made() {
    let cases = [
        ("devices=\"ssd\" extent=4KiB", "a,b", "`devices` has 1 sheets for 2 ends; write one for each device of `on`"),
        ("devices=\"ssd; tape\" extent=4KiB", "a,b", "no sheet of `tape` is known"),
        ("devices=\"ssd; sata\" extent=4KiB", "a,b", "end 1 has 8192 bytes, which is no room for two extents of 4096"),
        ("devices=\"sata; ssd\" extent=4KiB", "b,a", "the first end has 8192 bytes, which is no room for a map"),
        ("devices=\"ssd; sata\" extent=3000", "a,b", "extent=3000 is not a power of two"),
        ("devices=\"ssd; sata\" extent=4KiB size=1MiB", "a,c", "size=1048576 is not a multiple of the extent up to"),
        ("devices=\"ssd; sata\" extent=4KiB look=0", "a,c", "`look` must be above 0"),
        ("devices=\"ssd; sata\" extent=4KiB heads=33", "a,c", "`heads` must be from 1 to 32"),
        ("devices=\"ssd; sata(bytes=4000)\" extent=4KiB", "a,c", "an extent of 4096 bytes is larger than one sata"),
    ];
    let sim = esker_rt::Sim::new(esker_rt::SimConfig::seeded(1));
    for (args, on, why) in cases {
        let ends = "a = memory size=64KiB; b = memory size=8KiB; c = memory size=64KiB;";
        let text = format!("{ends} vol = tier {args} on {on}");
        let found = bench::try_open(&sim.rt(), KINDS, &text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(found.contains(why), "{args}: {found}");
    }
}

#[test]
fn the_checker_knows_both_kinds_of_media() {
    make(9160);
    let medium = |end: &'static str| std::rc::Rc::new(Kept(end)) as std::rc::Rc<dyn esker_block::ReadMedium>;
    let check = |end| (crate::check::MEDIA.check)(&[medium(end)]).unwrap();
    for end in ["a", "b", "c"] {
        assert!((crate::check::MEDIA.is_marked)(&*medium(end)).unwrap() && check(end).is_sound, "{end}");
    }
    assert!(!(crate::check::MEDIA.is_marked)(&*medium("d")).unwrap());
    assert!(check("a").text.starts_with("map of a tier: 3 of"), "{}", check("a").text);
    assert_eq!(check("c").text, "end 2 of a tier of 3 ends: 14 slots of 4096 bytes; its label is sound");
}

/// An end of bed 9160.
struct Kept(&'static str);

impl esker_block::ReadMedium for Kept {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        out.copy_from_slice(&peek(9160, self.0, SIZE)[at as usize..][..out.len()]);
        Ok(())
    }
}
