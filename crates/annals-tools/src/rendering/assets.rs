//! The files that a document shows, by whatever name its author gave them.
//!
//! Only files of the conversation are found. Addresses of the web are not fetched: that is the web tools' work.

use annals_core::ids::TurnId;
use annals_core::path::{LogicalPath, PhysicalPath, rewrite};
use annals_store::Workspace;

/// A larger file is no picture that a document shows.
const PICTURE_MAX_BYTES: u64 = 64 << 20;

/// OUT_DIR as a document of one turn sees it.
pub(super) struct TurnFiles {
    pub(super) workspace: Workspace,
    pub(super) turn: TurnId,
}

impl TurnFiles {
    /// The bytes behind a reference as the author wrote it.
    pub(super) fn get(&self, reference: &str) -> Option<Vec<u8>> {
        candidates(reference, &self.turn)
            .into_iter()
            .find_map(|path| self.workspace.read(&path, PICTURE_MAX_BYTES).ok())
    }
}

/// The files that a reference may mean, most likely first.
fn candidates(reference: &str, turn: &TurnId) -> Vec<PhysicalPath> {
    // What follows `?` or `#` addresses a part of a page, and a file may have either in its name.
    let plain = reference.split(['?', '#']).next().unwrap_or_default();
    let forms = [
        Some(reference.to_owned()),
        decoded(reference),
        Some(plain.to_owned()),
        decoded(plain),
    ];
    let mut found: Vec<PhysicalPath> = Vec::new();
    for form in forms.into_iter().flatten().filter(|form| !form.contains("://")) {
        let named = LogicalPath::parse(&form).ok().and_then(|path| path.physical());
        // A plain name is a file of this turn; names of other turns were understood before.
        let own = || {
            rewrite::target(&form, turn)
                .ok()
                .map(|target| PhysicalPath::file(turn, &target.rel))
        };
        found.extend(named.or_else(own).filter(|path| !found.contains(path)));
    }
    found
}

/// The text with its percent escapes undone; none when there are none, or they are broken.
fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    let mut is_escaped = false;
    for piece in pieces {
        let hex = piece
            .get(..2)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
        is_escaped = true;
    }
    String::from_utf8(bytes).ok().filter(|_| is_escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_finds_its_file_however_it_is_written_and_nothing_outside() {
        let turn = TurnId::parse("turn_9").unwrap();
        let first = |reference: &str| {
            candidates(reference, &turn)
                .first()
                .map(ToString::to_string)
                .unwrap_or("-".into())
        };
        for (reference, expected) in [
            ("chart.png", "turn_9/files/chart.png"),
            ("./files/chart.png", "turn_9/files/chart.png"),
            ("turn_1/files/a b.png", "turn_1/files/a b.png"),
            ("turn_1/attachments/photo.png", "turn_1/attachments/photo.png"),
            (
                "fi:turn_1.user.attachments/photo.png",
                "turn_1/attachments/photo.png",
            ),
            ("../../etc/passwd", "-"),
            ("/etc/passwd", "-"),
            ("%2e%2e/%2e%2e/etc/passwd", "-"),
            ("file:///etc/passwd", "-"),
            ("https://example.com/a.png", "-"),
            ("", "-"),
        ] {
            let shown = first(reference);
            // A name with an escape may be meant literally; what matters is that nothing leads out.
            assert!(
                shown == expected || (reference.contains('%') && shown.starts_with("turn_9/files/")),
                "{reference}: {shown}"
            );
        }
        let all: Vec<String> = candidates("my%20chart.png?v=2", &turn)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(all.contains(&"turn_9/files/my chart.png".to_owned()), "{all:?}");
    }
}
