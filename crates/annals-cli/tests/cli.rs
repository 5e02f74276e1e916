//! Every command of the binary, as a person or a script types it.

mod cli {
    pub(crate) mod annals;

    mod api_document;
    mod approvals;
    mod bad_input;
    mod chat;
    mod demo;
    mod docs;
    mod doctor;
    mod guide;
    mod hostile_text;
    mod mcp;
    mod mcp_install;
    mod mcp_login;
    mod mcp_serve;
    mod memory;
    mod models;
    mod output;
    mod postgres;
    pub(crate) mod pty;
    mod run;
    mod screen;
    mod serve;
    mod skill;
    mod steering;
    mod timeline;
    mod tool;
    mod trace;
}

/// What a script of a model does is the same when the model cannot call tools and writes its calls as text.
#[test]
fn every_sequence_of_a_script_is_the_same_in_the_timeline_layout() {
    let sequences = ["cli::run::", "cli::demo::", "cli::steering::", "cli::approvals::"];
    annals_requirements::again_in_the_timeline_layout(&sequences);
}
