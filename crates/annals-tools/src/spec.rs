//! What a tool declares about itself, checked once when it is made.
//!
//! Keeps the name, the texts the model reads, the compiled schema, and the few facts the runtime needs to run
//! and record a call. It must not know how the tool works.

use std::fmt;
use std::time::Duration;

use annals_core::ids::TurnId;
use annals_core::view::ToolSchema;
use annals_policy::{KnownTool, Reach};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::access::{Access, Uses};
use crate::facet::FacetParam;
use crate::name::{ToolName, ToolNameError};
use crate::schema::Schema;

/// Which rules a tool's calls and returns follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// `react.*`: exists only inside the loop.
    React,
    /// Runs code under a contract; every error is in its report, it gives no error notices.
    Exec,
    /// Produces files or answers through `{ok, error, …}`.
    External,
    /// Ships with Annals and answers through `{ok, error, ret}`.
    Builtin,
    /// Returns a value.
    Plain,
}

/// What a call does to the world, and so what happens when a crash leaves it without its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing: it reads or computes. It is run again.
    None,
    /// It is run again: the same call twice does what it does once.
    Replayable,
    /// It gets the result `interrupted`, and the model decides.
    Once,
}

/// How the call's result is headed in the model's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Produces {
    /// `.result`: a value.
    Value,
    /// `.summary` and `.artifact`: files or displays.
    Artifacts,
}

/// A parameter whose value is a document rather than an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyParam {
    /// Streamed to the user while it arrives. The call block shows its beginning and names the artifact it becomes.
    Content(&'static str),
    /// Streamed to the user while it arrives, and shown whole in the call block.
    Streamed(&'static str),
    /// Shown in a `react.tool.code` block before the call. The call block names that block.
    Code(&'static str),
}

impl BodyParam {
    /// The parameter's name.
    pub fn name(&self) -> &'static str {
        match self {
            BodyParam::Content(name) | BodyParam::Streamed(name) | BodyParam::Code(name) => name,
        }
    }
}

/// Whether the model is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// It is in the catalog.
    Listed,
    /// Another name of this tool: calls to it run, but the catalog shows the tool once.
    AliasOf(ToolName),
}

/// Why a declaration cannot become a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name is not one.
    #[error(transparent)]
    Name(#[from] ToolNameError),
    /// Providers take only objects.
    #[error(
        "the parameters of `{tool}` are not a JSON Schema of an object: give a struct with named fields, or \
         `{{\"type\": \"object\", …}}`"
    )]
    NotAnObject {
        /// The tool.
        tool: String,
    },
    /// The schema is not valid.
    #[error("the parameters of `{tool}` are not a valid JSON Schema: {reason}")]
    Schema {
        /// The tool.
        tool: String,
        /// What the schema compiler said.
        reason: String,
    },
}

/// What a tool declares. Made with [`ToolSpec::builder`].
pub struct ToolSpec {
    name: ToolName,
    description: String,
    parameters: Value,
    family: Family,
    effect: Effect,
    produces: Produces,
    body: Option<BodyParam>,
    listing: Listing,
    known_as: Option<String>,
    timeout: Option<Duration>,
    secrets: Vec<String>,
    uses: Option<Declared>,
    reach: Option<Vec<Reach>>,
    facets: Vec<FacetParam>,
    checker: Schema,
    defect: Option<SpecError>,
}

/// What calls use, as far as the tool declares it.
#[derive(Clone, Debug, Default)]
struct Declared {
    reads: Vec<Uses>,
    writes: Vec<Uses>,
}

impl ToolSpec {
    /// Starts a declaration: a plain tool without parameters that must not run twice.
    pub fn builder(name: &str) -> ToolSpecBuilder {
        ToolSpecBuilder {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            family: Family::Plain,
            effect: Effect::Once,
            produces: Produces::Value,
            body: None,
            alias_of: None,
            known_as: None,
            timeout: None,
            secrets: Vec::new(),
            uses: None,
            reach: None,
            facets: Vec::new(),
        }
    }

    /// The tool's name.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// What the model reads to decide.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// JSON Schema of the parameters; the order of its properties is the order the call should have.
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// The rules it follows.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Whether a lost call may run again.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Value or artifacts.
    pub fn produces(&self) -> Produces {
        self.produces
    }

    /// The parameter that is a document, if there is one.
    pub fn body(&self) -> Option<&BodyParam> {
        self.body.as_ref()
    }

