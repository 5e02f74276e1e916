//! The sandbox port over the two HTTP services of OpenSandbox.
