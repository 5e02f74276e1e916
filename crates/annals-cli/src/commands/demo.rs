//! `annals demo`: two turns on a small table, with a script in the model's place and everything else real.

mod script;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use annals::core::ids::TurnId;
use annals::core::timeline::Timeline;
use annals::core::turn::TurnUsage;
use annals::model::ScriptModel;
use annals::runtime::{Attachment, World};
use annals::sandbox::{Language, facts::Facts, interpreters};
use annals::{Session, TurnRequest};

use super::chat::files;
use super::serve;
use super::timeline::tree;
use crate::args::{ApprovalsArg, DemoArgs};
use crate::config::{Config, Origin, Resolved};
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, NAME, TITLE, WARN, styled};
use crate::screen::Shows;
use crate::screen_text::ScreenText;
use crate::setup::Setup;
use crate::shown;
use crate::turn::{self, Form};
use script::{Code, Pace};

const SALES: &str = include_str!("../../assets/demo/sales.csv");

const PROMPTS: [&str; 2] = [
    "How did we sell in 2025? Compute the figures, draw a chart and write a one-page report I can send around.",
    "Which month was best again? And where is the report?",
];

pub(crate) async fn run(args: DemoArgs, config: Config) -> Result<Ended, Failure> {
    let began = Instant::now();
    let code = can_run_code(&config);
    let config = at_home(config, args.into);
    let pace = if args.fast { Pace::AtOnce } else { Pace::Readable };
    let model = ScriptModel::new("demo", script::script(&code, pace));
    let setup = Setup::with_model(config, Arc::new(model)).await?;
    let session = setup.agent.new_session(Some("Sales 2025".to_owned())).await?;
    introduce(&code)?;
    let mut ended = Ended::Well;
    for (number, prompt) in PROMPTS.into_iter().enumerate() {
        paint::print(shown!(
            "\n{} {}\n\n",
            styled(TITLE, "you ›"),
            styled(BOLD, prompt)
        ))?;
        let id = TurnId::parse(&format!("turn_demo_{}", number + 1)).map_err(Failure::environment)?;
        let mut request = TurnRequest::new(prompt).turn_id(id);
        if number == 0 {
            paint::print(shown!(
                "  {} sales.csv {}\n",
                styled(DIM, "attached"),
                styled(DIM, paint::size(SALES.len() as u64))
            ))?;
            request = request.attach(Attachment::new("sales.csv", SALES));
        }
        let form = Form::Screen(Shows::Everything);
        let end = turn::perform(&setup, &session, request, form, ApprovalsArg::Deny).await?;
        ended = turn::judge(&setup, &session, end)?;
        if ended == Ended::Otherwise {
            break;
        }
    }
    conclude(&setup, &session, began, args.serve)?;
    let place = format!("#/c/{}", session.id());
    session.close().await?;
    if args.serve {
        let options = annals_server::Options {
            listen: ([127, 0, 0, 1], 0).into(),
            ..annals_server::Options::default()
        };
        return serve::until_stopped(&setup, options, &place).await;
    }
    Ok(ended)
}

/// Whether Python can run isolated here; if not, why.
fn can_run_code(config: &Config) -> Code {
    if interpreters::find(Language::Python).is_none() {
        return Code::Cannot("there is no `python3` here".to_owned());
    }
    if config.sandbox.value != "local" {
        return Code::Can;
    }
    match Facts::gather() {
        Err(error) => Code::Cannot(format!("the sandbox cannot be started ({error})")),
        Ok(facts) => match facts.missing_required().next() {
            None => Code::Can,
            Some(fact) => Code::Cannot(format!(
                "this kernel lacks the isolation layer `{}` ({})",
                fact.layer.as_str(),
                fact.missing.as_deref().unwrap_or_default()
            )),
        },
    }
}

/// The configuration with everything in a folder of the demo's own.
fn at_home(config: Config, into: Option<PathBuf>) -> Config {
    let name = World::default().conversation_id();
    let home = into.unwrap_or_else(|| config.home.value.join("demo").join(name.as_str()));
    let here = |what: &str, file: &str| Resolved {
        value: format!("{what}:{}", home.join(file).display()),
        origin: Origin::Default,
    };
    Config {
        store: here("sqlite", "annals.db"),
        artifacts: here("file", "artifacts"),
        home: Resolved {
            value: home,
            origin: Origin::Default,
        },
        ..config
    }
}

fn introduce(code: &Code) -> Result<(), Failure> {
    paint::print(shown!(
        "{}\n{}\n",
        styled(BOLD, "annals demo"),
        styled(
            DIM,
            "A script plays the model. The timeline, the tools, the sandbox, the PDF and the caching are real."
        )
    ))?;
    if let Code::Cannot(why) = code {
        paint::print(shown!(
            "{}\n",
            styled(
                WARN,
                format!("{why}: the demo goes on without computing; see `annals doctor`")
            )
        ))?;
    }
    Ok(())
}

fn conclude(setup: &Setup, session: &Session, began: Instant, is_served: bool) -> Result<(), Failure> {
    let id = session.id();
    let out_dir = setup.workspace(id);
    let home = &setup.config.home.value;
    paint::print(shown!("\n{}\n", styled(TITLE, "── files ──")))?;
    paint::print(session.timeline(|timeline| files(timeline, &out_dir)))?;
    paint::print(shown!("  {} {}\n", styled(DIM, "in"), out_dir.display()))?;
    paint::print(shown!("\n{}\n", styled(TITLE, "── timeline ──")))?;
    paint::print(session.timeline(|timeline| tree::draw(id.as_str(), timeline, None)))?;
    let usage = session.timeline(|view| usage(view));
    let share = (usage.cache_read_tokens * 100)
        .checked_div(usage.input_tokens)
        .unwrap_or(0);
    paint::print(shown!(
        "\n{} tokens sent, {} of them cache reads ({} %), {} written by the model, {} in all\n",
        styled(BOLD, paint::number(usage.input_tokens)),
        styled(BOLD, paint::number(usage.cache_read_tokens)),
        share,
        paint::number(usage.output_tokens),
        paint::seconds(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
    ))?;
    match is_served {
        true => paint::print(shown!("\n{}\n", styled(TITLE, "── the page ──"))),
        false => paint::print(next_steps(home, id.as_str())),
    }
}

fn next_steps(home: &Path, id: &str) -> ScreenText {
    let home = home.display();
    let commands = [
        (
            format!("annals --home {home} timeline render {id}"),
            "what the model sees",
        ),
        (
            format!("annals --home {home} read {id} fi:turn_demo_1.files/report.md"),
            "a file by its path",
        ),
        (
            format!("annals --home {home} serve --model script:…"),
            "the same on a web page; or at once with `demo --serve`",
        ),
        ("annals chat --model anthropic:…".to_owned(), "with a real model"),
    ];
    let lines = commands
        .iter()
        .map(|(command, what)| shown!("  {}  {}\n", styled(NAME, command), styled(DIM, what)));
    shown!(
        "\n{}\n{}",
        styled(TITLE, "── next ──"),
        lines.collect::<ScreenText>()
    )
}

/// What all turns spent.
fn usage(timeline: &Timeline) -> TurnUsage {
    let reports = timeline.turns().iter().filter_map(|turn| timeline.report(turn));
    let mut usage = TurnUsage::default();
    reports.for_each(|report| usage.add(report.usage));
    usage
}
