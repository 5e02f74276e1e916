//! `<img>` and inline `<svg>` → [`Image`].

use base64::Engine as _;
use html5ever::serialize::{SerializeOpts, TraversalScope, serialize};
use markup5ever_rcdom::{Handle, SerializableHandle};

use crate::doc::Image;

use super::css::Computed;
use super::{attr, length};

/// A picture by its address; `None` without one.
pub(super) fn image(node: &Handle, computed: &Computed) -> Option<Image> {
    let reference = attr(node, "src").filter(|src| !src.is_empty())?;
    let width = computed
        .width
        .or_else(|| attr(node, "width").and_then(|width| length(&width)));
    Some(Image {
        reference,
        alt: attr(node, "alt").unwrap_or_default(),
        width,
        caption: None,
    })
}

/// An inline `<svg>` becomes a picture with its own source as its address.
pub(super) fn vector_image(node: &Handle, computed: &Computed) -> Image {
    let mut bytes = Vec::new();
    let options = SerializeOpts {
        traversal_scope: TraversalScope::IncludeNode,
        ..SerializeOpts::default()
    };
    let handle: SerializableHandle = node.clone().into();
    let source = match serialize(&mut bytes, &handle, options) {
        Ok(()) => String::from_utf8_lossy(&bytes).replace("&nbsp;", "&#160;"),
        Err(_) => String::new(),
    };
    let head = source.split('>').next().unwrap_or_default();
    let source = match head.contains("xmlns=") {
        true => source,
        false => source.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1),
    };
    let encoded = base64::engine::general_purpose::STANDARD.encode(source);
    Image {
        reference: format!("data:image/svg+xml;base64,{encoded}"),
        alt: attr(node, "aria-label").unwrap_or_else(|| "drawing".to_owned()),
        width: computed
            .width
            .or_else(|| attr(node, "width").and_then(|width| length(&width))),
        caption: None,
    }
}
