//! Names become volumes and extensions; everything that does not fit is reported with its line.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use super::error::{Problem, TextError, TextErrors};
use super::form::{ConstraintsForm, Document, ExtensionForm, Named, Names, Routes, VolumeForm, line_of};
use super::{Declaration, is_sound_name};
use crate::built::{Built, Draft, Medium};
use crate::constraint::Contradiction;
use crate::goals::GOALS_MAX;
use crate::set::{EXTENSIONS_MAX, ExtId, Member, VOLUMES_MAX, VolId, VolSet};
use crate::setting::{DomainError, Extension, Properties, Route, Setting, Volume};

/// How alike two words must be for one to be offered in place of the other (Jaro-Winkler, from 0 to 1).
const ALIKE: f64 = 0.8;

/// Makes sense of a document.
pub(super) fn declaration(
    file: &str,
    text: &str,
    document: Document,
    built: &Built,
) -> Result<Declaration, TextErrors> {
    let draft = Draft::of(built);
    let declared = Declaration::default();
    let mut reader = Reader { file, text, found: Vec::new(), refused: BTreeSet::new(), declared };
    reader.check_counts(&document, &draft);
    // Without a bit for each volume nothing more can be said.
    TextErrors::none(std::mem::take(&mut reader.found))?;
    let volume = |(name, visible): &(String, bool)| Volume { name: name.clone(), visible: *visible, weight: 1 };
    reader.declared.setting.volumes = draft.volumes.iter().map(volume).collect();
    let volumes = reader.volumes(document.volume);
    reader.extensions(document.extension, &draft);
    reader.order(document.stack);
    reader.priorities(document.goals, volumes);
    reader.constraints(document.constraints, &draft);
    TextErrors::none(reader.found)?;
    Ok(reader.declared)
}

struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    found: Vec<TextError>,
    /// Extensions that were reported: what names them needs no report of its own.
    refused: BTreeSet<String>,
    declared: Declaration,
}

/// Leaves only what a kind declares of the worst case.
fn narrow(routes: &mut [(VolId, Route)], forward: VolSet, generate: VolSet) {
    for (_, route) in routes {
        let narrowed = route.forward & forward;
        // A kind that forwards nothing answers everything itself; the theory has no word for that.
        route.forward = if narrowed.is_empty() { route.forward } else { narrowed };
        route.generate = route.generate & generate;
    }
}

/// Entries in the order of the text.
fn in_order<T>(table: Named<T>) -> Vec<(Spanned<String>, T)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

