//! What an exec call promises: files of the current turn, by name, each with what it is for.

use annals_core::code::Code;
use annals_core::ids::TurnId;
use annals_core::limits;
use annals_core::path::PhysicalPath;
use annals_core::turn::outcome::Notice;
use serde_json::Value;

use crate::react::target::WriteTarget;

/// The files that the code is to produce, in the order given, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Contract {
    /// Where they are to lie.
    pub(super) files: Vec<PhysicalPath>,
    /// Names of other turns that were rewritten into this one.
    pub(super) notices: Vec<Notice>,
}

/// A contract that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the contract is not valid: {reason}; give a list like [{{\"filename\": \"report.pdf\", \"description\": \"…\"}}]"
)]
pub(super) struct ContractInvalid {
    /// What is wrong, with its place.
    pub(super) reason: String,
}

impl ContractInvalid {
    fn new(reason: impl Into<String>) -> Self {
        ContractInvalid {
            reason: reason.into(),
        }
    }

    /// The notice that counts as a protocol violation.
    pub(super) fn notice(&self) -> Notice {
        Notice::new(Code::ViolationExecContractInvalid, self.to_string())
    }
}

impl Contract {
    /// Reads the contract of a call in the turn `current`.
    pub(super) fn parse(given: &Value, current: &TurnId) -> Result<Self, ContractInvalid> {
        let Value::Array(items) = given else {
            return Err(ContractInvalid::new(format!("it is {}, not a list", kind(given))));
        };
        if items.len() > limits::EXEC_CONTRACT_MAX_FILES {
            let most = limits::EXEC_CONTRACT_MAX_FILES;
            return Err(ContractInvalid::new(format!(
                "it has {} files, more than {most}",
                items.len()
            )));
        }
        let mut contract = Contract::default();
        for (index, item) in items.iter().enumerate() {
            contract.add(index, item, current)?;
        }
        Ok(contract)
    }

    fn add(&mut self, index: usize, item: &Value, current: &TurnId) -> Result<(), ContractInvalid> {
        let Value::Object(fields) = item else {
            return Err(ContractInvalid::new(format!(
                "item {index} is {}, not an object",
                kind(item)
            )));
        };
        let name = match fields.get("filename") {
            Some(Value::String(name)) => name,
            Some(other) => {
                return Err(ContractInvalid::new(format!(
                    "`filename` of item {index} is {}, not a string",
                    kind(other)
                )));
            }
            None => return Err(ContractInvalid::new(format!("item {index} has no `filename`"))),
        };
        if let Some(other) = fields
            .get("description")
            .filter(|description| !description.is_string())
        {
            return Err(ContractInvalid::new(format!(
                "`description` of item {index} is {}, not a string",
                kind(other)
            )));
        }
        let target = WriteTarget::parse(name, current).map_err(|error| {
            ContractInvalid::new(format!("`filename` of item {index}: {}", error.message))
        })?;
        self.notices.extend(target.notice);
        if !self.files.contains(&target.path) {
            self.files.push(target.path);
        }
        Ok(())
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape(given: Value) -> String {
        match Contract::parse(&given, &TurnId::parse("turn_9").unwrap()) {
            Ok(contract) => {
                let names: Vec<&str> = contract.files.iter().map(PhysicalPath::as_str).collect();
                format!("{} ({} notices)", names.join(" "), contract.notices.len())
            }
            Err(error) => error.reason,
        }
    }

    #[test]
    fn a_contract_is_a_list_of_files_of_this_turn() {
        let file = |name: &str| json!({"filename": name, "description": "d"});
        let cases = [
            json!([
                file("a.pdf"),
                file("turn_9/files/b/c.md"),
                file("a.pdf"),
                file("fi:turn_9.files/d")
            ]),
            json!([{"filename": "a.pdf"}]),
            json!([]),
            json!([file("turn_1/files/a.pdf")]),
            json!({"filename": "a.pdf"}),
            json!("a.pdf"),
            json!(null),
            json!(["a.pdf"]),
            json!([file("a"), {"description": "d"}]),
            json!([{"filename": 7}]),
            json!([{"filename": "a", "description": []}]),
            json!([file("../a")]),
            json!([file("/etc/passwd")]),
            json!([file("turn_9/files/../../x")]),
            json!([file("")]),
            json!([file("tc:turn_9.c.result")]),
            Value::Array((0..65).map(|n| file(&n.to_string())).collect()),
        ];
        insta::assert_snapshot!(cases.map(shape).join("\n"), @r#"
        turn_9/files/a.pdf turn_9/files/b/c.md turn_9/files/d (0 notices)
        turn_9/files/a.pdf (0 notices)
         (0 notices)
        turn_9/files/a.pdf (1 notices)
        it is an object, not a list
        it is a string, not a list
        it is null, not a list
        item 0 is a string, not an object
        item 1 has no `filename`
        `filename` of item 0 is a number, not a string
        `description` of item 0 is a list, not a string
        `filename` of item 0: `../a` is not a safe path: it has a `..` part
        `filename` of item 0: `/etc/passwd` is not a safe path: it is absolute; give it relative to the turn's files
        `filename` of item 0: `../../x` is not a safe path: it has a `..` part
        `filename` of item 0: `` is not a safe path: it is empty
        `filename` of item 0: `tc:turn_9.c.result` cannot be written: give a file path such as `report.md`
        it has 65 files, more than 64
        "#);
    }
}
