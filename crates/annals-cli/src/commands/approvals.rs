//! `annals approvals`: the calls that wait for a person, in all conversations of the scope.

use annals::runtime::PendingApproval;
use serde_json::json;

use crate::approval;
use crate::args::JsonArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, styled};
use crate::setup::{Needs, Setup};
use crate::shown;

pub(crate) async fn run(args: JsonArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    let pending = setup.agent.pending_approvals().await?;
    if args.json {
        let items: Vec<_> = pending.iter().map(as_json).collect();
        paint::print_json(&format!("{}\n", json!({ "items": items })))?;
        return Ok(Ended::Well);
    }
    if pending.is_empty() {
        paint::say("nothing waits for a decision");
    }
    for waits in &pending {
        paint::print(shown!(
            "{} {}\n",
            styled(BOLD, &waits.request.tool),
            styled(DIM, format!("asked {}", waits.asked))
        ))?;
        paint::print(approval::described(&waits.request, None, None))?;
        paint::print(shown!(
            "  annals approve {} {}\n\n",
            waits.conversation.as_str(),
            waits.request.approval_id.to_string()
        ))?;
    }
    Ok(Ended::Well)
}

fn as_json(waits: &PendingApproval) -> serde_json::Value {
    json!({
        "conversation": waits.conversation,
        "asked": waits.asked,
        "request": waits.request,
    })
}
