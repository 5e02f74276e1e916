//! The table of files, each with its type, its digest and its compressed form.

use std::io::Write as _;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// Scripts and styles come from the page's own files, nothing leaves the origin, and no string becomes HTML.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; object-src 'none'; font-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

/// One file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its path on the server, from the first slash on.
    pub path: &'static str,
    /// Its media type, with the charset.
    pub media_type: &'static str,
    /// The file.
    pub bytes: &'static [u8],
    /// The file, compressed with gzip.
    pub gzip: &'static [u8],
    /// A strong entity tag with its quotes.
    pub etag: &'static str,
}

macro_rules! files {
    ($($path:literal)*) => {
        const FILES: &[(&str, &[u8])] = &[
            $((concat!("/", $path), include_bytes!(concat!("../assets/", $path))),)*
        ];
    };
}

files! {
    "app.css"
    "icon.svg"
    "index.html"
    "js/actions.js"
    "js/address.js"
    "js/api.js"
    "js/approvals.js"
    "js/blocks.js"
    "js/compare.js"
    "js/composer.js"
    "js/cost.js"
    "js/format.js"
    "js/inspector.js"
    "js/keys.js"
    "js/main.js"
    "js/questions.js"
    "js/rows.js"
    "js/servers.js"
    "js/sidebar.js"
    "js/state.js"
    "js/stream.js"
    "js/strip.js"
    "js/timeline.js"
    "js/tree.js"
    "js/types.js"
    "js/view.js"
    "js/window.js"
    "js/inspector/call.js"
    "js/inspector/facts.js"
    "js/inspector/files.js"
    "js/inspector/model_view.js"
}

/// The file at this path; the page itself is at `/`.
pub fn asset(path: &str) -> Option<&'static Asset> {
    let path = if path == "/" { "/index.html" } else { path };
    assets().iter().find(|asset| asset.path == path)
}

/// Every file, compressed once.
pub fn assets() -> &'static [Asset] {
    static ASSETS: OnceLock<Vec<Asset>> = OnceLock::new();
    ASSETS.get_or_init(|| FILES.iter().map(|(path, bytes)| prepare(path, bytes)).collect())
}

fn prepare(path: &'static str, bytes: &'static [u8]) -> Asset {
    Asset {
        path,
        media_type: media_type(path),
        bytes,
        gzip: gzip(bytes).leak(),
        etag: etag(bytes).leak(),
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn etag(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const PAGE_MAX_GZIP_BYTES: usize = 150 * 1024;

    #[test]
    fn every_file_of_the_folder_is_in_the_table() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut found = Vec::new();
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(format!("/{}", path.strip_prefix(&folder).unwrap().display()));
                }
            }
        }
        found.sort();
        let mut listed: Vec<String> = assets().iter().map(|asset| asset.path.to_owned()).collect();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn the_page_weighs_less_than_150_kb() {
        let bytes: usize = assets().iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes < PAGE_MAX_GZIP_BYTES, "{bytes} bytes");
    }

    #[test]
    fn compressed_files_are_the_files() {
        for asset in assets() {
            let mut whole = Vec::new();
            flate2::read::GzDecoder::new(asset.gzip)
                .read_to_end(&mut whole)
                .unwrap();
            assert_eq!(whole, asset.bytes, "{}", asset.path);
        }
    }

    #[test]
    fn the_root_is_the_page_and_foreign_paths_are_nothing() {
        assert_eq!(asset("/").unwrap().media_type, "text/html; charset=utf-8");
        for path in [
            "",
            "/js",
            "/js/",
            "/../Cargo.toml",
            "/assets/app.css",
            "//app.css",
        ] {
            assert!(asset(path).is_none(), "{path}");
        }
    }

    #[test]
    fn every_module_is_asked_for_at_once() {
        let page = std::str::from_utf8(asset("/").unwrap().bytes).unwrap();
        for asset in assets() {
            let is_typing_only = asset.path == "/js/types.js";
            if asset.path.ends_with(".js") && !is_typing_only {
                assert!(
                    page.contains(&format!("=\"{}\"", asset.path)),
                    "{} waits for its importer",
                    asset.path
                );
            }
        }
    }

    #[test]
    fn nothing_names_another_host_or_makes_html_from_text() {
        const FORBIDDEN: [&str; 9] = [
            ".innerHTML =",
            ".outerHTML =",
            "insertAdjacentHTML",
            "document.write(",
            "eval(",
            "new Function",
            "setAttribute(\"style\"",
            "DOMParser",
            "://cdn",
        ];
        for asset in assets() {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for word in FORBIDDEN {
                assert!(!text.contains(word), "{} has {word}", asset.path);
            }
        }
    }

    #[test]
    fn every_module_says_what_it_is_and_is_type_checked() {
        for asset in assets().iter().filter(|asset| asset.path.ends_with(".js")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            assert!(text.starts_with("// @ts-check\n/**\n"), "{}", asset.path);
        }
        let view = std::str::from_utf8(asset("/js/view.js").unwrap().bytes).unwrap();
        assert!(
            view.lines().count() <= 250,
            "the view layer has {} lines",
            view.lines().count()
        );
    }
}
