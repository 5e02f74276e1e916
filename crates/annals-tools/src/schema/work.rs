//! What it costs to check a value against a schema, counted before it is done.
//!
//! Strangers write schemas: a client asks for an answer in one, a server of tools declares others. A few kilobytes of
//! references that each lead to two more ask for more visits than anybody can wait for, and a check under way cannot be
//! ended. So a schema that is too large, or that asks for too much of a single value, is refused when it is read, and a
//! value is checked only after its visits were counted. Each pair of a subschema and a part of the value is counted
//! once, however many ways lead to it. What is counted is never less than what the check will do.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;

/// A schema may be this long, written without spaces.
pub(super) const BYTES_MAX: usize = 256 * 1024;
/// A schema may refer to others this often.
pub(super) const REFERENCES_MAX: usize = 1_000;
/// A schema may have this many regular expressions.
pub(super) const PATTERNS_MAX: usize = 200;
/// One value without parts may be visited this often.
pub(super) const VISITS_OF_ONE_MAX: u64 = 10_000;
/// A whole value may be visited this often.
pub(super) const VISITS_MAX: u64 = 500_000;
/// Visits may lie this deep in each other: every one needs room on the stack.
pub(super) const DEPTH_MAX: u32 = 600;
/// A match of a regular expression counts as this many visits.
const PATTERN_VISITS: u64 = 50;
/// A schema of the standard itself, which needs not be sent, visits each part of a value about this often.
const STANDARD_VISITS: u64 = 50;

/// How much work a schema is.
#[derive(Debug)]
pub(super) struct Work {
    nodes: Vec<Node>,
}

/// One subschema: which others check the same value or its parts.
#[derive(Debug, Default)]
struct Node {
    own: u64,
    patterns: u64,
    /// How often the standard's own schemas are referred to.
    standard: u64,
    in_place: Vec<usize>,
    named: HashMap<String, usize>,
    key_patterns: u64,
    /// By pattern: any of them, named or not.
    matching_keys: Vec<usize>,
    other_keys: Vec<usize>,
    keys: Vec<usize>,
    first_items: Vec<usize>,
    other_items: Vec<usize>,
    every_item: Vec<usize>,
    /// For a value without parts.
    alone: Cost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    visits: u64,
    depth: u32,
}

impl Cost {
    fn add(&mut self, inner: Cost) {
        self.visits = self.visits.saturating_add(inner.visits);
        self.depth = self.depth.max(inner.depth + 1);
    }
}

/// A check that is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Work {
    /// Counts what a schema has, and what it asks for of one value.
    pub(super) fn of(schema: &Value) -> Result<Self, SchemaError> {
        check_length(schema)?;
        let mut reading = Reading::new(schema);
        reading.read()?;
        let mut work = Work { nodes: reading.nodes };
        let mut states = vec![State::Unseen; work.nodes.len()];
        for node in 0..work.nodes.len() {
            work.count_alone(node, &mut states, 0)?;
        }
        Ok(work)
    }

    /// Whether a value may be checked.
    pub(super) fn allow(&self, value: &Value) -> Result<(), TooMuch> {
        let mut counting = Counting {
            work: self,
            counted: HashMap::new(),
        };
        match counting.count(0, value, 0)?.visits {
            visits if visits > VISITS_MAX => Err(TooMuch),
            _ => Ok(()),
        }
    }

    fn count_alone(&mut self, node: usize, states: &mut [State], depth: u32) -> Result<Cost, SchemaError> {
        match states[node] {
            State::Counted => return Ok(self.nodes[node].alone),
            State::Open => {
                return Err(too_much(
                    "ways back to where it is without going into the value",
                    0,
                ));
            }
            State::Unseen if depth > DEPTH_MAX => {
                return Err(too_much("references one behind the other", DEPTH_MAX as usize));
            }
            State::Unseen => states[node] = State::Open,
        }
        let this = &self.nodes[node];
        let mut cost = Cost {
            visits: this.own + (this.patterns + this.standard) * PATTERN_VISITS,
            depth: 1,
        };
        for index in 0..this.in_place.len() {
            let inner = self.nodes[node].in_place[index];
            cost.add(self.count_alone(inner, states, depth + 1)?);
        }
        if cost.visits > VISITS_OF_ONE_MAX {
            return Err(too_much(
                "checks of the same value",
                usize::try_from(VISITS_OF_ONE_MAX).unwrap_or(usize::MAX),
            ));
        }
        states[node] = State::Counted;
        self.nodes[node].alone = cost;
        Ok(cost)
    }
}

fn too_much(what: &'static str, most: usize) -> SchemaError {
    SchemaError::TooMuch { what, most }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unseen,
    Open,
    Counted,
}

