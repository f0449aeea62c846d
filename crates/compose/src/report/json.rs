//! Reports for programs. `docs/guide/compose.md` lists the keys.

use serde_json::{Value, json};

use crate::effect::Effect;
use crate::exact::{Hop, How};
use crate::explain::{Analysis, Cause, ExtensionView, GoalView, Lost};
use crate::report::claim_text;
use crate::search::BestOrder;
use crate::search::insertion::InsertPoint;
use crate::set::{ExtId, VolId, VolSet};
use crate::setting::Setting;

/// The whole analysis.
pub fn analysis(analysis: &Analysis<'_>) -> Value {
    let setting = analysis.setting;
    json!({
        "order": setting.names(analysis.run.order()),
        "score": analysis.score.ranks,
        "live": analysis.score.live,
        "starved": analysis.run.starved().iter().map(|id| name(setting, id)).collect::<Vec<_>>(),
        "volumes": analysis.volumes.iter().map(|view| json!({
            "name": setting.volume(view.volume).name,
            "visible": setting.volume(view.volume).visible,
            "weight": setting.volume(view.volume).weight,
            "dominant": view.handlers.dominant().map(|id| name(setting, id)),
            "handlers": view.handlers.extensions.iter().map(|id| name(setting, id)).collect::<Vec<_>>(),
            "unhandled": view.handlers.unhandled,
            "grid": claim_text(setting, view.claim),
        })).collect::<Vec<_>>(),
        "extensions": analysis.extensions.iter().map(|view| extension(setting, view)).collect::<Vec<_>>(),
        "goals": analysis.goals.iter().map(|view| goal(setting, view)).collect::<Vec<_>>(),
        "fixed": analysis.fixed.iter().map(|(id, held)| json!({
            "name": name(setting, *id),
            "reason": held.word(),
            "why": held.why(),
        })).collect::<Vec<_>>(),
        "swaps": analysis.swaps.iter().map(|(a, b)| [name(setting, *a), name(setting, *b)]).collect::<Vec<_>>(),
        "disagreements": analysis.disagreements.iter().map(|found| json!({
            "volume": setting.volume(found.volume).name,
            "grid": claim_text(setting, found.grid),
            "handlers": found.exact.iter().map(|id| name(setting, id)).collect::<Vec<_>>(),
            "unhandled": found.unhandled,
        })).collect::<Vec<_>>(),
    })
}

/// What a search found: the analysis of its order, and how it was found.
pub fn found(found: &BestOrder, of: &Analysis<'_>) -> Value {
    let mut value = analysis(of);
    // Of an order in which some layers could not move, nothing is proven but that the others cannot do better.
    let (of_all, of_movable) = (found.is_proven && of.fixed.is_empty(), found.is_proven);
    value["search"] = json!({ "looked_at": found.looked_at, "proven": of_all, "proven_for_movable": of_movable });
    value
}

/// One place of an insertion; `of` analyses its order.
pub fn place(place: &InsertPoint, of: &Analysis<'_>) -> Value {
    let mut value = analysis(of);
    value["place"] = json!(place.at);
    value["allowed"] = json!(place.score.is_some());
    value
}

fn name(setting: &Setting, id: ExtId) -> &str {
    setting.extension(id).name()
}

fn names(setting: &Setting, volumes: VolSet) -> Vec<&str> {
    volumes.iter().map(|volume| setting.volume(volume).name.as_str()).collect()
}

fn extension(setting: &Setting, view: &ExtensionView) -> Value {
    let own = setting.extension(view.id);
    let properties = own.properties();
    json!({
        "name": own.name(),
        "goals": own.goals(),
        "input": names(setting, own.input()),
        "output": names(setting, own.output()),
        "accessor": properties.is_accessor(),
        "mutator": properties.mutator,
        "generator": properties.generator,
        "spontaneous": properties.spontaneous,
        "starved": view.is_starved,
        "effects": view.effects.iter().map(|(volume, effect)| json!({
            "volume": setting.volume(*volume).name,
            "effect": effect_word(*effect),
        })).collect::<Vec<_>>(),
        "lost": view.lost.iter().map(|l| lost(setting, view.id, l)).collect::<Vec<_>>(),
    })
}

fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::Dominant => "dominant",
        Effect::Undisturbed => "undisturbed",
        Effect::Undecided => "undecided",
        Effect::Starved => "starved",
        Effect::Idle => "idle",
    }
}

fn lost(setting: &Setting, id: ExtId, lost: &Lost) -> Value {
    let cause = match lost.cause {
        Cause::Starved => "starved",
        Cause::Bypassed => "bypassed",
        Cause::Overtaken => "overtaken",
        Cause::NoRequests => "no requests",
    };
    json!({
        "extension": name(setting, id),
        "volume": setting.volume(lost.volume).name,
        "cause": cause,
        "path": lost.path.iter().map(|step| hop(setting, step)).collect::<Vec<_>>(),
    })
}

fn hop(setting: &Setting, hop: &Hop) -> Value {
    let how = match hop.how {
        How::Sent => "sent",
        How::Forwarded => "forwarded",
        How::Generated => "generated",
        How::Spontaneous => "spontaneous",
    };
    json!({
        "by": hop.by.map(|id| name(setting, id)),
        "from": setting.volume(hop.from).name,
        "to": setting.volume(hop.to).name,
        "how": how,
    })
}

fn goal(setting: &Setting, view: &GoalView) -> Value {
    let place = |(volume, id): &(VolId, ExtId)| json!({ "volume": setting.volume(*volume).name, "extension": name(setting, *id) });
    json!({
        "goal": view.goal,
        "met": view.is_met(),
        "dominant": view.dominant.iter().map(place).collect::<Vec<_>>(),
        "effective": view.effective.iter().map(place).collect::<Vec<_>>(),
        "lost": view.lost.iter().map(|(id, l)| lost(setting, *id, l)).collect::<Vec<_>>(),
    })
}
