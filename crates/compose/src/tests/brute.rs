//! Single requests, sent one by one through a stack as the router of the thesis does it (3.3): matched again after each
//! hop, created requests enter below. Every choice of every extension is tried. This shares nothing with the tokens.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Size, setting};
use crate::exact::{Handlers, ModelRun};
use crate::set::{ExtId, Member, VolId};
use crate::setting::Setting;

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct End {
    origin: Option<usize>,
    last: Option<usize>,
    at: usize,
}

struct Router<'a> {
    setting: &'a Setting,
    order: Vec<ExtId>,
    ends: BTreeSet<End>,
    met: BTreeSet<usize>,
}

impl Router<'_> {
    /// One request at `level`, all choices.
    fn route(&mut self, level: usize, request: End) {
        let Some(id) = self.order.get(level).copied() else {
            self.ends.insert(request);
            return;
        };
        let extension = self.setting.extension(id);
        let Some(route) = extension.route(VolId::of(request.at)) else { return self.route(level + 1, request) };
        self.met.insert(id.index());
        let last = Some(id.index());
        for to in route.forward.iter() {
            self.route(level + 1, End { last, at: to.index(), ..request });
        }
        for to in route.generate.iter() {
            self.route(level + 1, End { origin: None, last, at: to.index() });
        }
    }

    fn run(&mut self) {
        for (at, _) in self.setting.volumes.iter().enumerate().filter(|(_, volume)| volume.visible) {
            self.route(0, End { origin: Some(at), last: None, at });
        }
        for (level, id) in self.order.clone().into_iter().enumerate() {
            let extension = self.setting.extension(id);
            if extension.properties().spontaneous {
                for to in extension.generated().iter() {
                    self.route(level + 1, End { origin: None, last: Some(id.index()), at: to.index() });
                }
            }
        }
    }

    fn handlers(&self, volume: usize) -> Handlers {
        let mut handlers = Handlers::default();
        for end in self.ends.iter().filter(|end| end.origin == Some(volume) || end.at == volume) {
            match end.last {
                Some(last) => handlers.extensions |= crate::set::Set::one(ExtId::of(last)),
                None => handlers.unhandled = true,
            }
        }
        handlers
    }
}

fn check(setting: &Setting) -> Result<(), TestCaseError> {
    let order: Vec<ExtId> = setting.ids().collect();
    let mut router = Router { setting, order: order.clone(), ends: BTreeSet::new(), met: BTreeSet::new() };
    router.run();
    let run = ModelRun::of(setting, &order);
    for volume in setting.volume_ids() {
        prop_assert_eq!(run.handlers(volume), router.handlers(volume.index()), "{:?}", volume);
    }
    for id in setting.ids() {
        prop_assert_eq!(run.starved().has(id), !router.met.contains(&id.index()), "{:?}", id);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tokens_end_as_single_requests_do(setting in setting(Size { volumes: 4, domain: 4, extensions: 4, spontaneous: true })) {
        check(&setting)?;
    }
}
