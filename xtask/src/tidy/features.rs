//! The features of the library and the table that explains them.

use super::source::Tree;
use crate::corners;

const PAGE: &str = "docs/library.md";

/// Features without a row.
pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<String>> {
    let page = tree.get(PAGE).unwrap_or_default();
    Ok(without_row(&corners::features()?, page))
}

fn without_row(features: &[String], page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: Vec<&str> = rows
        .filter_map(|row| row.split('|').next())
        .flat_map(|names| names.split(", "))
        .map(|name| name.trim().trim_matches('`'))
        .collect();
    let unnamed = features
        .iter()
        .filter(|feature| !named.contains(&feature.as_str()));
    unnamed
        .map(|feature| format!("{PAGE}: the table of features has no row for `{feature}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_row() {
        let features = ["a", "b", "c"].map(str::to_owned);
        let page = "| feature | brings |\n|---|---|\n| `a`, `b` | `c` and more |\n";
        assert_eq!(
            without_row(&features, page),
            ["docs/library.md: the table of features has no row for `c`"]
        );
    }
}
