//! The sandbox port over the two HTTP services of OpenSandbox.
//!
//! Start at [`backend`]. `lifecycle` is the client of the server that makes sandboxes, `execd` of the
//! service inside one; what is done with both is in [`annals_remote`].

#![forbid(unsafe_code)]

mod frames;
mod wire;

mod execd;
mod kernel;
mod lifecycle;

mod backend;
mod settings;

pub use annals_remote::{RemoteBackend, ServerAddress, SettingsError, Timing};
pub use backend::backend;
pub use settings::OpenSandboxOptions;
pub use wire::{NetworkAction, NetworkPolicy, NetworkRule};
