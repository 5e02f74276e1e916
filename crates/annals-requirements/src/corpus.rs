//! The published lists of the hostile corpora in `docs/corpora`: the test that owns a corpus compares it with its list.

use std::collections::BTreeSet;
use std::path::Path;

/// Writes the list instead of comparing, when it is set.
const WRITE: &str = "ANNALS_LIST_CORPORA";

/// Fails unless `docs/corpora/<corpus>.txt` lists exactly these mechanisms, each once and at least `at_least` of them.
///
/// # Panics
/// When the list is another one, or a mechanism is named twice.
#[track_caller]
pub fn assert_listed(corpus: &str, at_least: usize, mechanisms: impl IntoIterator<Item = String>) {
    let mechanisms: Vec<String> = mechanisms.into_iter().collect();
    let distinct: BTreeSet<&String> = mechanisms.iter().collect();
    assert_eq!(
        distinct.len(),
        mechanisms.len(),
        "`{corpus}` names a mechanism twice"
    );
    assert!(
        mechanisms.len() >= at_least,
        "`{corpus}` has {} mechanisms, fewer than {at_least}",
        mechanisms.len()
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/corpora")
        .join(format!("{corpus}.txt"));
    let list = mechanisms.join("\n") + "\n";
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &list).expect("the list can be written");
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == list,
        "`docs/corpora/{corpus}.txt` is not the list of this corpus: run its test once with {WRITE}=1"
    );
}
