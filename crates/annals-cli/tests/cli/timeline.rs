//! `conversations`, `timeline` and `feedback`.

use serde_json::{Value, json};

use super::annals::{Annals, filters, types};

/// A conversation of two turns, the first with a file.
fn talked() -> Annals {
    let annals = Annals::new();
    let write = json!({"path": "report.md", "channel": "canvas", "content": "# Report\n\nAll is well.\n", "kind": "file"});
    for (turn, steps) in [
        (
            "turn_1",
            json!([{"text": "Writing.", "tool_calls": [{"id": "tc_1", "tool": "react.write", "params": write}]}, {"text": "It is written."}]),
        ),
        (
            "turn_2",
            json!([{"expect": ["It is written."], "text": "Yes [[S:1]]."}]),
        ),
    ] {
        let model = annals.script(&json!({"steps": steps}));
        annals
            .run(&[
                "run",
                "Report, please",
                "--model",
                &model,
                "--conversation",
                "c1",
                "--turn-id",
                turn,
            ])
            .good();
    }
    annals
}

#[test]
fn a_timeline_is_shown_as_a_tree_of_turns_and_rounds() {
    let ran = talked().run(&["timeline", "show", "c1"]).good();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let has = |start: &str, text: &str| {
        lines
            .iter()
            .any(|line| line.starts_with(start) && line.contains(text))
    };
    assert!(has("c1", "2 turns"), "{}", ran.stdout);
    assert!(
        has("● turn_1", "complete") && has("● turn_2", "complete"),
        "{}",
        ran.stdout
    );
    assert!(has("├─ react.write tc_1 ✓", "tok"), "{}", ran.stdout);
    assert!(
        has("│  ├─", "react.tool.call") && has("│  └─", "react.tool.result"),
        "{}",
        ran.stdout
    );
    assert!(has("└─", "react.completion"), "{}", ran.stdout);
}

