//! The web modules against servers of this machine: nothing leaves it.

annals_sandbox::helpers_in_tests!(annals_content::init);

mod fetching;
mod searching;
mod server;
mod ssrf;
