//! The one object callers keep: fonts, limits, and a warm Chromium.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::chromium::{self, Chromium, ChromiumError, Job, Printed};
use crate::doc::{Block, Document, plain_text};
use crate::fonts::Fonts;
use crate::limits::Limits;
use crate::picture::{Kind, Pictures};
use crate::request::{
    Engine, Format, PageOptions, PngView, RenderError, Rendered, Request, UsedEngine, Warning,
};
use crate::typst::code::Pages;
use crate::typst::{self, world::DocumentWorld};
use crate::visit::{self, Leaf};
use crate::{docx, highlight, html, markdown, ooxml, pptx, prose};

/// Layouts that may run at once, counting those whose caller has given up on them.
const MAX_LAYOUTS: usize = 16;

/// The stack of a layout: nested tables and lists take some hundred kilobytes in a debug build.
const LAYOUT_STACK_BYTES: usize = 64 << 20;

/// Renders documents in this process. Cheap to clone; all clones share fonts and the browser.
///
/// It trusts its input: a hostile document can take all memory of the process, or overflow a stack and end it. What
/// strangers wrote is rendered in a helper process (the crate `annals-content`), which calls this one.
#[derive(Clone)]
pub struct Renderer {
    shared: Arc<Shared>,
    is_isolated: bool,
}

/// What a renderer finds on this machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Facts {
    /// The browser used for HTML, if one is installed.
    pub chromium: Option<PathBuf>,
    /// All font families, compiled in and installed.
    pub font_families: Vec<String>,
}

#[derive(Default)]
struct Shared {
    chromium: Chromium,
    fonts: Fonts,
    limits: Limits,
    layouts: AtomicUsize,
}

/// A document that has been read and has its pictures.
struct Prepared {
    document: Document,
    pictures: Pictures,
    page: PageOptions,
    warnings: Vec<Warning>,
}

impl Renderer {
    /// A renderer with the default limits, for documents that are trusted. Does no work: fonts are parsed with the first
    /// document.
    pub fn in_process() -> Self {
        Self::in_process_with(Limits::default())
    }

