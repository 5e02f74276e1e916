//! The OpenAI-compatible API: real clients, random histories, and the published description of Open Responses.

#[path = "../common/mod.rs"]
mod common;

mod attended;
mod client_tools;
mod clients;
mod fetched;
mod idempotent;
mod lineage;
mod open_responses;
mod shapes;
mod stand_alone;
mod structured;

annals_sandbox::helpers_in_tests!(annals_content::init);
