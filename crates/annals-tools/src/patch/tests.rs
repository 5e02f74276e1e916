use proptest::prelude::*;
use similar::TextDiff;

use super::*;

const FILE: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

fn applied(original: &str, patch: &str) -> String {
    apply(original, patch)
        .unwrap_or_else(|error| panic!("{error:?}"))
        .text
}

#[test]
fn a_diff_is_told_from_a_replacement_by_its_beginning() {
    for diff in [
        "--- a\n",
        "+++ b\n",
        "@@ -1 +1 @@\n",
        "\n\r\n@@ -1 +1 @@",
        "diff --git a b\n@@ -1 +1 @@",
    ] {
        assert!(is_diff(diff), "{diff:?}");
    }
    for whole in ["# Title\n", "", "-- a comment", "diff --git is a command", " @@"] {
        assert!(!is_diff(whole), "{whole:?}");
    }
}

#[test]
fn a_hunk_applies_where_it_says() {
    let patch = "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@ fn main()\n two\n-three\n+drei\n four\n";
    assert_eq!(applied(FILE, patch), "one\ntwo\ndrei\nfour\nfive\nsix\n");
    let patched = apply(FILE, patch).unwrap();
    assert_eq!((patched.lines_added, patched.lines_removed), (1, 1));
    assert_eq!(
        patched.hunks,
        [AppliedHunk {
            line: 2,
            moved_lines: 0
        }]
    );
}

#[test]
fn wrong_counts_are_not_believed() {
    for header in [
        "@@ -2,9 +2,1 @@",
        "@@ -2 +2 @@",
        "@@ -2,0 +2,77 @@",
        "@@ -2,3 +1,3 @@",
    ] {
        let patch = format!("{header}\n two\n-three\n+drei\n four\n");
        assert_eq!(
            applied(FILE, &patch),
            "one\ntwo\ndrei\nfour\nfive\nsix\n",
            "{header}"
        );
    }
}

#[test]
fn a_moved_hunk_applies_where_its_lines_are_if_that_is_one_place() {
    for start in [1, 4, 6, 40, 0, 4_000_000_000_u32] {
        let patch = format!("@@ -{start},3 +{start},3 @@\n two\n-three\n+drei\n four\n");
        assert_eq!(
            applied(FILE, &patch),
            "one\ntwo\ndrei\nfour\nfive\nsix\n",
            "{start}"
        );
    }
}

#[test]
fn a_moved_hunk_that_fits_at_several_places_is_refused() {
    let file = "a\nb\nx\na\nb\nx\na\nb\n";
    let patch = "@@ -3,2 +3,2 @@\n a\n-b\n+c\n";
    let error = apply(file, patch).unwrap_err();
    assert_eq!(error.code(), "hunk_mismatch");
    assert!(
        matches!(&error, PatchError::Ambiguous { places, .. } if places[..] == [1, 4, 7]),
        "{error:?}"
    );
    assert_eq!(
        applied(file, "@@ -4,2 +4,2 @@\n a\n-b\n+c\n"),
        "a\nb\nx\na\nc\nx\na\nb\n"
    );
}

#[test]
fn later_hunks_follow_the_drift_of_earlier_ones() {
    let file = format!("top\ntop\n{FILE}rest\n{FILE}");
    let patch = "@@ -1,2 +1,2 @@\n-one\n+eins\n two\n@@ -8,2 +8,2 @@\n one\n-two\n+zwei\n";
    let target = "top\ntop\neins\ntwo\nthree\nfour\nfive\nsix\nrest\none\nzwei\nthree\nfour\nfive\nsix\n";
    assert!(apply(&file, patch).is_err(), "`one, two` is there twice");
    let patch = patch.replacen("@@ -1,2 +1,2 @@\n", "@@ -1,3 +1,3 @@\n top\n", 1);
    assert_eq!(applied(&file, &patch), target);
}

