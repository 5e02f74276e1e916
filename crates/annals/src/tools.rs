//! Tools: what one is made of, and all built-in ones in one call.

use std::sync::Arc;

pub use annals_tools::*;

use annals_render::Renderer;
use annals_tools::web::WebSettings;

/// Every built-in tool: the react and system tools, code in the languages this machine has an interpreter for, the web
/// with these settings, documents by this renderer.
///
/// ```no_run
/// use annals::prelude::*;
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let web = annals::tools::web::WebSettings::from_env()?;
/// let agent = Agent::builder()
///     .model(Model::anthropic("claude-sonnet-4-5"))
///     .tools(annals::tools::builtin(web, &annals::render::Renderer::new()))
///     .sandbox(annals::tools::default_sandbox())
///     .home("./data")
///     .build()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub fn builtin(web: WebSettings, renderer: &Renderer) -> Vec<Arc<dyn Tool>> {
    let mut tools = react::all();
    tools.extend(system::all());
    tools.extend(exec::all());
    tools.extend(annals_tools::web::all(web));
    tools.extend(rendering::all(renderer));
    tools
}

/// Where the built-in tools act unless somebody says otherwise: isolated processes of this machine.
pub fn default_sandbox() -> Arc<dyn annals_sandbox::Backend> {
    Arc::new(annals_sandbox::Local::new())
}