#[test]
fn blocks_can_be_sliced_by_turn_and_by_moment() {
    let annals = talked();
    let all = annals.run(&["timeline", "blocks", "c1"]).good().json_lines();
    let second = annals
        .run(&["timeline", "blocks", "c1", "--turn", "turn_2"])
        .good()
        .json_lines();
    assert!(second.iter().all(|block| block["turn_id"] == "turn_2"));
    let early = annals
        .run(&["timeline", "blocks", "c1", "--at", "3"])
        .good()
        .json_lines();
    assert_eq!(early, all[..3]);
    insta::assert_snapshot!(types(&second), @r"
    turn.header
    user.prompt
    agent.log.header
    assistant.completion
    react.completion
    ");
}

#[test]
fn the_view_is_rendered_with_its_cache_points_and_again_the_same() {
    let annals = talked();
    let ran = annals.run(&["timeline", "render", "c1"]).good();
    let view = &ran.stdout;
    let places: Vec<usize> = [
        "[TURN turn_1]",
        "[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\nReport, please",
        "[AI Agent say]: Writing.",
        "[TOOL CALL tc_1].call react.write",
        "[TOOL RESULT tc_1].summary react.write",
        "[ASSISTANT MESSAGE]",
        "\n=>[1]\n",
        "[TURN turn_2]",
        "\n=>[3]\n",
        "[SOURCES POOL]",
        "[ANNOUNCE]",
    ]
    .map(|text| {
        view.find(text)
            .unwrap_or_else(|| panic!("`{text}` is not in:\n{view}"))
    })
    .into();
    assert!(places.is_sorted(), "{view}");
    assert_eq!(
        annals.run(&["timeline", "render", "c1"]).good().stdout,
        ran.stdout
    );
}

#[test]
fn the_view_as_json_has_the_parts_of_the_text() {
    let annals = talked();
    let text = annals.run(&["timeline", "render", "c1"]).good().stdout;
    let json = annals.run(&["timeline", "render", "c1", "--json"]).good().json();
    let names: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(names, ["system", "parts", "cache_points", "tokens", "tools"]);
    for part in json["parts"].as_array().unwrap() {
        assert_eq!(part["type"], "text");
        assert!(text.contains(part["text"].as_str().unwrap()));
        assert!(part.get("block_seq").is_some() && part["tokens"].is_u64());
    }
    let marked: Vec<u64> = json["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part["cache_point"].as_u64())
        .collect();
    assert!(marked.contains(&1) && marked.contains(&3), "{marked:?}");
}

#[test]
fn what_was_rendered_up_to_the_tail_point_stays_a_prefix() {
    let annals = talked();
    let last = annals
        .run(&["timeline", "blocks", "c1"])
        .good()
        .json_lines()
        .len();
    let whole = annals
        .run(&["timeline", "render", "c1"])
        .good()
        .stdout
        .replace("\n=>[1]", "")
        .replace("\n=>[2]", "")
        .replace("\n=>[3]", "");
    for at in 1..=last {
        let view = annals
            .run(&["timeline", "render", "c1", "--at", &at.to_string()])
            .good()
            .stdout;
        let Some((prefix, _)) = view.rsplit_once("\n=>[3]") else {
            continue;
        };
        let prefix = prefix.replace("\n=>[1]", "").replace("\n=>[2]", "");
        assert!(whole.starts_with(&prefix), "at {at}");
    }
}

#[test]
fn a_fork_shares_the_history_up_to_its_cut_and_goes_its_own_way() {
    let annals = talked();
    let fork = annals
        .run(&["timeline", "fork", "c1", "--at", "4"])
        .good()
        .stdout
        .trim()
        .to_owned();
    let of = |id: &str| annals.run(&["timeline", "blocks", id]).good().stdout;
    assert_eq!(
        of(&fork).lines().collect::<Vec<_>>(),
        of("c1").lines().take(4).collect::<Vec<_>>()
    );
    assert_eq!(
        lineage(&annals, &fork),
        json!([{"parent": "c1", "at": 4, "operator": "fork"}])
    );
}

/// Where a conversation came from, as the list of all says.
fn lineage(annals: &Annals, id: &str) -> Value {
    let rows = annals.run(&["conversations", "--json"]).good().json();
    let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id);
    row.unwrap()["lineage"].clone()
}

#[test]
fn a_fork_at_0_is_another_beginning_of_the_same_conversation() {
    let annals = talked();
    let forked = annals.run(&["timeline", "fork", "c1", "--at", "0"]).good().stdout;
    let fork = forked.trim();
    assert_eq!(annals.run(&["timeline", "blocks", fork]).good().stdout, "");
    assert_eq!(
        lineage(&annals, fork),
        json!([{"parent": "c1", "operator": "fork"}])
    );
}

#[test]
fn an_export_read_in_another_home_is_the_same_conversation() {
    let annals = talked();
    let file = annals.path().join("c1.jsonl");
    let file = file.to_str().unwrap();
    annals.run(&["timeline", "export", "c1", "-o", file]).good();
    let other = Annals::new();
    assert_eq!(other.run(&["timeline", "import", file]).good().stdout, "c1\n");
    let of = |annals: &Annals| annals.run(&["timeline", "blocks", "c1"]).good().stdout;
    assert_eq!(of(&annals), of(&other));
    let read = other.run(&["read", "c1", "fi:turn_1.files/report.md"]).good();
    assert_eq!(read.stdout, "# Report\n\nAll is well.\n");
}

#[test]
fn feedback_is_on_the_timeline_and_the_model_sees_it() {
    let annals = talked();
    annals
        .run(&[
            "feedback",
            "c1",
            "turn_1",
            "--reaction",
            "down",
            "--text",
            "too short",
        ])
        .good();
    let blocks = annals.run(&["timeline", "blocks", "c1"]).good().json_lines();
    let last = blocks.last().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["path"].as_str()),
        (Some("stage.feedback"), Some("ar:turn_1.stage.feedback"))
    );
    assert_eq!(last["text"], r#"{"reaction":"down","text":"too short"}"#);
    assert!(
        annals
            .run(&["timeline", "render", "c1"])
            .good()
            .stdout
            .contains("too short")
    );
}