#[test]
fn hunks_may_come_in_any_order_but_must_not_overlap() {
    let patch = "@@ -5,1 +5,1 @@\n-five\n+fünf\n@@ -1,1 +1,1 @@\n-one\n+eins\n";
    assert_eq!(applied(FILE, patch), "eins\ntwo\nthree\nfour\nfünf\nsix\n");
    let twice = "@@ -1,2 +1,1 @@\n one\n-two\n@@ -2,1 +2,1 @@\n-two\n+zwei\n";
    assert_eq!(apply(FILE, twice).unwrap_err().code(), "hunk_mismatch");
}

#[test]
fn a_mismatch_says_what_was_expected_and_what_is_there() {
    let error = apply(FILE, "@@ -2,2 +2,2 @@\n two\n-drei\n+III\n").unwrap_err();
    assert_eq!(
        error,
        PatchError::HunkMismatch {
            hunk: 1,
            header: "@@ -2,2 +2,2 @@".into(),
            line: 2,
            expected: vec!["two".into(), "drei".into()],
            actual: vec!["two".into(), "three".into()],
        }
    );
    assert_eq!(error.lines_to_read(), Some((1, 9)));
}

#[test]
fn what_is_no_diff_is_refused_with_the_line() {
    for (patch, line) in [
        ("--- a\n+++ b\n", 1),
        ("---\ntitle: front matter\n---\n", 1),
        ("@@ -a,b +c @@\n one\n", 1),
        ("@@\n one\n", 1),
        ("@@ -1,1 +1,1\n one\n", 1),
        ("@@ -1 +1 +1 @@\n one\n", 1),
        ("@@ -1 +1 @@\n", 1),
        ("@@ -1 +1 @@\n one\nbroken line\n", 3),
        ("@@ -99999999999999999999 +1 @@\n one\n", 1),
        (
            "--- a\n+++ b\n@@ -1 +1 @@\n-one\n+eins\n--- c\n+++ d\n@@ -1 +1 @@\n-x\n+y\n",
            6,
        ),
    ] {
        let error = apply(FILE, patch).unwrap_err();
        assert_eq!(error.code(), "invalid_hunk_header", "{patch:?}");
        assert!(
            matches!(error, PatchError::InvalidHunkHeader { line: found, .. } if found == line),
            "{error:?}"
        );
    }
}

#[test]
fn lines_that_look_like_file_headers_are_lines_while_the_hunk_lasts() {
    let file = "-- a\nend\n";
    let patch = "@@ -1,2 +1,2 @@\n--- a\n+++ b\n end\n";
    assert_eq!(applied(file, patch), "++ b\nend\n");
}

#[test]
fn the_final_newline_follows_the_markers() {
    const MARK: &str = "\\ No newline at end of file\n";
    // Taken away, given, kept absent, and absent on both sides.
    assert_eq!(
        applied("a\nb\n", &format!("@@ -1,2 +1,2 @@\n a\n-b\n+b\n{MARK}")),
        "a\nb"
    );
    assert_eq!(
        applied("a\nb", &format!("@@ -1,2 +1,2 @@\n a\n-b\n{MARK}+b\n")),
        "a\nb\n"
    );
    assert_eq!(
        applied("a\nb", &format!("@@ -1,2 +1,2 @@\n-a\n+A\n b\n{MARK}")),
        "A\nb"
    );
    assert_eq!(
        applied("a\nb", &format!("@@ -1,2 +1,2 @@\n a\n-b\n{MARK}+c\n{MARK}")),
        "a\nc"
    );
    // A model that knows nothing of markers.
    assert_eq!(applied("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n"), "a\nb\nc\n");
    assert_eq!(applied("a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n"), "A\nb");
    // A marked line is the last one, nowhere else.
    assert!(apply("a\nb\n", &format!("@@ -1,1 +1,1 @@\n-a\n{MARK}+c\n")).is_err());
}

#[test]
fn a_crlf_file_stays_one_whatever_ends_the_patch_has() {
    let file = "one\r\ntwo\r\nthree\r\n";
    let target = "one\r\nzwei\r\nthree\r\n";
    let plain = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n";
    let faithful = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\r\n-two\r\n+zwei\r\n three\r\n";
    let sent_with_returns = plain.replace('\n', "\r\n");
    for patch in [plain, faithful, &sent_with_returns] {
        assert_eq!(applied(file, patch), target, "{patch:?}");
    }
    assert_eq!(
        applied("one\ntwo\nthree\n", &sent_with_returns),
        "one\nzwei\nthree\n"
    );
}

