//! The part of JSON Schema (2020-12) that schemas of Rust types and of the built-in tools are made of.
//!
//! What is beyond it is found when a schema is read, never when a value is checked: [`Node::read`] names the keyword. It is
//! cautious: a keyword with an odd value is beyond it, too, so that somebody else says what is wrong.

use serde_json::{Number, Value};

use super::{Misfit, Misfits};

mod check;
mod number;

/// What stands in the place of a value in a masked message.
pub(super) const MASK: &str = "the value";

/// A schema or a part of one.
#[derive(Debug)]
pub(super) enum Node {
    /// `true`, or no rule at all.
    Any,
    /// `false`.
    Nothing,
    Rules(Box<Rules>),
}

/// The keywords of one place; what is absent rules nothing.
#[derive(Debug, Default)]
pub(super) struct Rules {
    types: Vec<Kind>,
    constant: Option<Value>,
    choices: Option<Vec<Value>>,
    bounds: Vec<(Bound, Number)>,
    sizes: Vec<(Size, u64)>,
    required: Vec<String>,
    has_unique_items: bool,
    properties: Option<Vec<(String, Node)>>,
    additional: Option<Node>,
    prefix_items: Vec<Node>,
    items: Option<Node>,
    all_of: Vec<Node>,
    any_of: Option<Vec<Node>>,
    one_of: Option<Vec<Node>>,
}

/// The types, in the order in which a message names several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    const ALL: [(&'static str, Kind); 7] = [
        ("null", Kind::Null),
        ("boolean", Kind::Boolean),
        ("integer", Kind::Integer),
        ("number", Kind::Number),
        ("string", Kind::String),
        ("array", Kind::Array),
        ("object", Kind::Object),
    ];

    fn parse(name: &str) -> Option<Kind> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// A bound of a number, in the order of checking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// A bound of a size, in the order of checking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

/// A keyword that is not read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beyond {
    pub(super) keyword: String,
    pub(super) place: String,
}

/// Keywords that rule something, or change what others mean, and are not read here. Those that nobody knows rule nothing, as
/// the standard has it.
const BEYOND: [&str; 31] = [
    "$anchor",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

impl Node {
    /// Reads a schema, or names what in it is beyond this reader.
    pub(super) fn read(schema: &Value) -> Result<Node, Beyond> {
        Self::read_at(schema, "")
    }

    fn read_at(schema: &Value, place: &str) -> Result<Node, Beyond> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(Node::Any),
            Value::Bool(false) => return Ok(Node::Nothing),
            Value::Object(keywords) => keywords,
            _ => {
                return Err(Beyond {
                    keyword: schema.to_string(),
                    place: place.to_owned(),
                });
            }
        };
        let mut rules = Rules::default();
        for (keyword, value) in keywords {
            rules.read(keyword, value, place)?;
        }
        rules.bounds.sort_by_key(|(bound, _)| *bound);
        rules.sizes.sort_by_key(|(size, _)| *size);
        Ok(Node::Rules(Box::new(rules)))
    }

    /// Whether a value fits.
    pub(super) fn fits(&self, value: &Value) -> bool {
        let mut found = MisfitCollector::new(0, true);
        self.check(value, &Place::ROOT, &mut found);
        found.count == 0
    }

    /// Where a value does not fit.
    pub(super) fn misfits(&self, value: &Value, shown_max: usize) -> Misfits {
        let mut found = MisfitCollector::new(shown_max, false);
        self.check(value, &Place::ROOT, &mut found);
        Misfits {
            more: found.count - found.shown.len(),
            shown: found.shown,
        }
    }
}

impl Rules {
    /// Reads one keyword.
    fn read(&mut self, keyword: &str, value: &Value, place: &str) -> Result<(), Beyond> {
        let beyond = || Beyond {
            keyword: keyword.to_owned(),
            place: place.to_owned(),
        };
        let below = |part: &str| format!("{place}/{keyword}{part}");
        let node = || Node::read_at(value, &below(""));
        match keyword {
            "type" => self.types = kinds(value).ok_or_else(beyond)?,
            "const" => self.constant = Some(simple(value).ok_or_else(beyond)?),
            "enum" => self.choices = Some(choices(value).ok_or_else(beyond)?),
            "required" => self.required = names(value).ok_or_else(beyond)?,
            "uniqueItems" => self.has_unique_items = value.as_bool().ok_or_else(beyond)?,
            "additionalProperties" => self.additional = Some(node()?),
            "items" => self.items = Some(node()?),
            "properties" => {
                let properties = self.properties.insert(Vec::new());
                for (name, schema) in value.as_object().ok_or_else(beyond)? {
                    let node = Node::read_at(schema, &below(&format!("/{}", escaped(name))))?;
                    properties.push((name.clone(), node));
                }
            }
            "prefixItems" => self.prefix_items = nodes(value, below).ok_or_else(beyond)??,
            "allOf" => self.all_of = nodes(value, below).ok_or_else(beyond)??,
            "anyOf" => self.any_of = Some(nodes(value, below).ok_or_else(beyond)??),
            "oneOf" => self.one_of = Some(nodes(value, below).ok_or_else(beyond)??),
            _ => {
                if let Some(bound) = bound(keyword) {
                    let limit = value.as_number().ok_or_else(beyond)?;
                    self.bounds.push((bound, limit.clone()));
                } else if let Some(size) = size(keyword) {
                    self.sizes.push((size, value.as_u64().ok_or_else(beyond)?));
                } else if BEYOND.contains(&keyword) || !is_annotation(keyword, value) {
                    return Err(beyond());
                }
            }
        }
        Ok(())
    }
}

