//! A value against the rules of a place, in an order that begins with what is cheap.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::Value;

use super::{Bound, Kind, MisfitCollector, Node, Part, Place, Rules, Size, number};

/// Maximum number of choices that a message names.
const NAMED_CHOICES_MAX: usize = 3;

impl Node {
    pub(super) fn check(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        if found.is_done() {
            return;
        }
        match self {
            Node::Any => {}
            Node::Nothing => {
                found.add(place, value, |shown| {
                    format!("False schema does not allow {shown}")
                });
            }
            Node::Rules(rules) => rules.check(value, place, found),
        }
    }
}

impl Rules {
    fn check(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        self.check_itself(value, place, found);
        self.check_sizes(value, place, found);
        self.check_members(value, place, found);
        self.check_items(value, place, found);
        self.check_combined(value, place, found);
    }

    fn check_itself(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        if !self.types.is_empty() && !self.types.iter().any(|kind| is_of(*kind, value)) {
            found.add(place, value, |shown| not_of(shown, &self.types));
        }
        if let Some(constant) = self.constant.as_ref().filter(|constant| *constant != value) {
            found.add(place, value, |_| format!("{constant} was expected"));
        }
        if let Some(choices) = self.choices.as_ref().filter(|choices| !choices.contains(value)) {
            let described = found.add(place, value, |shown| not_among(shown, choices));
            if let Some(misfit) = described {
                misfit.choices = Some(Value::from(choices.clone()).to_string());
            }
        }
        let Value::Number(given) = value else { return };
        for (bound, limit) in &self.bounds {
            let (is_broken, words) = match (bound, number::compare(given, limit)) {
                (Bound::Minimum, order) => (order == Ordering::Less, "less than the minimum"),
                (Bound::Maximum, order) => (order == Ordering::Greater, "greater than the maximum"),
                (Bound::ExclusiveMinimum, order) => {
                    (order != Ordering::Greater, "less than or equal to the minimum")
                }
                (Bound::ExclusiveMaximum, order) => {
                    (order != Ordering::Less, "greater than or equal to the maximum")
                }
            };
            if is_broken {
                found.add(place, value, |shown| format!("{shown} is {words} of {limit}"));
            }
        }
    }

    fn check_sizes(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        for (size, limit) in &self.sizes {
            let (size, limit) = (*size, *limit);
            let count = match (value, size) {
                (Value::String(text), Size::MinLength | Size::MaxLength) => text.chars().count(),
                (Value::Array(items), Size::MinItems | Size::MaxItems) => items.len(),
                (Value::Object(fields), Size::MinProperties | Size::MaxProperties) => fields.len(),
                _ => continue,
            };
            let (is_lower, verb, [one, many]) = match size {
                Size::MinLength => (true, "is shorter than", ["character", "characters"]),
                Size::MaxLength => (false, "is longer than", ["character", "characters"]),
                Size::MinItems => (true, "has less than", ["item", "items"]),
                Size::MaxItems => (false, "has more than", ["item", "items"]),
                Size::MinProperties => (true, "has less than", ["property", "properties"]),
                Size::MaxProperties => (false, "has more than", ["property", "properties"]),
            };
            let is_broken = match is_lower {
                true => (count as u64) < limit,
                false => (count as u64) > limit,
            };
            if is_broken {
                let unit = if limit == 1 { one } else { many };
                found.add(place, value, |shown| format!("{shown} {verb} {limit} {unit}"));
            }
        }
    }

