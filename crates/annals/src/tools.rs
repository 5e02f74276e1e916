//! Tools: what one is made of, and the built-in ones.

use std::sync::Arc;

pub use annals_tools::*;

/// The built-in tools that every build has: the react and system tools, and code in the languages this machine has an
/// interpreter for. The web and documents need settings of their own and are added beside:
///
/// ```no_run
/// # #[cfg(all(feature = "web", feature = "documents", feature = "local-sandbox", feature = "anthropic"))]
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use annals::prelude::*;
/// use annals::content::Content;
/// use annals::tools::{self, web::WebSettings};
///
/// let content = Content::new();
/// let agent = Agent::builder()
///     .model(Anthropic::new("claude-sonnet-4-5")?)
///     .tools(tools::builtin())
///     .tools(tools::web::all(WebSettings::from_env()?, &content))
///     .tools(tools::rendering::all(&content))
///     .content(content)
///     .sandbox(tools::default_sandbox())
///     .home("./data")
///     .build()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    let mut tools = react::all();
    tools.extend(system::all());
    tools.extend(exec::all());
    tools
}

/// Where the built-in tools act unless somebody says otherwise: isolated processes of this machine.
#[cfg(feature = "local-sandbox")]
#[cfg_attr(docsrs, doc(cfg(feature = "local-sandbox")))]
pub fn default_sandbox() -> Arc<dyn annals_sandbox::Backend> {
    Arc::new(annals_sandbox::Local::new())
}
