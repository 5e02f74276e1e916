//! `annals inputs`: what calls wait to be told by a person, in all conversations of the scope.

use annals::runtime::PendingInput;
use serde_json::{Value, json};

use crate::args::JsonArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, styled};
use crate::setup::{Needs, Setup};
use crate::shown;

pub(crate) async fn run(args: JsonArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    let pending = setup.agent.pending_inputs().await?;
    if args.json {
        let items: Vec<Value> = pending.iter().map(as_json).collect();
        paint::print_json(&format!("{}\n", json!({ "items": items })))?;
        return Ok(Ended::Well);
    }
    if pending.is_empty() {
        paint::say("nothing waits for an answer");
    }
    for waits in &pending {
        let request = &waits.request;
        paint::print(shown!(
            "{}\n  {}\n",
            styled(BOLD, &request.tool),
            request.message.as_str()
        ))?;
        if let Some(schema) = &request.schema {
            paint::print(shown!("  {}\n", styled(DIM, schema.to_string())))?;
        }
        paint::print(shown!(
            "  annals answer {} {} JSON\n\n",
            waits.conversation.as_str(),
            request.input_id.to_string()
        ))?;
    }
    Ok(Ended::Well)
}

fn as_json(waits: &PendingInput) -> Value {
    json!({"conversation": waits.conversation, "request": waits.request})
}
