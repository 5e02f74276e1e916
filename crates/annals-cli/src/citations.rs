//! Citations as people read them: `[1]` in the text, what it stands for below it.
//!
//! A text numbers its sources from 1 in the order in which it first cites them; the conversation's own numbers are for
//! the model.

use annals::core::ids::Sid;
use annals::core::sources::{SourcesPool, citation};

use crate::paint::{self, DIM, styled};
use crate::screen_text::ScreenText;
use crate::shown;

/// Titles are cut to this many characters.
const TITLE_MAX_CHARS: usize = 100;

/// What is shown of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) title: String,
    /// Its address, or the path of its file.
    pub(crate) place: String,
}

impl Source {
    /// The source with this number in the conversation.
    pub(crate) fn find(pool: &SourcesPool, sid: Sid) -> Option<Self> {
        let row = pool.get(sid)?;
        let path = row.artifact_path.as_ref().map(ToString::to_string);
        Some(Source {
            title: paint::gist(&row.title, TITLE_MAX_CHARS),
            place: match row.url.is_empty() {
                true => path.unwrap_or_default(),
                false => row.url.to_string(),
            },
        })
    }
}

/// The numbers that one text has given to its sources.
#[derive(Default)]
pub(crate) struct Citations {
    cited: Vec<Sid>,
}

impl Citations {
    /// The number of a source in this text.
    fn number(&mut self, sid: Sid) -> usize {
        let known = self.cited.iter().position(|cited| *cited == sid);
        1 + known.unwrap_or_else(|| {
            self.cited.push(sid);
            self.cited.len() - 1
        })
    }

    /// What stands for one token, to be clicked where that is possible.
    pub(crate) fn mark(&mut self, sids: &[Sid], find: impl Fn(Sid) -> Option<Source>) -> ScreenText {
        let mark = |sid: &Sid| {
            let mark = shown!("[{}]", self.number(*sid));
            match find(*sid) {
                Some(source) if paint::is_web_address(&source.place) => mark.linked(&source.place),
                _ => mark,
            }
        };
        sids.iter().map(mark).collect()
    }

    /// A whole text with its marks, without anything that only a terminal understands.
    pub(crate) fn plain(&mut self, text: &str) -> String {
        citation::replace(text, |sids| {
            sids.iter()
                .map(|sid| format!("[{}]", self.number(*sid)))
                .collect()
        })
    }

    /// The sources that were cited, each with its number.
    pub(crate) fn sources(&self, find: impl Fn(Sid) -> Option<Source>) -> Vec<(usize, Source)> {
        let unknown = |sid| Source {
            title: format!("a source that is not in the conversation ({sid})"),
            place: String::new(),
        };
        let sources = self
            .cited
            .iter()
            .map(|sid| find(*sid).unwrap_or_else(|| unknown(*sid)));
        sources.enumerate().map(|(at, source)| (at + 1, source)).collect()
    }

    /// The list below the text, every line behind this margin; empty if nothing was cited.
    pub(crate) fn list(&self, margin: &'static str, find: impl Fn(Sid) -> Option<Source>) -> ScreenText {
        let line = |(number, source): (usize, Source)| {
            let place = match paint::is_web_address(&source.place) {
                true => paint::web_link(&source.place, &source.place),
                false => ScreenText::from(&source.place),
            };
            let line = shown!(
                "{} {} {}",
                styled(DIM, shown!("[{}]", number)),
                source.title,
                place
            );
            shown!("{}{}\n", margin, line.trim_end())
        };
        self.sources(find).into_iter().map(line).collect()
    }
}

/// A whole answer as a pipe gets it: its marks, and its sources below it.
pub(crate) fn answer(text: &str, find: impl Fn(Sid) -> Option<Source>) -> String {
    let mut citations = Citations::default();
    let mut out = citations.plain(text.trim_end());
    let sources = citations.sources(find);
    if !sources.is_empty() {
        out.push_str("\n\nSources:");
    }
    for (number, Source { title, place }) in sources {
        out.push_str(format!("\n[{number}] {title} {place}").trim_end());
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(sid: Sid) -> Option<Source> {
        (sid.get() != 9).then(|| Source {
            title: format!("Title {sid}"),
            place: format!("https://{sid}.example/"),
        })
    }

    #[test]
    fn sources_are_numbered_as_they_are_first_cited() {
        let text = "A [[S:7]], B [[S:3,7]]; `[[S:1]]` is code. C [[S:9]]\n";
        assert_eq!(
            answer(text, find),
            "A [1], B [2][1]; `[[S:1]]` is code. C [3]\n\nSources:\n[1] Title 7 https://7.example/\n\
             [2] Title 3 https://3.example/\n[3] a source that is not in the conversation (9)\n"
        );
        assert_eq!(answer("plain\n\n", find), "plain\n");
    }
}