struct Counting<'w> {
    work: &'w Work,
    counted: HashMap<(usize, *const Value), Cost>,
}

impl Counting<'_> {
    fn count(&mut self, node: usize, value: &Value, depth: u32) -> Result<Cost, TooMuch> {
        let this = &self.work.nodes[node];
        if !value.is_array() && !value.is_object() {
            return Ok(this.alone);
        }
        let pair = (node, std::ptr::from_ref(value));
        if let Some(cost) = self.counted.get(&pair) {
            return match depth.saturating_add(cost.depth) > DEPTH_MAX {
                true => Err(TooMuch),
                false => Ok(*cost),
            };
        }
        if depth > DEPTH_MAX || self.counted.len() as u64 > VISITS_MAX {
            return Err(TooMuch);
        }
        let mut cost = Cost {
            visits: this.own,
            depth: 1,
        };
        if this.standard > 0 {
            cost.visits += this.standard * STANDARD_VISITS * size(value);
        }
        for inner in &this.in_place {
            cost.add(self.count(*inner, value, depth + 1)?);
        }
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let by_place = match this.first_items.get(index) {
                        Some(first) => std::slice::from_ref(first),
                        None => &this.other_items,
                    };
                    for inner in by_place.iter().chain(&this.every_item) {
                        cost.add(self.count(*inner, item, depth + 1)?);
                    }
                }
            }
            Value::Object(fields) => {
                cost.visits += this.key_patterns * PATTERN_VISITS * fields.len() as u64;
                for (name, field) in fields {
                    for inner in &this.keys {
                        cost.add(self.work.nodes[*inner].alone);
                    }
                    let by_name = match this.named.get(name) {
                        Some(named) => std::slice::from_ref(named),
                        None => &this.other_keys,
                    };
                    for inner in by_name.iter().chain(&this.matching_keys) {
                        cost.add(self.count(*inner, field, depth + 1)?);
                    }
                }
            }
            _ => {}
        }
        self.counted.insert(pair, cost);
        match cost.visits > VISITS_MAX {
            true => Err(TooMuch),
            false => Ok(cost),
        }
    }
}

/// How many parts a value has, itself among them.
fn size(value: &Value) -> u64 {
    let parts: u64 = match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    };
    parts + 1
}

/// A schema while it is read: from its root to wherever it leads.
struct Reading<'s> {
    root: &'s Value,
    /// Every schema with an address of its own, the root first.
    resources: Vec<(&'s str, &'s Value)>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    nodes: Vec<Node>,
    known: HashMap<*const Value, usize>,
    unread: Vec<(usize, &'s Value)>,
    references: usize,
    patterns: usize,
}

impl<'s> Reading<'s> {
    fn new(root: &'s Value) -> Self {
        let mut reading = Reading {
            root,
            resources: vec![(address(root).unwrap_or_default(), root)],
            anchors: HashMap::new(),
            nodes: Vec::new(),
            known: HashMap::new(),
            unread: Vec::new(),
            references: 0,
            patterns: 0,
        };
        reading.find_names(root);
        reading
    }

