//! Files, documents and the web, driven as the runtime drives them: real sandbox, real disk, real blocks.

#[path = "../../src/web/tests/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "../behaviour/stage.rs"]
#[allow(dead_code)]
mod stage;

annals_sandbox::helpers_in_tests!(annals_content::init);

mod exec;
mod exec_context;
mod large;
#[cfg(feature = "documents")]
mod rendering;
mod tree;
mod web;
