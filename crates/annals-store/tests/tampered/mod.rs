//! The corpus of tampered exports: none of them changes anything but what an importing person agreed to, and each of them
//! would be taken at its word by a reader that trusts the file.

mod mechanisms;

use annals_core::block::Blob;
use annals_core::ids::Scope;
use annals_store::testing::{after, conversation, new_conversation, owner, varied_blocks};
use annals_store::{BlockLog, Operator, export_conversation};
use serde_json::Value;
use std::time::Duration;

use super::{Side, copy, import, is_untouched, side};
use mechanisms::{Expected, GONE, Mechanism, Tamper};

/// A whole export of a small conversation, as its lines before the last one, and that one.
async fn original() -> (Vec<Value>, Value) {
    let source = side();
    source.artifacts.put(&b"\x89PNG"[..]).await.unwrap();
    source.artifacts.put(&b"whole"[..]).await.unwrap();
    source
        .log
        .create(new_conversation("c").title("A title"))
        .await
        .unwrap();
    let lease = source
        .log
        .acquire(&conversation("c"), &owner("a"), Duration::from_secs(9))
        .await
        .unwrap();
    source
        .log
        .append(&lease, after(None, varied_blocks()))
        .await
        .unwrap();
    let mut file = Vec::new();
    export_conversation(&source.log, &source.artifacts, &conversation("c"), &mut file)
        .await
        .unwrap();
    let mut lines: Vec<Value> = std::str::from_utf8(&file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let end = lines.pop().unwrap();
    (lines, end)
}

fn text_of(lines: &[Value]) -> String {
    lines.iter().map(|line| written(line) + "\n").collect()
}

/// A line as the program writes it: what tells its kind comes first.
fn written(line: &Value) -> String {
    const FIRST: [&str; 4] = ["annals_export", "artifact", "seq", "end"];
    let Value::Object(fields) = line else {
        return line.to_string();
    };
    let rank = |name: &str| {
        FIRST
            .iter()
            .position(|first| *first == name)
            .unwrap_or(FIRST.len())
    };
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| rank(name));
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// The lines with a last one that fits them.
fn sealed(body: &[u8], end: &Value) -> Vec<u8> {
    let mut end = end.clone();
    end["end"]["sha256"] = Value::from(Blob::of(body).digest.to_string());
    [body, written(&end).as_bytes(), b"\n"].concat()
}

fn put(within: &mut Value, at: &str, value: &str) {
    let (parent, name) = at.rsplit_once('/').unwrap();
    let parent = within.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        GONE => drop(parent.remove(name).expect("what is taken away was there")),
        value => drop(parent.insert(name.to_owned(), serde_json::from_str(value).unwrap())),
    }
}

fn line_called<'l>(lines: &'l mut [Value], called: &str) -> &'l mut Value {
    let is_called = |line: &Value| match called.strip_prefix("block ") {
        Some(number) => line["seq"].as_u64() == number.parse().ok(),
        None if called == "piece" => line["artifact"].is_string(),
        None => line["annals_export"].is_number(),
    };
    lines.iter_mut().find(|line| is_called(line)).unwrap()
}

fn tampered(mechanism: &Mechanism, lines: &[Value], end: &Value) -> Vec<u8> {
    let (mut lines, mut end) = (lines.to_vec(), end.clone());
    match mechanism.tamper {
        Tamper::Value(line, at, value) => {
            put(line_called(&mut lines, line), at, value);
            sealed(text_of(&lines).as_bytes(), &end)
        }
        Tamper::Lines(change) => {
            change(&mut lines);
            sealed(text_of(&lines).as_bytes(), &end)
        }
        Tamper::Text(change) => sealed(&change(&text_of(&lines)), &end),
        Tamper::Bytes(change) => change(sealed(text_of(&lines).as_bytes(), &end)),
        Tamper::End(at, value) => {
            put(&mut end, &format!("/end{at}"), value);
            [text_of(&lines), written(&end), "\n".to_owned()]
                .concat()
                .into_bytes()
        }
    }
}

/// What a reader makes of a file that believes every line it can read, and asks for nothing else.
fn believed(file: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(file);
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[test]
fn the_corpus_is_listed_and_its_mechanisms_are_distinct() {
    annals_requirements::assert_listed("imports", 200, mechanisms::all().into_iter().map(|one| one.name));
}

#[tokio::test]
async fn the_export_that_is_tampered_with_can_be_imported() {
    let (lines, end) = original().await;
    import(&side(), &sealed(text_of(&lines).as_bytes(), &end))
        .await
        .unwrap();
}

#[tokio::test]
async fn every_tampered_export_would_be_believed_by_a_reader_that_trusts() {
    let (lines, end) = original().await;
    let whole = believed(&sealed(text_of(&lines).as_bytes(), &end));
    for mechanism in mechanisms::all() {
        let file = tampered(&mechanism, &lines, &end);
        assert!(believed(&file) != whole, "{} changes nothing", mechanism.name);
    }
}

#[tokio::test]
async fn no_tampered_export_is_taken_at_its_word() {
    let (lines, end) = original().await;
    let mut wrong = Vec::new();
    for mechanism in mechanisms::all() {
        let target = side();
        let outcome = import(&target, &tampered(&mechanism, &lines, &end)).await;
        let is_right = match mechanism.expected {
            Expected::Refused => outcome.is_err() && is_untouched(&target).await,
            Expected::Contained => outcome.is_ok() && is_contained(&target).await,
        };
        if !is_right {
            wrong.push(format!("{}: {outcome:?}", mechanism.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The conversation is where the importing side put it and nowhere else, with the import as its only ancestor.
async fn is_contained(side: &Side) -> bool {
    let info = side.log.get(&copy()).await.unwrap();
    let held = async |scope: &Scope| side.log.list(scope, None, 10).await.unwrap().items.len();
    let claimed = Scope::parse("other/project/admin").unwrap();
    info.lineage.len() == 1
        && info.lineage[0].operator == Operator::Import
        && held(&copy().scope).await == 1
        && held(&claimed).await == 0
        && held(&conversation("c").scope).await == 0
}
