//! The helper's side: takes one task after another, each on a fresh thread with a bounded stack.
//!
//! Runs behind the sandbox's isolation layers. It trusts the program that started it and nothing else; whatever a task
//! does to this process, the program sees it end and says which bound was met.

use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use annals_sandbox::launcher::{self, Role};
use annals_store::preflight::{self, Checked, Described};

use crate::limits::INPUT_MAX_BYTES;
use crate::task::{Answer, FromHelper, Order, Task};
use crate::wire;

/// The role of a helper for content; [`annals_sandbox::launcher::init_with`] takes it.
pub const ROLE: Role = Role {
    name: "content",
    run: serve,
};

/// [`annals_sandbox::launcher::init`] for a program that also reads content.
pub fn init() {
    launcher::init_with(&[ROLE]);
}

/// An answer and the bytes that go with it.
type Answered = (Answer, Option<Vec<u8>>);

fn serve(socket: UnixStream) {
    // What a panic says goes back as an answer; standard error is for the last words of a process that aborts.
    std::panic::set_hook(Box::new(|_| {}));
    let readers = Readers::default();
    let mut memory = Memory::default();
    while let Ok(Some((order, parts))) = wire::receive::<Order>(&socket, INPUT_MAX_BYTES) {
        if wire::send(&socket, &FromHelper::Taken, &[]).is_err() {
            return;
        }
        let (answer, part) = perform(&readers, order, parts, &socket);
        let done = FromHelper::Done {
            answer,
            resident_bytes: memory.give_back(),
        };
        let parts: Vec<&[u8]> = part.iter().map(Vec::as_slice).collect();
        if wire::send(&socket, &done, &parts).is_err() {
            return;
        }
    }
}

/// What is kept from one task to the next: fonts, rules of languages, a warm browser.
#[derive(Default)]
struct Readers {
    #[cfg(feature = "documents")]
    renderer: std::sync::OnceLock<annals_render::Renderer>,
}

fn perform(readers: &Readers, order: Order, parts: Vec<Vec<u8>>, socket: &UnixStream) -> Answered {
    limit_cpu(order.cpu_ms);
    let content = parts.into_iter().next().unwrap_or_default();
    let work = || catch_unwind(AssertUnwindSafe(|| readers.perform(order.task, content, socket)));
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("content".to_owned())
            .stack_size(order.stack_bytes)
            .spawn_scoped(scope, work);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(panic),
            Err(error) => Ok((Answer::Panicked(format!("no thread: {error}")), None)),
        }
    });
    result.unwrap_or_else(|panic| (Answer::Panicked(said(panic.as_ref())), None))
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    const SAID_MAX_CHARS: usize = 300;
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked");
    text.chars().take(SAID_MAX_CHARS).collect()
}

impl Readers {
    #[cfg_attr(
        not(feature = "documents"),
        allow(unused_variables, reason = "only documents ask for pictures")
    )]
    fn perform(&self, task: Task, content: Vec<u8>, socket: &UnixStream) -> Answered {
        match task {
            Task::Page { url } => page(&url, content),
            Task::PdfText => pdf_text(&content),
            Task::Attachment { name } => {
                let checked = annals_store::preflight::check_attachment(&name, &content);
                (Answer::Attachment(checked), None)
            }
            Task::Describe { checked } => describe(&checked, &content),
            #[cfg(feature = "documents")]
            Task::Render { form, head } => self.render(form, &head, content, socket),
            #[cfg(feature = "documents")]
            Task::Trees => documents::trees(&content),
            #[cfg(feature = "documents")]
            Task::PdfPage { number, width } => documents::pdf_page(content, number, width),
            #[cfg(feature = "documents")]
            Task::Facts => (Answer::Facts(self.renderer().facts()), None),
        }
    }
}

fn describe(checked: &Checked, content: &[u8]) -> Answered {
    let mut described = preflight::describe(checked, content, annals_core::content::pixels(content));
    #[cfg(feature = "web")]
    if checked.kind == preflight::AttachmentKind::Pdf
        && let Ok(pdf) = crate::pdf::text(content)
    {
        described = described.with_text_of_pages(pdf.text);
    }
    let Described {
        summary,
        text,
        pixels,
    } = described;
    (
        Answer::Described { summary, pixels },
        text.map(String::into_bytes),
    )
}

#[cfg(feature = "web")]
fn page(url: &str, content: Vec<u8>) -> Answered {
    let Ok(url) = url::Url::parse(url) else {
        return (Answer::Unreadable("its address is none".to_owned()), None);
    };
    let page = crate::page::read(&String::from_utf8_lossy(&content), &url);
    let head = Answer::Page {
        title: page.title,
        cut_after_bytes: page.cut_after_bytes,
    };
    (head, Some(page.markdown.into_bytes()))
}

#[cfg(feature = "web")]
fn pdf_text(content: &[u8]) -> Answered {
    match crate::pdf::text(content) {
        Ok(pdf) => (Answer::PdfText { title: pdf.title }, Some(pdf.text.into_bytes())),
        Err(error) => (Answer::Unreadable(error.to_string()), None),
    }
}

