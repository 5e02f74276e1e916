//! A task's command line: switches, options with a value, and names.

use crate::Usage;

/// What was typed after the task's name.
pub(crate) struct Flags {
    given: Vec<String>,
}

impl Flags {
    /// These arguments.
    pub(crate) fn new(given: &[String]) -> Self {
        Flags {
            given: given.to_vec(),
        }
    }

    /// Whether a switch such as `--quick` was given.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let before = self.given.len();
        self.given.retain(|argument| argument != name);
        self.given.len() < before
    }

    /// The value of an option, given as `--seed 1` or `--seed=1`.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Usage> {
        let joined = format!("{name}=");
        let Some(at) = self
            .given
            .iter()
            .position(|argument| argument == name || argument.starts_with(&joined))
        else {
            return Ok(None);
        };
        let argument = self.given.remove(at);
        match argument.strip_prefix(&joined) {
            Some(value) => Ok(Some(value.to_owned())),
            None if at < self.given.len() => Ok(Some(self.given.remove(at))),
            None => Err(Usage(format!("`{name}` needs a value"))),
        }
    }

    /// The values of an option that may be given several times.
    pub(crate) fn values(&mut self, name: &str) -> Result<Vec<String>, Usage> {
        let mut values = Vec::new();
        while let Some(value) = self.value(name)? {
            values.push(value);
        }
        Ok(values)
    }

    /// The value of an option that is a number.
    pub(crate) fn number(&mut self, name: &str, otherwise: u64) -> Result<u64, Usage> {
        match self.value(name)? {
            None => Ok(otherwise),
            Some(text) => text
                .parse()
                .map_err(|_| Usage(format!("`{name}` is a number, not `{text}`"))),
        }
    }

    /// What is left, as names.
    pub(crate) fn names(self) -> Result<Vec<String>, Usage> {
        match self.given.iter().find(|argument| argument.starts_with('-')) {
            Some(unknown) => Err(Usage(format!(
                "`{unknown}` is not known here: see `cargo xtask help`"
            ))),
            None => Ok(self.given),
        }
    }

    /// Checks that nothing is left.
    pub(crate) fn done(self) -> Result<(), Usage> {
        match self.given.first() {
            Some(unknown) => Err(Usage(format!(
                "`{unknown}` is not known here: see `cargo xtask help`"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Flags {
        Flags::new(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_switches_come_in_any_order() {
        let mut flags = flags("core --seed=7 --quick --kills 3");
        assert_eq!(flags.number("--kills", 1).unwrap(), 3);
        assert_eq!(flags.number("--seed", 1).unwrap(), 7);
        assert!(flags.switch("--quick") && !flags.switch("--quick"));
        assert_eq!(flags.names().unwrap(), ["core"]);
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        assert!(flags("--qick").names().is_err());
        assert!(flags("core").done().is_err());
        assert!(flags("--seed").number("--seed", 1).is_err());
        assert!(flags("--seed x").number("--seed", 1).is_err());
    }
}
