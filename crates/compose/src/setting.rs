//! What is reasoned about: volumes, extensions with their domains and maps, and the algebra of domains.

use crate::set::{ExtId, ExtSet, Member, VolId, VolSet};

/// A volume: the unit in which administrators think.
#[derive(Clone, PartialEq, Debug)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Whether applications send requests to it; the private area of an extension is invisible.
    pub visible: bool,
    /// What it counts in the objective; 1 by default.
    pub weight: u32,
}

/// What a developer declares of an extension (definitions 5.3.3 to 5.3.5 of the thesis). Without any of them it only
/// looks: an accessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// It may change requests: their target or payload.
    pub mutator: bool,
    /// It may create requests.
    pub generator: bool,
    /// It may create requests without being given one: on timers, failures, changes of the system.
    pub spontaneous: bool,
}

impl Properties {
    /// Looks only.
    pub const ACCESSOR: Properties = Properties { mutator: false, generator: false, spontaneous: false };
    /// What is assumed of an extension that declares nothing.
    pub const WORST: Properties = Properties { mutator: true, generator: true, spontaneous: false };

    /// Whether it only looks.
    pub fn is_accessor(self) -> bool {
        !self.mutator && !self.generator
    }
}

/// What becomes of requests to one input volume. Maps are sets, because caches and mirrors choose per request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// Where the request itself may go on to; never empty.
    pub forward: VolSet,
    /// Where requests may go that the extension creates because of it.
    pub generate: VolSet,
}

/// An extension. Fields are private so that maps always lie within domains.
#[derive(Clone, PartialEq, Debug)]
pub struct Extension {
    name: String,
    goals: Vec<String>,
    properties: Properties,
    input: VolSet,
    output: VolSet,
    /// For each input volume, in the order of volumes.
    routes: Vec<(VolId, Route)>,
}

/// Why a declaration contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DomainError {
    /// No input or no output volume.
    Empty(&'static str),
    /// A map that leads out of the output domain.
    Outside(VolId, VolSet),
    /// A request that would go nowhere.
    Nowhere(VolId),
    /// An extension that is no mutator sends requests elsewhere.
    NoMutator(VolId),
    /// An extension that is no generator creates requests.
    NoGenerator(VolId),
}

impl Extension {
    /// An extension with a route for each input volume; the others have none.
    ///
    /// # Errors
    /// Empty domains, routes out of the output domain or to nowhere, and routes that the properties deny.
    pub fn new(
        name: &str,
        goals: Vec<String>,
        properties: Properties,
        output: VolSet,
        mut routes: Vec<(VolId, Route)>,
    ) -> Result<Extension, DomainError> {
        routes.sort_by_key(|(volume, _)| *volume);
        let input: VolSet = routes.iter().map(|(volume, _)| *volume).collect();
        if input.is_empty() || output.is_empty() {
            return Err(DomainError::Empty(if input.is_empty() { "input" } else { "output" }));
        }
        for (volume, route) in &routes {
            check_route(*volume, *route, properties, output)?;
        }
        Ok(Extension { name: name.to_string(), goals, properties, input, output, routes })
    }

