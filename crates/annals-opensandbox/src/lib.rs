//! The sandbox port over the two HTTP services of OpenSandbox.
//!
//! Start at [`OpenSandbox`], the backend. `lifecycle` is the client of the server that makes sandboxes, `execd` of the
//! service inside one; what is done with both is in [`annals_remote`].

mod frames;
mod wire;

mod execd;
mod kernel;
mod lifecycle;

mod backend;
mod settings;

pub use annals_remote::{ApiError, ServerFacts};
pub use backend::OpenSandbox;
pub use settings::{OpenSandboxOptions, SettingsError};
pub use wire::{NetworkAction, NetworkPolicy, NetworkRule};