#[cfg(not(feature = "web"))]
fn page(_url: &str, _content: Vec<u8>) -> Answered {
    (Answer::NotBuilt("web".to_owned()), None)
}

#[cfg(not(feature = "web"))]
fn pdf_text(_content: &[u8]) -> Answered {
    (Answer::NotBuilt("web".to_owned()), None)
}

#[cfg(feature = "documents")]
mod documents {
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;

    use annals_render::tree::TreeRequest;
    use annals_render::{Assets, Renderer, Request};

    use super::{Answered, Readers};
    use crate::limits::{ASSET_MAX_BYTES, ASSETS_MAX_COUNT};
    use crate::task::{Answer, Asset, DocumentHead, Form, FromHelper};
    use crate::wire;

    impl Readers {
        pub(super) fn renderer(&self) -> &Renderer {
            self.renderer.get_or_init(|| Renderer::in_process().isolated())
        }

        pub(super) fn render(
            &self,
            form: Form,
            head: &DocumentHead,
            content: Vec<u8>,
            socket: &UnixStream,
        ) -> Answered {
            let content = String::from_utf8_lossy(&content);
            let assets = Asked {
                socket,
                count: Cell::new(0),
            };
            let request = Request {
                content: &content,
                format: head.format,
                title: head.title.as_deref(),
                assets: &assets,
                sources: &head.sources,
                engine: head.engine,
                page: head.page,
            };
            let renderer = self.renderer();
            let rendered = match form {
                Form::Pdf => renderer.pdf(&request),
                Form::Png => renderer.png(&request),
                Form::Docx => renderer.docx(&request),
                Form::Pptx => renderer.pptx(&request),
            };
            match rendered {
                Ok(rendered) => {
                    let head = Answer::Rendered {
                        pages: rendered.pages,
                        engine: rendered.engine,
                        warnings: rendered.warnings,
                    };
                    (head, Some(rendered.bytes))
                }
                Err(error) => (Answer::NotRendered(error), None),
            }
        }
    }

    /// Trees of all requests, in their order.
    pub(super) fn trees(content: &[u8]) -> Answered {
        let requests: Vec<TreeRequest> = match serde_json::from_slice(content) {
            Ok(requests) => requests,
            Err(error) => return (Answer::Unreadable(error.to_string()), None),
        };
        let trees: Vec<serde_json::Value> = requests.iter().map(annals_render::tree::draw).collect();
        match serde_json::to_vec(&trees) {
            Ok(bytes) => (Answer::Trees, Some(bytes)),
            Err(error) => (Answer::Unreadable(error.to_string()), None),
        }
    }

    /// One page, from 1, as a picture.
    pub(super) fn pdf_page(content: Vec<u8>, number: u32, width: u32) -> Answered {
        match annals_render::pdf_page::draw(content, number as usize, width) {
            Ok(page) => (Answer::PdfPage { pages: page.pages }, Some(page.png)),
            Err(error) => (Answer::Unreadable(error.to_string()), None),
        }
    }

    /// Pictures, asked of the program one by one: what a reference may reach is decided there.
    struct Asked<'a> {
        socket: &'a UnixStream,
        count: Cell<usize>,
    }

    impl Assets for Asked<'_> {
        fn get(&self, reference: &str) -> Option<Vec<u8>> {
            self.count.set(self.count.get() + 1);
            if self.count.get() > ASSETS_MAX_COUNT {
                return None;
            }
            let ask = FromHelper::Asset {
                reference: reference.to_owned(),
            };
            wire::send(self.socket, &ask, &[]).ok()?;
            let (answer, parts) = wire::receive::<Asset>(self.socket, ASSET_MAX_BYTES as u64).ok()??;
            parts.into_iter().next().filter(|_| answer.is_found)
        }
    }
}

/// Moves the soft limit of processor time to what is used already and this much more.
fn limit_cpu(cpu_ms: u64) {
    // SAFETY: plain calls on zeroed structures of the right type.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_SELF, &mut usage) != 0
            || libc::getrlimit(libc::RLIMIT_CPU, &mut limit) != 0
        {
            return;
        }
        let used = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
        let seconds = u64::try_from(used).unwrap_or_default() + cpu_ms.div_ceil(1000) + 1;
        limit.rlim_cur = seconds.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_CPU, &limit);
    }
}

/// What this process holds.
#[derive(Default)]
struct Memory {
    /// After free memory was last handed back.
    kept_bytes: u64,
}

impl Memory {
    /// Handing back means a walk over everything that was ever taken: after a large document that is most of the time of a
    /// small one, so it waits until there is this much to gain.
    const WORTH_BYTES: u64 = 8 << 20;

    /// Hands free memory back to the kernel, if it is much; how much this process still holds.
    fn give_back(&mut self) -> u64 {
        let resident = resident_bytes();
        if resident < self.kept_bytes + Self::WORTH_BYTES {
            return resident;
        }
        #[cfg(target_env = "gnu")]
        // SAFETY: has no preconditions.
        unsafe {
            libc::malloc_trim(0);
        }
        self.kept_bytes = resident_bytes();
        self.kept_bytes
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    // SAFETY: has no preconditions.
    let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    pages.unwrap_or_default() * page_bytes
}
