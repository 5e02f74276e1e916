//! A practical subset of CSS: which simple selectors give an element which of the few properties we keep.
//!
//! Selectors: type, `.class`, `#id`, their compounds and descendants. Everything else (pseudo classes, child
//! combinators, at-rules) is skipped as a whole, never half applied.

use std::collections::HashMap;

use markup5ever_rcdom::Handle;

use crate::doc::{Align, Length, Rgb, Style};

use super::{attr, length, tag};

/// The most rules looked at; a framework pasted into a page must not cost seconds.
const MAX_RULES: usize = 2000;

/// All style sheets of a document.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rules: Vec<Rule>,
    variables: HashMap<String, String>,
}

#[derive(Debug)]
struct Rule {
    /// From the outermost to the element itself.
    path: Vec<Compound>,
    specificity: (usize, usize, usize),
    declarations: Vec<(String, String)>,
}

#[derive(Debug, Default, PartialEq)]
struct Compound {
    tag: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
}

/// What CSS says about one element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Computed {
    pub(super) style: Style,
    pub(super) display: Display,
    pub(super) width: Option<Length>,
    pub(super) break_before: bool,
    pub(super) break_after: bool,
}

/// The kinds of boxes we tell apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Display {
    /// As the element's name has it.
    #[default]
    Natural,
    /// Not shown.
    None,
    /// Its children stand side by side.
    Row,
}

impl Sheet {
    /// Reads a style sheet.
    pub(super) fn add(&mut self, source: &str) {
        let source = without_comments(source);
        let mut rest = source.as_str();
        while let Some(open) = rest.find('{') {
            let selector = rest[..open].trim();
            let (body, after) = block(&rest[open + 1..]);
            rest = after;
            if selector.starts_with('@') || self.rules.len() >= MAX_RULES {
                continue;
            }
            let declarations = declarations(body);
            for selector in selector.split(',').map(str::trim) {
                if matches!(selector, ":root" | "html" | "body") {
                    let variables = declarations.iter().filter(|(name, _)| name.starts_with("--"));
                    self.variables.extend(variables.cloned());
                }
                if let Some(path) = path(selector) {
                    let specificity = specificity(&path);
                    self.rules.push(Rule {
                        path,
                        specificity,
                        declarations: declarations.clone(),
                    });
                }
            }
        }
    }

    /// What applies to `node`, whose ancestors are `ancestors` (outermost first).
    pub(super) fn compute(&self, node: &Handle, ancestors: &[Handle]) -> Computed {
        let mut matching: Vec<&Rule> = self
            .rules
            .iter()
            .filter(|rule| rule.matches(node, ancestors))
            .collect();
        matching.sort_by_key(|rule| rule.specificity);
        let mut computed = Computed::default();
        for rule in matching {
            self.apply(&rule.declarations, &mut computed);
        }
        if let Some(align) = attr(node, "align").and_then(|value| align(&value)) {
            computed.style.align = Some(align);
        }
        if let Some(color) = attr(node, "bgcolor").and_then(|value| color(&value)) {
            computed.style.background = Some(color);
        }
        if let Some(own) = attr(node, "style") {
            self.apply(&declarations(&own), &mut computed);
        }
        computed
    }

    fn apply(&self, declarations: &[(String, String)], to: &mut Computed) {
        for (name, value) in declarations {
            let value = self.resolve(value);
            let value = value.trim_end_matches("!important").trim();
            match name.as_str() {
                "color" => to.style.color = color(value).or(to.style.color),
                "background" | "background-color" => {
                    to.style.background = background(value, to.style.background)
                }
                "border" | "border-color" | "border-left" | "border-top" => {
                    to.style.border = border(value).or(to.style.border);
                }
                "text-align" => to.style.align = align(value).or(to.style.align),
                "font-weight" => to.style.bold = weight(value).or(to.style.bold),
                "font-style" => {
                    to.style.italic = Some(value.starts_with("italic") || value.starts_with("oblique"))
                }
                "font-size" => to.style.size_percent = font_size(value).or(to.style.size_percent),
                "display" => {
                    to.display = match value {
                        "none" => Display::None,
                        "flex" | "grid" | "inline-flex" | "inline-grid" => Display::Row,
                        _ => Display::Natural,
                    }
                }
                "visibility" if value == "hidden" => to.display = Display::None,
                "flex-direction" if value.starts_with("column") => to.display = Display::Natural,
                "width" | "max-width" => to.width = length(value).or(to.width),
                "page-break-before" | "break-before" => to.break_before = matches!(value, "always" | "page"),
                "page-break-after" | "break-after" => to.break_after = matches!(value, "always" | "page"),
                _ => {}
            }
        }
    }