impl Reader<'_> {
    fn setting(&self) -> &Setting {
        &self.declared.setting
    }

    fn error(&mut self, offset: usize, problem: Problem) {
        let line = line_of(self.text, offset);
        self.found.push(TextError { file: self.file.to_string(), line, problem });
    }

    fn check_counts(&mut self, document: &Document, draft: &Draft) {
        let new = |known: Vec<&str>, names: Vec<&str>| names.iter().filter(|name| !known.contains(name)).count();
        let volumes = draft.volumes.iter().map(|(name, _)| name.as_str()).collect();
        let count =
            draft.volumes.len() + new(volumes, document.volume.keys().map(|key| key.get_ref().as_str()).collect());
        if count > VOLUMES_MAX {
            self.error(0, Problem::TooMany { what: "volumes", count, max: VOLUMES_MAX });
        }
        let layers = draft.layers.iter().map(|layer| layer.name.as_str()).collect();
        let count =
            draft.layers.len() + new(layers, document.extension.keys().map(|key| key.get_ref().as_str()).collect());
        if count > EXTENSIONS_MAX {
            self.error(0, Problem::TooMany { what: "extensions", count, max: EXTENSIONS_MAX });
        }
    }

    /// Declares volumes; returns their lists of goals, which make sense once the extensions are known.
    fn volumes(&mut self, forms: Named<VolumeForm>) -> Vec<(VolId, Spanned<Names>)> {
        let mut goals = Vec::new();
        for (name, form) in in_order(forms) {
            if !is_sound_name(name.get_ref()) {
                self.error(name.span().start, Problem::UnsoundName(name.get_ref().clone()));
            }
            let id = self.setting().find_volume(name.get_ref()).unwrap_or_else(|| {
                let volume = Volume { name: name.get_ref().clone(), visible: true, weight: 1 };
                self.declared.setting.volumes.push(volume);
                VolId::of(self.declared.setting.volumes.len() - 1)
            });
            let volume = &mut self.declared.setting.volumes[id.index()];
            volume.visible = form.visible.unwrap_or(volume.visible);
            volume.weight = form.weight.map_or(volume.weight, std::num::NonZeroU32::get);
            goals.extend(form.goals.map(|list| (id, list)));
        }
        goals
    }

    /// Layers of the stack's text come first, then what is only declared; both in the order of the text.
    fn extensions(&mut self, forms: Named<ExtensionForm>, draft: &Draft) {
        let mut forms = in_order(forms);
        for layer in &draft.layers {
            let at = forms.iter().position(|(name, _)| *name.get_ref() == layer.name);
            let form = at.map(|at| forms.remove(at));
            let offset = form.as_ref().map_or(0, |(name, _)| name.span().start);
            let form = form.map_or_else(ExtensionForm::empty, |(_, form)| form);
            self.follows(&layer.name, &form);
            let what = format!("layer \"{}\"", layer.name);
            let input = self.volume_set(&what, offset, &layer.input);
            let output = self.volume_set(&what, offset, &layer.output);
            let forward = self.volume_set(&what, offset, &layer.forward);
            let generate = self.volume_set(&what, offset, &layer.generate);
            let known = (form.properties.is_none()).then_some((forward, generate));
            self.extension(&layer.name, offset, form, (input, output, layer.properties), known);
            let id = self.setting().find(&layer.name);
            self.declared.built.extend(id);
            self.declared.fixed.extend(id.zip(layer.held));
            self.declared.keepers.extend(id.filter(|_| layer.medium != Medium::Plain));
        }
        for (name, form) in forms {
            let (offset, name) = (name.span().start, name.into_inner());
            if !is_sound_name(&name) {
                self.error(offset, Problem::UnsoundName(name.clone()));
            }
            let input = self.domain(&name, "input", offset, &form.input);
            let output = self.domain(&name, "output", offset, &form.output);
            if input.is_empty() || output.is_empty() {
                self.refused.insert(name);
                continue;
            }
            self.extension(&name, offset, form, (input, output, Properties::WORST), None);
        }
    }

    /// Adds an extension whose domains are known, with the properties it has unless the text says otherwise. `known` is
    /// where its kind says that requests and created ones go.
    fn extension(
        &mut self,
        name: &str,
        offset: usize,
        form: ExtensionForm,
        (input, output, properties): (VolSet, VolSet, Properties),
        known: Option<(VolSet, VolSet)>,
    ) {
        let before = self.found.len();
        let mut properties = self.properties(name, &form.properties).unwrap_or(properties);
        properties.spontaneous |= form.spontaneous;
        let mut routes = Extension::worst_routes(properties, input, output);
        if let Some((forward, generate)) = known {
            narrow(&mut routes, forward, generate);
        }
        let maps = form.forward.iter().map(|map| (map, true)).chain(form.generate.iter().map(|map| (map, false)));
        for (map, is_forward) in maps {
            self.map(name, map, &mut routes, is_forward);
        }
        let goals = form.goal.map_or_else(Vec::new, |goals| self.goal_names(name, goals));
        match Extension::new(name, goals, properties, output, routes) {
            _ if self.found.len() > before => drop(self.refused.insert(name.to_string())),
            Ok(extension) => self.declared.setting.extensions.push(extension),
            Err(error) => {
                let problem = domain_problem(self.setting(), name, error);
                self.error(offset, problem);
                self.refused.insert(name.to_string());
            }
        }
    }

    /// A layer's domains follow from the stack.
    fn follows(&mut self, name: &str, form: &ExtensionForm) {
        for (key, given) in [("input", &form.input), ("output", &form.output)] {
            if let Some(given) = given {
                self.error(given.span().start, Problem::Follows { extension: name.to_string(), key });
            }
        }
    }

    fn domain(&mut self, name: &str, which: &'static str, offset: usize, given: &Option<Spanned<Names>>) -> VolSet {
        match given {
            Some(names) if !names.get_ref().0.is_empty() => {
                self.volume_set(&format!("extension \"{name}\""), names.span().start, &names.get_ref().0)
            }
            _ => {
                self.error(offset, Problem::EmptyDomain { extension: name.to_string(), which });
                VolSet::EMPTY
            }
        }
    }

    fn volume_set(&mut self, what: &str, offset: usize, names: &[String]) -> VolSet {
        let mut set = VolSet::EMPTY;
        for name in names {
            match self.setting().find_volume(name) {
                Some(id) => set |= VolSet::one(id),
                None => {
                    let problem = unknown_volume(what, name, self.setting());
                    self.error(offset, problem);
                }
            }
        }
        set
    }

    fn properties(&mut self, name: &str, given: &Option<Spanned<Names>>) -> Option<Properties> {
        let given = given.as_ref()?;
        let mut properties = Properties::ACCESSOR;
        for word in &given.get_ref().0 {
            match word.as_str() {
                "accessor" => {}
                "mutator" => properties.mutator = true,
                "generator" => properties.generator = true,
                _ => {
                    let problem = Problem::UnknownProperty { extension: name.to_string(), name: word.clone() };
                    self.error(given.span().start, problem);
                }
            }
        }
        Some(properties)
    }

    /// Puts a map in the place of the worst case.
    fn map(&mut self, name: &str, map: &Spanned<Routes>, routes: &mut [(VolId, Route)], is_forward: bool) {
        let offset = map.span().start;
        let each = match map.get_ref() {
            Routes::All(names) => {
                let to = self.volume_set(&format!("extension \"{name}\""), offset, &names.0);
                routes.iter().map(|(volume, _)| (*volume, to)).collect()
            }
            Routes::Each(each) => self.map_each(name, offset, each, routes),
        };
        for (volume, route) in routes {
            let to = each.iter().find(|(from, _)| from == volume).map(|(_, to)| *to);
            match (is_forward, to) {
                (true, Some(to)) => route.forward = to,
                (true, None) => {}
                (false, to) => route.generate = to.unwrap_or_default(),
            }
        }
    }

    fn map_each(
        &mut self,
        name: &str,
        offset: usize,
        each: &BTreeMap<String, Names>,
        routes: &[(VolId, Route)],
    ) -> Vec<(VolId, VolSet)> {
        let mut found = Vec::new();
        let what = format!("extension \"{name}\"");
        for (from, to) in each {
            let to = self.volume_set(&what, offset, &to.0);
            match self.setting().find_volume(from) {
                Some(id) if routes.iter().any(|(volume, _)| *volume == id) => found.push((id, to)),
                Some(_) => {
                    let what = format!("a map begins at \"{from}\", which is not in its input domain");
                    let fix = "add it there, or remove it from the map".to_string();
                    self.error(offset, Problem::Route { extension: name.to_string(), what, fix });
                }
                None => {
                    let problem = unknown_volume(&what, from, self.setting());
                    self.error(offset, problem);
                }
            }
        }
        found
    }

    fn goal_names(&mut self, name: &str, goals: Spanned<Names>) -> Vec<String> {
        let offset = goals.span().start;
        let goals = goals.into_inner().0;
        for goal in goals.iter().filter(|goal| !is_sound_name(goal)) {
            self.error(offset, Problem::UnsoundName(goal.clone()));
        }
        if let Some(goal) = twice(&goals) {
            self.error(offset, Problem::Twice { what: format!("extension \"{name}\""), name: goal });
        }
        goals
    }

    /// The stack as the text gives it; otherwise what is only declared stands above the layers.
    fn order(&mut self, given: Option<Spanned<Names>>) {
        let Some(given) = given else {
            let (built, declared): (Vec<ExtId>, Vec<ExtId>) =
                self.setting().ids().partition(|id| self.declared.built.contains(id));
            self.declared.order = declared.into_iter().chain(built).collect();
            return;
        };
        let offset = given.span().start;
        let names = &given.get_ref().0;
        if let Some(name) = twice(names) {
            self.error(offset, Problem::Twice { what: "`stack`".to_string(), name });
        }
        self.declared.order = self.extension_ids("`stack`", offset, names);
    }

    fn extension_ids(&mut self, what: &str, offset: usize, names: &[String]) -> Vec<ExtId> {
        let mut ids = Vec::new();
        for name in names {
            match self.setting().find(name) {
                Some(id) => ids.push(id),
                None if self.refused.contains(name) => {}
                None => {
                    let problem = unknown_extension(what, name, self.setting());
                    self.error(offset, problem);
                }
            }
        }
        ids
    }

    fn priorities(&mut self, general: Option<Spanned<Names>>, of_volume: Vec<(VolId, Spanned<Names>)>) {
        if let Some(list) = general {
            self.declared.priorities.general = self.wanted(list);
        }
        for (volume, list) in of_volume {
            let list = self.wanted(list);
            self.declared.priorities.of_volume.insert(volume, list);
        }
    }

    fn wanted(&mut self, list: Spanned<Names>) -> Vec<String> {
        if let Err(problem) = check_goals(&list.get_ref().0, self.setting()) {
            self.error(list.span().start, problem);
        }
        list.into_inner().0
    }

    fn constraints(&mut self, form: ConstraintsForm, draft: &Draft) {
        let mut first = None;
        for chain in &form.above {
            first = first.or(Some(chain.span().start));
            let ids = self.extension_ids("`above`", chain.span().start, &chain.get_ref().0);
            self.declared.constraints.above.extend(ids.windows(2).map(|pair| (pair[0], pair[1])));
        }
        for pair in &form.forbidden {
            let ids = self.extension_ids("`forbidden`", pair.span().start, &pair.get_ref().0);
            match ids[..] {
                [upper, lower] => self.declared.constraints.forbidden.push((upper, lower)),
                _ if pair.get_ref().0.len() == 2 => {}
                _ => {
                    let message = "`forbidden` takes pairs: [[\"UPPER\", \"LOWER\"], ...]".to_string();
                    self.error(pair.span().start, Problem::Form(message));
                }
            }
        }
        for (name, place) in in_order(form.pinned) {
            first = first.or(Some(name.span().start));
            let ids = self.extension_ids("`pinned`", name.span().start, std::slice::from_ref(name.get_ref()));
            self.declared.constraints.pinned.extend(ids.into_iter().map(|id| (id, place)));
        }
        self.declared.constraints.starved_max = form.starved_max;
        for (upper, lower) in &draft.above {
            let pair = (self.setting().find(upper), self.setting().find(lower));
            if let (Some(upper), Some(lower)) = pair {
                self.declared.constraints.above.push((upper, lower));
            }
        }
        if let Err(contradiction) = self.declared.constraints.check(self.setting()) {
            let problem = contradiction_problem(self.setting(), &contradiction);
            self.error(first.unwrap_or(0), problem);
        }
    }
}

