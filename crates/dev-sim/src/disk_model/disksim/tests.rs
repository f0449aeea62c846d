//! Measured disks from their files: the geometry that they tell, and what damaged files are told.

use proptest::prelude::*;

use super::*;

macro_rules! file {
    ($folder:literal, $name:literal) => {
        ($name.to_string(), include_str!(concat!("../../../../../data/disksim/", $folder, "/", $name)).to_string())
    };
}

fn atlas10k() -> Vec<File> {
    vec![
        file!("atlas10k", "atlas10k.diskspecs"),
        file!("atlas10k", "atlas10k.model"),
        file!("atlas10k", "atlas10k.seek"),
    ]
}

fn hp_c2247a() -> Vec<File> {
    vec![
        file!("hp_c2247a", "hp_c2247a.diskspecs"),
        file!("hp_c2247a", "hp_c2247a_validate.model"),
        file!("hp_c2247a", "hp_c2247a.parv"),
    ]
}

#[test]
fn the_atlas_10k_is_as_its_files_say() {
    let disk = load(&atlas10k()).unwrap();
    assert_eq!((disk.rpm, disk.layout.heads, disk.layout.zones.len()), (10_025, 6, 24));
    assert_eq!(disk.layout.zones[0].slips, [55_017, 358_148, 394_564, 420_533, 483_742]);
    assert_eq!((disk.seek.time(1), disk.seek.time(45)), (Nanos::micros(1_245), Nanos::micros(2_051)));
    assert_eq!((disk.buffer.segments, disk.buffer.segment, disk.buffer.read_free), (10, 374 * SECTOR, true));
    assert_eq!(Nanos::transfer(100 * SECTOR, disk.interface.rate).0 / 1000, 9_900);
    let parts = disk.parts(Bill { active_w: 0.0, idle_w: 0.0, price_usd: 0.0 }, None);
    // All slots but the spares, of which slipped blocks take theirs.
    assert_eq!(parts.capacity, 17_966_953 * SECTOR);
    let second_zone = parts.geometry.place((433 * 6 * 334 - 89) * SECTOR);
    assert_eq!((second_zone.cylinder, second_zone.into), (433, 0));
}

#[test]
fn the_hp_c2247a_has_as_many_blocks_as_its_file_counts() {
    let disk = load(&hp_c2247a()).unwrap();
    let parts = disk.parts(Bill { active_w: 0.0, idle_w: 0.0, price_usd: 0.0 }, None);
    assert_eq!(parts.capacity, 2_054_864 * SECTOR, "the file's own block count");
    assert_eq!((disk.seek.time(3), disk.seek.time(400)), (Nanos::micros(3_810), Nanos::micros(10_110)));
    assert_eq!(parts.interface.rate / 1000, 3_009, "from the bus of the .parv file");
    assert_eq!(parts.buffer.write, 0, "writes wait for the medium");
}

#[test]
fn files_joined_into_one_text_are_split_again() {
    let files = atlas10k();
    let again = split(&join(&files));
    assert_eq!(load(&again), load(&files));
    assert_eq!(again.len(), 3);
}

#[test]
fn damaged_files_name_file_and_line() {
    let with = |at: usize, from: &str, to: &str| {
        let mut files = atlas10k();
        assert!(files[at].1.contains(from), "{from}");
        files[at].1 = files[at].1.replacen(from, to, 1);
        load(&files).unwrap_err().to_string()
    };
    for (at, from, to, words) in [
        (1, "Blocks per track = 334", "Blocks per track = 0", "atlas10k.model, line 31: Blocks per track: expected"),
        (
            1,
            "First cylinder number = 433",
            "First cylinder number = 400",
            "line 43: First cylinder number: expected zones",
        ),
        (1, "Number of spares = 89", "Number of spares = 999999999", "Number of spares: expected room"),
        (1, "Rotation speed (in rpms) = 10025", "Rotation speed (in rpms) = 0", "line 18: Rotation speed"),
        (1, "Seek type = extracted", "Seek type = guessed", "Seek type: expected extracted"),
        (1, "atlas10k.seek", "other.seek", "other.seek is not in the folder"),
        (1, "Sparing scheme used = 9", "Sparing scheme used = 11", "expected a whole number up to 10"),
        (
            0,
            "source atlas10k.model",
            "source b.model",
            "atlas10k.diskspecs, line 2: Model: b.model is not in the folder",
        ),
        (0, "Segment size (in blks) = 374", "Segment size (in blks) = x", "Segment size (in blks): expected a number"),
        (2, "100,\t2.01100", "100,\tfast", "atlas10k.seek: seek table, line 27"),
    ] {
        let error = with(at, from, to);
        assert!(error.contains(words), "{from} -> {to}: {error}");
    }
    assert!(load(&[]).unwrap_err().to_string().contains("found 0"));
    let two = [atlas10k(), hp_c2247a()].concat();
    assert!(load(&two).unwrap_err().to_string().contains("its own folder"));
}

proptest! {
    /// Whatever a byte is changed to, the files make a disk that serves its whole range, or are refused.
    #[test]
    fn no_damage_panics(at in 0usize..15_000, byte in "[0-9=,\\[\\]{}a .-]", in_model: bool) {
        let mut files = if in_model { atlas10k() } else { hp_c2247a() };
        let text = &mut files[1].1;
        let at = at % text.len();
        text.replace_range(at..=at, &byte);
        if let Ok(disk) = load(&files) {
            let parts = disk.parts(Bill { active_w: 0.0, idle_w: 0.0, price_usd: 0.0 }, None);
            let last = parts.geometry.place(parts.capacity.saturating_sub(SECTOR));
            prop_assert!(last.cylinder < parts.geometry.cylinders());
            prop_assert!(parts.geometry.place(0).at <= last.at);
        }
    }
}
