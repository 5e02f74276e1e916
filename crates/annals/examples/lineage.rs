//! One conversation that goes two ways, comes together again, and says where it comes from.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use annals::prelude::*;
use annals::runtime::lineage::ForkPoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let answers = ["Two days in Ghent.", "By train.", "By boat."].map(ScriptStep::text);
    let agent = Agent::builder()
        .model(ScriptModel::new("lineage", Script::of(answers)))
        .home(data.path())
        .build()
        .await?;
    let trip = agent.session("conv_trip").await?;
    let trip = agent.run(trip, "Plan a trip").await?.into_session();
    let by_boat = agent.fork(trip.id(), ForkPoint::End).await?;
    let trip = agent.run(trip, "How do I get there?").await?.into_session();
    let forked = agent.open(&by_boat).await?;
    agent
        .run(forked, "How else?")
        .await?
        .into_session()
        .close()
        .await?;

    let both = agent.merge(trip.id(), &by_boat).await?;
    for row in agent.lineage(&both).await? {
        let child = if row.conversation == both {
            "the merge"
        } else {
            "the fork"
        };
        let parent = match row.ancestor.parent == by_boat {
            true => "the fork",
            false => "the trip",
        };
        println!("{child} comes from {parent} by `{:?}`", row.ancestor.operator);
    }
    Ok(())
}