impl ExtensionForm {
    fn empty() -> ExtensionForm {
        ExtensionForm {
            goal: None,
            input: None,
            output: None,
            properties: None,
            forward: None,
            generate: None,
            spontaneous: false,
        }
    }
}

fn twice(names: &[String]) -> Option<String> {
    let mut seen = BTreeSet::new();
    names.iter().find(|name| !seen.insert(name.as_str())).cloned()
}

/// What to write in place of `word`: the nearest of `names`, or what there is.
fn advice(word: &str, listed: &str, names: &[&str]) -> String {
    let alike = |name: &&&str| strsim::jaro_winkler(word, name);
    match names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))) {
        Some(name) if alike(&name) >= ALIKE => format!("did you mean \"{name}\"?"),
        None => format!("{listed}: none; declare it first"),
        Some(_) => format!("{listed}: {}", names.join(", ")),
    }
}

pub(super) fn unknown_volume(what: &str, name: &str, setting: &Setting) -> Problem {
    let names: Vec<&str> = setting.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let advice = advice(name, "the volumes are", &names);
    Problem::UnknownVolume { what: what.to_string(), name: name.to_string(), advice }
}

pub(super) fn unknown_extension(what: &str, name: &str, setting: &Setting) -> Problem {
    let names: Vec<&str> = setting.extensions.iter().map(Extension::name).collect();
    let advice = advice(name, "the extensions are", &names);
    Problem::UnknownExtension { what: what.to_string(), name: name.to_string(), advice }
}

