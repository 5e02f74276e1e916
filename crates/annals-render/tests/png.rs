//! Pictures of pages.

mod common;

use annals_render::{PageOptions, PngView, RenderError, Request};
use common::RENDERER;

const TWO_PAGES: &str = "# One\n\n\\pagebreak\n\n# Two";

fn size(view: PngView) -> (u32, u32) {
    let page = PageOptions {
        png: view,
        pixels_per_inch: 72.0,
        ..PageOptions::default()
    };
    let rendered = RENDERER
        .png(&Request {
            page,
            ..Request::markdown(TWO_PAGES)
        })
        .unwrap();
    assert_eq!(&rendered.bytes[..4], b"\x89PNG");
    let number = |at: usize| u32::from_be_bytes(rendered.bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn a_page_has_the_size_of_its_paper_and_views_differ_in_height() {
    let (width, height) = size(PngView::Page(2));
    assert!(
        (594..=597).contains(&width) && (840..=843).contains(&height),
        "{width} × {height}"
    );
    let (_, stacked) = size(PngView::Stacked);
    assert!(stacked >= 2 * height, "{stacked}");
}

#[test]
fn a_page_that_is_not_there_is_an_error() {
    let page = PageOptions {
        png: PngView::Page(3),
        ..PageOptions::default()
    };
    let result = RENDERER.png(&Request {
        page,
        ..Request::markdown(TWO_PAGES)
    });
    assert!(
        matches!(result, Err(RenderError::NoSuchPage { page: 3, pages: 2 })),
        "{result:?}"
    );
}
