//! What can be asked of helpers, in the terms of those who ask.

use std::sync::Arc;

use annals_sandbox::Isolation;
use annals_store::preflight::{self, AttachmentRefused, Checked, Described};

use crate::error::ContentError;
use crate::limits::{HERE_MAX_BYTES, Limits};
use crate::pool::{Given, Kind, Pictures, Pool};
use crate::source::{Piece, Source};
use crate::task::{Answer, Task};

/// Reads and renders what strangers wrote, in helper processes. Cheap to clone; clones share their helpers.
///
/// Helpers belong to the Tokio runtime they were started in: one `Content` is for one runtime.
#[derive(Clone)]
pub struct Content {
    readers: Arc<Pool>,
    #[cfg_attr(
        not(feature = "documents"),
        allow(dead_code, reason = "only documents need a browser")
    )]
    browsers: Arc<Pool>,
}

impl Default for Content {
    fn default() -> Self {
        Self::new()
    }
}

impl Content {
    /// Helpers with the default limits and every isolation layer. Starts nothing yet.
    pub fn new() -> Self {
        Self::with(Limits::default(), Isolation::Full)
    }

    /// Helpers with limits of your own. Weaker isolation exists only by name, as for a sandbox.
    pub fn with(limits: Limits, isolation: Isolation) -> Self {
        let browser_limits = Limits {
            // One browser serves many tabs, and takes much memory.
            helpers: 1,
            ..limits.clone()
        };
        Self {
            readers: Pool::new(Kind::Reader, limits, isolation.clone()),
            browsers: Pool::new(Kind::Browser, browser_limits, isolation),
        }
    }

    /// Starts a helper in the background, so that the next task finds one. Must be called within a Tokio runtime.
    pub fn start_ahead(&self) {
        self.readers.start_ahead();
    }

