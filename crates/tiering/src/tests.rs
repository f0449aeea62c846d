use esker_base::Stream;

use super::*;
use crate::epoch::NOWHERE;

mod collecting;
mod correcting;
mod modelling;
mod packing;
mod planning;
mod sizing;

/// The extent of the source's experiments, bytes.
pub(crate) const EXTENT: f64 = 64e6;

/// A seeded stream, whose seed is printed.
pub(crate) fn stream(seed: u64, name: &str) -> Stream {
    println!("seed {seed} of {name}");
    Stream::named(seed, name)
}

/// Arrays of the printed devices: type, devices and extents for which there is room.
pub(crate) fn arrays(rows: &[(usize, u32, u32)]) -> Vec<Array> {
    let array = |(tier, devices, extents_max): &(usize, u32, u32)| Array {
        tier: *tier,
        devices: *devices,
        extents_max: *extents_max,
        idle: 0,
        is_powered: true,
    };
    rows.iter().map(array).collect()
}

pub(crate) fn extents(demands: &[(u32, Demand)]) -> Vec<UsedExtent> {
    let extent = |(id, (at, demand)): (usize, &(u32, Demand))| UsedExtent {
        id: id as u32,
        at: *at,
        demand: *demand,
        is_held: false,
    };
    demands.iter().enumerate().map(extent).collect()
}

pub(crate) fn epoch<'a>(sheets: &'a [Sheet], arrays: &'a [Array], extents: &'a [UsedExtent]) -> Epoch<'a> {
    Epoch { sheets, arrays, extents, extent_bytes: EXTENT, idle_nowhere: 0, fill: 1.0, consolidates: true }
}

/// The epoch behind a plan that was carried out, with the same demands.
pub(crate) fn carried_out(arrays: &[Array], extents: &[UsedExtent], plan: &Placement) -> (Vec<Array>, Vec<UsedExtent>) {
    let mut arrays = arrays.to_vec();
    for moved in &plan.idle_moves {
        if moved.from != NOWHERE {
            arrays[moved.from as usize].idle -= moved.extents;
        }
        arrays[moved.to as usize].idle += moved.extents;
    }
    let extents = extents.iter().zip(&plan.at).map(|(extent, at)| UsedExtent { at: *at, is_held: false, ..*extent });
    (arrays, extents.collect())
}

/// A demand as in a busy volume: many lukewarm extents, few hot ones, some streams.
pub(crate) fn any_demand(stream: &mut Stream) -> Demand {
    let heat = 10f64.powf(stream.unit() * 5.0 - 3.5) as f32;
    match stream.below(3) {
        0 => Demand::sequential(heat, 64.0),
        1 => Demand { mb_per_s: heat / 4.0, ..Demand::random(heat) },
        _ => Demand::random(heat),
    }
}
