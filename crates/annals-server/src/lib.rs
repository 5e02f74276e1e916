//! Annals over HTTP: conversations, live events, artifacts, and the OpenAI-compatible API.
