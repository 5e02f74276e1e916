//! The web modules against servers of this machine: nothing leaves it.

mod fetching;
mod searching;
mod server;
mod ssrf;
