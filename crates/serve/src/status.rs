//! What a server tells about itself, as JSON. Numbers are since the start, sizes in bytes.

use esker_block::{Device, Stat, Usage};
use esker_stack::PartStats;
use serde_json::{Map, Value, json};

use crate::server::Shared;

pub(crate) fn of(shared: &Shared) -> Value {
    let stack = &shared.stack;
    json!({
        "uptime_s": shared.rt.now().since(shared.started).0 as f64 / 1e9,
        "io": shared.io,
        "dead": stack.dead(),
        "inflight": stack.inflight(),
        "connections": shared.doors.iter().map(|door| door.server.connections()).sum::<usize>()
            + shared.fronts().iter().map(|front| front.clients()).sum::<usize>(),
        "bounced_bytes": stack.pool().bounced(),
        "tls_bytes": shared.doors.iter().map(|door| door.server.secured_bytes()).sum::<u64>(),
        "changes": shared.changes.get(),
        "exports": shared.offers().iter().map(|offer| json!({
            "name": offer.export,
            "uri": offer.at,
            "size": offer.size,
            "read_only": offer.read_only,
            "block": stack.export(&offer.export).map(|export| export.limits().block),
        })).collect::<Vec<_>>(),
        "parts": stack.stats().iter().map(part).collect::<Vec<_>>(),
    })
}

fn part(part: &PartStats) -> Value {
    let stats: Map<String, Value> =
        part.stats.iter().map(|Stat { name, value }| (name.to_string(), json!(value))).collect();
    json!({
        "name": part.name,
        "kind": part.kind,
        // Only models know what they use.
        "modelled": part.usage.is_some(),
        "violations": part.violations,
        "stats": stats,
        "usage": part.usage.map(usage),
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "energy_j": usage.energy_j,
        "busy_s": usage.busy.0 as f64 / 1e9,
        "price_usd": usage.price_usd,
        "written_bytes": usage.written,
        "read_bytes": usage.read,
    })
}
