//! Models by name. The one place of the library where keys are taken from the environment, because it is its edge.
//!
//! A model that can be made can be asked: a missing key, a script that cannot be read or a provider that was not built
//! in is an error of the constructor.

#[cfg(any(feature = "openai", feature = "anthropic", feature = "ollama"))]
mod provider;

use std::sync::Arc;

pub use annals_model::script::{Script, ScriptCall, ScriptError, ScriptStep};
pub use annals_model::*;
#[cfg(feature = "anthropic")]
#[cfg_attr(docsrs, doc(cfg(feature = "anthropic")))]
pub use provider::Anthropic;
#[cfg(any(feature = "openai", feature = "anthropic", feature = "ollama"))]
pub use provider::ModelBuilder;
#[cfg(feature = "ollama")]
#[cfg_attr(docsrs, doc(cfg(feature = "ollama")))]
pub use provider::Ollama;
#[cfg(feature = "openai")]
#[cfg_attr(docsrs, doc(cfg(feature = "openai")))]
pub use provider::OpenAi;

/// Where the key of an OpenAI-compatible server is looked for.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// Where the key of Anthropic is looked for.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";

/// The model of this name: `script:FILE`, `openai:NAME`, `anthropic:NAME` or `ollama:NAME`, with the keys of this
/// process's environment.
///
/// ```no_run
/// # fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let model = annals::model::named(&std::env::var("MODEL")?)?;
/// let agent = annals::Agent::builder().model(model);
/// # Ok(())
/// # }
/// ```
pub fn named(name: &str) -> Result<Arc<dyn Model>, OpenError> {
    open(&spec_from_env(name.parse()?))
}

/// Everything needed to open the model of this name, with the keys of this process's environment: for what the
/// constructors do not say.
pub fn spec_from_env(name: ModelName) -> ModelSpec {
    ModelSpec {
        openai_key: key_from_env(OPENAI_API_KEY),
        anthropic_key: key_from_env(ANTHROPIC_API_KEY),
        ..ModelSpec::new(name, seed())
    }
}

/// A key that this process's environment has under a name.
pub fn key_from_env(name: &str) -> Option<ApiKey> {
    let key = std::env::var(name).ok().filter(|key| !key.is_empty());
    key.map(|key| ApiKey::new(&key))
}

/// Drives the jitter of retries: clients that failed together should not come back together.
fn seed() -> u64 {
    annals_runtime::World::default().random()
}