    /// The routes that must be feared if only domains and properties are known.
    pub fn worst_routes(properties: Properties, input: VolSet, output: VolSet) -> Vec<(VolId, Route)> {
        let route = |volume| Route {
            forward: if properties.mutator { output } else { VolSet::one(volume) },
            generate: if properties.generator { output } else { VolSet::EMPTY },
        };
        input.iter().map(|volume| (volume, route(volume))).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is good for.
    pub fn goals(&self) -> &[String] {
        &self.goals
    }

    /// What it declares of itself.
    pub fn properties(&self) -> Properties {
        self.properties
    }

    /// Volumes whose requests it sees (definition 5.3.2).
    pub fn input(&self) -> VolSet {
        self.input
    }

    /// Volumes to which it may send requests (definition 5.3.2).
    pub fn output(&self) -> VolSet {
        self.output
    }

    /// What becomes of requests to `volume`, if it sees them.
    pub fn route(&self, volume: VolId) -> Option<Route> {
        self.routes.binary_search_by_key(&volume, |(input, _)| *input).ok().map(|at| self.routes[at].1)
    }

    /// Where requests to any of `volumes` may go on to.
    pub fn forward(&self, volumes: VolSet) -> VolSet {
        self.union(volumes, |route| route.forward)
    }

    /// Where requests may go that it creates while it sees requests to `volumes`; a spontaneous one needs none.
    pub fn generate(&self, volumes: VolSet) -> VolSet {
        let seen = if self.properties.spontaneous { self.input } else { volumes };
        self.union(seen, |route| route.generate)
    }

    fn union(&self, volumes: VolSet, part: fn(&Route) -> VolSet) -> VolSet {
        let seen = self.routes.iter().filter(|(volume, _)| volumes.has(*volume));
        seen.fold(VolSet::EMPTY, |set, (_, route)| set | part(route))
    }

    /// The set A of the thesis: output volumes on which it only looks.
    pub fn accessed(&self) -> VolSet {
        if self.properties.mutator { VolSet::EMPTY } else { self.forward(self.input) - self.generated() }
    }

    /// The set M of the thesis: output volumes to which it sends requests that it may have changed.
    pub fn mutated(&self) -> VolSet {
        if self.properties.mutator { self.forward(self.input) } else { VolSet::EMPTY }
    }

    /// The set G of the thesis: output volumes to which it sends requests of its own.
    pub fn generated(&self) -> VolSet {
        self.generate(self.input)
    }

    /// Volumes on which it does more than look: those it takes requests from in order to change them, those it sends
    /// such requests to, and those it writes to by itself. The thesis has only outputs here, so that an extension that
    /// redirects all requests of a volume would not disturb it.
    pub fn disturbed(&self) -> VolSet {
        let taken = if self.properties.mutator { self.input } else { VolSet::EMPTY };
        taken | self.mutated() | self.generated()
    }

    /// Whether swapping the two as neighbours changes nothing: neither sees what the other sees or sends.
    pub fn commutes_with(&self, other: &Extension) -> bool {
        !self.input.meets(other.input) && !self.output.meets(other.input) && !other.output.meets(self.input)
    }
}

fn check_route(volume: VolId, route: Route, properties: Properties, output: VolSet) -> Result<(), DomainError> {
    let outside = (route.forward | route.generate) - output;
    match route {
        Route { forward, .. } if forward.is_empty() => Err(DomainError::Nowhere(volume)),
        _ if !outside.is_empty() => Err(DomainError::Outside(volume, outside)),
        Route { forward, .. } if !properties.mutator && forward != VolSet::one(volume) => {
            Err(DomainError::NoMutator(volume))
        }
        Route { generate, .. } if !properties.generator && !generate.is_empty() => {
            Err(DomainError::NoGenerator(volume))
        }
        _ => Ok(()),
    }
}

/// Volumes and extensions. At most [`VOLUMES_MAX`](crate::set::VOLUMES_MAX) and
/// [`EXTENSIONS_MAX`](crate::set::EXTENSIONS_MAX) of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Setting {
    /// The volumes; a `VolId` is an index into this.
    pub volumes: Vec<Volume>,
    /// The extensions; an `ExtId` is an index into this.
    pub extensions: Vec<Extension>,
}

/// A stack: extensions from top to bottom.
pub type Order = Vec<ExtId>;

impl Setting {
    /// The volume of that id.
    pub fn volume(&self, id: VolId) -> &Volume {
        &self.volumes[id.index()]
    }

    /// The extension of that id.
    pub fn extension(&self, id: ExtId) -> &Extension {
        &self.extensions[id.index()]
    }

    /// The volume of that name.
    pub fn find_volume(&self, name: &str) -> Option<VolId> {
        self.volumes.iter().position(|volume| volume.name == name).map(VolId::of)
    }

    /// The extension of that name.
    pub fn find(&self, name: &str) -> Option<ExtId> {
        self.extensions.iter().position(|extension| extension.name == name).map(ExtId::of)
    }

    /// All volumes in their order.
    pub fn volume_ids(&self) -> impl Iterator<Item = VolId> + use<> {
        (0..self.volumes.len()).map(VolId::of)
    }

    /// All extensions in the order of the text.
    pub fn ids(&self) -> impl Iterator<Item = ExtId> + use<> {
        (0..self.extensions.len()).map(ExtId::of)
    }

    /// Volumes to which applications send requests.
    pub fn visible(&self) -> VolSet {
        self.volume_ids().filter(|id| self.volume(*id).visible).collect()
    }

    /// Extensions that serve `goal`.
    pub fn with_goal(&self, goal: &str) -> ExtSet {
        self.ids().filter(|id| self.extension(*id).goals.iter().any(|g| g == goal)).collect()
    }

    /// Names of volumes, as a list for people.
    pub fn volume_names(&self, set: VolSet) -> String {
        set.iter().map(|id| self.volume(id).name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Names of an order, top first.
    pub fn names<'a>(&'a self, order: &[ExtId]) -> Vec<&'a str> {
        order.iter().map(|id| self.extension(*id).name()).collect()
    }
}
