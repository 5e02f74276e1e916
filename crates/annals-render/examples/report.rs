//! Renders a markdown or HTML file next to it, in the formats named: `report <file> pdf png docx pptx`.

use std::path::{Path, PathBuf};

use annals_render::{Assets, Engine, Format, Renderer, Request, Source};

struct Folder(PathBuf);

impl Assets for Folder {
    fn get(&self, reference: &str) -> Option<Vec<u8>> {
        std::fs::read(self.0.join(reference)).ok()
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = PathBuf::from(args.next().ok_or("usage: report <file> <format>…")?);
    let content = std::fs::read_to_string(&file)?;
    let assets = Folder(file.parent().unwrap_or(Path::new(".")).to_owned());
    let sources: Vec<Source> = [
        (
            1,
            "Logbook of the harbour operators, 2025",
            Some("https://example.org/logbook"),
        ),
        (
            2,
            "Telemetry export of the vendor",
            Some("https://vendor.example.org/export/2025?format=csv&stations=all"),
        ),
        (3, "logbook-scans.pdf", None),
    ]
    .into_iter()
    .map(|(sid, title, url)| Source {
        sid,
        title: title.into(),
        url: url.map(Into::into),
    })
    .collect();
    let html = file.extension().is_some_and(|extension| extension == "html");
    let request = Request {
        format: if html { Format::Html } else { Format::Markdown },
        assets: &assets,
        sources: &sources,
        engine: if std::env::var_os("CHROMIUM").is_some() {
            Engine::Chromium
        } else {
            Engine::Embedded
        },
        ..Request::markdown(&content)
    };
    let renderer = Renderer::in_process();
    for format in args {
        let started = std::time::Instant::now();
        let rendered = match format.as_str() {
            "pdf" => renderer.pdf(&request)?,
            "png" => renderer.png(&request)?,
            "docx" => renderer.docx(&request)?,
            "pptx" => renderer.pptx(&request)?,
            other => return Err(format!("unknown format `{other}`").into()),
        };
        let out = std::env::temp_dir().join(file.with_extension(&format).file_name().ok_or("no file name")?);
        std::fs::write(&out, &rendered.bytes)?;
        println!(
            "{} {} pages {:?} in {:?}",
            out.display(),
            rendered.bytes.len(),
            rendered.pages,
            started.elapsed()
        );
        for warning in &rendered.warnings {
            println!("  warning: {warning}");
        }
    }
    Ok(())
}
