//! What a helper is asked, and what it answers. Bytes and long texts travel behind these as parts.

use annals_store::preflight::{AttachmentRefused, Checked};
use serde::{Deserialize, Serialize};

/// One task with the bounds that the helper itself keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) task: Task,
    pub(crate) cpu_ms: u64,
    pub(crate) stack_bytes: usize,
}

/// What a helper can do. The first part is the content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// An HTML page, found at this address, as markdown.
    Page { url: String },
    /// The text of a PDF.
    PdfText,
    /// Whether a file of this name may come in.
    Attachment { name: String },
    /// What is in a file that may.
    Describe { checked: Checked },
    /// A document as a file.
    #[cfg(feature = "documents")]
    Render { form: Form, head: DocumentHead },
    /// Trees, for a page to draw. The content is a list of requests as JSON.
    #[cfg(feature = "documents")]
    Trees,
    /// One page of a PDF as a picture.
    #[cfg(feature = "documents")]
    PdfPage { number: u32, width: u32 },
    /// Fonts and the browser of this machine.
    #[cfg(feature = "documents")]
    Facts,
}

#[cfg(feature = "documents")]
impl Task {
    pub(crate) fn needs_browser(&self) -> bool {
        if let Self::Render { form, head } = self {
            return form.has_pages()
                && head.format == annals_render::Format::Html
                && head.engine != annals_render::Engine::Embedded;
        }
        false
    }
}

/// What a helper says while it works, and at the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromHelper {
    /// It has the whole task.
    Taken,
    /// It needs the bytes of a picture; answered by [`Asset`].
    Asset { reference: String },
    /// It is done; parts as the answer says.
    Done { answer: Answer, resident_bytes: u64 },
}

/// The answer to [`FromHelper::Asset`]; the bytes are its part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asset {
    pub(crate) is_found: bool,
}

/// The result of a task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Part: the markdown.
    Page {
        title: String,
        cut_after_bytes: Option<usize>,
    },
    /// Part: the text.
    PdfText {
        title: Option<String>,
    },
    Attachment(Result<Checked, AttachmentRefused>),
    /// Part: the text inside, if there is any.
    Described {
        summary: Option<String>,
        pixels: Option<(u32, u32)>,
    },
    /// Part: the file.
    #[cfg(feature = "documents")]
    Rendered {
        pages: Option<usize>,
        engine: annals_render::UsedEngine,
        warnings: Vec<annals_render::Warning>,
    },
    #[cfg(feature = "documents")]
    NotRendered(annals_render::RenderError),
    /// Part: a list of trees as JSON.
    #[cfg(feature = "documents")]
    Trees,
    /// Part: the picture.
    #[cfg(feature = "documents")]
    PdfPage {
        pages: usize,
    },
    #[cfg(feature = "documents")]
    Facts(annals_render::Facts),
    /// It is not what it should be.
    Unreadable(String),
    /// The parser panicked.
    Panicked(String),
    NotBuilt(String),
}

/// The form of a document.
#[cfg(feature = "documents")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Form {
    /// Pages.
    Pdf,
    Png,
    /// A text document.
    Docx,
    /// Slides.
    Pptx,
}

#[cfg(feature = "documents")]
impl Form {
    /// The usual extension of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Png => "png",
            Self::Docx => "docx",
            Self::Pptx => "pptx",
        }
    }

    /// Its media type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::Png => "image/png",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Pptx => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        }
    }

    /// Whether the page and its layout engine can be chosen.
    pub fn has_pages(self) -> bool {
        matches!(self, Self::Pdf | Self::Png)
    }
}

/// A document to render.
#[cfg(feature = "documents")]
#[derive(Debug, Clone)]
pub struct Document {
    pub content: String,
    /// All but the text.
    pub head: DocumentHead,
}

/// A document but for its text.
#[cfg(feature = "documents")]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DocumentHead {
    /// The language of the text.
    pub format: annals_render::Format,
    /// Printed above the text and stored as metadata.
    pub title: Option<String>,
    /// What `[[S:n]]` may point to.
    pub sources: Vec<annals_render::Source>,
    /// Who lays out HTML.
    pub engine: annals_render::Engine,
    pub page: annals_render::PageOptions,
}

#[cfg(feature = "documents")]
impl Document {
    /// Markdown on A4 without sources.
    pub fn markdown(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            head: DocumentHead {
                format: annals_render::Format::Markdown,
                title: None,
                sources: Vec::new(),
                engine: annals_render::Engine::Auto,
                page: annals_render::PageOptions::default(),
            },
        }
    }

    /// HTML on A4 without sources.
    pub fn html(content: impl Into<String>) -> Self {
        let mut document = Self::markdown(content);
        document.head.format = annals_render::Format::Html;
        document
    }
}
