//! The world one document sees while it is laid out.
//!
//! Holds the template, the generated code and the pictures under fixed paths. Typst numbers paths in a table
//! of 65 535 entries that lives as long as the process: never make a path out of a document's own names.

use std::sync::LazyLock;

use typst::diag::{FileError, FileResult};
use typst::foundations::{Bytes, Datetime, Duration};
use typst::syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot};
use typst::text::{Font, FontBook};
use typst::utils::LazyHash;
use typst::{Library, LibraryExt, World};
use typst_kit::fonts::FontStore;

use crate::limits::MAX_IMAGES;
use crate::picture::Picture;

static MAIN: LazyLock<FileId> = LazyLock::new(|| file_id("/main.typ"));
static TEMPLATE: LazyLock<Source> =
    LazyLock::new(|| Source::new(file_id("/template.typ"), include_str!("template.typ").to_owned()));
static PICTURES: LazyLock<Vec<FileId>> = LazyLock::new(|| {
    (0..MAX_IMAGES)
        .map(|index| file_id(&picture_path(index)))
        .collect()
});
static LIBRARY: LazyLock<LazyHash<Library>> = LazyLock::new(|| LazyHash::new(Library::default()));

/// The path under which the generated code names picture `index`.
pub(crate) fn picture_path(index: usize) -> String {
    format!("/picture/{index}")
}

fn file_id(path: &str) -> FileId {
    let path = VirtualPath::new(path).expect("the paths of this module are valid");
    RootedPath::new(VirtualRoot::Project, path).intern()
}

/// Everything Typst may ask for while it lays out one document.
pub(crate) struct DocumentWorld<'a> {
    fonts: &'a FontStore,
    main: Source,
    pictures: &'a [Picture],
}

impl<'a> DocumentWorld<'a> {
    pub(crate) fn new(code: String, fonts: &'a FontStore, pictures: &'a [Picture]) -> Self {
        Self {
            fonts,
            main: Source::new(*MAIN, code),
            pictures,
        }
    }
}

impl World for DocumentWorld<'_> {
    fn library(&self) -> &LazyHash<Library> {
        &LIBRARY
    }

    fn book(&self) -> &LazyHash<FontBook> {
        self.fonts.book()
    }

    fn main(&self) -> FileId {
        *MAIN
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        if id == *MAIN {
            Ok(self.main.clone())
        } else if id == TEMPLATE.id() {
            Ok(TEMPLATE.clone())
        } else {
            Err(FileError::AccessDenied)
        }
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        let index = PICTURES.iter().position(|picture| *picture == id);
        let picture = index.and_then(|index| self.pictures.get(index));
        picture
            .map(|picture| picture.bytes.clone())
            .ok_or(FileError::AccessDenied)
    }

    fn font(&self, index: usize) -> Option<Font> {
        self.fonts.font(index)
    }

    fn today(&self, _offset: Option<Duration>) -> Option<Datetime> {
        None
    }
}
