//! What a drawing comes to when everything it refers to is put in place, counted before it is laid out.
//!
//! A drawing of two kilobytes can show a shape that shows two others that show two others each: markers on every point of a
//! path, masks of masked shapes, patterns of patterns, uses of uses. The parts are counted here along the references, each
//! target once. What style sheets refer to is not counted; for that, as for all else, the helper process has its limits.

use std::collections::HashMap;

/// Parts that a drawing may come to.
const PARTS_MAX: u64 = 100_000;
/// References from one to the next.
const DEPTH_MAX: usize = 200;
/// Steps of counting, for a drawing that is made to be slow to count.
const STEPS_MAX: u64 = 2_000_000;

/// Refuses a drawing that comes to too much. Anything else, and what is not well-formed, passes.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let refers = |text: &&str| text.contains("<svg") && (text.contains("url(") || text.contains("href"));
    let Some(text) = std::str::from_utf8(bytes).ok().filter(refers) else {
        return Ok(());
    };
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..roxmltree::ParsingOptions::default()
    };
    let Ok(tree) = roxmltree::Document::parse_with_options(text, options) else {
        return Ok(());
    };
    let mut drawing = Drawing::read(&tree);
    let too_much = format!("it comes to more than `{PARTS_MAX}` parts when its references are followed");
    match drawing.parts(0, 0) {
        Some(parts) if parts <= PARTS_MAX => Ok(()),
        _ => Err(too_much),
    }
}

/// A drawing's elements by their place in the text.
struct Drawing {
    /// Where the elements within each one end.
    ends: Vec<usize>,
    /// In the order of the elements that make them.
    references: Vec<Reference>,
    counted: Vec<State>,
    steps: u64,
}

struct Reference {
    from: usize,
    to: usize,
    /// How often the target is shown.
    times: u64,
}

#[derive(Clone, Copy)]
enum State {
    Uncounted,
    Open,
    Counted(u64),
}

impl Drawing {
    fn read(tree: &roxmltree::Document<'_>) -> Self {
        let elements: Vec<roxmltree::Node<'_, '_>> =
            tree.descendants().filter(roxmltree::Node::is_element).collect();
        let places: HashMap<roxmltree::NodeId, usize> = elements
            .iter()
            .enumerate()
            .map(|(at, node)| (node.id(), at))
            .collect();
        let mut ends: Vec<usize> = (1..=elements.len()).collect();
        for at in (0..elements.len()).rev() {
            let parent = elements[at].parent().and_then(|parent| places.get(&parent.id()));
            if let Some(parent) = parent {
                ends[*parent] = ends[*parent].max(ends[at]);
            }
        }
        let names: HashMap<&str, usize> = elements
            .iter()
            .enumerate()
            .filter_map(|(at, node)| Some((node.attribute("id")?, at)))
            .collect();
        // Points up to each element.
        let mut points = vec![0_u64];
        for node in &elements {
            let drawn = node.attribute("d").or_else(|| node.attribute("points"));
            points.push(points[points.len() - 1] + drawn.map_or(0, points_of));
        }
        let mut references = Vec::new();
        for (from, node) in elements.iter().enumerate() {
            for attribute in node.attributes() {
                // A property holds for everything within.
                let within = points[ends[from]] - points[from];
                for (name, times) in referred(attribute.name(), attribute.value(), within) {
                    let to = names.get(name).copied();
                    references.extend(to.map(|to| Reference { from, to, times }));
                }
            }
        }
        Drawing {
            counted: vec![State::Uncounted; elements.len()],
            ends,
            references,
            steps: 0,
        }
    }

    /// What an element comes to with everything in it; none beyond all bounds.
    fn parts(&mut self, at: usize, depth: usize) -> Option<u64> {
        match *self.counted.get(at)? {
            State::Counted(parts) => return Some(parts),
            // What shows itself is left out.
            State::Open => return Some(0),
            State::Uncounted if depth > DEPTH_MAX => return None,
            State::Uncounted => self.counted[at] = State::Open,
        }
        let mut parts = (self.ends[at] - at) as u64;
        let first = self.references.partition_point(|reference| reference.from < at);
        for index in first..self.references.len() {
            let Reference { from, to, times } = self.references[index];
            if from >= self.ends[at] {
                break;
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return None;
            }
            parts = parts.saturating_add(self.parts(to, depth + 1)?.saturating_mul(times));
        }
        self.counted[at] = State::Counted(parts);
        Some(parts)
    }
}