    /// An HTML page that was found at `url`, as markdown.
    #[cfg(feature = "web")]
    pub async fn page(&self, html: &str, url: &str) -> Result<crate::page::Page, ContentError> {
        let task = Task::Page { url: url.to_owned() };
        match self.read(task, html.as_bytes()).await? {
            (
                Answer::Page {
                    title,
                    cut_after_bytes,
                },
                parts,
            ) => Ok(crate::page::Page {
                title,
                markdown: text(parts),
                cut_after_bytes,
            }),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// The text of a PDF.
    #[cfg(feature = "web")]
    pub async fn pdf_text(&self, pdf: &[u8]) -> Result<crate::pdf::PdfText, ContentError> {
        match self.read(Task::PdfText, pdf).await? {
            (Answer::PdfText { title }, parts) => Ok(crate::pdf::PdfText {
                title,
                text: text(parts),
            }),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Whether a file of this name and content may come in. Formats that have to be parsed and large files reach a helper.
    pub async fn check_attachment(
        &self,
        name: &str,
        content: impl Into<Source<'_>>,
    ) -> Result<Result<Checked, AttachmentRefused>, ContentError> {
        let content = content.into();
        if let Some(bytes) = read_here(content).await? {
            return Ok(preflight::check_attachment(name, &bytes));
        }
        let task = Task::Attachment {
            name: name.to_owned(),
        };
        match self.read(task, content).await? {
            (Answer::Attachment(checked), _) => Ok(checked),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// What is in a file that may come in: one line, and the text inside a PDF or an office file.
    pub async fn describe_attachment(
        &self,
        checked: &Checked,
        content: impl Into<Source<'_>>,
    ) -> Result<Described, ContentError> {
        let content = content.into();
        if let Some(bytes) = read_here(content).await? {
            let pixels = annals_core::content::pixels(&bytes);
            return Ok(preflight::describe(checked, &bytes, pixels));
        }
        let task = Task::Describe {
            checked: checked.clone(),
        };
        match self.read(task, content).await? {
            (Answer::Described { summary, pixels }, parts) => {
                let text = text(parts);
                Ok(Described {
                    summary,
                    text: (!text.is_empty()).then_some(text),
                    pixels,
                })
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    async fn read(
        &self,
        task: Task,
        content: impl Into<Source<'_>>,
    ) -> Result<(Answer, Vec<Vec<u8>>), ContentError> {
        let given = Given {
            task,
            content: content.into(),
            pictures: None::<Pictures>,
        };
        self.readers.perform(given).await
    }
}

#[cfg(feature = "documents")]
impl Content {
    /// A document as a file. `pictures` gives the bytes behind a reference as the author wrote it, and decides what a
    /// reference may reach; it is called where blocking is allowed.
    pub async fn render(
        &self,
        form: crate::task::Form,
        document: crate::task::Document,
        pictures: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Result<annals_render::Rendered, ContentError> {
        let crate::task::Document { content, mut head } = document;
        if annals_render::find_chromium().is_none() && head.engine == annals_render::Engine::Auto {
            head.engine = annals_render::Engine::Embedded;
        }
        let task = Task::Render { form, head };
        let pool = if task.needs_browser() {
            &self.browsers
        } else {
            &self.readers
        };
        let given = Given {
            task,
            content: content.as_bytes().into(),
            pictures: Some(Arc::new(pictures)),
        };
        match pool.perform(given).await? {
            (
                Answer::Rendered {
                    pages,
                    engine,
                    warnings,
                },
                parts,
            ) => Ok(annals_render::Rendered {
                bytes: parts.into_iter().next().unwrap_or_default(),
                mime: form.mime(),
                pages,
                engine,
                warnings,
            }),
            (Answer::NotRendered(error), _) => Err(ContentError::Render(error)),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Markdown, code, tables and differences as trees, one for each request, in their order.
    pub async fn trees(
        &self,
        requests: &[annals_render::tree::TreeRequest],
    ) -> Result<Vec<serde_json::Value>, ContentError> {
        let broken = |error: serde_json::Error| ContentError::Broken {
            reason: error.to_string(),
        };
        let content = serde_json::to_vec(requests).map_err(broken)?;
        match self.read(Task::Trees, &content).await? {
            (Answer::Trees, parts) => {
                let bytes = parts.into_iter().next().unwrap_or_default();
                serde_json::from_slice(&bytes).map_err(broken)
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    /// The page of a PDF with this number, from 1, drawn about as wide as this many pixels.
    pub async fn pdf_page(
        &self,
        pdf: &[u8],
        number: u32,
        width: u32,
    ) -> Result<annals_render::pdf_page::PdfPage, ContentError> {
        match self.read(Task::PdfPage { number, width }, pdf).await? {
            (Answer::PdfPage { pages }, parts) => Ok(annals_render::pdf_page::PdfPage {
                png: parts.into_iter().next().unwrap_or_default(),
                pages,
            }),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// What documents can be made with here, as a helper sees it.
    pub async fn facts(&self) -> Result<annals_render::Facts, ContentError> {
        match self.read(Task::Facts, &[0; 0]).await? {
            (Answer::Facts(facts), _) => Ok(facts),
            (other, _) => Err(unexpected(other)),
        }
    }
}

fn text(parts: Vec<Vec<u8>>) -> String {
    let bytes = parts.into_iter().next().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The bytes of an attachment that is looked at in this process: small, and no format that has to be parsed.
async fn read_here(content: Source<'_>) -> Result<Option<Piece<'_>>, ContentError> {
    // Without helpers there is no other place.
    if content.size_bytes() > HERE_MAX_BYTES && cfg!(feature = "local") {
        return Ok(None);
    }
    let whole = content.whole().await;
    let bytes = whole.map_err(|error| ContentError::Unreadable(error.to_string()))?;
    Ok((!preflight::needs_parser(&bytes)).then_some(bytes))
}

/// An answer that is no result of the task.
fn unexpected(answer: Answer) -> ContentError {
    match answer {
        Answer::Unreadable(reason) => ContentError::Unreadable(reason),
        Answer::Panicked(reason) => ContentError::Broken { reason },
        Answer::NotBuilt(_) => ContentError::NotBuilt { feature: "web" },
        _ => ContentError::Broken {
            reason: "it answered something else".to_owned(),
        },
    }
}
