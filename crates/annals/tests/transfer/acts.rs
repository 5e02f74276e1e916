//! What happens in a generated conversation: every tool is called, and whatever else writes blocks takes place.

use std::io::Write as _;

use annals::core::block::payload::{ChildResult, Decision, TurnEnd};
use annals::core::block::{BlockKind, MessageKind, NewBlock};
use annals::core::ids::{CallId, ConversationId, TurnId};
use annals::core::path::LogicalPath;
use annals::core::turn::opening;
use serde_json::{Value, json};

/// More than one piece of an export.
const LARGE_BYTES: usize = 1_200_000;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// The model calls a tool.
    Call(String),
    /// A person calls a tool.
    PersonCalls(String),
    /// A prompt comes with files of every sort.
    Attach,
    /// A prompt comes with a client's instructions.
    Instruct,
    /// A person says something while a tool runs.
    Steer,
    /// A call needs permission.
    Permit(Decision),
    /// A call needs an answer from a person or a client.
    Answer(String),
    /// The model asks, and the next prompt answers.
    Clarify,
    /// The model's call cannot be read.
    Misspell,
    /// A plan is made and a step of it done.
    Plan,
    /// A host adds blocks of its own.
    Contribute,
}

impl Act {
    /// How a conversation comes to call this tool; a tool that nobody thought of here fails the test.
    fn of_tool(name: &str) -> Vec<Act> {
        match name {
            "wait" => vec![Act::Steer],
            "send" => vec![Act::Permit(Decision::Once), Act::Permit(Decision::Deny)],
            "book" | "get_time" => vec![Act::Answer(name.to_owned())],
            "react.clarify" => vec![Act::Clarify],
            "react.plan" => vec![Act::Plan],
            "exec_tools.execute_code_bash" | "react.write" => {
                vec![Act::Call(name.to_owned()), Act::PersonCalls(name.to_owned())]
            }
            _ => vec![Act::Call(name.to_owned())],
        }
    }

    /// Everything, with these tools.
    pub(crate) fn all(tools: &[String]) -> Vec<Act> {
        let of_tools = tools.iter().flat_map(|name| Act::of_tool(name));
        let others = [Act::Attach, Act::Instruct, Act::Misspell, Act::Contribute];
        of_tools.chain(others).collect()
    }
}

/// Who does something while a turn runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attending {
    Nobody,
    Steers,
    Decides(Decision),
    Responds,
}

/// A turn, and what the model says in it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedTurn {
    pub(crate) id: TurnId,
    pub(crate) prompt: String,
    pub(crate) instructions: Option<String>,
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    pub(crate) attending: Attending,
    pub(crate) steps: Vec<Value>,
}

/// What is done with the conversation, in order.
#[derive(Clone, Debug)]
pub(crate) enum Planned {
    Turn(Box<PlannedTurn>),
    PersonCalls {
        turn: TurnId,
        tool: String,
        params: Value,
    },
    Contribution {
        of_host: Vec<NewBlock>,
        of_program: Vec<NewBlock>,
    },
}

/// Makes turns of acts.
pub(crate) struct Planner<'p> {
    /// Any texts: they become prompts, notes, contents and answers.
    pub(crate) words: &'p [String],
    /// Where the pages are.
    pub(crate) site: &'p str,
    turns: usize,
}

impl<'p> Planner<'p> {
    pub(crate) fn new(words: &'p [String], site: &'p str) -> Self {
        Planner {
            words,
            site,
            turns: 0,
        }
    }

    pub(crate) fn plan(mut self, acts: &[Act]) -> Vec<Planned> {
        let mut planned = vec![self.turn(vec![json!({"text": "The harbour has a budget."})])];
        for act in acts {
            planned.extend(self.act(act));
        }
        planned
    }