/// Whether a list of priorities makes sense.
pub(super) fn check_goals(goals: &[String], setting: &Setting) -> Result<(), Problem> {
    let known: BTreeSet<&str> = setting.extensions.iter().flat_map(|e| e.goals()).map(String::as_str).collect();
    if goals.len() > GOALS_MAX {
        return Err(Problem::TooMany { what: "goals", count: goals.len(), max: GOALS_MAX });
    }
    if let Some(name) = twice(goals) {
        return Err(Problem::Twice { what: "the list of goals".to_string(), name });
    }
    match goals.iter().find(|goal| !known.contains(goal.as_str())) {
        Some(name) => {
            let known: Vec<&str> = known.into_iter().collect();
            let advice = advice(name, "goals of the extensions are", &known);
            Err(Problem::UnknownGoal { name: name.clone(), advice })
        }
        None => Ok(()),
    }
}

fn domain_problem(setting: &Setting, extension: &str, error: DomainError) -> Problem {
    let extension = extension.to_string();
    let name = |id: VolId| &setting.volume(id).name;
    let (what, fix) = match error {
        DomainError::Empty(which) => return Problem::EmptyDomain { extension, which },
        DomainError::Outside(from, to) => {
            let what = format!("from \"{}\" it leads to {}, outside its output", name(from), setting.volume_names(to));
            (what, "add that to `output`, or change the map".to_string())
        }
        DomainError::Nowhere(from) => {
            let what = format!("requests to \"{}\" are forwarded nowhere", name(from));
            (what, format!("write forward = {{ {} = [\"VOLUME\"] }}", name(from)))
        }
        DomainError::NoMutator(from) => {
            let what = format!("it is no mutator, but sends requests to \"{}\" elsewhere", name(from));
            (what, "add \"mutator\" to `properties`, or forward each volume to itself".to_string())
        }
        DomainError::NoGenerator(from) => {
            let what = format!("it is no generator, but creates requests for those to \"{}\"", name(from));
            (what, "add \"generator\" to `properties`, or remove `generate`".to_string())
        }
    };
    Problem::Route { extension, what, fix }
}

/// What is wrong with constraints, for people.
pub(super) fn contradiction_problem(setting: &Setting, contradiction: &Contradiction) -> Problem {
    let (what, fix) = match contradiction {
        Contradiction::Cycle(cycle) => {
            let what = format!("they stand above each other: {}", setting.names(cycle).join(" > "));
            (what, "remove one of these demands from `above`".to_string())
        }
        Contradiction::NoPlace(id, place) => {
            let count = setting.extensions.len();
            let what = format!("\"{}\" is pinned to place {place}", setting.extension(*id).name());
            (what, format!("places are 0 (the top) to {}", count.saturating_sub(1)))
        }
        Contradiction::SamePlace(one, other) => {
            let what = format!(
                "\"{}\" and \"{}\" are pinned to one place",
                setting.extension(*one).name(),
                setting.extension(*other).name()
            );
            (what, "give one of them another place".to_string())
        }
    };
    Problem::Contradiction { what, fix }
}
