//! `annals resume`: goes on with the turn that a crash or Ctrl-C left open.

use annals::TurnRequest;

use crate::approval;
use crate::args::{ApprovalsArg, ResumeArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup, conversation_id};
use crate::turn::{self, Form};

pub(crate) async fn run(args: ResumeArgs, config: Config) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    let setup = Setup::open(config, Needs::Model).await?;
    let session = setup.agent.open(&id).await?;
    // Its turn was begun on terms of its own: a process that resumes it either answers or waits.
    let approvals = match approval::by_default(args.json) {
        ApprovalsArg::Deny => ApprovalsArg::Wait,
        approvals => approvals,
    };
    let request = TurnRequest::resume();
    let ended = turn::perform(&setup, &session, request, Form::of(args.json), approvals).await;
    let ended = ended.and_then(|end| turn::judge(&setup, &session, end));
    session.close().await?;
    ended
}
