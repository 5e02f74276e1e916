//! Every command of the binary, as a person or a script types it.

mod cli {
    pub(crate) mod annals;

    mod approvals;
    mod bad_input;
    mod chat;
    mod demo;
    mod docs;
    mod doctor;
    mod hostile_text;
    mod mcp;
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
