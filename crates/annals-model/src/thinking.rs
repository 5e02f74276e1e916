//! How reasoning travels through one text and one signature.
//!
//! A vendor may send several signed blocks, some of them encrypted. The rest of the program knows one text and one
//! opaque signature; this file packs the blocks into these and takes them apart again, losing nothing.

use serde::{Deserialize, Serialize};

use crate::answer::Thinking;

const REDACTED: &str = "redacted:";
const SEVERAL: &str = "blocks:";

/// One block as the vendor sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SignedBlock {
    Plain { text: String, signature: String },
    Redacted(String),
}

/// The signature that stands for an encrypted block.
pub(crate) fn redacted(data: &str) -> String {
    format!("{REDACTED}{data}")
}

/// Before the signature of reasoning that came over the Responses wire.
pub(crate) const RESPONSES: &str = "responses:";

/// Whether reasoning with this signature came over the Responses wire; no other vendor can read it.
pub(crate) fn is_of_responses(signature: &str) -> bool {
    signature.starts_with(RESPONSES)
}

/// All blocks of an answer as one.
pub(crate) fn join(mut blocks: Vec<Thinking>) -> Option<Thinking> {
    if blocks.len() <= 1 {
        return blocks.pop();
    }
    let text = blocks
        .iter()
        .map(|block| block.text.as_str())
        .filter(|text| !text.is_empty());
    let text = text.collect::<Vec<_>>().join("\n\n");
    let signed: Vec<SignedBlock> = blocks
        .into_iter()
        .filter_map(|block| {
            block
                .signature
                .map(|signature| signed_block(block.text, signature))
        })
        .collect();
    let signature = (!signed.is_empty()).then(|| {
        format!(
            "{SEVERAL}{}",
            serde_json::to_string(&signed).expect("plain data is always JSON")
        )
    });
    Some(Thinking { text, signature })
}

/// The blocks that [`join`] was given, as far as they can be sent back.
pub(crate) fn split(text: &str, signature: &str) -> Vec<SignedBlock> {
    if let Some(packed) = signature.strip_prefix(SEVERAL)
        && let Ok(blocks) = serde_json::from_str(packed)
    {
        return blocks;
    }
    if signature.is_empty() {
        return Vec::new();
    }
    vec![signed_block(text.to_owned(), signature.to_owned())]
}

fn signed_block(text: String, signature: String) -> SignedBlock {
    match signature.strip_prefix(REDACTED) {
        Some(data) => SignedBlock::Redacted(data.to_owned()),
        None => SignedBlock::Plain { text, signature },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thought(text: &str, signature: &str) -> Thinking {
        Thinking {
            text: text.into(),
            signature: Some(signature.into()),
        }
    }

    #[test]
    fn one_signed_block_is_kept_as_it_is() {
        let one = join(vec![thought("why", "sig")]).unwrap();
        assert_eq!(one, thought("why", "sig"));
        let plain = SignedBlock::Plain {
            text: "why".into(),
            signature: "sig".into(),
        };
        assert_eq!(split("why", "sig"), [plain]);
    }

    #[test]
    fn several_blocks_come_back_as_they_were_sent() {
        let joined = join(vec![
            thought("a", "s1"),
            thought("", &redacted("secret")),
            thought("b", "s2"),
        ])
        .unwrap();
        assert_eq!(joined.text, "a\n\nb");
        assert_eq!(
            split(&joined.text, &joined.signature.unwrap()),
            [
                SignedBlock::Plain {
                    text: "a".into(),
                    signature: "s1".into()
                },
                SignedBlock::Redacted("secret".into()),
                SignedBlock::Plain {
                    text: "b".into(),
                    signature: "s2".into()
                },
            ]
        );
    }

    #[test]
    fn reasoning_without_a_signature_is_not_sent_back() {
        assert_eq!(split("why", ""), []);
    }
}