    /// Replaces `var(--name)`, a few levels deep.
    fn resolve(&self, value: &str) -> String {
        let mut value = value.to_owned();
        for _ in 0..4 {
            let Some(start) = value.find("var(") else { break };
            let Some(len) = value[start..].find(')') else {
                break;
            };
            let inner = &value[start + 4..start + len];
            let (name, fallback) = inner.split_once(',').unwrap_or((inner, ""));
            let known = self
                .variables
                .get(name.trim())
                .map(String::as_str)
                .unwrap_or(fallback.trim())
                .to_owned();
            value.replace_range(start..=start + len, &known);
        }
        value
    }
}

impl Rule {
    fn matches(&self, node: &Handle, ancestors: &[Handle]) -> bool {
        let Some((last, outer)) = self.path.split_last() else {
            return false;
        };
        if !last.matches(node) {
            return false;
        }
        let mut candidates = ancestors.iter().rev();
        outer
            .iter()
            .rev()
            .all(|compound| candidates.any(|ancestor| compound.matches(ancestor)))
    }
}

impl Compound {
    fn matches(&self, node: &Handle) -> bool {
        let Some(name) = tag(node) else { return false };
        if self.tag.as_deref().is_some_and(|tag| tag != name) {
            return false;
        }
        if self.id.is_some() && attr(node, "id") != self.id {
            return false;
        }
        if self.classes.is_empty() {
            return true;
        }
        let classes = attr(node, "class").unwrap_or_default();
        self.classes
            .iter()
            .all(|class| classes.split_whitespace().any(|own| own == class))
    }
}

fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start..]
            .find("*/")
            .map_or("", |end| &rest[start + end + 2..]);
    }
    out.push_str(rest);
    out
}

/// The text up to the brace that closes an already opened one, and what follows.
fn block(source: &str) -> (&str, &str) {
    let mut depth = 1;
    for (at, c) in source.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&source[..at], &source[at + 1..]);
        }
    }
    (source, "")
}

fn declarations(body: &str) -> Vec<(String, String)> {
    let pairs = body.split(';').filter_map(|pair| pair.split_once(':'));
    pairs
        .map(|(name, value)| {
            (
                name.trim().to_ascii_lowercase(),
                value.trim().to_ascii_lowercase(),
            )
        })
        .collect()
}

fn path(selector: &str) -> Option<Vec<Compound>> {
    if selector.is_empty() || selector.contains([':', '>', '+', '~', '[', '*', '&']) {
        return None;
    }
    selector.split_whitespace().map(compound).collect()
}

fn compound(text: &str) -> Option<Compound> {
    let mut compound = Compound::default();
    let mut rest = text;
    while !rest.is_empty() {
        let marker = rest.chars().next().filter(|c| matches!(c, '.' | '#'));
        let body = if marker.is_some() { &rest[1..] } else { rest };
        let end = body.find(['.', '#']).unwrap_or(body.len());
        let name = body[..end].to_owned();
        if name.is_empty() {
            return None;
        }
        match marker {
            Some('.') => compound.classes.push(name),
            Some(_) => compound.id = Some(name),
            None => compound.tag = Some(name.to_ascii_lowercase()),
        }
        rest = &body[end..];
    }
    Some(compound)
}

fn specificity(path: &[Compound]) -> (usize, usize, usize) {
    let ids = path.iter().filter(|compound| compound.id.is_some()).count();
    let classes = path.iter().map(|compound| compound.classes.len()).sum();
    let tags = path.iter().filter(|compound| compound.tag.is_some()).count();
    (ids, classes, tags)
}

fn align(value: &str) -> Option<Align> {
    match value.trim() {
        "left" | "start" | "justify" => Some(Align::Left),
        "center" => Some(Align::Center),
        "right" | "end" => Some(Align::Right),
        _ => None,
    }
}

fn weight(value: &str) -> Option<bool> {
    match value {
        "bold" | "bolder" => Some(true),
        "normal" | "lighter" => Some(false),
        number => number.parse::<u32>().ok().map(|number| number >= 600),
    }
}

/// Sizes are taken as relative to the usual 16 pixels, and kept within what a page can bear.
fn font_size(value: &str) -> Option<u16> {
    let percent = match value {
        "small" | "smaller" => 85.0,
        "x-small" => 72.0,
        "large" | "larger" => 120.0,
        "x-large" => 150.0,
        "xx-large" => 200.0,
        value => match length(value)? {
            Length::Px(px) => px / 16.0 * 100.0,
            Length::Percent(percent) => percent,
        },
    };
    Some(percent.clamp(50.0, 300.0) as u16).filter(|percent| *percent != 100)
}

fn border(value: &str) -> Option<Rgb> {
    if value.starts_with("none") || value.starts_with('0') {
        return None;
    }
    find_color(value)
}

/// A gradient stands for its first colour; `none` and `transparent` take a background away.
fn background(value: &str, before: Option<Rgb>) -> Option<Rgb> {
    match value {
        "none" | "transparent" | "initial" | "unset" => None,
        _ => find_color(value).or(before),
    }
}

