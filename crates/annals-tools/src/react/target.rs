//! The file of the current turn that a tool is to write, from whatever form of path the model gave.

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::ids::TurnId;
use annals_core::path::{LogicalPath, PhysicalPath, rewrite};
use annals_core::turn::outcome::Notice;

/// Where to write, and what the model must be told about it.
pub(crate) struct WriteTarget {
    pub(crate) path: PhysicalPath,
    pub(crate) notice: Option<Notice>,
}

impl WriteTarget {
    /// Reads a path. Another turn's file is rewritten into the current turn, with a notice.
    pub(crate) fn parse(given: &str, turn: &TurnId) -> Result<Self, ShownError> {
        let target =
            rewrite::target(given, turn).map_err(|error| ShownError::new(error.code(), error.to_string()))?;
        let logical = target.logical(turn);
        let notice = target.rewritten_from.as_ref().map(|from| {
            let message =
                format!("files of other turns are not written: `{from}` was written as `{logical}`");
            Notice::new(Code::ViolationPathRewritten, message)
                .with("from", from.as_str())
                .with("to", logical.as_str())
        });
        Ok(WriteTarget {
            path: PhysicalPath::file(turn, &target.rel),
            notice,
        })
    }

    pub(crate) fn logical(&self) -> LogicalPath {
        self.path.logical()
    }
}
