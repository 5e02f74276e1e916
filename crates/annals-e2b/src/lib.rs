//! The sandbox port over E2B's protocol, which several servers implement.
//!
//! Start at [`backend`]. `control` is the client of the server that makes sandboxes, `envd` of the service inside
//! one, whose calls are Connect over HTTP/1.1 with JSON (`connect`). Only what all implementers have is used; what is done
//! with it is in [`annals_remote`].

#![forbid(unsafe_code)]

mod connect;
mod wire;

mod control;
mod envd;

mod backend;
mod settings;

pub use annals_remote::{RemoteBackend, ServerAddress, SettingsError, Timing};
pub use backend::backend;
pub use settings::E2bOptions;
