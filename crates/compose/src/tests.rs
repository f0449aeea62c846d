//! Tests of the whole theory.

mod brute;
mod growth;
mod laws;
mod report;
mod thesis;

use proptest::prelude::*;

use crate::set::{ExtId, Member, VolId, VolSet};
use crate::setting::{Extension, Properties, Route, Setting, Volume};
use crate::text::Declaration;
use crate::{Built, samples};

fn read(text: &str) -> Declaration {
    Declaration::parse("test", text, &Built::default()).unwrap()
}

fn six() -> Setting {
    read(samples::SIX).setting
}

fn order(setting: &Setting, names: &str) -> Vec<ExtId> {
    names.split_whitespace().map(|name| setting.find(name).unwrap()).collect()
}

/// What random settings may hold.
#[derive(Clone, Copy)]
struct Size {
    volumes: usize,
    /// Volumes of a domain.
    domain: usize,
    extensions: usize,
    spontaneous: bool,
}

const GOALS: [&str; 3] = ["space", "energy", "speed"];

/// A subset of `of` with 1 to `count` members.
fn some_of(of: Vec<VolId>, count: usize) -> impl Strategy<Value = VolSet> {
    proptest::sample::subsequence(of, 1..=count).prop_map(|list| list.into_iter().collect())
}

fn route(output: VolSet) -> impl Strategy<Value = (VolSet, VolSet)> {
    let list: Vec<VolId> = output.iter().collect();
    let count = list.len();
    (some_of(list.clone(), count), proptest::sample::subsequence(list, 0..=count).prop_map(|l| l.into_iter().collect()))
}

fn extension(at: usize, size: Size) -> impl Strategy<Value = Extension> {
    let volumes: Vec<VolId> = (0..size.volumes).map(VolId::of).collect();
    let properties = (any::<bool>(), any::<bool>(), any::<bool>());
    let parts = (some_of(volumes.clone(), size.domain), some_of(volumes, size.domain), properties, 0..GOALS.len());
    parts.prop_flat_map(move |(input, output, (mutator, generator, spontaneous), goal)| {
        // An extension that forwards a request to where it was must be able to send there.
        let output = if mutator { output } else { output | input };
        let properties = Properties { mutator, generator, spontaneous: spontaneous && generator && size.spontaneous };
        proptest::collection::vec(route(output), input.len()).prop_map(move |maps| {
            let routes = input.iter().zip(maps).map(|(volume, (forward, generate))| {
                let forward = if mutator { forward } else { VolSet::one(volume) };
                let generate = if generator { generate } else { VolSet::EMPTY };
                (volume, Route { forward, generate })
            });
            let goals = vec![GOALS[goal].to_string()];
            Extension::new(&format!("e{at}"), goals, properties, output, routes.collect()).unwrap()
        })
    })
}

/// Random settings. One volume in four is not visible, and weights are 1 to 3.
fn setting(size: Size) -> impl Strategy<Value = Setting> {
    let volume = (0..4u32, 1..4u32);
    let volumes = proptest::collection::vec(volume, size.volumes).prop_map(|list| {
        let volume = |(at, (hidden, weight)): (usize, (u32, u32))| Volume {
            name: format!("v{at}"),
            visible: hidden > 0,
            weight,
        };
        list.into_iter().enumerate().map(volume).collect::<Vec<_>>()
    });
    let extensions: Vec<_> = (0..size.extensions).map(|at| extension(at, size).boxed()).collect();
    (volumes, extensions).prop_map(|(volumes, extensions)| Setting { volumes, extensions })
}
