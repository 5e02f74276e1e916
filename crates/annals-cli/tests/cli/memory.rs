//! `memory search`, `memory reindex`, and what a deleted conversation leaves.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::annals::{Annals, Ran, filters};

/// A home with two conversations.
fn remembering() -> Annals {
    let annals = Annals::new();
    let file = annals.file("rates.csv", "route,price\nlisbon-porto,34\nporto-faro,51\n");
    for (conversation, turn, prompt, reply) in [
        (
            "trip",
            "turn_1",
            "Book the train from Lisbon to Porto",
            "Booked: it leaves at 08:09 and costs 34 euros.",
        ),
        (
            "garden",
            "turn_2",
            "When do I plant tomatoes?",
            "In the middle of May, after the last frost.",
        ),
    ] {
        let model = annals.script(&json!({"steps": [{"text": reply}]}));
        let mut args = vec![
            "run",
            prompt,
            "--model",
            &model,
            "--conversation",
            conversation,
            "--turn-id",
            turn,
        ];
        if conversation == "trip" {
            args.extend(["--attach", file.to_str().unwrap()]);
        }
        annals.run(&args).good();
    }
    annals
}

#[test]
fn passages_are_shown_with_their_paths_the_best_first() {
    let annals = remembering();
    let ran = annals.run(&["memory", "search", "ticket from Lisbon", "--top-k", "2"]);
    let mut filters = filters();
    filters.add_filter(r"(?m)^0\.\d\d  ", "[SCORE]  ");
    filters.bind(|| {
        insta::assert_snapshot!(ran.shown(), @r"
        exit 0
        --- stdout
        [SCORE]  ar:turn_1.user.prompt  user  trip  [TIME]
            Book the train from Lisbon to Porto
        [SCORE]  fi:turn_1.user.attachments/rates.csv  attachment  trip  [TIME]
            route,price lisbon-porto,34 porto-faro,51
        --- stderr
        ");
    });
    let rows = annals
        .run(&[
            "memory",
            "search",
            "when is it warm enough for vegetables",
            "--conversation",
            "garden",
            "--json",
        ])
        .good()
        .json();
    assert_eq!(rows[1]["path"], "ar:turn_2.assistant.completion", "{rows}");
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["conversation", "turn_id", "path", "role", "text", "score", "ts"]
    );
}

#[test]
fn targets_and_other_scopes_narrow_what_is_found() {
    let annals = remembering();
    let found = |more: &[&str]| {
        let mut args = vec!["memory", "search", "porto", "--json"];
        args.extend(more);
        let rows = annals.run(&args).good().json();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["role"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&["--target", "attachment"]), ["attachment"]);
    assert!(found(&["--target", "attachment", "--target", "user"]).contains(&"user".to_owned()));
    assert!(found(&["--scope", "local/default/somebody"]).is_empty());
    let nothing = annals.run(&["memory", "search", "porto", "--scope", "local/default/somebody"]);
    assert!(nothing.good().stderr.contains("nothing was found"));
}

/// What a search finds, to compare it with what another finds.
fn tomatoes(annals: &Annals) -> serde_json::Value {
    annals
        .run(&["memory", "search", "tomatoes", "--json"])
        .good()
        .json()
}