    /// [`Renderer::in_process`] with limits of your own.
    pub fn in_process_with(limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                limits,
                ..Shared::default()
            }),
            is_isolated: false,
        }
    }

    /// Says that this process is isolated, bounded and may be killed: a document is laid out on the calling thread without
    /// a deadline of its own, and Chromium runs without its own sandbox.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.is_isolated = true;
        self
    }

    pub fn pdf(&self, request: &Request<'_>) -> Result<Rendered, RenderError> {
        let mut prepared = self.prepare(request)?;
        let browser = |chromium: &Chromium, html: &str, job| chromium.pdf(html, request.page, job);
        if let Some(rendered) = self.by_chromium(request, &mut prepared, "application/pdf", browser)? {
            return Ok(rendered);
        }
        self.lay_out(prepared, |shared, prepared| {
            let document = shared.pages(prepared, Pages::Sheets)?;
            let bytes = typst::pdf(&document)?;
            Ok(prepared.rendered(bytes, "application/pdf", Some(document.pages().len())))
        })
    }

    /// A PNG of what [`crate::PngView`] names. Chromium makes the continuous view only.
    pub fn png(&self, request: &Request<'_>) -> Result<Rendered, RenderError> {
        let mut prepared = self.prepare(request)?;
        let browser = |chromium: &Chromium, html: &str, job| chromium.png(html, request.page, job);
        let by_browser = request.format == Format::Html && request.engine == Engine::Chromium;
        if by_browser && request.page.png != PngView::Continuous {
            let reason =
                "it shows a page as one continuous picture only: ask for that, or for the embedded engine";
            return Err(RenderError::Chromium {
                reason: reason.to_owned(),
            });
        }
        if request.page.png == PngView::Continuous
            && let Some(rendered) = self.by_chromium(request, &mut prepared, "image/png", browser)?
        {
            return Ok(rendered);
        }
        self.lay_out(prepared, |shared, prepared| {
            let page = prepared.page;
            let document = shared.pages(prepared, Pages::for_view(page.png))?;
            let pixels = typst::Pixels::of(prepared.pictures.list());
            let bytes = typst::png(
                &document,
                page.png,
                page.pixels_per_inch,
                pixels,
                &mut prepared.warnings,
            )?;
            Ok(prepared.rendered(bytes, "image/png", Some(document.pages().len())))
        })
    }

    /// A DOCX. HTML is read by the embedded reader whatever the engine.
    pub fn docx(&self, request: &Request<'_>) -> Result<Rendered, RenderError> {
        let prepared = self.prepare(request)?;
        self.lay_out(prepared, |shared, prepared| {
            let office = ooxml::office_pictures(&prepared.pictures, &shared.fonts)?;
            let bytes = docx::write(&prepared.document, &prepared.pictures, &office, prepared.page)?;
            Ok(prepared.rendered(bytes, docx::MIME, None))
        })
    }

    /// A PPTX; a slide begins at every heading of level 1 or 2 and at every rule.
    pub fn pptx(&self, request: &Request<'_>) -> Result<Rendered, RenderError> {
        let prepared = self.prepare(request)?;
        self.lay_out(prepared, |shared, prepared| {
            let office = ooxml::office_pictures(&prepared.pictures, &shared.fonts)?;
            let (bytes, slides) = pptx::write(
                &prepared.document,
                &prepared.pictures,
                &office,
                shared.limits.pages,
            )?;
            Ok(prepared.rendered(bytes, pptx::MIME, Some(slides)))
        })
    }

    /// What this process can render with. Scans the system's fonts.
    pub fn facts(&self) -> Facts {
        Facts {
            chromium: chromium::find(),
            font_families: self.shared.fonts.families(),
        }
    }

    /// The browser's result when the request is one for a browser; `None` leaves it to the embedded engine.
    fn by_chromium(
        &self,
        request: &Request<'_>,
        prepared: &mut Prepared,
        mime: &'static str,
        print: impl FnOnce(&Chromium, &str, Job) -> Result<Printed, ChromiumError>,
    ) -> Result<Option<Rendered>, RenderError> {
        let wanted = match (request.format, request.engine) {
            (Format::Markdown, _) | (_, Engine::Embedded) => false,
            (Format::Html, Engine::Auto) => chromium::find().is_some(),
            (Format::Html, Engine::Chromium) => true,
        };
        if !wanted {
            return Ok(None);
        }
        let picture = |reference: &str| {
            prepared
                .pictures
                .get(reference)
                .map(|(_, picture)| picture.data_address())
        };
        let html = html::prepare_for_browser(request.content, &prepared.document, &picture)?;
        let shared = &self.shared;
        let job = Job {
            limit: shared.limits.deadline,
            is_isolated: self.is_isolated,
        };
        match print(&shared.chromium, &html, job) {
            Ok(printed) if printed.pages > shared.limits.pages => Err(RenderError::TooManyPages {
                pages: printed.pages,
                limit: shared.limits.pages,
            }),
            Ok(printed) => {
                if let Some(pixels_per_inch) = printed.lowered_to {
                    prepared
                        .warnings
                        .push(Warning::LowerResolution { pixels_per_inch });
                }
                // The browser shows boxes, too, and says nothing.
                let choice = shared
                    .fonts
                    .choose(&characters(&prepared.document, &prepared.pictures));
                if !choice.missing.is_empty() {
                    prepared.warnings.push(Warning::MissingGlyphs {
                        chars: choice.missing,
                    });
                }
                let mut rendered = prepared.rendered(printed.bytes, mime, Some(printed.pages));
                rendered.engine = UsedEngine::Chromium;
                Ok(Some(rendered))
            }
            Err(error) if request.engine == Engine::Chromium => {
                Err(RenderError::Chromium { reason: error.told() })
            }
            Err(error) => {
                prepared
                    .warnings
                    .push(Warning::EmbeddedInstead { reason: error.told() });
                Ok(None)
            }
        }
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, RenderError> {
        let limits = &self.shared.limits;
        let (bytes, limit) = (request.content.len(), limits.content_bytes);
        if bytes > limit {
            return Err(RenderError::ContentTooLarge { bytes, limit });
        }
        let mut document = match request.format {
            Format::Markdown => markdown::read(request.content),
            Format::Html => html::read(request.content)?,
        };
        if let Some(title) = request.title.map(str::trim).filter(|title| !title.is_empty()) {
            document.title = Some(prose::collapse(title));
            document.heading = document.title.clone();
        }
        if document.title.is_none()
            && let Some(Block::Heading { level: 1, inlines }) = document.blocks.first()
        {
            document.title = Some(plain_text(inlines).trim().to_owned());
        }
        visit::inline_lists(&mut document, &mut prose::cling_citations);
        let mut warnings = Vec::new();
        cite(&mut document, request, &mut warnings);
        let pictures = Pictures::load(&document, request.assets, limits, &mut warnings);
        Ok(Prepared {
            document,
            pictures,
            page: request.page,
            warnings,
        })
    }

    /// Runs `work` on a thread of its own with room for deep documents, and waits for it until the deadline.
    fn lay_out<F>(&self, mut prepared: Prepared, work: F) -> Result<Rendered, RenderError>
    where
        F: FnOnce(&Shared, &mut Prepared) -> Result<Rendered, RenderError> + Send + 'static,
    {
        if self.is_isolated {
            let result = work(&self.shared, &mut prepared);
            typst::forget_unused();
            return result;
        }
        let limit = self.shared.limits.deadline;
        let slot = LayoutSlot::take(&self.shared).ok_or(RenderError::Busy)?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("render".to_owned())
            .stack_size(LAYOUT_STACK_BYTES);
        let spawned = thread.spawn(move || {
            let result = work(&slot.shared, &mut prepared);
            drop(slot);
            // The caller may have given up.
            let _ = sender.send(result);
            typst::forget_unused();
        });
        spawned.map_err(|error| RenderError::Layout {
            reason: error.to_string(),
        })?;
        match receiver.recv_timeout(limit) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(RenderError::Deadline { limit }),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(RenderError::Layout {
                reason: "it panicked".to_owned(),
            }),
        }
    }
}

