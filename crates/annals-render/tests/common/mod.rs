//! What the tests of this crate share: one renderer, the report, and text out of a PDF.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use annals_render::{Limits, Renderer, Source};
use annals_requirements::{Requirement, met, program};

/// One renderer for all tests of a file: fonts are parsed once. A busy machine must not make a test fail.
pub static RENDERER: LazyLock<Renderer> = LazyLock::new(patient_renderer);

/// A renderer without hurry.
pub fn patient_renderer() -> Renderer {
    Renderer::in_process_with(Limits {
        deadline: Duration::from_secs(600),
        ..Limits::default()
    })
}

/// A five-page report: headings, a wide table over a page break, a chart, code, other scripts, citations.
pub const REPORT: &str = include_str!("../report/report.md");

/// HTML as a model writes it.
pub const DASHBOARD: &str = include_str!("../report/dashboard.html");

/// The pictures of both.
pub fn assets() -> HashMap<String, Vec<u8>> {
    HashMap::from([(
        "chart.svg".to_owned(),
        include_bytes!("../report/chart.svg").to_vec(),
    )])
}

/// Thirty documents in the style that models write: name and markdown, by name.
pub fn corpus() -> Vec<(String, String)> {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/documents");
    let mut documents: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    documents.sort();
    documents
}

/// The sources of both.
pub fn sources() -> Vec<Source> {
    let source = |sid, title: &str, url: Option<&str>| Source {
        sid,
        title: title.into(),
        url: url.map(Into::into),
    };
    vec![
        source(1, "Logbook of the operators", Some("https://example.org/logbook")),
        source(2, "Telemetry export", Some("https://example.org/export?a=1&b=2")),
        source(3, "scans.pdf", None),
        source(9, "Never cited", None),
    ]
}

/// The text of every page, without any white space: line breaks fall anywhere.
pub fn pdf_pages(bytes: &[u8]) -> Vec<String> {
    let pdf = lopdf::Document::load_mem(bytes).expect("a readable PDF");
    let numbers: Vec<u32> = pdf.get_pages().keys().copied().collect();
    let text = |number: &u32| squeeze(&pdf.extract_text(&[*number]).expect("text"));
    numbers.iter().map(text).collect()
}

/// The text as poppler's `pdftotext` reads it; `None` when that is not installed.
pub fn pdf_text_by_poppler(bytes: &[u8]) -> Option<String> {
    if !met(Requirement::Poppler) {
        return None;
    }
    let pdftotext = program("pdftotext")?;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    let output = std::process::Command::new(pdftotext)
        .arg(file.path())
        .arg("-")
        .output()
        .expect("pdftotext starts");
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Without white space and invisible break places.
pub fn squeeze(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && *c != '\u{200b}')
        .collect()
}

/// Converts an office file to PDF; `None` when LibreOffice is not installed.
pub fn by_libreoffice(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !met(Requirement::LibreOffice) {
        return None;
    }
    let soffice = program("soffice")?;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    std::fs::write(&file, bytes).expect("written");
    let profile = format!("-env:UserInstallation=file://{}/profile", folder.path().display());
    let status = std::process::Command::new(soffice)
        .args(["--headless", &profile, "--convert-to", "pdf", "--outdir"])
        .arg(folder.path())
        .arg(&file)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("LibreOffice starts");
    assert!(status.success(), "LibreOffice could not convert {name}");
    Some(std::fs::read(Path::new(&file).with_extension("pdf")).expect("LibreOffice wrote no PDF"))
}

/// The parts of an office file.
pub fn parts(bytes: &[u8]) -> HashMap<String, Vec<u8>> {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("a zip file");
    let mut parts = HashMap::new();
    for index in 0..zip.len() {
        let mut file = zip.by_index(index).expect("an entry");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).expect("its bytes");
        parts.insert(file.name().expect("its name").to_string(), bytes);
    }
    parts
}

/// Checks what programs repair: parts that are not well-formed, relations to nowhere, parts without a type.
pub fn assert_sound_package(bytes: &[u8]) {
    let parts = parts(bytes);
    let types = String::from_utf8(parts["[Content_Types].xml"].clone()).expect("UTF-8");
    for (path, bytes) in &parts {
        if !path.ends_with(".xml") && !path.ends_with(".rels") {
            continue;
        }
        let xml = std::str::from_utf8(bytes).expect("UTF-8");
        let tree = roxmltree::Document::parse(xml).unwrap_or_else(|error| panic!("{path}: {error}"));
        if path.ends_with(".xml") && path != "[Content_Types].xml" {
            assert!(
                types.contains(&format!("PartName=\"/{path}\"")),
                "{path} has no content type"
            );
        }
        if !path.ends_with(".rels") {
            continue;
        }
        let folder = Path::new(path)
            .parent()
            .and_then(Path::parent)
            .expect("a folder")
            .to_owned();
        for relation in tree.root_element().children().filter(roxmltree::Node::is_element) {
            if relation.attribute("TargetMode") == Some("External") {
                continue;
            }
            let target = relation.attribute("Target").expect("a target");
            let mut full = folder.clone();
            for piece in target.split('/') {
                match piece {
                    ".." => drop(full.pop()),
                    piece => full.push(piece),
                }
            }
            assert!(
                parts.contains_key(full.to_str().expect("UTF-8")),
                "{path} points to {target}, which is not there"
            );
        }
    }
}
