//! Ways to tamper with an export: one entry per mechanism. Unless it says otherwise, counts and digest are made to fit
//! afterwards, as a forger would do.

use serde_json::{Value, json};

/// What an import must make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It is refused, and the log is as before.
    Refused,
    /// It may come in, but as what the importing side says it is: none of the file's claims reaches beyond it.
    Contained,
}

/// How the file is changed.
#[derive(Clone, Copy)]
pub(crate) enum Tamper {
    /// One value, by the line it is in and where in that line.
    Value(&'static str, &'static str, &'static str),
    /// The lines before the last one.
    Lines(fn(&mut Vec<Value>)),
    /// The text of the lines before the last one.
    Text(fn(&str) -> Vec<u8>),
    /// The bytes of the whole file; nothing is made to fit.
    Bytes(fn(Vec<u8>) -> Vec<u8>),
    /// A value of the last line, which is left as it is then.
    End(&'static str, &'static str),
}

/// One of them.
#[derive(Clone)]
pub(crate) struct Mechanism {
    pub(crate) name: String,
    pub(crate) tamper: Tamper,
    pub(crate) expected: Expected,
}

pub(crate) fn all() -> Vec<Mechanism> {
    let refused = |name: &str, tamper| Mechanism {
        name: name.to_owned(),
        tamper,
        expected: Expected::Refused,
    };
    let values = VALUES.iter().map(|(line, at, value, what)| {
        refused(&format!("{line}{at}: {what}"), Tamper::Value(line, at, value))
    });
    let ends = ENDS
        .iter()
        .map(|(at, value, what)| refused(&format!("end{at}: {what}"), Tamper::End(at, value)));
    let lines = LINES
        .iter()
        .map(|(name, change)| refused(&format!("lines: {name}"), Tamper::Lines(*change)));
    let texts = TEXTS
        .iter()
        .map(|(name, change)| refused(&format!("text: {name}"), Tamper::Text(*change)));
    let bytes = BYTES
        .iter()
        .map(|(name, change)| refused(&format!("bytes: {name}"), Tamper::Bytes(*change)));
    let contained = CONTAINED.iter().map(|(line, at, value, what)| Mechanism {
        name: format!("claim, {line}{at}: {what}"),
        tamper: Tamper::Value(line, at, value),
        expected: Expected::Contained,
    });
    values
        .chain(ends)
        .chain(lines)
        .chain(texts)
        .chain(bytes)
        .chain(contained)
        .collect()
}

/// Removes the value instead of putting another one.
pub(crate) const GONE: &str = "gone";

type OneValue = (&'static str, &'static str, &'static str, &'static str);

const VALUES: &[OneValue] = &[
    ("header", "/annals_export", GONE, "missing"),
    ("header", "/annals_export", "\"1\"", "a text"),
    ("header", "/annals_export", "-1", "negative"),
    ("header", "/annals_export", "1.5", "a fraction"),
    ("header", "/annals_export", "2", "a newer format"),
    ("header", "/annals_export", "4294967296", "beyond its type"),
    ("header", "/conversation", GONE, "missing"),
    ("header", "/conversation", "[]", "a list"),
    ("header", "/conversation/id", GONE, "missing"),
    ("header", "/conversation/id", "null", "null"),
    ("header", "/conversation/id", "7", "a number"),
    ("header", "/conversation/id", "\"\"", "empty"),
    ("header", "/conversation/id", "\"../../etc\"", "climbs"),
    ("header", "/conversation/id", "\"a/b\"", "a folder"),
    ("header", "/conversation/id", "\"a\\u0000b\"", "a null byte"),
    ("header", "/conversation/id", "\"a\\nb\"", "a line end"),
    ("header", "/conversation/id", "\"é\"", "another alphabet"),
    (
        "header",
        "/conversation/id",
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
        "too long",
    ),
    ("header", "/conversation/scope", GONE, "missing"),
    ("header", "/conversation/scope", "\"a\"", "one part"),
    ("header", "/conversation/scope", "\"a/b/c/d\"", "four parts"),
    ("header", "/conversation/scope", "\"../b/c\"", "climbs"),
    ("header", "/conversation/scope", "{}", "an object"),
    ("header", "/conversation/created", GONE, "missing"),
    ("header", "/conversation/created", "\"yesterday\"", "no time"),
    (
        "header",
        "/conversation/created",
        "\"2026-02-30T00:00:00Z\"",
        "a day that does not exist",
    ),
    (
        "header",
        "/conversation/created",
        "\"+12026-02-09T02:14:32Z\"",
        "a year beyond all",
    ),
    ("header", "/conversation/created", "1e300", "a number"),
    ("header", "/conversation/title", "7", "a number"),
    ("header", "/conversation/lineage", "\"x\"", "a text"),
    ("header", "/conversation/lineage", "[{}]", "an empty ancestor"),
    (
        "header",
        "/conversation/lineage",
        "[{\"parent\":\"../x\",\"operator\":\"fork\"}]",
        "an ancestor that climbs",
    ),
    (
        "header",
        "/conversation/lineage",
        "[{\"parent\":\"x\",\"operator\":\"conquest\"}]",
        "an unknown operator",
    ),
    (
        "header",
        "/conversation/lineage",
        "[{\"parent\":\"x\",\"at\":0,\"operator\":\"fork\"}]",
        "an ancestor at block 0",
    ),
    ("header", "/blocks", GONE, "missing"),
    ("header", "/blocks", "-1", "negative"),
    ("header", "/blocks", "8", "one too few"),
    ("header", "/blocks", "10", "one too many"),
    ("header", "/blocks", "18446744073709551615", "the largest number"),
    ("header", "/blocks", "18446744073709551616", "beyond all numbers"),
    ("header", "/blocks", "9.0", "a fraction"),
    ("piece", "/artifact", "7", "a number"),
    ("piece", "/artifact", "\"sha256:00\"", "too short"),
    (
        "piece",
        "/artifact",
        "\"md5:d41d8cd98f00b204e9800998ecf8427e\"",
        "another hash",
    ),
    (
        "piece",
        "/artifact",
        "\"sha256:../../../../../../../../../../../../../../../../../../etc/passwd00\"",
        "a path",
    ),
    (
        "piece",
        "/artifact",
        "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        "other bytes' digest",
    ),
    ("piece", "/size_bytes", GONE, "missing"),
    ("piece", "/size_bytes", "-5", "negative"),
    ("piece", "/size_bytes", "0", "nothing"),
    ("piece", "/size_bytes", "4", "fewer bytes than come"),
    ("piece", "/size_bytes", "6", "more bytes than come"),
    (
        "piece",
        "/size_bytes",
        "18446744073709551615",
        "the largest number",
    ),
    ("piece", "/size_bytes", "\"5\"", "a text"),
    ("piece", "/offset", GONE, "missing"),
    ("piece", "/offset", "1", "not from the start"),
    ("piece", "/offset", "-1", "before the start"),
    ("piece", "/offset", "18446744073709551615", "the largest number"),
    ("piece", "/base64", GONE, "missing"),
    ("piece", "/base64", "\"\"", "no bytes"),
    ("piece", "/base64", "\"d2hvbGU\"", "without its padding"),
    ("piece", "/base64", "\"d2hv bGU=\"", "white space"),
    ("piece", "/base64", "\"d2hvbGV=\"", "bits that say nothing"),
    ("piece", "/base64", "\"????\"", "another alphabet"),
    ("piece", "/base64", "\"V0hPTEU=\"", "other bytes"),
    ("piece", "/base64", "[119]", "a list"),
    ("block 3", "/seq", GONE, "missing"),
    ("block 3", "/seq", "0", "zero"),
    ("block 3", "/seq", "-3", "negative"),
    ("block 3", "/seq", "2", "the one before again"),
    ("block 3", "/seq", "4", "one too far"),
    ("block 3", "/seq", "\"3\"", "a text"),
    ("block 3", "/seq", "3.5", "a fraction"),
    ("block 3", "/seq", "18446744073709551615", "the largest number"),
    ("block 3", "/type", GONE, "missing"),
    ("block 3", "/type", "7", "a number"),
    ("block 3", "/author", GONE, "missing"),
    ("block 3", "/author", "{}", "an object"),
    ("block 3", "/turn_id", GONE, "missing"),
    ("block 3", "/turn_id", "\"\"", "empty"),
    ("block 3", "/turn_id", "\"x\"", "without its prefix"),
    ("block 3", "/turn_id", "\"turn_../../x\"", "climbs"),
    (
        "block 3",
        "/turn_id",
        "\"turn_a.b\"",
        "a dot, which ends an id in a path",
    ),
    ("block 3", "/turn_id", "\"turn_\\u202e\"", "a change of direction"),
    ("block 3", "/ts", GONE, "missing"),
    ("block 3", "/ts", "\"\"", "empty"),
    ("block 3", "/ts", "\"2026-02-09 02:14\"", "no zone"),
    (
        "block 3",
        "/ts",
        "\"9999-12-31T23:59:59-23:59\"",
        "after the end of time",
    ),
    ("block 3", "/ts", "true", "a truth value"),
    ("block 3", "/mime", GONE, "missing"),
    ("block 3", "/mime", "null", "null"),
    ("block 3", "/text", "7", "a number"),
    ("block 3", "/text", "[\"x\"]", "a list"),
    ("block 3", "/tokens", "-1", "negative"),
    ("block 3", "/tokens", "4294967296", "beyond its type"),
    ("block 3", "/tokens", "\"9\"", "a text"),
    ("block 3", "/meta", "\"x\"", "a text"),
    ("block 3", "/meta", "[1]", "a list"),
    (
        "block 3",
        "/call_id",
        "\"a.b\"",
        "a dot, which ends an id in a path",
    ),
    ("block 3", "/call_id", "\"../../x\"", "climbs"),
    ("block 3", "/call_id", "7", "a number"),
    (
        "block 4",
        "/path",
        "\"fi:turn_1.files/../../etc/passwd\"",
        "climbs",
    ),
    ("block 4", "/path", "\"fi:turn_1.files//etc/passwd\"", "absolute"),
    ("block 4", "/path", "\"fi:turn_1.files/a\\u0000b\"", "a null byte"),
    (
        "block 4",
        "/path",
        "\"fi:turn_1.files/a\\\\..\\\\b\"",
        "climbs by backslashes",
    ),
    ("block 4", "/path", "\"fi:turn_1.files/./a\"", "a dot"),
    ("block 4", "/path", "\"fi:turn_1.files/a/\"", "ends in a slash"),
    ("block 4", "/path", "\"fi:turn_1.files/\"", "no name"),
    (
        "block 4",
        "/path",
        "\"fi:turn_1.user.attachments/../x\"",
        "an attachment that climbs",
    ),
    ("block 4", "/path", "\"fi:../x.files/a\"", "a turn that climbs"),
    ("block 4", "/path", "\"/etc/passwd\"", "a host path"),
    ("block 4", "/path", "\"file:///etc/passwd\"", "a URL"),
    ("block 4", "/path", "\"zz:turn_1.x\"", "an unknown family"),
    (
        "block 4",
        "/path",
        "\"so:sources_pool[1-99999999]\"",
        "more sources than there can be",
    ),
    ("block 4", "/path", "\"sk:../../x\"", "a skill that climbs"),
    ("block 4", "/path", "7", "a number"),
    ("block 4", "/base64", "\"AAAA\"", "other bytes"),
    ("block 4", "/base64", "\"%%%\"", "another alphabet"),
    ("block 4", "/base64", "7", "a number"),
    ("block 4", "/base64", GONE, "bytes that do not come"),
    ("block 4", "/blob", "\"x\"", "a text"),
    ("block 4", "/blob/digest", GONE, "missing"),
    (
        "block 4",
        "/blob/digest",
        "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        "other bytes' digest",
    ),
    ("block 4", "/blob/digest", "\"sha256:zz\"", "no digest"),
    ("block 4", "/blob/size_bytes", GONE, "missing"),
    ("block 4", "/blob/size_bytes", "5", "another size"),
    (
        "block 4",
        "/blob/size_bytes",
        "18446744073709551615",
        "the largest number",
    ),
    ("block 4", "/blob/size_bytes", "-4", "negative"),
    ("block 4", "/text", "\"instead\"", "a text beside the bytes"),
    (
        "block 4",
        "/meta/content_digest",
        "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        "bytes that do not come",
    ),
    ("block 4", "/meta/size_bytes", "6", "another size of the file"),
    (
        "block 4",
        "/meta/size_bytes",
        "18446744073709551615",
        "a file as large as all disks",
    ),
    (
        "block 4",
        "/meta/hosted_uri",
        "\"file:///etc/passwd\"",
        "a file of the host",
    ),
    (
        "block 4",
        "/meta/hosted_uri",
        "\"http://169.254.169.254/latest\"",
        "a service of the network",
    ),
    (
        "block 4",
        "/meta/hosted_uri",
        "\"annals-artifact:sha256/0000000000000000000000000000000000000000000000000000000000000000\"",
        "other bytes",
    ),
    (
        "block 4",
        "/meta/key",
        "\"../../etc/passwd\"",
        "a key that climbs",
    ),
    (
        "block 4",
        "/meta/cut",
        "[{\"name\":\"x\",\"blob\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\",\"size_bytes\":9}]",
        "a whole value that does not come",
    ),
];

const ENDS: &[(&str, &str, &str)] = &[
    ("/blocks", GONE, "missing"),
    ("/blocks", "8", "one too few"),
    ("/blocks", "10", "one too many"),
    ("/blocks", "\"9\"", "a text"),
    ("/blocks", "-9", "negative"),
    ("/artifacts", GONE, "missing"),
    ("/artifacts", "0", "none"),
    ("/artifacts", "3", "one too many"),
    ("/artifacts", "1e9", "a fraction"),
    ("/sha256", GONE, "missing"),
    ("/sha256", "null", "null"),
    ("/sha256", "\"\"", "empty"),
    (
        "/sha256",
        "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
        "zeros",
    ),
    (
        "/sha256",
        "\"sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709\"",
        "another hash",
    ),
];

type OfLines = (&'static str, fn(&mut Vec<Value>));

/// Line 0 is the header, 4 the piece; the blocks are 1 to 3 and 5 to 10.
const LINES: &[OfLines] = &[
    ("no header", |lines| drop(lines.remove(0))),
    ("the header last", |lines| lines.rotate_left(1)),
    ("two headers", |lines| lines.insert(1, lines[0].clone())),
    ("a header in the middle", |lines| {
        lines.insert(5, lines[0].clone())
    }),
    ("only a header", |lines| lines.truncate(1)),
    ("the first block missing", |lines| drop(lines.remove(1))),
    ("a block in the middle missing", |lines| drop(lines.remove(6))),
    ("the last block missing", |lines| drop(lines.pop())),
    ("a block twice", |lines| lines.insert(3, lines[2].clone())),
    ("the last block twice", |lines| lines.push(lines[10].clone())),
    ("two blocks exchanged", |lines| lines.swap(1, 2)),
    ("all blocks backwards", |lines| lines[1..].reverse()),
    ("a block more, numbered on", |lines| {
        let mut more = lines[10].clone();
        more["seq"] = json!(10);
        lines.push(more);
    }),
    ("the piece missing", |lines| drop(lines.remove(4))),
    ("the piece after its block", |lines| lines.swap(4, 5)),
    ("the piece last", |lines| lines[4..].rotate_left(1)),
    ("the piece before the header", |lines| lines.swap(0, 4)),
    ("a piece that nothing names, unfinished", |lines| {
        lines.push(
            json!({"artifact": lines[4]["artifact"], "size_bytes": 99, "offset": 0, "base64": "d2hvbGU="}),
        );
    }),
    ("two pieces that overlap", |lines| {
        let digest = lines[4]["artifact"].clone();
        lines[4] = json!({"artifact": digest, "size_bytes": 5, "offset": 0, "base64": "d2hv"});
        lines.insert(
            5,
            json!({"artifact": digest, "size_bytes": 5, "offset": 2, "base64": "b2xl"}),
        );
    }),
    ("two pieces with a gap", |lines| {
        let digest = lines[4]["artifact"].clone();
        lines[4] = json!({"artifact": digest, "size_bytes": 5, "offset": 0, "base64": "d2g="});
        lines.insert(
            5,
            json!({"artifact": digest, "size_bytes": 5, "offset": 3, "base64": "bGU="}),
        );
    }),
    ("pieces of two artifacts mixed", |lines| {
        let digest = lines[4]["artifact"].clone();
        lines[4] = json!({"artifact": digest, "size_bytes": 5, "offset": 0, "base64": "d2hv"});
        lines.insert(5, json!({"artifact": lines[5]["blob"]["digest"], "size_bytes": 4, "offset": 0, "base64": "iVBORw=="}));
        lines.insert(
            6,
            json!({"artifact": digest, "size_bytes": 5, "offset": 3, "base64": "bGU="}),
        );
    }),
    ("pieces of different sizes", |lines| {
        let digest = lines[4]["artifact"].clone();
        lines[4] = json!({"artifact": digest, "size_bytes": 5, "offset": 0, "base64": "d2hv"});
        lines.insert(
            5,
            json!({"artifact": digest, "size_bytes": 6, "offset": 3, "base64": "bGU="}),
        );
    }),
    ("pieces without bytes, for ever", |lines| {
        let empty = json!({"artifact": lines[4]["artifact"], "size_bytes": 5, "offset": 0, "base64": ""});
        (0..1_000).for_each(|_| lines.insert(4, empty.clone()));
    }),
    ("an end in the middle", |lines| {
        lines.insert(
            3,
            json!({"end": {"blocks": 2, "artifacts": 0, "sha256": lines[4]["artifact"]}}),
        );
    }),
    ("a line that is a list", |lines| lines.insert(2, json!([]))),
    ("a line that is a number", |lines| lines.insert(2, json!(7))),
    ("a line that is a text", |lines| lines.insert(2, json!("x"))),
    ("a line that is nothing", |lines| lines.insert(2, Value::Null)),
    ("a line that is an empty object", |lines| {
        lines.insert(2, json!({}))
    }),
    ("a block inside a block", |lines| {
        lines[2] = json!({"block": lines[2]})
    }),
    ("blocks as one list", |lines| {
        let blocks = lines.split_off(1);
        lines.push(Value::Array(blocks));
    }),
];

type OfText = (&'static str, fn(&str) -> Vec<u8>);

const TEXTS: &[OfText] = &[
    ("a byte order mark", |text| format!("\u{feff}{text}").into()),
    ("carriage returns alone", |text| text.replace('\n', "\r").into()),
    ("one line for all", |text| text.replace('\n', " ").into()),
    ("UTF-16", |text| {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }),
    ("bytes that are no UTF-8", |text| {
        text.replace("nul ", "n\u{1}l ")
            .into_bytes()
            .into_iter()
            .map(|byte| if byte == 1 { 0xff } else { byte })
            .collect()
    }),
    ("half of a character", |text| {
        text.replacen("🜚", "X", 1)
            .into_bytes()
            .into_iter()
            .map(|byte| if byte == b'X' { 0xf0 } else { byte })
            .collect()
    }),
    ("an overlong character", |text| {
        spliced(text, "nul ", b"nul\xc0\xaf")
    }),
    ("a surrogate as UTF-8", |text| {
        spliced(text, "nul ", b"nul\xed\xa0\x80")
    }),
    ("half a pair of surrogates", |text| {
        text.replace("nul ", "\\ud83d ").into()
    }),
    ("the wrong half first", |text| {
        text.replace("nul ", "\\ude00\\ud83d").into()
    }),
    ("an escape that does not exist", |text| {
        text.replace("nul ", "\\x00 ").into()
    }),
    ("an escape that is cut off", |text| {
        text.replace("nul ", "\\u12").into()
    }),
    ("a line end inside a text", |text| {
        text.replace("nul ", "nul\n").into()
    }),
    ("a null byte inside a text", |text| {
        text.replace("nul ", "nul\0").into()
    }),
    ("a tab inside a text", |text| text.replace("nul ", "nul\t").into()),
    ("a comment", |text| {
        text.replacen("{\"seq\":2", "/* x */{\"seq\":2", 1).into()
    }),
    ("a comma too many", |text| {
        text.replacen("\"seq\":2,", "\"seq\":2,,", 1).into()
    }),
    ("a comma at the end", |text| {
        text.replacen("\"tokens\":6}", "\"tokens\":6,}", 1).into()
    }),
    ("single quotes", |text| {
        text.replacen("\"seq\":2", "'seq':2", 1).into()
    }),
    ("names without quotes", |text| {
        text.replacen("\"seq\":2", "seq:2", 1).into()
    }),
    ("a number with a zero before", |text| {
        text.replacen("\"seq\":2", "\"seq\":02", 1).into()
    }),
    ("a number with a plus", |text| {
        text.replacen("\"seq\":2", "\"seq\":+2", 1).into()
    }),
    ("a hexadecimal number", |text| {
        text.replacen("\"seq\":2", "\"seq\":0x2", 1).into()
    }),
    ("a number with an exponent", |text| {
        text.replacen("\"seq\":2", "\"seq\":2e0", 1).into()
    }),
    ("infinity", |text| {
        text.replacen("\"seq\":2", "\"seq\":Infinity", 1).into()
    }),
    ("the same name twice", |text| {
        text.replacen(
            "\"seq\":2",
            "\"seq\":2,\"seq\":2,\"text\":\"a\",\"text\":\"b\"",
            1,
        )
        .into()
    }),
    ("a name in another case", |text| {
        text.replacen("\"seq\":2", "\"SEQ\":2", 1).into()
    }),
    ("two values on a line", |text| {
        text.replacen("\"tokens\":6}", "\"tokens\":6}{}", 1).into()
    }),
    ("a line that is not closed", |text| {
        text.replacen("\"tokens\":6}", "\"tokens\":6", 1).into()
    }),
    ("a line that closes too much", |text| {
        text.replacen("\"tokens\":6}", "\"tokens\":6}}", 1).into()
    }),
    ("lists in lists", |text| {
        text.replacen(
            "\"seq\":2",
            &format!(
                "\"meta\":{{\"x\":{}{}}},\"seq\":2",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
            1,
        )
        .into()
    }),
    ("objects in objects", |text| {
        text.replacen(
            "\"seq\":2",
            &format!(
                "\"meta\":{}1{},\"seq\":2",
                "{\"a\":".repeat(20_000),
                "}".repeat(20_000)
            ),
            1,
        )
        .into()
    }),
];

type OfBytes = (&'static str, fn(Vec<u8>) -> Vec<u8>);

const BYTES: &[OfBytes] = &[
    ("nothing", |_| Vec::new()),
    ("only a line end", |_| b"\n".to_vec()),
    ("an archive", |file| [b"PK\x03\x04".to_vec(), file].concat()),
    ("packed by gzip", |file| {
        [vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], file].concat()
    }),
    ("the first half", |file| file[..file.len() / 2].to_vec()),
    ("the second half", |file| file[file.len() / 2..].to_vec()),
    ("without its last line", |file| file[..last_line(&file)].to_vec()),
    ("its last line cut", |file| file[..file.len() - 9].to_vec()),
    ("a bit of the header", |file| flipped(file, |_| 60)),
    ("a bit of a block", |file| flipped(file, |file| file.len() / 2)),
    ("a bit of the digest", |file| {
        flipped(file, |file| file.len() - 10)
    }),
    ("a character of a text", |file| replaced(file, b"nul ", b"nil ")),
    ("a digit of a time", |file| replaced(file, b"2026-", b"2025-")),
    ("a block taken out", |file| without_line(&file, 2)),
    ("a block put in twice", |file| {
        let line = file
            .split_inclusive(|byte| *byte == b'\n')
            .nth(2)
            .unwrap_or_default()
            .to_vec();
        let at = file
            .split_inclusive(|byte| *byte == b'\n')
            .take(3)
            .map(<[u8]>::len)
            .sum::<usize>();
        [&file[..at], &line, &file[at..]].concat()
    }),
    ("zeros at the end of its blocks", |file| {
        let at = last_line(&file);
        [&file[..at], &[0; 512], &file[at..]].concat()
    }),
];

/// What a file may claim, and what must not come of it.
const CONTAINED: &[OneValue] = &[
    (
        "header",
        "/conversation/scope",
        "\"other/project/admin\"",
        "to be somebody else's",
    ),
    (
        "header",
        "/conversation/id",
        "\"mine\"",
        "to be another conversation",
    ),
    (
        "header",
        "/conversation/lineage",
        "[{\"parent\":\"secret\",\"at\":3,\"operator\":\"fork\"}]",
        "to descend from a conversation of somebody else",
    ),
    (
        "header",
        "/conversation/title",
        "\"\\u001b]0;x\\u0007\\u202e\"",
        "a title that steers a terminal",
    ),
    ("block 3", "/author", "\"system\"", "to be said by the program"),
    (
        "block 3",
        "/type",
        "\"approval.decision\"",
        "to have been decided",
    ),
];

fn spliced(text: &str, from: &str, to: &[u8]) -> Vec<u8> {
    replaced(text.as_bytes().to_vec(), from.as_bytes(), to)
}

fn replaced(file: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = file.windows(from.len()).position(|window| window == from);
    let at = at.unwrap_or_else(|| panic!("the export has no {from:?}"));
    [&file[..at], to, &file[at + from.len()..]].concat()
}

fn flipped(mut file: Vec<u8>, place: fn(&[u8]) -> usize) -> Vec<u8> {
    let at = place(&file);
    file[at] ^= 1;
    file
}

fn last_line(file: &[u8]) -> usize {
    let end = file.len() - 1;
    file[..end]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}

fn without_line(file: &[u8], number: usize) -> Vec<u8> {
    let lines = file.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(at, _)| *at != number)
        .flat_map(|(_, line)| line.to_vec())
        .collect()
}