impl Prepared {
    fn rendered(&mut self, bytes: Vec<u8>, mime: &'static str, pages: Option<usize>) -> Rendered {
        let warnings = std::mem::take(&mut self.warnings);
        Rendered {
            bytes,
            mime,
            pages,
            engine: UsedEngine::Embedded,
            warnings,
        }
    }
}

impl Shared {
    fn pages(
        &self,
        prepared: &mut Prepared,
        pages: Pages,
    ) -> Result<typst_layout::PagedDocument, RenderError> {
        highlight::prepare(&prepared.document);
        let choice = self
            .fonts
            .choose(&characters(&prepared.document, &prepared.pictures));
        let code = typst::code::write(
            &prepared.document,
            &prepared.pictures,
            &choice,
            prepared.page,
            pages,
        );
        let world = DocumentWorld::new(code, choice.store, prepared.pictures.list());
        let mut document = typst::layout(&world, self.limits.pages)?;
        document.info_mut().title = prepared.document.title.as_deref().map(Into::into);
        if !choice.missing.is_empty() {
            prepared.warnings.push(Warning::MissingGlyphs {
                chars: choice.missing,
            });
        }
        Ok(document)
    }
}

/// One of the layouts that may run at once; given back when dropped.
struct LayoutSlot {
    shared: Arc<Shared>,
}

impl LayoutSlot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let before = shared.layouts.fetch_add(1, Ordering::AcqRel);
        let slot = Self {
            shared: Arc::clone(shared),
        };
        (before < MAX_LAYOUTS).then_some(slot)
    }
}

impl Drop for LayoutSlot {
    fn drop(&mut self) {
        self.shared.layouts.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Gives the document the sources it cites, and names those nobody knows.
fn cite(document: &mut Document, request: &Request<'_>, warnings: &mut Vec<Warning>) {
    let mut cited = BTreeSet::new();
    visit::leaves(document, &mut |leaf| {
        if let Leaf::Cite(sids) = leaf {
            cited.extend(sids.iter().copied());
        }
    });
    for sid in cited {
        match request.sources.iter().find(|source| source.sid == sid) {
            Some(source) => document.sources.push(source.clone()),
            None => warnings.push(Warning::UnknownSource { sid }),
        }
    }
}

/// Every character the pages will show, also those within drawings.
fn characters(document: &Document, pictures: &Pictures) -> BTreeSet<char> {
    let mut chars = visit::characters(document);
    for picture in pictures.list().iter().filter(|picture| picture.kind == Kind::Svg) {
        chars.extend(String::from_utf8_lossy(&picture.bytes).chars());
    }
    chars
}
