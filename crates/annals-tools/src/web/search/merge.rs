//! Results of several queries as one list.

use std::collections::HashSet;

use annals_core::sources::normalised_url;

use super::Hit;

/// Takes the best of each list in turn, each page once, so that no query crowds out the others.
pub fn merged(lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for _ in 0..longest {
        for hit in lists.iter_mut().filter_map(Iterator::next) {
            if seen.insert(normalised_url(&hit.url)) {
                all.push(hit);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_in_turn_and_a_page_appears_once() {
        let list = |urls: &[&str]| {
            urls.iter()
                .map(|url| Hit {
                    url: url.to_string(),
                    ..Hit::default()
                })
                .collect()
        };
        let all = merged(vec![
            list(&["https://a.org", "https://b.org", "https://c.org"]),
            list(&["https://d.org", "https://A.org/?utm_source=x"]),
            list(&[]),
        ]);
        let urls: Vec<&str> = all.iter().map(|hit| hit.url.as_str()).collect();
        assert_eq!(
            urls,
            ["https://a.org", "https://d.org", "https://b.org", "https://c.org"]
        );
    }
}
