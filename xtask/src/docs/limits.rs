//! `docs/limits.md`: every limit of `crates/annals-core/src/limits.rs`, under the headings of that file.

use super::cell;
use crate::repository::root;

pub(super) const PAGE: &str = "docs/limits.md";
const SOURCE: &str = "crates/annals-core/src/limits.rs";

const HEAD: &str = "\
# Limits

Every limit that users and models meet. Made by `cargo xtask docs` from `crates/annals-core/src/limits.rs`: change that.
What a user may set has its default here.
";

/// The page.
pub(super) fn page() -> anyhow::Result<String> {
    let source = std::fs::read_to_string(root().join(SOURCE))?;
    Ok(HEAD.to_owned() + &tables(&source))
}

/// A page that is not made from the limits.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    let is_made = std::fs::read_to_string(root().join(PAGE)).ok() == Some(page()?);
    let wrong = (!is_made).then(|| format!("{PAGE}: is not made from `{SOURCE}`: `cargo xtask docs limits`"));
    Ok(wrong.into_iter().collect())
}

fn tables(source: &str) -> String {
    let (mut page, mut meaning) = (String::new(), String::new());
    for line in source.lines() {
        if let Some(more) = line.strip_prefix("/// ") {
            meaning = format!("{meaning} {more}");
        } else if let Some(title) = line.strip_prefix("// ") {
            let title = title.trim_end_matches('.');
            page += &format!("\n## {title}\n\n| limit | value | meaning |\n|---|---:|---|\n");
        } else if let Some(limit) = line.strip_prefix("pub const ") {
            let (name, rest) = limit.split_once(':').unwrap_or((limit, ""));
            let value = rest
                .split_once('=')
                .map_or("", |(_, value)| value.trim().trim_end_matches(';'));
            let shown = match value.chars().all(|c| c.is_ascii_digit() || c == '_') {
                true => value.replace('_', ","),
                false => format!("`{}`", cell(value)),
            };
            page += &format!("| `{name}` | {shown} | {} |\n", cell(&meaning));
            meaning.clear();
        } else {
            meaning.clear();
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_row_under_its_heading() {
        let source = "//! Header.\n\n// Paths.\n\n/// A path has at most\n/// this many bytes.\npub const PATH_MAX_BYTES: usize = 1_024;\n\
                      pub const A_MS: f64 = 0.5;\n";
        assert_eq!(
            tables(source),
            "\n## Paths\n\n| limit | value | meaning |\n|---|---:|---|\n\
             | `PATH_MAX_BYTES` | 1,024 | A path has at most this many bytes. |\n| `A_MS` | `0.5` |  |\n"
        );
    }
}