    fn check_members(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        let Value::Object(fields) = value else { return };
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            let name = Value::from(name.as_str());
            found.add(place, value, |_| format!("{name} is a required property"));
        }
        let Some(properties) = &self.properties else {
            return self.check_all_members(value, place, found);
        };
        let mut unexpected = Vec::new();
        for (name, field) in fields {
            let inside = place.inside(Part::Name(name));
            let known = properties.iter().find(|(known, _)| known == name);
            match (known, &self.additional) {
                (Some((_, node)), _) => node.check(field, &inside, found),
                (None, Some(Node::Nothing)) => unexpected.push(format!("'{name}'")),
                (None, Some(node)) => node.check(field, &inside, found),
                (None, None) => {}
            }
            if found.is_done() {
                return;
            }
        }
        if !unexpected.is_empty() {
            let were = if unexpected.len() == 1 { "was" } else { "were" };
            let names = unexpected.join(", ");
            found.add(place, value, |_| {
                format!("Additional properties are not allowed ({names} {were} unexpected)")
            });
        }
    }

    /// Where no member has a name, all are additional; that none is allowed is then said of the first.
    fn check_all_members(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        let Some(node) = &self.additional else { return };
        for (name, field) in value.as_object().into_iter().flatten() {
            match node {
                Node::Nothing => return node.check(field, place, found),
                _ => node.check(field, &place.inside(Part::Name(name)), found),
            }
            if found.is_done() {
                return;
            }
        }
    }

    fn check_items(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        let Value::Array(items) = value else { return };
        if self.has_unique_items && has_equals(items) {
            found.add(place, value, |shown| format!("{shown} has non-unique elements"));
        }
        for (at, item) in items.iter().enumerate() {
            let node = self.prefix_items.get(at).or(self.items.as_ref());
            let Some(node) = node else { return };
            node.check(item, &place.inside(Part::Index(at)), found);
            if found.is_done() {
                return;
            }
        }
    }

    fn check_combined(&self, value: &Value, place: &Place<'_>, found: &mut MisfitCollector) {
        for node in &self.all_of {
            node.check(value, place, found);
        }
        let not_under = |keyword: &str, shown: &str| {
            format!("{shown} is not valid under any of the schemas listed in the '{keyword}' keyword")
        };
        if let Some(nodes) = &self.any_of
            && !nodes.iter().any(|node| node.fits(value))
        {
            found.add(place, value, |shown| not_under("anyOf", shown));
        }
        if let Some(nodes) = &self.one_of {
            match nodes.iter().filter(|node| node.fits(value)).take(2).count() {
                0 => drop(found.add(place, value, |shown| not_under("oneOf", shown))),
                1 => {}
                _ => drop(found.add(place, value, |shown| {
                    format!(
                        "{shown} is valid under more than one of the schemas listed in the 'oneOf' keyword"
                    )
                })),
            }
        }
    }
}

fn is_of(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Null => value.is_null(),
        Kind::Boolean => value.is_boolean(),
        Kind::Integer => value.as_number().is_some_and(number::is_integer),
        Kind::Number => value.is_number(),
        Kind::String => value.is_string(),
        Kind::Array => value.is_array(),
        Kind::Object => value.is_object(),
    }
}

fn not_of(shown: &str, kinds: &[Kind]) -> String {
    let names: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
    let what = if kinds.len() == 1 { "type" } else { "types" };
    format!("{shown} is not of {what} {}", names.join(", "))
}

fn not_among(shown: &str, choices: &[Value]) -> String {
    let said: Vec<String> = choices.iter().map(Value::to_string).collect();
    let choices = match said.as_slice() {
        [one] => one.clone(),
        [first @ .., last] if said.len() <= NAMED_CHOICES_MAX => format!("{} or {last}", first.join(", ")),
        said => {
            let named = NAMED_CHOICES_MAX - 1;
            let others = said.len() - named;
            format!("{} or {others} other candidates", said[..named].join(", "))
        }
    };
    format!("{shown} is not one of {choices}")
}

/// Whether two items are equal.
fn has_equals(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    !items.iter().all(|item| seen.insert(canonical(item)))
}

/// A text that equal values share: fields in the order of their names, numbers by their value.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => number::canonical(number),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields
                .iter()
                .map(|(name, field)| format!("{}:{}", Value::from(name.as_str()), canonical(field)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}