    /// What references may name. Some of it may be data that only looks like a schema: then too much is counted.
    fn find_names(&mut self, at: &'s Value) {
        match at {
            Value::Array(items) => items.iter().for_each(|item| self.find_names(item)),
            Value::Object(fields) => {
                if let Some(address) = address(at)
                    && !std::ptr::eq(at, self.root)
                {
                    self.resources.push((address, at));
                }
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(Value::String(anchor)) = fields.get(name) {
                        self.anchors.entry(anchor).or_default().push(at);
                    }
                }
                if let Some(anchor) = address(at).and_then(|address| address.strip_prefix('#')) {
                    self.anchors.entry(anchor).or_default().push(at);
                }
                fields.values().for_each(|field| self.find_names(field));
            }
            _ => {}
        }
    }

    fn read(&mut self) -> Result<(), SchemaError> {
        self.node(self.root);
        while let Some((node, schema)) = self.unread.pop() {
            let Value::Object(fields) = schema else {
                self.nodes[node].own = 1;
                continue;
            };
            self.nodes[node].own = 1 + fields.values().map(listed).sum::<u64>();
            for (keyword, inner) in fields {
                self.keyword(node, keyword, inner, fields)?;
            }
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        node: usize,
        keyword: &str,
        inner: &'s Value,
        beside: &'s Map<String, Value>,
    ) -> Result<(), SchemaError> {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(node, inner)?,
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                let schemas = self.all(inner);
                self.nodes[node].in_place.extend(schemas);
            }
            "dependentSchemas" | "dependencies" => {
                let schemas: Vec<usize> = fields_of(inner).map(|(_, schema)| self.node(schema)).collect();
                self.nodes[node].in_place.extend(schemas);
            }
            "properties" => {
                for (name, schema) in fields_of(inner) {
                    let schema = self.node(schema);
                    self.nodes[node].named.insert(name.clone(), schema);
                }
            }
            "patternProperties" => {
                for (_, schema) in fields_of(inner) {
                    self.pattern()?;
                    self.nodes[node].key_patterns += 1;
                    let schema = self.node(schema);
                    self.nodes[node].matching_keys.push(schema);
                }
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let schema = self.node(inner);
                self.nodes[node].other_keys.push(schema);
            }
            "propertyNames" => {
                let schema = self.node(inner);
                self.nodes[node].keys.push(schema);
            }
            "items" if inner.is_array() => {
                let schemas = self.all(inner);
                self.nodes[node].first_items.extend(schemas);
            }
            "prefixItems" => {
                let schemas = self.all(inner);
                self.nodes[node].first_items.extend(schemas);
            }
            "items" | "additionalItems" => {
                let schema = self.node(inner);
                self.nodes[node].other_items.push(schema);
            }
            "unevaluatedItems" if !beside.contains_key("items") => {
                let schema = self.node(inner);
                self.nodes[node].other_items.push(schema);
            }
            "contains" => {
                let schema = self.node(inner);
                self.nodes[node].every_item.push(schema);
            }
            "pattern" => {
                self.pattern()?;
                self.nodes[node].patterns += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn pattern(&mut self) -> Result<(), SchemaError> {
        self.patterns += 1;
        match self.patterns > PATTERNS_MAX {
            true => Err(too_much("regular expressions", PATTERNS_MAX)),
            false => Ok(()),
        }
    }

    /// The schemas of a list, or the one that stands in its place.
    fn all(&mut self, schemas: &'s Value) -> Vec<usize> {
        match schemas {
            Value::Array(schemas) => schemas.iter().map(|schema| self.node(schema)).collect(),
            schema => vec![self.node(schema)],
        }
    }

    fn node(&mut self, schema: &'s Value) -> usize {
        let known = self.known.get(&std::ptr::from_ref(schema));
        if let Some(node) = known {
            return *node;
        }
        let node = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.insert(std::ptr::from_ref(schema), node);
        self.unread.push((node, schema));
        node
    }

    fn reference(&mut self, node: usize, reference: &'s Value) -> Result<(), SchemaError> {
        let Value::String(reference) = reference else {
            return Ok(());
        };
        self.references += 1;
        if self.references > REFERENCES_MAX {
            return Err(too_much("references", REFERENCES_MAX));
        }
        let targets = self.targets(reference);
        if targets.is_empty() && reference.contains("//json-schema.org/") {
            self.nodes[node].standard += 1;
            return Ok(());
        }
        if targets.is_empty() {
            return Err(SchemaError::Invalid(format!(
                "`{reference}` names nothing in the schema: put what it refers to below `$defs`"
            )));
        }
        for target in targets {
            let target = self.node(target);
            self.nodes[node].in_place.push(target);
        }
        Ok(())
    }

    /// Everything that a reference may mean.
    fn targets(&self, reference: &str) -> Vec<&'s Value> {
        let (address, place) = reference.split_once('#').unwrap_or((reference, ""));
        let name = last_segment(address);
        let resources = self
            .resources
            .iter()
            .filter(|(known, _)| name.is_empty() || last_segment(known) == name);
        let place = percent_decoded(place);
        match place.as_str() {
            "" => resources.map(|(_, resource)| *resource).collect(),
            pointer if pointer.starts_with('/') => resources
                .filter_map(|(_, resource)| resource.pointer(pointer))
                .collect(),
            anchor => self.anchors.get(anchor).cloned().unwrap_or_default(),
        }
    }
}

/// What a list in a keyword adds: values to compare with, names to look for.
fn listed(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.len() as u64,
        _ => 1,
    }
}

fn fields_of(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn address(schema: &Value) -> Option<&str> {
    let fields = schema.as_object()?;
    fields.get("$id").or_else(|| fields.get("id"))?.as_str()
}

fn last_segment(address: &str) -> &str {
    let address = address.split('#').next().unwrap_or_default();
    address.rsplit(['/', ':']).next().unwrap_or_default()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        rest = if code.is_some() { &after[2..] } else { after };
        bytes.push(code.unwrap_or(*first));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A schema that is too long is not written out: counting stops where the bound is.
fn check_length(schema: &Value) -> Result<(), SchemaError> {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            match self.0 > BYTES_MAX {
                true => Err(std::io::ErrorKind::FileTooLarge.into()),
                false => Ok(bytes.len()),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Counter(0), schema).map_err(|_| too_much("bytes", BYTES_MAX))
}
