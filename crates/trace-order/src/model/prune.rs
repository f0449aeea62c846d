//! From what a compilation kept to a program: what can never become an edge is left out.
//!
//! A rule only ever relates actions that touch one resource, or two generations of one name. Where all of these actions
//! are of one thread, there is no edge under any rule.

use esker_trace_calls::name::PathBytes;

use crate::compiled::{Program, SlotEffect};
use crate::rules::Outline;

use super::compile::Compiler;
use super::resource::{Resource, ResourceId, ResourceKind, Role, Touch};

/// No thread yet, or more than one.
const NOBODY: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// The program of a compilation that has seen all actions.
pub(super) fn finish(mut compiler: Compiler) -> Program {
    keep_used_slots(&mut compiler);
    let numbers = kept_resources(&compiler);
    let resources = named_resources(&mut compiler, &numbers);
    let mut outline = Outline::new(compiler.players.len(), resources);
    let mut touches = Vec::new();
    let mut start = 0;
    for (instant, end) in compiler.instants.iter().zip(&compiler.touch_ends) {
        touches.clear();
        for word in &compiler.touches[start..*end as usize] {
            let role = Role::from_code((word & 3) as u8).expect("two bits are a role");
            if let Some(resource) = numbers[(word >> 2) as usize] {
                touches.push(Touch { resource, role });
            }
        }
        outline.push(*instant, &touches);
        start = *end as usize;
    }
    for number in compiler.late {
        compiler.names.share(&mut compiler.steps[number as usize].call);
    }
    let mut program = Program {
        about: compiler.about,
        players: compiler.players,
        snapshot: compiler.snapshot,
        after: compiler.after,
        slots: compiler.world.slots,
        opened: compiler.opened,
        outline,
        actions: Vec::new(),
        names: compiler.names.names().to_vec(),
        steps: compiler.steps,
    };
    program.index();
    program
}

/// Unused copies of descriptors are neither made nor closed, and unused descriptors are not opened.
fn keep_used_slots(compiler: &mut Compiler) {
    let used = &mut compiler.used;
    used.resize(compiler.world.slots.len(), false);
    for number in compiler.late.iter().rev() {
        for effect in &compiler.steps[*number as usize].slots {
            if let SlotEffect::Copied { from, to } = effect {
                used[from.0 as usize] |= used[to.0 as usize];
            }
        }
    }
    for number in &compiler.late {
        compiler.steps[*number as usize].slots.retain(|effect| match effect {
            SlotEffect::Made(slot) | SlotEffect::Copied { to: slot, .. } | SlotEffect::Closed(slot) => {
                used[slot.0 as usize]
            }
        });
    }
    compiler.opened.retain(|opened| used[opened.slot.0 as usize]);
}

/// The new numbers of those resources that several threads touch, counting all generations of a name together.
fn kept_resources(compiler: &Compiler) -> Vec<Option<ResourceId>> {
    let resources = compiler.world.ledger.resources();
    let mut name: Vec<ResourceId> = Vec::with_capacity(resources.len());
    for (id, resource) in resources.iter().enumerate() {
        name.push(resource.previous.map_or(id as ResourceId, |previous| name[previous as usize]));
    }
    let mut threads = vec![NOBODY; resources.len()];
    let mut start = 0;
    for (instant, end) in compiler.instants.iter().zip(&compiler.touch_ends) {
        for word in &compiler.touches[start..*end as usize] {
            let owner = &mut threads[name[(word >> 2) as usize] as usize];
            *owner = if *owner == NOBODY || *owner == instant.thread { instant.thread } else { SEVERAL };
        }
        start = *end as usize;
    }
    let mut dropped = vec![false; resources.len()];
    for (slot, resource) in compiler.world.slot_resources.iter().enumerate() {
        dropped[*resource as usize] = !compiler.used[slot];
    }
    let mut next = 0;
    let kept = (0..resources.len()).map(|id| {
        let keeps = threads[name[id] as usize] == SEVERAL && !dropped[id];
        keeps.then(|| {
            next += 1;
            next - 1
        })
    });
    kept.collect()
}

/// The resources that are kept, under keys that a reader of the file understands.
fn named_resources(compiler: &mut Compiler, numbers: &[Option<ResourceId>]) -> Vec<Resource> {
    let mut kept = Vec::new();
    for (id, resource) in compiler.world.ledger.resources().iter().enumerate() {
        if numbers[id].is_none() {
            continue;
        }
        let tree = &compiler.world.tree;
        let path: Option<PathBytes> = match resource.kind {
            ResourceKind::Path | ResourceKind::Absence => Some(tree.path(resource.key as u32)),
            ResourceKind::File | ResourceKind::Directory => Some(tree.path(tree.inode(resource.key as u32).node)),
            _ => None,
        };
        let key = path.map_or(resource.key, |path| u64::from(compiler.names.number(&path)));
        let previous = resource.previous.and_then(|previous| numbers[previous as usize]);
        kept.push(Resource { key, previous, ..*resource });
    }
    kept
}