#[test]
fn a_reindex_finds_the_same_again() {
    let annals = remembering();
    let search = || tomatoes(&annals);
    let before = search();
    let ran = annals.run(&["memory", "reindex"]);
    filters().bind(|| {
        insta::assert_snapshot!(ran.shown(), @r"
        exit 0
        --- stdout
        14 blocks indexed with static:all-MiniLM-L6-v2:model2vec:256:1
        --- stderr
        ");
    });
    assert_eq!(search(), before);
}

#[test]
fn a_deleted_conversation_is_forgotten() {
    let annals = remembering();
    annals.run(&["conversations", "delete", "garden"]).good();
    let rows = annals
        .run(&["memory", "search", "tomatoes", "--json"])
        .good()
        .json();
    assert!(!rows.to_string().contains("tomatoes"), "{rows}");
    assert_eq!(annals.run(&["conversations", "delete", "garden"]).code, 2);
    assert_eq!(
        annals
            .run(&["conversations", "delete", "trip", "--scope", "a/b/c"])
            .code,
        2
    );
    assert_eq!(
        annals
            .run(&["conversations", "--json"])
            .good()
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn what_cannot_be_searched_is_refused_in_one_sentence() {
    let annals = remembering();
    let shown = [
        annals.run(&["memory", "search", " "]),
        annals.run(&["memory", "search", "x", "--conversation", "none"]),
        annals.run(&["memory", "search", "x", "--top-k", "0"]),
        annals.run(&["memory", "search", "x", "--conversation", "trip", "--all"]),
        annals.run(&[
            "memory",
            "search",
            "x",
            "--config",
            annals
                .file("bad.toml", "embeddings = 'anthropic:x'")
                .to_str()
                .unwrap(),
        ]),
    ]
    .map(|ran| format!("{} {}", ran.code, ran.stderr.lines().next().unwrap_or_default()));
    insta::assert_snapshot!(shown.join("\n"), @r"
    2 error: the query has no words: say what to look for
    2 error: conversation `none` does not exist: see `annals conversations`
    2 error: invalid value '0' for '--top-k <N>': 0 is not in 1..=65535
    2 error: the argument '--conversation <C>' cannot be used with '--all'
    2 error: `anthropic:x` names no embedder: use `built-in`, `openai:NAME` or `ollama:NAME`
    ");
}

#[test]
fn an_embeddings_endpoint_that_is_away_leaves_the_words() {
    let annals = remembering();
    let away = |args: &[&str]| {
        let mut command = annals.command(args);
        command
            .env("ANNALS_EMBEDDINGS", "openai:embed")
            .env("ANNALS_EMBEDDINGS_URL", "http://127.0.0.1:9/v1");
        Ran::of(command.output().unwrap())
    };
    let ran = away(&["memory", "search", "tomatoes", "--json"]).good();
    assert!(
        ran.stdout.contains("tomatoes") && ran.stderr.contains("searched by words only"),
        "{}",
        ran.shown()
    );
    let ran = away(&["memory", "reindex"]);
    assert_eq!(ran.code, 3, "{}", ran.shown());
    assert!(
        away(&["doctor"])
            .stdout
            .contains("openai:embed@http://127.0.0.1:9/v1")
    );
}

/// What Ctrl-C does on a terminal.
fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn an_interrupted_reindex_leaves_an_index_that_the_next_search_or_reindex_completes() {
    let annals = remembering();
    let search = || tomatoes(&annals);
    let before = search();

    // An endpoint that never answers: the words are in the index, the vectors will never be.
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", endpoint.local_addr().unwrap());
    let away = |args: &[&str]| {
        let mut command = annals.command(args);
        command
            .env("ANNALS_EMBEDDINGS", "openai:embed")
            .env("ANNALS_EMBEDDINGS_URL", &url)
            .env("OPENAI_API_KEY", "none");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let child = away(&["memory", "reindex"]).spawn().unwrap();
    let (asked, _) = endpoint.accept().unwrap();
    assert!(
        BufReader::new(&asked)
            .lines()
            .next()
            .unwrap()
            .unwrap()
            .starts_with("POST /v1/embeddings")
    );
    interrupt(&child);
    let ran = Ran::of(child.wait_with_output().unwrap());
    insta::assert_snapshot!(ran.shown(), @r"
    exit 1
    --- stdout
    --- stderr
    stopped after 0 of 5 vectors: the rest is added when it is searched, or by `annals memory reindex`
    ");
    drop((asked, endpoint));
    let ran = Ran::of(
        away(&["memory", "search", "tomatoes", "--json"])
            .output()
            .unwrap(),
    )
    .good();
    assert!(ran.stdout.contains("tomatoes"), "{}", ran.shown());

    annals.run(&["memory", "reindex"]).good();
    assert_eq!(search(), before);

    // At any other moment: before anything was rebuilt, between two steps, or when all is done.
    for _ in 0..3 {
        let child = annals.spawn(&["memory", "reindex"]);
        interrupt(&child);
        child.wait_with_output().unwrap();
        assert_eq!(search(), before);
    }
}

/// Makes every file below a folder a week old; gives how many there are.
fn age(folder: &std::path::Path) -> u64 {
    let week = std::time::Duration::from_secs(7 * 24 * 3_600);
    let mut aged = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            aged += age(&path);
            continue;
        }
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - week).unwrap();
        aged += 1;
    }
    aged
}

#[test]
fn files_that_no_conversation_names_any_more_are_removed_once_they_are_old() {
    let annals = remembering();
    let collect = |more: &[&str]| {
        let ran = annals.run(&[&["store", "gc", "--json"][..], more].concat());
        let told = ran.good().json();
        (told["removed"].as_u64(), told["seen"].as_u64())
    };
    let kept = annals.in_home("artifacts/sha256");
    let all = age(&kept);
    assert_eq!(collect(&[]), (Some(0), Some(all)), "conversations name them");
    annals.run(&["conversations", "delete", "trip"]).good();
    let (counted, seen) = collect(&["--dry-run"]);
    assert!(counted > Some(0) && counted < seen, "{counted:?} of {seen:?}");
    assert_eq!(
        collect(&["--older-than", "8d"]),
        (Some(0), Some(all)),
        "they are young"
    );
    assert_eq!(collect(&[]), (counted, Some(all)));
    assert_eq!(age(&kept), all - counted.unwrap());
    assert_eq!(tomatoes(&annals)[0]["conversation"], "garden");
}
