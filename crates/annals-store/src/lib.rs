//! Durable block log and content-addressed artifacts.