/// The first colour within a longer value.
fn find_color(value: &str) -> Option<Rgb> {
    if let Some(at) = value.find('#') {
        let end = value[at + 1..]
            .find(|c: char| !c.is_ascii_hexdigit())
            .map_or(value.len(), |end| at + 1 + end);
        return color(&value[at..end]);
    }
    if let Some(at) = value.find("rgb") {
        return value[at..].find(')').and_then(|end| color(&value[at..=at + end]));
    }
    value.split([' ', ',', '(', ')']).find_map(color)
}

/// A CSS colour; transparency is blended with white paper.
pub(super) fn color(value: &str) -> Option<Rgb> {
    let value = value.trim().to_ascii_lowercase();
    if let Some(hex) = value.strip_prefix('#') {
        return hex_color(hex);
    }
    if let Some(args) = value.strip_prefix("rgba(").or_else(|| value.strip_prefix("rgb(")) {
        return rgb_function(args.trim_end_matches(')'));
    }
    NAMED
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, color)| *color)
}

fn hex_color(hex: &str) -> Option<Rgb> {
    if !hex.is_ascii() {
        return None;
    }
    let digit = |at: usize| {
        u8::from_str_radix(hex.get(at..at + 1)?, 16)
            .ok()
            .map(|digit| digit * 17)
    };
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    match hex.len() {
        3 | 4 => Some(Rgb(digit(0)?, digit(1)?, digit(2)?)),
        6 => Some(Rgb(byte(0)?, byte(2)?, byte(4)?)),
        8 => Some(on_paper(
            Rgb(byte(0)?, byte(2)?, byte(4)?),
            f64::from(byte(6)?) / 255.0,
        )),
        _ => None,
    }
}

fn rgb_function(args: &str) -> Option<Rgb> {
    let parts: Vec<&str> = args
        .split([',', ' ', '/'])
        .filter(|part| !part.is_empty())
        .collect();
    let channel = |at: usize| -> Option<u8> {
        let part: &str = parts.get(at)?;
        let value: f64 = match part.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().ok()? * 2.55,
            None => part.parse().ok()?,
        };
        Some(value.clamp(0.0, 255.0) as u8)
    };
    let alpha = match parts.get(3) {
        Some(part) => match part.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().ok()? / 100.0,
            None => part.parse::<f64>().ok()?,
        },
        None => 1.0,
    };
    Some(on_paper(
        Rgb(channel(0)?, channel(1)?, channel(2)?),
        alpha.clamp(0.0, 1.0),
    ))
}

fn on_paper(color: Rgb, alpha: f64) -> Rgb {
    let blend = |channel: u8| (f64::from(channel) * alpha + 255.0 * (1.0 - alpha)).round() as u8;
    Rgb(blend(color.0), blend(color.1), blend(color.2))
}

const NAMED: [(&str, Rgb); 36] = [
    ("black", Rgb(0, 0, 0)),
    ("white", Rgb(255, 255, 255)),
    ("red", Rgb(255, 0, 0)),
    ("green", Rgb(0, 128, 0)),
    ("blue", Rgb(0, 0, 255)),
    ("gray", Rgb(128, 128, 128)),
    ("grey", Rgb(128, 128, 128)),
    ("silver", Rgb(192, 192, 192)),
    ("maroon", Rgb(128, 0, 0)),
    ("purple", Rgb(128, 0, 128)),
    ("fuchsia", Rgb(255, 0, 255)),
    ("magenta", Rgb(255, 0, 255)),
    ("lime", Rgb(0, 255, 0)),
    ("olive", Rgb(128, 128, 0)),
    ("yellow", Rgb(255, 255, 0)),
    ("navy", Rgb(0, 0, 128)),
    ("teal", Rgb(0, 128, 128)),
    ("aqua", Rgb(0, 255, 255)),
    ("cyan", Rgb(0, 255, 255)),
    ("orange", Rgb(255, 165, 0)),
    ("gold", Rgb(255, 215, 0)),
    ("pink", Rgb(255, 192, 203)),
    ("brown", Rgb(165, 42, 42)),
    ("crimson", Rgb(220, 20, 60)),
    ("tomato", Rgb(255, 99, 71)),
    ("coral", Rgb(255, 127, 80)),
    ("indigo", Rgb(75, 0, 130)),
    ("violet", Rgb(238, 130, 238)),
    ("steelblue", Rgb(70, 130, 180)),
    ("lightblue", Rgb(173, 216, 230)),
    ("lightgreen", Rgb(144, 238, 144)),
    ("lightgray", Rgb(211, 211, 211)),
    ("lightgrey", Rgb(211, 211, 211)),
    ("darkgray", Rgb(169, 169, 169)),
    ("whitesmoke", Rgb(245, 245, 245)),
    ("lightyellow", Rgb(255, 255, 224)),
];
