//! Where the volumes of the traces lie: each on an export of its own, or one behind the other on a single one.

use esker_base::units::MIB;

use crate::facts::Facts;

/// Joined volumes begin at multiples of this, so that no extent or line of a layer holds bytes of two volumes.
pub const JOIN_ALIGN: u64 = 64 * MIB;

/// The name of the export that serves joined volumes.
pub const JOINED: &str = "joined";

/// Where one volume lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Seat {
    /// Number of the export.
    pub export: usize,
    /// Byte of it at which the volume begins.
    pub base: u64,
}

/// Where all volumes lie.
pub(crate) struct Seats {
    /// By number of the volume.
    pub seats: Vec<Seat>,
    /// What each export must serve, by its number.
    pub exports: Vec<Facts>,
}

impl Seats {
    /// An export for each volume.
    pub(crate) fn apart(volumes: &[Facts]) -> Seats {
        let seats = (0..volumes.len()).map(|export| Seat { export, base: 0 }).collect();
        Seats { seats, exports: volumes.to_vec() }
    }

    /// One export for all volumes, which begin at multiples of [`JOIN_ALIGN`].
    pub(crate) fn joined(volumes: &[Facts]) -> Seats {
        let (mut end, mut seats) = (0u64, Vec::new());
        for volume in volumes {
            let base = end.checked_next_multiple_of(JOIN_ALIGN).unwrap_or(u64::MAX);
            seats.push(Seat { export: 0, base });
            end = base.saturating_add(volume.reach_bytes);
        }
        let names: Vec<String> = Facts::of_traces(volumes).into_iter().map(|facts| facts.name).collect();
        let all = Facts { reach_bytes: end, ..Facts::nothing(&names.join(" + "), JOINED) };
        Seats { seats, exports: vec![all] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes() -> Vec<Facts> {
        let volume = |name, reach_bytes| Facts { reach_bytes, ..Facts::nothing("t", name) };
        vec![volume("a", JOIN_ALIGN + 1), volume("b", 4096), volume("c", JOIN_ALIGN)]
    }

    #[test]
    fn joined_volumes_follow_each_other_at_aligned_begins() {
        let joined = Seats::joined(&volumes());
        assert_eq!(joined.seats.iter().map(|seat| seat.base / JOIN_ALIGN).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!((joined.exports.len(), joined.exports[0].reach_bytes), (1, 4 * JOIN_ALIGN));
        assert_eq!((joined.exports[0].name.as_str(), joined.exports[0].volume.as_str()), ("t", JOINED));
    }

    #[test]
    fn volumes_apart_begin_at_the_begin_of_their_exports() {
        let apart = Seats::apart(&volumes());
        assert_eq!(
            apart.seats.iter().map(|seat| (seat.export, seat.base)).collect::<Vec<_>>(),
            [(0, 0), (1, 0), (2, 0)]
        );
        assert_eq!(apart.exports, volumes());
    }
}