    fn said(&self, place: usize) -> &'p str {
        self.words
            .get(place % self.words.len())
            .map_or("", String::as_str)
    }

    fn turn_id(&self) -> TurnId {
        TurnId::parse(&format!("turn_{}", self.turns)).unwrap()
    }

    fn turn(&mut self, steps: Vec<Value>) -> Planned {
        Planned::Turn(Box::new(self.bare_turn(steps)))
    }

    fn bare_turn(&mut self, steps: Vec<Value>) -> PlannedTurn {
        self.turns += 1;
        PlannedTurn {
            id: self.turn_id(),
            prompt: format!(
                "Keep the harbour budget {}: {}",
                self.turns,
                self.said(self.turns)
            ),
            instructions: None,
            files: Vec::new(),
            attending: Attending::Nobody,
            steps,
        }
    }

    /// Thoughts, notes and calls, and then an answer.
    fn calling(&self, calls: &[Value]) -> Vec<Value> {
        let notes = format!("Now {}", self.said(self.turns + 1));
        vec![
            json!({"thinking": self.said(self.turns + 2), "thinking_signature": "c2lnbmVk", "text": notes, "tool_calls": calls}),
            json!({"text": format!("Done: {}", self.said(self.turns + 3))}),
        ]
    }

    fn attended(&mut self, tool: &str, attending: Attending) -> Planned {
        let steps = self.calling(&[json!({"tool": tool, "params": {}})]);
        let mut turn = self.bare_turn(steps);
        turn.attending = attending;
        Planned::Turn(Box::new(turn))
    }

    fn act(&mut self, act: &Act) -> Vec<Planned> {
        match act {
            Act::Call(tool) => {
                // The calls name the turn that they are made in.
                self.turns += 1;
                let calls = self.calls_of(tool);
                self.turns -= 1;
                let steps = self.calling(&calls);
                vec![self.turn(steps)]
            }
            Act::PersonCalls(tool) => {
                self.turns += 1;
                let call = self.calls_of(tool).pop().unwrap();
                let params = call["params"].clone();
                vec![Planned::PersonCalls {
                    turn: self.turn_id(),
                    tool: tool.clone(),
                    params,
                }]
            }
            Act::Attach => {
                let mut turn = self.bare_turn(vec![json!({"text": "Received"})]);
                turn.files = files(self.said(self.turns));
                vec![Planned::Turn(Box::new(turn))]
            }
            Act::Instruct => {
                let mut turn = self.bare_turn(vec![json!({"text": "Understood"})]);
                turn.instructions = Some(format!("Be brief. {}", self.said(self.turns)));
                vec![Planned::Turn(Box::new(turn))]
            }
            Act::Steer => vec![self.attended("wait", Attending::Steers)],
            Act::Permit(decision) => vec![self.attended("send", Attending::Decides(*decision))],
            Act::Answer(tool) => vec![self.attended(tool, Attending::Responds)],
            Act::Clarify => {
                let ask = json!({"tool_calls": [{"tool": "react.clarify", "params": {"questions": ["Which harbour?"]}}]});
                let asked = self.turn(vec![ask]);
                vec![asked, self.turn(vec![json!({"text": "That one"})])]
            }
            Act::Misspell => {
                let steps = vec![
                    json!({"tool_calls": [{"tool": "react.read", "arguments": "{\"paths\": [nonsense"}]}),
                    json!({"text": "Forgive me"}),
                ];
                vec![self.turn(steps)]
            }
            Act::Plan => {
                let plan =
                    json!({"tool": "react.plan", "params": {"mode": "new", "steps": ["Measure", "Write"]}});
                let look = json!({"tool": "list_workspace_files", "params": {}});
                let steps = vec![
                    json!({"text": "Planning", "tool_calls": [plan]}),
                    json!({"text": "✓ [1] Measured", "tool_calls": [look]}),
                    json!({"text": "✓ [2] Written"}),
                ];
                vec![self.turn(steps)]
            }
            Act::Contribute => vec![self.contribution()],
        }
    }

    fn contribution(&self) -> Planned {
        let turn = self.turn_id();
        let stage = |kind: BlockKind| {
            let name = kind.tag().trim_start_matches("stage.").to_owned();
            let path = LogicalPath::stage(&turn, &name).unwrap();
            NewBlock::new(kind, &turn, path).json(&json!({"said": self.said(3)}))
        };
        let message = MessageKind::CacheTtlPruned;
        let own = LogicalPath::stage(&turn, "acme.score").unwrap();
        let of_host = vec![
            stage(BlockKind::StageGate),
            stage(BlockKind::StageCoordinator),
            stage(BlockKind::StageFeedback),
            stage(BlockKind::StageSuggestedFollowups),
            opening::system_message(&turn, &message, self.said(1)).unwrap(),
            NewBlock::new(BlockKind::from_tag("x.acme.score"), &turn, own).text("text/plain", self.said(2)),
        ];
        let child = ChildResult {
            call_id: CallId::parse("delegated").unwrap(),
            conversation_id: ConversationId::parse("child").unwrap(),
            outcome: TurnEnd::Complete,
            answer: self.said(2).to_owned(),
            files: Vec::new(),
        };
        Planned::Contribution {
            of_host,
            of_program: vec![child.block(&turn)],
        }
    }

    /// The calls of an answer that uses this tool with success.
    fn calls_of(&self, tool: &str) -> Vec<Value> {
        let (turn, words, site) = (self.turn_id(), self.said(self.turns), self.site);
        let call = |params: Value| json!({"tool": tool, "params": params});
        let write = |params: Value| json!({"tool": "react.write", "params": params});
        let document = |path: &str| {
            let content = format!("# Harbour\n\nIts budget, [[S:1]].\n\n{words}\n");
            call(json!({"path": path, "content": content, "format": "markdown", "title": "Harbour"}))
        };
        let executed = |code: String| {
            call(json!({"code": code, "contract": [{"filename": "made.txt", "description": "made"}]}))
        };
        let place = format!("{turn}/files/made.txt");
        let text = Value::from(words).to_string();
        match tool {
            "react.write" => vec![
                call(
                    json!({"path": "notes.md", "channel": "canvas", "content": format!("The harbour: {words}"), "kind": "display"}),
                ),
                call(
                    json!({"path": "inner.md", "channel": "internal", "content": format!("[F] {words} is so"), "kind": "display"}),
                ),
            ],
            "react.stream" => vec![call(
                json!({"path": "stream.md", "channel": "timeline_text", "content": words, "kind": "file"}),
            )],
            "react.file" => vec![call(
                json!({"path": "large.txt", "content": "a line of the log\n".repeat(LARGE_BYTES / 18)}),
            )],
            "react.patch" => vec![
                write(
                    json!({"path": "p.md", "channel": "canvas", "content": "one\ntwo\n", "kind": "display"}),
                ),
                call(
                    json!({"path": "p.md", "channel": "canvas", "patch": "@@ -1,2 +1,2 @@\n one\n-two\n+three\n"}),
                ),
            ],
            "react.read" => vec![call(
                json!({"paths": ["ar:turn_1.user.prompt", "sk:press", "so:sources_pool[1]", "fi:turn_1.files/none.md"]}),
            )],
            "react.hide" => vec![call(
                json!({"path": "ar:turn_1.user.prompt", "replacement": "seen"}),
            )],
            "react.memory_hide" => vec![call(
                json!({"path": "ar:turn_1.assistant.completion", "replacement_text": "seen"}),
            )],
            "react.search_files" => vec![call(json!({"name_regex": "md$", "content_regex": "harbour"}))],
            "react.memsearch" => vec![call(json!({"query": "harbour budget"}))],
            "run_shell_command" => vec![call(json!({"command": "seq 1 20000; echo made > shell.txt"}))],
            "write_workspace_file" => vec![call(json!({"path": "work.txt", "content": words}))],
            "read_workspace_file" | "workspace_path_exists" => vec![call(json!({"path": "work.txt"}))],
            "list_workspace_files" | "srv.work" | "agrees" | "refuses" => vec![call(json!({}))],
            "run_code" => vec![call(json!({"code": "echo ran", "language": "bash"}))],
            "exec_tools.execute_code_python" => vec![executed(format!(
                "import os\nprint({text})\nopen(os.path.join(os.environ['OUT_DIR'], '{place}'), 'w').write('what python made')\n"
            ))],
            "exec_tools.execute_code_bash" => vec![executed(format!(
                "seq 1 9000\nprintf 'what bash made' > \"$OUT_DIR/{place}\"\n"
            ))],
            "exec_tools.execute_code_javascript" => vec![executed(format!(
                "require('fs').writeFileSync(process.env.OUT_DIR + '/{place}', 'what javascript made')\n"
            ))],
            "web_tools.web_search" => vec![call(json!({"queries": ["why tides"], "n": 5}))],
            "web_tools.web_fetch" => vec![call(
                json!({"urls": [format!("{site}/moon"), format!("{site}/wind"), format!("{site}/none")]}),
            )],
            "rendering_tools.write_pdf" => vec![document("r.pdf")],
            "rendering_tools.write_png" => vec![document("r.png")],
            "rendering_tools.write_docx" => vec![document("r.docx")],
            "rendering_tools.write_pptx" => vec![document("r.pptx")],
            other => panic!("no generated conversation calls `{other}`: say here how it is called"),
        }
    }
}

/// The smallest PNG that decoders take: one red pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x08, 0xd7, 0x63, 0xf8,
    0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42,
    0x60, 0x82,
];

/// A picture, an office file, a table and a text.
fn files(words: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let document = "<w:document><w:p><w:r><w:t>Tides of the harbour</w:t></w:r></w:p></w:document>";
    for (name, text) in [
        ("[Content_Types].xml", "<Types/>"),
        ("word/document.xml", document),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    vec![
        ("chart.png", PNG.to_vec()),
        ("tides.docx", zip.finish().unwrap().into_inner()),
        ("sales.csv", b"month,net\njan,3\n".to_vec()),
        (
            "notes.txt",
            format!("notes that came along: {words}\n").into_bytes(),
        ),
    ]
}