#[test]
fn conversations_are_listed_newest_first_and_only_of_the_own_scope() {
    let annals = talked();
    let model = annals.script(&json!({"steps": [{"text": "ok"}]}));
    annals.run(&["run", "Another thing", "--model", &model]).good();
    let ids = |args: &[&str]| {
        annals
            .run(args)
            .good()
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mine = ids(&["conversations", "--json"]);
    assert_eq!((mine.len(), mine[1].as_str()), (2, "c1"));
    assert!(ids(&["conversations", "--json", "--scope", "a/b/c"]).is_empty());
    let theirs = annals.run(&["timeline", "show", "c1", "--scope", "a/b/c"]);
    assert_eq!(theirs.code, 2, "{}", theirs.shown());
    let shown = annals.run(&["conversations"]).good().stdout;
    filters().bind(|| {
        insta::assert_snapshot!(shown, @r"
    [CONV]  [TIME]  6 blocks  Another thing
    c1  [TIME]  15 blocks
    ")
    });
}

#[test]
fn a_file_is_written_where_it_is_asked_for() {
    let annals = talked();
    let out = annals.path().join("out.md");
    annals
        .run(&[
            "read",
            "c1",
            "fi:turn_1.files/report.md",
            "ar:turn_1.assistant.completion",
            "-o",
            out.to_str().unwrap(),
        ])
        .good();
    assert_eq!(
        std::fs::read_to_string(out).unwrap(),
        "# Report\n\nAll is well.\nIt is written."
    );
}

#[test]
fn what_a_broken_prefix_cost_is_told_in_money() {
    let annals = Annals::new();
    let write = |id: &str| {
        json!({"tool_calls": [{"id": id, "tool": "react.write", "params": {"path": format!("{id}.md"),
            "channel": "canvas", "content": "words to read again ".repeat(60), "kind": "file"}}],
            "usage": {"input_tokens": 4_000, "cache_read_tokens": 3_000, "cache_write_tokens": 900, "output_tokens": 100}})
    };
    let hide = json!({"tool_calls": [{"id": "h", "tool": "react.hide", "params": {
        "path": "fi:turn_1.files/d.md", "replacement": "the words"}}],
        "usage": {"input_tokens": 5_000, "output_tokens": 10}});
    let answer = json!({"text": "Hidden.", "usage": {"input_tokens": 5_000, "output_tokens": 10}});
    let mut steps: Vec<serde_json::Value> = ["a", "b", "c", "d", "e"].map(write).into();
    steps.extend([hide, answer]);
    let model = annals.script(&json!({ "steps": steps }));
    annals
        .run(&[
            "run",
            "Go",
            "--model",
            &model,
            "--conversation",
            "c1",
            "--turn-id",
            "turn_1",
        ])
        .good();
    let why = ["timeline", "render", "c1", "--why"];
    let unpriced = annals.run(&why).good().stdout;
    assert!(
        unpriced.ends_with("no price is known of the model: name one in `catalog.toml`\n"),
        "{unpriced}"
    );

    annals.price_scripts();
    let reports = annals.run(&[&why[..], &["--json"]].concat()).good().json();
    let last = &reports[6];
    let again = last["broke"]["again_tokens"].as_u64().unwrap();
    assert!(again > 400, "the file behind it is read again: {last}");
    assert_eq!(last["break_cost_nanousd"], again * (3_750 - 300));
    assert_eq!(last["cost_nanousd"], 5_000 * 3_000 + 10 * 15_000);
    let told = annals.run(&why).good().stdout;
    let tail: Vec<&str> = told.lines().skip(4).collect();
    insta::with_settings!({filters => vec![
        (r"\d+ tokens kept, \d+ new", "[N] tokens kept, [N] new"),
        (r"byte \d+", "byte [N]"),
        (r"\d+ tokens were cached in vain, \d+ of", "[N] tokens were cached in vain, [N] of"),
        (r"cost \$0\.00\d+ more", "cost $[N] more"),
        (r"of which \$0\.00\d+", "of which $[N]"),
    ]}, { insta::assert_snapshot!(tail.join("\n"), @r"
    turn_1 step 5 after block 16: [N] tokens kept, [N] new; the provider counted 4000 in, 3000 of them from its cache; $0.006075
    turn_1 step 6 after block 19: [N] tokens kept, [N] new; the provider counted 5000 in, 0 of them from its cache; $0.015150
    turn_1 step 7 after block 22: [N] tokens kept, [N] new; the provider counted 5000 in, 0 of them from its cache; $0.015150
      broke at byte [N] in block 14: block 22 hid it, as the model asked; [N] tokens were cached in vain, [N] of them were read again, which cost $[N] more than the cache
    7 of 7 requests cost $0.060675, of which $[N] for a prefix that broke
    ") });
}

#[test]
fn a_prefix_that_another_offer_broke_names_what_changed() {
    let annals = Annals::new();
    let turn = |id: &str| {
        let model = annals.script(&json!({"steps": [{"text": "Understood, and kept in mind."}]}));
        let args = [
            "run",
            "Go",
            "--model",
            &model,
            "--conversation",
            "c1",
            "--turn-id",
            id,
        ];
        annals.run(&args).good();
    };
    turn("turn_1");
    let skill = annals.in_home("skills").join("charts/SKILL.md");
    std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
    std::fs::write(
        &skill,
        "---\nname: charts\ndescription: How to draw\n---\nDraw.\n",
    )
    .unwrap();
    turn("turn_2");
    turn("turn_3");
    let reports = annals
        .run(&["timeline", "render", "c1", "--why", "--json"])
        .good()
        .json();
    let broke = &reports[1]["broke"];
    assert_eq!(
        (&broke["byte"], &broke["cause"]["cause"]),
        (&json!(0), &json!("offer")),
        "{broke}"
    );
    assert_eq!(broke["cause"]["system"], true, "{broke}");
    assert!(broke["again_tokens"].as_u64().unwrap() > 0, "{broke}");
    assert!(reports[2]["broke"].is_null(), "{}", reports[2]);
    let told = annals.run(&["timeline", "render", "c1", "--why"]).good().stdout;
    let line = told
        .lines()
        .find(|line| line.contains("broke at byte 0"))
        .unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("changed the system text before it"), "{line}");
}

#[test]
fn a_prefix_that_another_layout_broke_says_so_and_later_ones_are_kept() {
    let annals = Annals::new();
    for (turn, layout) in [("turn_1", "chat"), ("turn_2", "timeline"), ("turn_3", "timeline")] {
        let model = annals.script(&json!({"steps": [{"text": "Understood, and kept in mind."}]}));
        let args = [
            "--layout",
            layout,
            "run",
            "Go",
            "--model",
            &model,
            "--conversation",
            "c1",
            "--turn-id",
            turn,
        ];
        annals.run(&args).good();
    }
    let reports = annals
        .run(&["timeline", "render", "c1", "--why", "--json"])
        .good()
        .json();
    let causes: Vec<&Value> = (0..3).map(|at| &reports[at]["broke"]["cause"]).collect();
    let relaid = json!({"cause": "layout", "layout": "timeline"});
    assert_eq!(causes, [&Value::Null, &relaid, &Value::Null], "{reports}");
    let told = annals.run(&["timeline", "render", "c1", "--why"]).good().stdout;
    assert!(told.contains("laid out as `timeline`"), "{told}");
}
