//! HTML → PDF and PNG by an installed Chromium, when there is one.
//!
//! The browser is found at run time and started with the first document, speaks the DevTools protocol over a
//! pair of pipes (no port is opened), and stays warm. It is isolated: no scripts, no network (requests are
//! failed, the network is emulated as absent, names do not resolve), a private profile that is removed, its
//! own process group that is killed as a whole, and it dies with this process.
//!
//! Must not decide what a document may contain: it gets finished HTML with its pictures inlined.

mod pipe;
mod process;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::limits::MAX_PNG_SIDE;
use crate::request::PageOptions;
use pipe::Pipe;
use process::Browser;

/// CSS pixels per point.
const PX_PER_PT: f64 = 96.0 / 72.0;
/// How long a page may take to load its own inlined pictures.
const LOAD_LIMIT: Duration = Duration::from_secs(5);

/// A Chromium that may or may not be there.
#[derive(Default)]
pub(crate) struct Chromium {
    /// One document at a time: the browser is told in several steps what to do.
    browser: Mutex<Option<Browser>>,
}

/// Why a document could not be printed by the browser.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChromiumError {
    #[error("no chromium found: install one, or name one that exists in `ANNALS_CHROMIUM`")]
    Absent,
    #[error(
        "root starts it in a helper process only: render through the content helper, or run as an ordinary user"
    )]
    Root,
    #[error("it could not be started: {0}")]
    Start(std::io::Error),
    #[error("it went away: {0}")]
    Gone(String),
    #[error("it did not answer in time")]
    Late,
    #[error("`{method}` failed: {reason}")]
    Refused { method: &'static str, reason: String },
}

impl ChromiumError {
    /// What it says to somebody who can only change the document. A browser that ran out of memory does not say so: it fails
    /// somewhere, or one of its processes is gone. So a failure names the bound, where there is one.
    pub(crate) fn told(&self) -> String {
        let bound = match self {
            Self::Gone(_) | Self::Refused { .. } => process::memory_bound_bytes(),
            _ => None,
        };
        match bound {
            Some(bytes) => format!(
                "{self}; if it is large: the browser may take {} MB of memory",
                bytes >> 20
            ),
            None => self.to_string(),
        }
    }
}

/// How a document is to be printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) limit: Duration,
    /// Whether this process is isolated already, so that the browser need not isolate itself.
    pub(crate) is_isolated: bool,
}

/// A file made by the browser.
pub(crate) struct Printed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pages: usize,
    /// The pixels per inch of a picture that would have been too large.
    pub(crate) lowered_to: Option<u32>,
}

/// Where the browser is, if one is installed: `ANNALS_CHROMIUM`, else the first known name on the search path.
pub fn find() -> Option<PathBuf> {
    process::find()
}

impl Chromium {
    /// `html` as a PDF with page numbers.
    pub(crate) fn pdf(&self, html: &str, page: PageOptions, job: Job) -> Result<Printed, ChromiumError> {
        let (width_pt, height_pt) = page.size_pt();
        let footer = "<div style=\"font:8px sans-serif;color:#5c6470;width:100%;text-align:right;padding:0 14mm\">\
                      <span class=\"pageNumber\"></span> / <span class=\"totalPages\"></span></div>";
        let settings = json!({
            "printBackground": true,
            "preferCSSPageSize": true,
            "paperWidth": width_pt / 72.0,
            "paperHeight": height_pt / 72.0,
            "marginTop": 0.6, "marginBottom": 0.7, "marginLeft": 0.6, "marginRight": 0.6,
            "displayHeaderFooter": true,
            "headerTemplate": "<span></span>",
            "footerTemplate": footer,
        });
        self.with_page(html, job, |tab| {
            let answer = tab.call("Page.printToPDF", settings)?;
            let bytes = decode("Page.printToPDF", &answer)?;
            Ok(Printed {
                pages: count_pages(&bytes),
                lowered_to: None,
                bytes,
            })
        })
    }

