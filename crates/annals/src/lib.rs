//! Agent runtime with a durable timeline, stable paths and a sandbox.
