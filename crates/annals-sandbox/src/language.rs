//! The languages whose code a sandbox runs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A language with an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// The Bourne-again shell.
    Bash,
    /// JavaScript, run by Node.
    JavaScript,
}

impl Language {
    /// All of them, in the order they are offered.
    pub const ALL: [Self; 3] = [Self::Python, Self::Bash, Self::JavaScript];

    /// Its name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Bash => "bash",
            Self::JavaScript => "javascript",
        }
    }

    /// The program that runs it, as found in `PATH`.
    pub fn program(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Bash => "bash",
            Self::JavaScript => "node",
        }
    }

    /// What a file of it is called.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Python => "main.py",
            Self::Bash => "main.sh",
            Self::JavaScript => "main.js",
        }
    }

    /// The variable that names directories to import from, if it has one.
    pub fn import_path_variable(self) -> Option<&'static str> {
        match self {
            Self::Python => Some("PYTHONPATH"),
            Self::Bash => None,
            Self::JavaScript => Some("NODE_PATH"),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No interpreter is known for a language of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown language `{0}`; use python, bash or javascript")]
pub struct UnknownLanguage(pub String);

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.trim().to_ascii_lowercase().as_str() {
            "python" | "python3" | "py" => Ok(Self::Python),
            "bash" | "sh" | "shell" => Ok(Self::Bash),
            "javascript" | "js" | "node" => Ok(Self::JavaScript),
            _ => Err(UnknownLanguage(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_usual_names_and_others_are_refused_by_name() {
        assert_eq!("Python".parse(), Ok(Language::Python));
        assert_eq!("js".parse(), Ok(Language::JavaScript));
        assert_eq!("sh".parse(), Ok(Language::Bash));
        let refused = "cobol".parse::<Language>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "unknown language `cobol`; use python, bash or javascript"
        );
    }
}
