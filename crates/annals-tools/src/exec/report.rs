//! What the model is told about a run: why it failed, which files are missing, which are there, and the ends of
//! what it printed.

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::path::PhysicalPath;

/// Everything the report is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    /// Why the run itself failed.
    pub(super) error: Option<ShownError>,
    /// Files of the contract that are no good, with the reason.
    pub(super) failed: Vec<(PhysicalPath, String)>,
    /// Files of the contract that are there.
    pub(super) succeeded: Vec<PhysicalPath>,
    /// What the code printed.
    pub(super) stdout: String,
    /// What it printed as errors.
    pub(super) stderr: String,
}

impl Report {
    /// The report with at most this many characters of the end of each stream. `whole_at` names where the rest is.
    pub(super) fn text(&self, tail_max_chars: usize, whole_at: &str) -> String {
        let mut lines = Vec::new();
        if let Some(error) = &self.error {
            lines.push(format!("Runtime error: {} — {}", error.code, error.message));
        }
        if !self.failed.is_empty() {
            lines.push("File errors:".to_owned());
            lines.extend(
                self.failed
                    .iter()
                    .map(|(path, reason)| format!("- {path}: {reason}")),
            );
        }
        if !self.succeeded.is_empty() {
            lines.push("Succeeded:".to_owned());
            lines.extend(self.succeeded.iter().map(|path| format!("- {path}")));
        }
        if lines.is_empty() {
            lines.push("The code ran to its end; its contract names no files.".to_owned());
        }
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let stream = stream.trim_end();
            if !stream.trim().is_empty() {
                lines.push(format!("{name}:\n{}", tail(stream, tail_max_chars, whole_at)));
            }
        }
        lines.join("\n")
    }

    /// Whether `text` with this bound leaves something out.
    pub(super) fn is_cut(&self, tail_max_chars: usize) -> bool {
        [&self.stdout, &self.stderr]
            .iter()
            .any(|stream| stream.trim_end().chars().nth(tail_max_chars).is_some())
    }

    /// What the status line says; none when all is well.
    pub(super) fn status(&self) -> Option<ShownError> {
        let missing: Vec<&str> = self.failed.iter().map(|(path, _)| path.as_str()).collect();
        match (&self.error, missing.as_slice()) {
            (Some(error), _) => Some(error.clone()),
            (None, []) => None,
            (None, missing) => Some(ShownError::new(
                Code::FilesMissing,
                format!("Missing output files: {}", missing.join(", ")),
            )),
        }
    }
}

fn tail(text: &str, max_chars: usize, whole_at: &str) -> String {
    let Some((start, _)) = text
        .char_indices()
        .rev()
        .nth(max_chars.saturating_sub(1))
        .filter(|(start, _)| *start > 0)
    else {
        return text.to_owned();
    };
    let before = text[..start].chars().count();
    format!(
        "...[{before} earlier characters are at {whole_at}]\n{}",
        &text[start..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> PhysicalPath {
        PhysicalPath::parse(text).unwrap()
    }

    #[test]
    fn a_report_says_first_what_went_wrong() {
        let report = Report {
            error: Some(ShownError::new("execution_failed", "ValueError: no")),
            failed: vec![(path("turn_1/files/report.xlsx"), "file not produced".into())],
            succeeded: vec![path("turn_1/files/summary.pdf")],
            stdout: "one\ntwo\n".into(),
            stderr: "Traceback\nValueError: no\n".into(),
        };
        insta::assert_snapshot!(report.text(4_000, "tc:turn_1.c.result"), @r#"
        Runtime error: execution_failed — ValueError: no
        File errors:
        - turn_1/files/report.xlsx: file not produced
        Succeeded:
        - turn_1/files/summary.pdf
        stdout:
        one
        two
        stderr:
        Traceback
        ValueError: no
        "#);
        insta::assert_snapshot!(report.text(5, "tc:turn_1.c.result"), @r#"
        Runtime error: execution_failed — ValueError: no
        File errors:
        - turn_1/files/report.xlsx: file not produced
        Succeeded:
        - turn_1/files/summary.pdf
        stdout:
        ...[2 earlier characters are at tc:turn_1.c.result]
        e
        two
        stderr:
        ...[19 earlier characters are at tc:turn_1.c.result]
        r: no
        "#);
        assert!(report.is_cut(6) && !report.is_cut(50));
        insta::assert_snapshot!(Report::default().text(9, ""), @"The code ran to its end; its contract names no files.");
    }
}