/// The names that an attribute refers to, and how often each is shown. `points` are those of everything within.
fn referred<'v>(attribute: &str, value: &'v str, points: u64) -> Vec<(&'v str, u64)> {
    if attribute == "href" {
        return value
            .strip_prefix('#')
            .map(|name| (name, 1))
            .into_iter()
            .collect();
    }
    let properties: Vec<(&str, &str)> = match attribute {
        "style" => value.split(';').filter_map(|one| one.split_once(':')).collect(),
        _ => Vec::new(),
    };
    let times = |property: &str| match property.trim() {
        "marker" | "marker-mid" | "marker-start" | "marker-end" => points.max(1),
        _ => 1,
    };
    let mut found = Vec::new();
    if attribute != "style" {
        found.extend(names_in(value).map(|name| (name, times(attribute))));
    }
    for (property, value) in properties {
        found.extend(names_in(value).map(|name| (name, times(property))));
    }
    found
}

/// The names in `url(#…)`.
fn names_in(value: &str) -> impl Iterator<Item = &str> {
    value.split("url(").skip(1).filter_map(|rest| {
        let address = rest.split(')').next()?;
        address.trim().trim_matches(['"', '\'']).strip_prefix('#')
    })
}

/// How many points a path or a list of points has, about.
fn points_of(drawn: &str) -> u64 {
    let commands = drawn.bytes().filter(u8::is_ascii_alphabetic).count();
    let numbers = drawn
        .split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .filter(|word| !word.is_empty())
        .count();
    (commands + numbers / 2) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(inside: &str) -> Vec<u8> {
        format!("<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'>{inside}</svg>")
            .into_bytes()
    }

    /// Layers that each show the next twice.
    fn layers(layer: impl Fn(usize, usize) -> String) -> Vec<u8> {
        let layers: String = (0..40).map(|n| layer(n, n + 1)).collect();
        svg(&format!(
            "<defs>{layers}<g id='m40'><rect width='9' height='9'/></g></defs>{}",
            layer(99, 0)
        ))
    }

    #[test]
    fn what_multiplies_is_refused_by_name() {
        let twice = |what: String| format!("{what}{what}");
        for bomb in [
            layers(|n, next| format!("<g id='m{n}'>{}</g>", twice(format!("<use href='#m{next}'/>")))),
            layers(|n, next| {
                format!(
                    "<g id='m{n}'>{}</g>",
                    twice(format!("<use xlink:href='#m{next}'/>"))
                )
            }),
            layers(|n, next| {
                format!(
                    "<mask id='m{n}'>{}</mask>",
                    twice(format!("<rect width='9' height='9' mask='url(#m{next})'/>"))
                )
            }),
            layers(|n, next| {
                format!(
                    "<pattern id='m{n}'>{}</pattern>",
                    twice(format!(
                        "<rect width='9' height='9' style='fill: url(\"#m{next}\")'/>"
                    ))
                )
            }),
            layers(|n, next| {
                format!(
                    "<marker id='m{n}'><path d='M0 0l1 1l1 1l1 1' marker-mid='url(#m{next})'/></marker><path d='M0 0l1 1' marker-end='url(#m{next})'/>"
                )
            }),
            layers(|n, next| {
                format!(
                    "<clipPath id='m{n}'>{}</clipPath>",
                    twice(format!("<rect width='9' height='9' clip-path='url(#m{next})'/>"))
                )
            }),
        ] {
            let error = check(&bomb).unwrap_err();
            assert!(error.contains("more than `100000` parts"), "{error}");
        }
    }

    #[test]
    fn what_people_draw_passes() {
        let glyphs: String = (0..3_000)
            .map(|n| format!("<use x='{n}' href='#g{}'/>", n % 60))
            .collect();
        let shapes: String = (0..60)
            .map(|n| format!("<path id='g{n}' d='M0 0l1 1z'/>"))
            .collect();
        let text: String = (0..400).map(|n| format!("L{n} 9")).collect();
        for honest in [
            svg(&format!("<defs>{shapes}</defs>{glyphs}")),
            svg(&format!(
                "<defs><marker id='dot'><circle r='1'/></marker><linearGradient id='g'><stop/></linearGradient></defs>\
                 <path d='M0 0{text}' marker-mid='url(#dot)' fill='url(#g)'/>"
            )),
            // What shows itself is drawn without that.
            svg("<g id='a'><use href='#b'/></g><g id='b'><use href='#a'/></g>"),
            svg("<use href='#nothing'/>"),
            b"<svg <broken url(#a)".to_vec(),
            b"\xff<svg url(".to_vec(),
        ] {
            assert_eq!(check(&honest), Ok(()));
        }
    }
}
