//! Tools driven as the runtime drives them: real timeline, real workspace, real artifact store, real blocks.

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);

mod stage;

mod content;
mod execution;
mod macros;
mod react_clarify;
mod react_hide;
mod react_memsearch;
mod react_patch;
mod react_plan;
mod react_read;
mod react_search_files;
mod react_write;
mod references;
mod results;
mod system;
mod table;
