//! A call followed to the tool that runs it.
//!
//! Some tools stand for others that the model names in an argument, such as `mcp.call`. Whatever is decided about a call
//! (rules, hooks, a person's permission, order among calls, replay after a crash) has to be decided about the tool that
//! runs, or a rule about that tool would not hold by this way.

use std::sync::Arc;

use annals_core::turn::outcome::Notice;
use serde_json::{Map, Value};

use crate::tool::Tool;
use crate::validate::{self, Violation};

/// A call is passed on at most this often.
const PASSES_MAX: usize = 4;

/// A call that can be run.
pub struct Dispatched {
    /// The tool that runs it.
    pub tool: Arc<dyn Tool>,
    /// Its arguments, valid.
    pub args: Value,
    /// What was changed about them.
    pub notices: Vec<Notice>,
    /// The calls on the way, each of a tool that passed it on.
    pub passed: Vec<(Arc<dyn Tool>, Value)>,
}

/// Checks arguments for this tool, and for each that it passes the call on to.
pub fn follow(tool: &Arc<dyn Tool>, args: Map<String, Value>) -> Result<Dispatched, Violation> {
    let checked = validate::check(tool.spec(), args)?;
    let mut found = Dispatched {
        tool: tool.clone(),
        args: checked.args,
        notices: checked.notices,
        passed: Vec::new(),
    };
    for _ in 0..PASSES_MAX {
        let Some((tool, args)) = found.tool.passes_on(&found.args) else {
            return Ok(found);
        };
        let checked = validate::check(tool.spec(), validate::object(args)?)?;
        found.notices.extend(checked.notices);
        let by = std::mem::replace(&mut found.tool, tool);
        found
            .passed
            .push((by, std::mem::replace(&mut found.args, checked.args)));
    }
    Err(Violation::endless(found.tool.spec().name()))
}

/// The way of a call whether or not its arguments are valid: this tool, and each that it is passed on to.
pub fn way(tool: &Arc<dyn Tool>, args: &Value) -> Vec<(Arc<dyn Tool>, Value)> {
    let mut way = vec![(tool.clone(), args.clone())];
    while let Some(next) = way.last().and_then(|(tool, args)| tool.passes_on(args))
        && way.len() <= PASSES_MAX
    {
        way.push(next);
    }
    way
}

#[cfg(test)]
mod tests {
    use annals_core::turn::outcome::Outcome;
    use serde_json::json;

    use super::*;
    use crate::{DynamicTool, ToolCx, ToolSpec};

    /// Passes every call on to the tool of its list that `to` names, and to itself if there is none.
    struct Forwarder(ToolSpec, Vec<Arc<dyn Tool>>);

    #[async_trait::async_trait]
    impl Tool for Forwarder {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn passes_on(&self, args: &Value) -> Option<(Arc<dyn Tool>, Value)> {
            let to = args.get("to")?.as_str()?;
            let tool = self.1.iter().find(|tool| tool.spec().name().as_str() == to);
            let itself = || Arc::new(forwarder(Vec::new())) as Arc<dyn Tool>;
            Some((tool.cloned().unwrap_or_else(itself), args.get("args")?.clone()))
        }

        async fn run(&self, _: &ToolCx, _: Value) -> Outcome {
            Outcome::default()
        }
    }

    fn forwarder(tools: Vec<Arc<dyn Tool>>) -> Forwarder {
        let schema = json!({"type": "object", "properties": {"to": {}, "args": {}}});
        Forwarder(
            ToolSpec::builder("forwarder").parameters(schema).build().unwrap(),
            tools,
        )
    }

    fn add() -> Arc<dyn Tool> {
        let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
        Arc::new(DynamicTool::new("add", "Adds.", schema, |_, _| async { Ok(json!(1)) }).unwrap())
    }

    fn follow_json(tool: &Arc<dyn Tool>, args: Value) -> Result<Dispatched, Violation> {
        follow(tool, validate::object(args)?)
    }

    #[test]
    fn a_call_ends_at_the_tool_that_runs_it_with_arguments_that_fit_that_one() {
        let forwarder: Arc<dyn Tool> = Arc::new(forwarder(vec![add()]));
        let found = follow_json(&forwarder, json!({"to": "add", "args": {"x": 1, "y": 2}})).unwrap();
        assert_eq!(
            (found.tool.spec().name().as_str(), &found.args),
            ("add", &json!({"x": 1}))
        );
        assert_eq!(found.notices.len(), 1, "`y` was dropped");
        assert_eq!(found.passed.len(), 1);
        let refused = follow_json(&forwarder, json!({"to": "add", "args": {"x": "one"}}))
            .err()
            .unwrap();
        assert_eq!(refused.code, annals_core::code::Code::ToolSignatureRed);
    }

    #[test]
    fn a_call_that_goes_in_circles_is_refused() {
        let forwarder: Arc<dyn Tool> = Arc::new(forwarder(Vec::new()));
        let mut args = json!({});
        for _ in 0..10 {
            args = json!({"to": "nobody", "args": args});
        }
        let refused = follow_json(&forwarder, args.clone()).err().unwrap();
        assert!(refused.message.contains("passed on"), "{}", refused.message);
        assert_eq!(way(&forwarder, &args).len(), PASSES_MAX + 1);
    }
}