#[test]
fn a_diff_may_change_the_line_ends_themselves() {
    assert_eq!(applied("a\r\nb\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n"), "a\nb\n");
}

#[test]
fn blank_context_lines_need_no_leading_space_and_blank_lines_may_follow() {
    let file = "a\n\nb\nc\n";
    assert_eq!(
        applied(file, "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n\n\n"),
        "a\n\nB\nc\n"
    );
    assert_eq!(
        applied(file, "@@ -1,9 +1,9 @@\n a\n\n-b\n+B\n\n\n"),
        "a\n\nB\nc\n"
    );
}

#[test]
fn an_insertion_without_context_goes_after_the_line_it_names() {
    assert_eq!(applied("a\nb\n", "@@ -1,0 +2,1 @@\n+x\n"), "a\nx\nb\n");
    assert_eq!(applied("a\nb\n", "@@ -0,0 +1,1 @@\n+x\n"), "x\na\nb\n");
    assert_eq!(applied("a\nb\n", "@@ -2,0 +3,1 @@\n+x\n"), "a\nb\nx\n");
    assert_eq!(applied("", "@@ -0,0 +1,2 @@\n+x\n+y\n"), "x\ny\n");
    assert!(apply("a\n", "@@ -7,0 +8,1 @@\n+x\n").is_err());
}

#[test]
fn a_file_can_be_emptied() {
    assert_eq!(applied("a\nb\n", "@@ -1,2 +0,0 @@\n-a\n-b\n"), "");
}

/// Texts of few different lines, so that hunks find themselves at several places, with mixed ends.
fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        "a",
        "b",
        "  c",
        "}",
        "-x",
        "+y",
        "@@ z",
        "--- a",
        "+++ b",
        "ü€\u{2028}",
    ]);
    let end = prop::sample::select(vec!["\n", "\n", "\n", "\r\n"]);
    let lines = prop::collection::vec((line, end), 0..30);
    (lines, prop::bool::ANY).prop_map(|(lines, ended)| {
        let mut text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        if !ended {
            text = text.trim_end_matches(['\r', '\n']).to_owned();
        }
        text
    })
}

fn diff(old: &str, new: &str, context: usize) -> String {
    let diff = TextDiff::from_lines(old, new);
    diff.unified_diff()
        .context_radius(context)
        .header("a/file", "b/file")
        .to_string()
}

proptest! {
    #[test]
    fn a_true_diff_always_gives_its_target((old, new, context) in (text(), text(), 1_usize..4)) {
        let patch = diff(&old, &new, context);
        if patch.is_empty() {
            prop_assert_eq!(old, new);
        } else {
            prop_assert_eq!(apply(&old, &patch).map(|patched| patched.text), Ok(new), "{}", patch);
        }
    }

    #[test]
    fn a_true_diff_gives_its_target_below_lines_it_does_not_know(
        (old, new, above) in (text(), text(), 1_usize..5)
    ) {
        let patch = diff(&old, &new, 3);
        let above = "something else\n".repeat(above);
        prop_assume!(!patch.is_empty() && !old.is_empty());
        // Ambiguity may be refused; what is applied must be right.
        if let Ok(patched) = apply(&format!("{above}{old}"), &patch) {
            let elsewhere = patched.hunks.iter().any(|hunk| hunk.moved_lines != above.lines().count() as i64);
            prop_assert!(elsewhere || patched.text == format!("{above}{new}"), "{}\n{:?}", patch, patched);
        }
    }

    #[test]
    fn nothing_panics(old in "[ab\n\r]{0,20}", patch in "(@@ -[0-9]{1,2}(,[0-9])? \\+[0-9] @@\n)?[-+ @a-b\n\r\\\\]{0,40}") {
        let _ = apply(&old, &patch);
    }
}
