//! The pictures in the README: the demo's timeline as a terminal shows it, taken from a real run.

use std::fmt::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use crate::json::Json;
use crate::repository::cargo;

/// Columns shown; what is longer is cut.
const COLUMNS: usize = 104;
const COLUMN_PX: f64 = 7.83;
const LINE_PX: usize = 19;
const MARGIN_PX: usize = 20;
const BAR_PX: usize = 40;

/// What the demo left, as pictures.
pub(super) struct Pictures {
    /// Everything.
    pub(super) whole: String,
    /// Its second turn, which finds what the first one made.
    pub(super) second_turn: String,
}

/// Plays the demo in a folder of its own and draws the timeline that it left.
pub(super) fn pictures() -> anyhow::Result<Pictures> {
    let home = std::env::temp_dir().join(format!("annals-picture-{}", std::process::id()));
    let drawn = draw(&home.to_string_lossy());
    // The demo's files are of no use after this, and a folder that cannot be removed is no reason to fail.
    let _ = std::fs::remove_dir_all(&home);
    drawn
}

fn draw(home: &str) -> anyhow::Result<Pictures> {
    annals(&["--home", home, "demo", "--fast"])?;
    let kept = std::fs::read_dir(std::path::Path::new(home).join("demo"))?
        .next()
        .context("the demo left no folder")??;
    let kept = kept.path().to_string_lossy().into_owned();
    let listed = annals(&["--home", &kept, "conversations", "--json"])?;
    let listed = Json::parse_all(&listed)?;
    let conversations = listed.first().map(Json::elements).unwrap_or_default();
    let id = conversations
        .first()
        .and_then(|one| one.get("id"))
        .and_then(Json::as_text)
        .context("the demo left no conversation")?;
    let show = ["--home", &kept, "--color", "always", "timeline", "show", id];
    let second = ["--turn", "turn_demo_2"];
    Ok(Pictures {
        whole: svg(&annals(&show)?),
        second_turn: svg(&annals(&[&show[..], &second[..]].concat())?),
    })
}

fn annals(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = cargo(&["run", "--quiet", "--package", "annals", "--"]);
    let output = command
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`annals {}` ended with {}",
        arguments.join(" "),
        output.status
    );
    String::from_utf8(output.stdout).context("annals printed something other than text")
}

/// How a stretch of text is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    is_bold: bool,
    is_dim: bool,
    colour: Option<u8>,
}

impl Style {
    /// After these parameters of a select-graphic-rendition sequence.
    fn after(mut self, parameters: &str) -> Self {
        for parameter in parameters.split(';') {
            match parameter.parse().unwrap_or(0) {
                0 => self = Style::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                colour @ 30..=37 => self.colour = Some(colour - 30),
                39 => self.colour = None,
                _ => {}
            }
        }
        self
    }

    fn attributes(self) -> String {
        const COLOURS: [&str; 8] = [
            "#6e7781", "#f47067", "#8ddb8c", "#e0c285", "#6cb6ff", "#dcbdfb", "#76e3ea", "#d1d7e0",
        ];
        let fill = match (self.colour, self.is_dim) {
            (Some(colour), _) => COLOURS[usize::from(colour)],
            (None, true) => "#8b949e",
            (None, false) => "#e6edf3",
        };
        let weight = if self.is_bold { " font-weight=\"600\"" } else { "" };
        format!("fill=\"{fill}\"{weight}")
    }
}

/// One line as stretches of one style each, cut at the last column.
fn stretches(line: &str, style: &mut Style) -> Vec<(Style, String)> {
    let mut stretches: Vec<(Style, String)> = Vec::new();
    let mut columns = 0;
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\u{1b}[") {
            let end = sequence
                .find(|c: char| c.is_ascii_alphabetic())
                .unwrap_or(sequence.len());
            let (parameters, after) = sequence.split_at(end);
            if after.starts_with('m') {
                *style = style.after(parameters);
            }
            rest = after.get(1..).unwrap_or_default();
            continue;
        }
        rest = &rest[first.len_utf8()..];
        columns += 1;
        let shown = match columns {
            ..COLUMNS => first,
            COLUMNS => '…',
            _ => continue,
        };
        match stretches.last_mut() {
            Some((same, text)) if same == style => text.push(shown),
            _ => stretches.push((*style, shown.to_string())),
        }
    }
    stretches
}

/// A terminal's text with its colours as a picture that reads well on any page.
fn svg(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let width = (COLUMNS as f64 * COLUMN_PX) as usize + 2 * MARGIN_PX;
    let height = BAR_PX + lines.len() * LINE_PX + MARGIN_PX;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"The timeline of the demo, as `annals timeline show` prints it\">\n\
         <style>text{{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:13px;\
         white-space:pre}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#0d1117\"/>\n"
    );
    for (at, fill) in ["#f47067", "#e0c285", "#8ddb8c"].iter().enumerate() {
        let _ = writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"18\" r=\"5.5\" fill=\"{fill}\"/>",
            MARGIN_PX + 6 + at * 18
        );
    }
    let mut style = Style::default();
    for (at, line) in lines.iter().enumerate() {
        let y = BAR_PX + at * LINE_PX + 13;
        let mut column = 0;
        for (style, text) in stretches(line, &mut style) {
            let columns = text.chars().count();
            if !text.trim().is_empty() {
                // Each stretch has its place and its length, so that columns stand in line in any font.
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{y}\" textLength=\"{:.1}\" xml:space=\"preserve\" {}>{}</text>",
                    MARGIN_PX as f64 + f64::from(column) * COLUMN_PX,
                    columns as f64 * COLUMN_PX,
                    style.attributes(),
                    escaped(&text)
                );
            }
            column += columns as u32;
        }
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_attributes_and_columns_places() {
        let picture = svg("\u{1b}[1ma\u{1b}[0m \u{1b}[36m<b>\u{1b}[0m\n");
        assert!(picture.contains("<text x=\"20.0\" y=\"53\" textLength=\"7.8\" xml:space=\"preserve\" fill=\"#e6edf3\" font-weight=\"600\">a</text>"));
        assert!(picture.contains(
            "x=\"35.7\" y=\"53\" textLength=\"23.5\" xml:space=\"preserve\" fill=\"#76e3ea\">&lt;b&gt;</text>"
        ));
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let picture = svg(&"x".repeat(300));
        assert!(picture.contains(&format!(">{}…</text>", "x".repeat(COLUMNS - 1))));
    }
}
