//! Every command of the binary, as a person or a script types it.

mod cli {
    pub(crate) mod annals;

    mod bad_input;
    mod chat;
    mod demo;
    mod doctor;
    mod memory;
    mod models;
    mod run;
    mod timeline;
    mod tool;
}