    /// `html` as one picture of all its content.
    pub(crate) fn png(&self, html: &str, page: PageOptions, job: Job) -> Result<Printed, ChromiumError> {
        let width = (page.size_pt().0 * PX_PER_PT).round();
        let scale = page.pixels_per_inch.clamp(10.0, 600.0) / 96.0;
        self.with_page(html, job, |tab| {
            let screen = |height: f64, scale: f64| {
                json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": false })
            };
            tab.call("Emulation.setDeviceMetricsOverride", screen(800.0, 1.0))?;
            let metrics = tab.call("Page.getLayoutMetrics", json!({}))?;
            let height = metrics["cssContentSize"]["height"].as_f64().unwrap_or(800.0).max(1.0);
            let wanted = scale;
            let scale = wanted.min(MAX_PNG_SIDE / 2.0 / height);
            tab.call("Emulation.setDeviceMetricsOverride", screen(height.min(MAX_PNG_SIDE), scale))?;
            let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
            let shot = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
            let answer = tab.call("Page.captureScreenshot", shot)?;
            let lowered_to = (scale < wanted).then_some((scale * 96.0) as u32);
            Ok(Printed { bytes: decode("Page.captureScreenshot", &answer)?, pages: 1, lowered_to })
        })
    }

    /// Loads `html` into a fresh tab and runs `work` on it. A browser that failed is not used again.
    fn with_page<T>(
        &self,
        html: &str,
        job: Job,
        work: impl FnOnce(&mut Tab<'_>) -> Result<T, ChromiumError>,
    ) -> Result<T, ChromiumError> {
        let deadline = Instant::now() + job.limit;
        let mut slot = self.browser.lock().unwrap_or_else(PoisonError::into_inner);
        let mut browser = match slot.take() {
            Some(browser) if browser.is_alive() => browser,
            _ => Browser::start(job.is_isolated)?,
        };
        let mut tab = Tab::open(&mut browser.pipe, deadline)?;
        tab.load(html)?;
        let result = work(&mut tab)?;
        tab.close()?;
        *slot = Some(browser);
        Ok(result)
    }
}

/// One page of the browser, closed off from everything.
struct Tab<'a> {
    pipe: &'a mut Pipe,
    target: String,
    session: String,
    deadline: Instant,
}

impl<'a> Tab<'a> {
    fn open(pipe: &'a mut Pipe, deadline: Instant) -> Result<Self, ChromiumError> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let target = pipe.call(
            None,
            "Target.createTarget",
            json!({ "url": "about:blank" }),
            deadline,
        )?;
        let target = text(&target, "targetId");
        let attach = json!({ "targetId": target, "flatten": true });
        let session = pipe.call(None, "Target.attachToTarget", attach, deadline)?;
        let mut tab = Self {
            pipe,
            target,
            session: text(&session, "sessionId"),
            deadline,
        };
        tab.call("Page.enable", json!({}))?;
        tab.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }))?;
        tab.call("Network.enable", json!({}))?;
        let offline =
            json!({ "offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0 });
        tab.call("Network.emulateNetworkConditions", offline)?;
        tab.call(
            "Network.setBlockedURLs",
            json!({ "urls": ["http://*", "https://*", "ws://*", "wss://*", "file://*", "ftp://*"] }),
        )?;
        // Requests that are caught and never answered load nothing; the page goes on without them.
        tab.call("Fetch.enable", json!({ "patterns": [{ "urlPattern": "*" }] }))?;
        Ok(tab)
    }

    fn call(&mut self, method: &'static str, params: Value) -> Result<Value, ChromiumError> {
        self.pipe.call(Some(&self.session), method, params, self.deadline)
    }

    fn load(&mut self, html: &str) -> Result<(), ChromiumError> {
        let tree = self.call("Page.getFrameTree", json!({}))?;
        let frame = tree["frameTree"]["frame"]["id"].clone();
        self.pipe.forget_events();
        self.call(
            "Page.setDocumentContent",
            json!({ "frameId": frame, "html": html }),
        )?;
        let until = self.deadline.min(Instant::now() + LOAD_LIMIT);
        self.pipe
            .wait_for_event(&self.session, "Page.loadEventFired", until)
    }

    fn close(self) -> Result<(), ChromiumError> {
        let target = json!({ "targetId": self.target });
        self.pipe
            .call(None, "Target.closeTarget", target, self.deadline)
            .map(|_| ())
    }
}

fn decode(method: &'static str, answer: &Value) -> Result<Vec<u8>, ChromiumError> {
    let data = answer["data"].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data);
    bytes.map_err(|error| ChromiumError::Refused {
        method,
        reason: error.to_string(),
    })
}

/// Chromium writes page objects uncompressed.
fn count_pages(pdf: &[u8]) -> usize {
    const MARK: &[u8] = b"/Type /Page";
    pdf.windows(MARK.len() + 1)
        .filter(|window| window.starts_with(MARK) && window[MARK.len()] != b's')
        .count()
}