fn bound(keyword: &str) -> Option<Bound> {
    Some(match keyword {
        "minimum" => Bound::Minimum,
        "maximum" => Bound::Maximum,
        "exclusiveMinimum" => Bound::ExclusiveMinimum,
        "exclusiveMaximum" => Bound::ExclusiveMaximum,
        _ => return None,
    })
}

fn size(keyword: &str) -> Option<Size> {
    Some(match keyword {
        "minLength" => Size::MinLength,
        "maxLength" => Size::MaxLength,
        "minItems" => Size::MinItems,
        "maxItems" => Size::MaxItems,
        "minProperties" => Size::MinProperties,
        "maxProperties" => Size::MaxProperties,
        _ => return None,
    })
}

/// Whether a keyword that rules nothing has a value that it may have.
fn is_annotation(keyword: &str, value: &Value) -> bool {
    match keyword {
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "examples" => value.is_array(),
        _ => true,
    }
}

fn kinds(value: &Value) -> Option<Vec<Kind>> {
    let named = match value {
        Value::Array(names) => names.iter().map(|name| Kind::parse(name.as_str()?)).collect(),
        name => Kind::parse(name.as_str()?).map(|kind| vec![kind]),
    };
    let mut kinds: Vec<Kind> = named?;
    let count = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    (count > 0 && kinds.len() == count).then_some(kinds)
}

/// A value that equals another only if it is the same: a number may be written in several ways, and has parts.
fn simple(value: &Value) -> Option<Value> {
    let is_simple = matches!(value, Value::Null | Value::Bool(_) | Value::String(_));
    is_simple.then(|| value.clone())
}

fn choices(value: &Value) -> Option<Vec<Value>> {
    let choices: Vec<Value> = value.as_array()?.iter().map(simple).collect::<Option<_>>()?;
    let is_set = (1..choices.len()).all(|at| !choices[..at].contains(&choices[at]));
    (!choices.is_empty() && is_set).then_some(choices)
}

fn names(value: &Value) -> Option<Vec<String>> {
    let names = value
        .as_array()?
        .iter()
        .map(|name| name.as_str().map(str::to_owned));
    let names: Vec<String> = names.collect::<Option<_>>()?;
    let is_set = (1..names.len()).all(|at| !names[..at].contains(&names[at]));
    is_set.then_some(names)
}

fn nodes(value: &Value, below: impl Fn(&str) -> String) -> Option<Result<Vec<Node>, Beyond>> {
    let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
    let nodes = schemas
        .iter()
        .enumerate()
        .map(|(at, schema)| Node::read_at(schema, &below(&format!("/{at}"))));
    Some(nodes.collect())
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A place in a value, from the inside out.
struct Place<'p> {
    outer: Option<&'p Place<'p>>,
    part: Part<'p>,
}

enum Part<'p> {
    Root,
    Name(&'p str),
    Index(usize),
}

impl Place<'_> {
    const ROOT: Place<'static> = Place {
        outer: None,
        part: Part::Root,
    };

    fn inside<'p>(&'p self, part: Part<'p>) -> Place<'p> {
        Place {
            outer: Some(self),
            part,
        }
    }

    fn pointer(&self) -> String {
        let mut pointer = self.outer.map(Place::pointer).unwrap_or_default();
        match self.part {
            Part::Root => {}
            Part::Name(name) => {
                pointer.push('/');
                pointer.push_str(&escaped(name));
            }
            Part::Index(at) => pointer.push_str(&format!("/{at}")),
        }
        pointer
    }
}

/// What does not fit, so far.
struct MisfitCollector {
    shown: Vec<Misfit>,
    shown_max: usize,
    count: usize,
    /// Whether the first one is enough.
    stops: bool,
}

impl MisfitCollector {
    fn new(shown_max: usize, stops: bool) -> Self {
        MisfitCollector {
            shown: Vec::new(),
            shown_max,
            count: 0,
            stops,
        }
    }

    fn is_done(&self) -> bool {
        self.stops && self.count > 0
    }

    /// Notes a misfit, and gives it if it is described; `say` makes its words from the value's.
    fn add(&mut self, place: &Place<'_>, value: &Value, say: impl Fn(&str) -> String) -> Option<&mut Misfit> {
        self.count += 1;
        if self.shown.len() == self.shown_max {
            return None;
        }
        self.shown.push(Misfit {
            path: place.pointer(),
            said: say(&value.to_string()),
            masked: say(MASK),
            choices: None,
        });
        self.shown.last_mut()
    }
}