    /// Whether the model is told of it.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// What others call it, where its name here had to be another.
    pub fn known_as(&self) -> Option<&str> {
        self.known_as.as_deref()
    }

    /// How long one call may take, when it differs from the table's default.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// What a call with these arguments reads and writes; `None` when the tool declares nothing. A tool without any
    /// effect and without declarations uses nothing that another call could.
    pub fn access(&self, turn: &TurnId, args: &Value) -> Option<Access> {
        match &self.uses {
            Some(uses) => Some(Access::of_call(&uses.reads, &uses.writes, turn, args)),
            None => (self.effect == Effect::None).then_some(Access::NOTHING),
        }
    }

    /// What its calls can reach, as it declares or as follows from its family and its effect. A tool that says nothing of
    /// itself may do anything.
    pub fn reach(&self) -> Vec<Reach> {
        match (&self.reach, self.family, self.effect) {
            (Some(reach), ..) => reach.clone(),
            (None, Family::Exec, _) => vec![Reach::Exec, Reach::Write],
            (None, _, Effect::None) => vec![Reach::Read],
            (None, Family::React, _) => vec![Reach::Write],
            (None, ..) if self.writes_files_only() => vec![Reach::Write],
            (None, ..) => vec![Reach::External],
        }
    }

    fn writes_files_only(&self) -> bool {
        let is_file = |uses: &Uses| matches!(uses, Uses::WorkspacePath(_) | Uses::TurnFile(_));
        self.uses
            .as_ref()
            .is_some_and(|uses| !uses.writes.is_empty() && uses.writes.iter().all(is_file))
    }

    /// The parameters that the rules of a policy look at.
    pub fn facets(&self) -> &[FacetParam] {
        &self.facets
    }

    /// The parameters that name files, and whether they name files of the running turn.
    pub fn file_params(&self) -> impl Iterator<Item = (&str, bool)> {
        let uses = self
            .uses
            .iter()
            .flat_map(|uses| uses.reads.iter().chain(&uses.writes));
        uses.filter_map(|uses| match uses {
            Uses::WorkspacePath(name) => Some((&**name, false)),
            Uses::TurnFile(name) => Some((&**name, true)),
            Uses::Workspace | Uses::Named(_) => None,
        })
    }

    /// What a policy's rules may name of it.
    pub fn known(&self) -> KnownTool {
        let has = |is: fn(&FacetParam) -> bool| self.facets.iter().any(is);
        KnownTool {
            name: self.name.to_string(),
            effects: self.reach(),
            has_command: has(FacetParam::is_command),
            has_path: has(FacetParam::is_path) || self.file_params().next().is_some(),
            has_host: has(FacetParam::is_host),
        }
    }

    /// What is wrong with the declaration; a table refuses a tool that has one.
    pub fn defect(&self) -> Option<&SpecError> {
        self.defect.as_ref()
    }

    /// The secrets it may have, by name.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// What the arguments of a call are checked against.
    pub(crate) fn checker(&self) -> &Schema {
        &self.checker
    }

    /// What the model is offered.
    pub fn schema(&self) -> ToolSchema {
        ToolSchema {
            name: self.name.to_string(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
        }
    }

    /// Whether its schema names this parameter.
    pub fn has_parameter(&self, name: &str) -> bool {
        self.properties()
            .is_some_and(|properties| properties.contains_key(name))
    }

    /// The parameters' names in their order; none when the schema names no properties.
    pub(crate) fn properties(&self) -> Option<&Map<String, Value>> {
        self.parameters.get("properties").and_then(Value::as_object)
    }
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSpec")
            .field("name", &self.name)
            .field("family", &self.family)
            .field("effect", &self.effect)
            .field("produces", &self.produces)
            .finish_non_exhaustive()
    }
}

/// A declaration in the making.
#[derive(Clone, Debug)]
pub struct ToolSpecBuilder {
    name: String,
    description: String,
    parameters: Value,
    family: Family,
    effect: Effect,
    produces: Produces,
    body: Option<BodyParam>,
    alias_of: Option<String>,
    known_as: Option<String>,
    timeout: Option<Duration>,
    secrets: Vec<String>,
    uses: Option<Declared>,
    reach: Option<Vec<Reach>>,
    facets: Vec<FacetParam>,
}

impl ToolSpecBuilder {
    /// What the model reads to decide.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// What others call it, where its name here had to be another.
    #[must_use]
    pub fn known_as(mut self, name: impl Into<String>) -> Self {
        self.known_as = Some(name.into());
        self
    }

