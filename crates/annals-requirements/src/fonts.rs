//! Whether a system font has certain characters, read from the fonts themselves.

use std::path::{Path, PathBuf};

const DEPTH: u32 = 6;

/// Whether one of the fonts of this machine has all of these characters.
pub(crate) fn any_covers(chars: &[char]) -> bool {
    folders().iter().any(|folder| covers_below(folder, chars, DEPTH))
}

/// Where fonts are looked for by the layout engine on Linux.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![
        PathBuf::from("/usr/share/fonts"),
        PathBuf::from("/usr/local/share/fonts"),
    ];
    if let Some(home) = std::env::var_os("HOME") {
        let home = Path::new(&home);
        folders.extend([home.join(".fonts"), home.join(".local/share/fonts")]);
    }
    folders
}

fn covers_below(folder: &Path, chars: &[char], depth: u32) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => depth > 0 && covers_below(&path, chars, depth - 1),
            false => is_font(&path) && std::fs::read(&path).is_ok_and(|bytes| covers(&bytes, chars)),
        }
    })
}

fn is_font(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["ttf", "otf", "ttc", "otc"]
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    })
}

fn covers(bytes: &[u8], chars: &[char]) -> bool {
    let faces = ttf_parser::fonts_in_collection(bytes).unwrap_or(1);
    (0..faces)
        .filter_map(|index| ttf_parser::Face::parse(bytes, index).ok())
        .any(|face| chars.iter().all(|c| face.glyph_index(*c).is_some()))
}
