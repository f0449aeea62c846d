//! Writing an order into the text that it was found for.

use std::fs;
use std::path::PathBuf;

use esker_compose::Declaration;
use esker_compose::set::ExtId;
use esker_compose::text::rewrite::{Link, Unwritable, relinked, with_stack};
use esker_compose::text::stack_part;
use esker_stack::Spec;

use crate::composition::{Loaded, Question};
use crate::failure::Failure;
use crate::outputs::Output;

/// Where the new text goes.
pub struct Target {
    output: Output,
    is_in_place: bool,
}

/// A text with another order.
pub struct Rewritten {
    /// The text.
    pub text: String,
    /// What the user must know of it.
    pub warnings: Vec<String>,
}

impl Target {
    /// The file of STACK, or `file` if it is named. Changes nothing.
    ///
    /// # Errors
    /// A STACK that is in no file, a file that is there already, or one that cannot be looked at.
    pub fn claim(question: &Question, file: Option<&PathBuf>, force: bool) -> Result<Target, Failure> {
        let stack = question.stack();
        // Through links: the file itself is replaced, not a link to it.
        let own = stack.file().map(fs::canonicalize).and_then(Result::ok);
        let (path, is_in_place) = match (file, own) {
            (Some(file), own) if own.is_some() && fs::canonicalize(file).ok() == own => (own.unwrap_or_default(), true),
            (Some(file), _) => (file.clone(), false),
            (None, Some(own)) => (own, true),
            (None, None) => {
                let what = "there is no file to write the order into; name one with --write=FILE";
                return Err(question.refused(what.to_string()).into());
            }
        };
        Ok(Target { output: Output::claim(path, &[], force || is_in_place, "--write=FILE")?, is_in_place })
    }

    /// Writes `text`, which replaces `old` at once or not at all. Returns the file's name if it was written: a text
    /// that has the order already stays as it is.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn write(&self, old: &str, text: &str) -> Result<Option<String>, Failure> {
        if self.is_in_place && old == text {
            return Ok(None);
        }
        self.output.prepare()?;
        match self.is_in_place {
            true => self.output.replace(text)?,
            false => self.output.put(text)?,
        }
        Ok(Some(self.output.path().display().to_string()))
    }
}

/// The text of `loaded` with another order.
///
/// # Errors
/// An order that the text cannot say.
pub fn rewritten(loaded: &Loaded, order: &[ExtId]) -> Result<Rewritten, Failure> {
    let spec = loaded.declared.chains(order).iter().filter(|chain| chain.len() > 1).try_fold(
        loaded.spec.clone(),
        |spec, chain| {
            let names: Vec<String> = chain.iter().map(ToString::to_string).collect();
            spec.with_order(&names)
        },
    )?;
    let mut warnings = Vec::new();
    let text = match relinked(&loaded.text, &links(&loaded.spec, &spec)) {
        Ok(text) => with_order_of_declared(loaded, order, text, &mut warnings)?,
        Err(Unwritable::NotToml) if spec == loaded.spec => loaded.text.clone(),
        Err(Unwritable::NotToml) => {
            warnings.push("the one-line form is written anew: comments and line breaks are lost".to_string());
            format!("{}\n", spec.to_line())
        }
        Err(error) => return Err(loaded.refused(error.to_string()).into()),
    };
    let read = loaded.reread(&text)?;
    if !says(&read, &names(&loaded.declared, order), stack_part(&text).is_some()) {
        let file = loaded.declarations_file().unwrap_or("the text");
        let list = names(&loaded.declared, order).join("\", \"");
        let what = format!("its references alone do not say this order; write stack = [\"{list}\"] into {file}");
        return Err(loaded.refused(what).into());
    }
    Ok(Rewritten { text, warnings })
}

/// What leads elsewhere in `new`, which has the devices, exports and mounts of `old`.
fn links(old: &Spec, new: &Spec) -> Vec<Link> {
    let mut links = Vec::new();
    for (before, after) in old.devices.iter().zip(&new.devices) {
        let ends = before.on.iter().zip(&after.on).enumerate().filter(|(_, (was, is))| was != is);
        links.extend(ends.map(|(at, (_, to))| Link::On { device: after.name.clone(), at, to: to.clone() }));
    }
    let exports = old.exports.iter().zip(&new.exports).enumerate();
    let changed = exports.filter(|(_, (before, after))| before.device != after.device);
    links.extend(changed.map(|(at, (_, after))| Link::Export { at, to: after.device.clone() }));
    let mounts = old.mounts.iter().zip(&new.mounts).enumerate();
    let changed = mounts.filter(|(_, (before, after))| before.device != after.device);
    links.extend(changed.filter_map(|(at, (_, after))| Some(Link::Mount { at, to: after.device.clone()? })));
    links
}

/// Sets the key `stack` of a text with declarations, if its references do not say the order.
fn with_order_of_declared(
    loaded: &Loaded,
    order: &[ExtId],
    text: String,
    warnings: &mut Vec<String>,
) -> Result<String, Failure> {
    let names = names(&loaded.declared, order);
    if stack_part(&text).is_none() || says(&loaded.reread(&text)?, &names, true) {
        return Ok(text);
    }
    let (text, is_lossy) = with_stack(&text, &names).map_err(|error| loaded.refused(error.to_string()))?;
    if is_lossy {
        warnings.push("comments inside the list `stack` are lost".to_string());
    }
    Ok(text)
}

fn names<'d>(declared: &'d Declaration, order: &[ExtId]) -> Vec<&'d str> {
    declared.setting.names(order)
}

/// Whether `read` has this order: all of it where a text can say all, otherwise that of each chain of layers, because
/// layers apart have none.
fn says(read: &Declaration, wanted: &[&str], is_whole: bool) -> bool {
    let order: Option<Vec<ExtId>> = wanted.iter().map(|name| read.setting.find(name)).collect();
    order.is_some_and(|order| if is_whole { read.order == order } else { read.reordered(&order).is_empty() })
}