    /// The parameters as a JSON Schema of an object.
    #[must_use]
    pub fn parameters(mut self, schema: Value) -> Self {
        self.parameters = schema;
        self
    }

    /// The parameters as the fields of a struct, in the order of their declaration.
    #[must_use]
    pub fn typed<T: JsonSchema>(self) -> Self {
        // Models read a flat schema better than one full of references, and titles only repeat Rust names.
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        if let Some(object) = schema.as_object_mut() {
            object.shift_remove("title");
            object.shift_remove("description");
            object.entry("properties").or_insert_with(|| json!({}));
            object.entry("additionalProperties").or_insert(Value::Bool(false));
        }
        self.parameters(schema)
    }

    /// Declares that it needs this secret, as `secret:NAME` or by its name alone. A tool gets no other, and what it runs
    /// in the sandbox finds it in the environment under its name.
    #[must_use]
    pub fn secret(mut self, name: &str) -> Self {
        self.secrets
            .push(name.strip_prefix("secret:").unwrap_or(name).to_owned());
        self
    }

    /// The rules it follows.
    #[must_use]
    pub fn family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    /// Whether a lost call may run again.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// What its calls can reach: the facet `effect` of a policy's rules.
    #[must_use]
    pub fn reaches(mut self, reach: impl IntoIterator<Item = Reach>) -> Self {
        self.reach = Some(reach.into_iter().collect());
        self
    }

    /// A parameter that a policy's rules look at. Those that [`reads`](Self::reads) and [`writes`](Self::writes) name as
    /// files are looked at anyway.
    #[must_use]
    pub fn facet(mut self, facet: FacetParam) -> Self {
        self.facets.push(facet);
        self
    }

    /// Value or artifacts.
    #[must_use]
    pub fn produces(mut self, produces: Produces) -> Self {
        self.produces = produces;
        self
    }

    /// The parameter that is a document.
    #[must_use]
    pub fn body(mut self, body: BodyParam) -> Self {
        self.body = Some(body);
        self
    }

    /// Another name of that tool, which the catalog does not repeat.
    #[must_use]
    pub fn alias_of(mut self, name: &str) -> Self {
        self.alias_of = Some(name.to_owned());
        self
    }

    /// How long one call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Calls read this: they run after earlier calls of the same answer that write it.
    #[must_use]
    pub fn reads(mut self, uses: Uses) -> Self {
        self.uses.get_or_insert_default().reads.push(uses);
        self
    }

    /// Calls write this: they run after earlier calls of the same answer that read or write it.
    #[must_use]
    pub fn writes(mut self, uses: Uses) -> Self {
        self.uses.get_or_insert_default().writes.push(uses);
        self
    }

    /// Calls use nothing that another call could, and may always run together with others.
    #[must_use]
    pub fn independent(mut self) -> Self {
        self.uses.get_or_insert_default();
        self
    }

    /// The declaration, whatever is wrong with it: a tool that comes from a function cannot fail when it is named, so
    /// its [defect](ToolSpec::defect) is found when the agent is built.
    #[doc(hidden)]
    pub fn declared(self) -> ToolSpec {
        let without_parameters = ToolSpecBuilder {
            parameters: json!({"type": "object"}),
            ..self.clone()
        };
        self.build().unwrap_or_else(|defect| ToolSpec {
            defect: Some(defect),
            ..without_parameters
                .build()
                .expect("the macro has checked the name")
        })
    }

    /// Checks the declaration and compiles its schema.
    pub fn build(self) -> Result<ToolSpec, SpecError> {
        let name = ToolName::parse(&self.name)?;
        let listing = match self.alias_of {
            Some(name) => Listing::AliasOf(ToolName::parse(&name)?),
            None => Listing::Listed,
        };
        if self.parameters.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SpecError::NotAnObject { tool: self.name });
        }
        let checker = Schema::new(&self.parameters).map_err(|error| SpecError::Schema {
            tool: self.name,
            reason: error.to_string(),
        })?;
        Ok(ToolSpec {
            name,
            description: self.description,
            parameters: self.parameters,
            family: self.family,
            effect: self.effect,
            produces: self.produces,
            body: self.body,
            listing,
            known_as: self.known_as,
            timeout: self.timeout,
            secrets: self.secrets,
            uses: self.uses,
            reach: self.reach,
            facets: self.facets,
            checker,
            defect: None,
        })
    }
}
