//! Every limit that users and models meet, with its unit at the end of its name.
//!
//! Crates keep limits of their own machinery (buffer sizes, nesting of a parser) beside that machinery.
//!
//! What a user may change is in [`crate::settings`]; its defaults come from here.

// Paths.

/// A safe relative path has at most this many bytes.
pub const PATH_MAX_BYTES: usize = 1_024;
/// One part of a safe relative path has at most this many bytes.
pub const PATH_PART_MAX_BYTES: usize = 255;
/// The dotted name of an `ar:` path has at most this many bytes.
pub const NAME_MAX_BYTES: usize = 512;
/// One selection of sources names at most this many rows.
pub const SID_SET_MAX_SIDS: usize = 10_000;

// What comes in with a prompt.

/// A prompt has at most this many bytes.
pub const PROMPT_MAX_BYTES: usize = 1_000_000;
/// An attachment has at most this many bytes.
pub const ATTACHMENT_MAX_BYTES: u64 = 50_000_000;
/// A zip attachment (docx and its like too) has at most this many entries.
pub const ZIP_MAX_ENTRIES: usize = 2_000;
/// A zip attachment unpacks to at most this many bytes.
pub const ZIP_UNPACKED_MAX_BYTES: u64 = 120_000_000;
/// A zip entry unpacks to at most this many times its packed size.
pub const ZIP_MAX_RATIO: u64 = 200;
/// A PDF attachment has at most this many pages.
pub const PDF_MAX_PAGES: u32 = 500;
/// A text attachment has at most this many bytes.
pub const TEXT_ATTACHMENT_MAX_BYTES: u64 = 10_000_000;

// One model answer and the turn.

/// One answer of a model makes at most this many tool calls.
pub const ANSWER_MAX_CALLS: usize = 64;
/// An answer of a model, as a server sends it, has at most this many bytes; a longer one is an error.
pub const MODEL_ANSWER_MAX_BYTES: u64 = 100_000_000;
/// One event of such a stream has at most this many bytes; a longer one is an error.
pub const MODEL_EVENT_MAX_BYTES: usize = 16_000_000;
/// An answer of a model takes at most this many seconds; a longer one is an error.
pub const MODEL_ANSWER_MAX_SECONDS: u64 = 1_800;
/// A turn makes at most this many model calls, unless set otherwise.
pub const TURN_MAX_ITERATIONS: u32 = 15;
/// A turn is taken up this often after its process died without anything new on its timeline; then it ends as `failed`.
pub const TURN_MAX_ATTEMPTS: u32 = 5;
/// No setting allows more model calls a turn than this.
pub const TURN_ITERATIONS_CEILING: u32 = 1_000;
/// This many protocol violations in a row, for the same reason, end the turn.
pub const VIOLATIONS_IN_A_ROW_MAX: u32 = 2;

/// A model is told when the same call came to the same result this often in one turn; once more after that ends the turn.
pub const REPEATED_CALLS_TOLD: u32 = 3;

// Results of tools.

/// A serialised value is cut above this many characters.
pub const VALUE_MAX_CHARS: usize = 48_000;
/// The content of a file is cut above this many characters.
pub const FILE_CONTENT_MAX_CHARS: usize = 12_000;
/// A listing shows at most this many entries.
pub const FILE_ENTRIES_MAX_COUNT: usize = 500;
/// Characters of a produced text file that an exec result shows.
pub const EXEC_TEXT_MAX_CHARS: usize = 20_000;
/// The report of an exec call ends with at most this many characters of each output stream.
pub const EXEC_STREAM_TAIL_MAX_CHARS: usize = 4_000;
/// A text that `react.read` shows is cut above this many characters.
pub const READ_TEXT_MAX_CHARS: usize = 48_000;
/// The call block of a write shows this many characters of the content.
pub const WRITE_PARAM_PREFIX_CHARS: usize = 200;
/// A written text file with fewer bytes gets a warning.
pub const WRITE_SMALL_TEXT_BYTES: u64 = 16;
/// A written PDF, image or office file with fewer bytes gets a warning.
pub const WRITE_SMALL_BINARY_BYTES: u64 = 512;
/// A shell command has at most this many characters.
pub const SHELL_COMMAND_MAX_CHARS: usize = 2_048;
/// An exec call ends after this many seconds, unless it asks otherwise.
pub const EXEC_TIMEOUT_DEFAULT_SECONDS: u64 = 600;
/// No call may ask for more seconds than this.
pub const EXEC_TIMEOUT_MAX_SECONDS: u64 = 3_600;
/// A contract of an exec call names at most this many files.
pub const EXEC_CONTRACT_MAX_FILES: usize = 64;

// Search.

/// `react.search_files` returns at most this many hits, unless asked otherwise.
pub const SEARCH_FILES_DEFAULT_HITS: usize = 200;
/// `react.search_files` never returns more hits than this.
pub const SEARCH_FILES_MAX_HITS: usize = 2_000;
/// Largest content that a path brings into memory; anything larger is streamed or refused.
pub const READ_MAX_BYTES: u64 = 50_000_000;
/// `react.search_files` looks into files up to this many bytes.
pub const SEARCH_FILE_MAX_BYTES: u64 = 10_000_000;
/// `react.memsearch` returns at most this many snippets, unless asked otherwise.
pub const MEMSEARCH_DEFAULT_HITS: usize = 5;
/// `react.memsearch` never returns more snippets than this.
pub const MEMSEARCH_MAX_HITS: usize = 50;
/// `react.memsearch` looks back this many days, unless asked otherwise.
pub const MEMSEARCH_DEFAULT_DAYS: u32 = 365;
/// A snippet of `react.memsearch` has at most this many characters.
pub const MEMSEARCH_SNIPPET_MAX_CHARS: usize = 600;

// Web and sources.

/// `web_search` asks for this many results, unless asked otherwise.
pub const WEB_SEARCH_DEFAULT_RESULTS: usize = 8;
/// `web_search` never asks for more results than this.
pub const WEB_SEARCH_MAX_RESULTS: usize = 50;
/// `web_search` takes at most this many queries in one call.
pub const WEB_SEARCH_MAX_QUERIES: usize = 8;
/// `web_fetch` takes at most this many addresses in one call.
pub const WEB_FETCH_MAX_URLS: usize = 16;
/// `web_fetch` reads at most this many bytes of an answer.
pub const WEB_FETCH_MAX_BYTES: u64 = 10_000_000;
/// `web_fetch` gives an address up after this many seconds.
pub const WEB_FETCH_TIMEOUT_SECONDS: u64 = 30;
/// `web_fetch` follows at most this many redirects.
pub const WEB_FETCH_MAX_REDIRECTS: usize = 5;
/// A fetched page is shown up to this many characters; the pool keeps the whole.
pub const WEB_FETCH_SHOWN_MAX_CHARS: usize = 12_000;
/// Characters of each row's text in a search result; the pool keeps the whole.
pub const SOURCE_SNIPPET_MAX_CHARS: usize = 240;
/// Characters of a source's title in the tail.
pub const SOURCE_TITLE_MAX_CHARS: usize = 80;
/// `react.read` shows this many rows of the pool whole in one call; of more it lists titles and addresses.
pub const SOURCES_READ_WHOLE_MAX_ROWS: usize = 20;
/// One citation token names at most this many sources; a longer one is plain text.
pub const CITATION_MAX_SIDS: usize = 100;

// Secrets.

/// A shorter secret is refused, because ordinary text would be replaced.
pub const SECRET_MIN_CHARS: usize = 8;

// Plans and skills.

/// A plan has at most this many steps.
pub const PLAN_MAX_STEPS: usize = 50;
/// A step of a plan has at most this many characters.
pub const PLAN_STEP_MAX_CHARS: usize = 500;
/// A `SKILL.md` has at most this many bytes.
pub const SKILL_MAX_BYTES: usize = 1_000_000;
/// A skill's description enters the system message up to this many characters.
pub const SKILL_DESCRIPTION_MAX_CHARS: usize = 1_024;
/// Descriptions of skills take at most this many characters of the system message together; further skills are named only.
pub const SKILL_DESCRIPTIONS_MAX_CHARS: usize = 16_384;
/// The system message names at most this many skills.
pub const SKILLS_NAMED_MAX_COUNT: usize = 200;
/// A skill brings at most this many sources.
pub const SKILL_MAX_SOURCES: usize = 500;

// The view.

/// The window of a model that does not say its own.
pub const WINDOW_DEFAULT_TOKENS: u32 = 128_000;
/// No smaller window can hold the system message and one round.
pub const WINDOW_MIN_TOKENS: u32 = 512;
/// Blocks may be hidden this many tokens from the tail.
pub const EDITABLE_TAIL_TOKENS: u32 = 2_000;
/// The pre-tail cache point needs this many rounds.
pub const CACHE_POINT_MIN_ROUNDS: u32 = 2;
/// The pre-tail cache point lies this many rounds before the last.
pub const CACHE_POINT_OFFSET_ROUNDS: u32 = 4;
/// A provider's cache goes cold after this many seconds.
pub const CACHE_TTL_SECONDS: u64 = 300;
/// Pruning starts this many seconds before that.
pub const CACHE_TTL_PRUNE_BUFFER_SECONDS: u64 = 10;
/// Pruning hides turns older than this number of most recent ones.
pub const KEEP_RECENT_TURNS: u32 = 10;
/// Pruning leaves this number of most recent turns whole.
pub const KEEP_RECENT_INTACT_TURNS: u32 = 2;
/// A pruned text keeps at most this many characters.
pub const TRUNCATION_MAX_TEXT_CHARS: usize = 4_000;
/// A field of a pruned JSON text keeps at most this many characters.
pub const TRUNCATION_MAX_FIELD_CHARS: usize = 1_000;
/// A list in a pruned JSON text keeps at most this many items.
pub const TRUNCATION_MAX_LIST_ITEMS: usize = 50;
/// An object in a pruned JSON text keeps at most this many keys.
pub const TRUNCATION_MAX_DICT_KEYS: usize = 80;
/// Base64 of more characters is pruned.
pub const TRUNCATION_MAX_BASE64_CHARS: usize = 4_000;
/// Pruning keeps this many of the newest images and PDFs.
pub const TRUNCATION_KEEP_RECENT_IMAGES: u32 = 2;
/// Pruning keeps at most this many characters of base64 of images and PDFs in all.
pub const TRUNCATION_MAX_IMAGE_PDF_B64_SUM_CHARS: usize = 1_000_000;
/// Compaction starts when the view has more than this many percent of the window.
pub const COMPACTION_START_PERCENT: u32 = 90;
/// Compaction keeps this many percent of the budget.
pub const COMPACTION_KEEP_PERCENT: u32 = 70;

// What media are taken to cost.

/// Providers scale an image down to this many pixels on its long side.
pub const IMAGE_LONG_SIDE_MAX_PX: u32 = 1_568;
/// An image costs at most this many tokens.
pub const IMAGE_MAX_TOKENS: u32 = 1_600;
/// Text of a typical page of a PDF, in tokens; the page's picture comes on top.
pub const PDF_PAGE_TEXT_TOKENS: u32 = 700;
/// A page of a PDF whose pages were not counted is taken to have this many bytes.
pub const PDF_PAGE_TYPICAL_BYTES: u64 = 50_000;

/// Characters of a block that one part of the view shows; the rest is read by its path.
pub const PART_MAX_CHARS: usize = 60_000;
/// Tokens of the uncached tail (sources, announcement, plan), whatever they hold.
pub const TAIL_MAX_TOKENS: u32 = 1_500;
/// Tokens of an answer without which asking makes no sense.
pub const ANSWER_MIN_TOKENS: u32 = 128;
/// A view is never asked to be smaller than this.
pub const VIEW_MIN_TOKENS: u32 = 256;
/// Compaction that would gain fewer tokens is not worth a summary.
pub const COMPACTION_MIN_GAIN_TOKENS: u64 = 200;
/// A refused view smaller than this is not what was too long: instructions and tools were.
pub const COMPACTION_REFUSED_MIN_VIEW_TOKENS: u64 = 1_000;
/// Length of the digest that needs no model.
pub const COMPACTION_DIGEST_MAX_BYTES: usize = 12_000;
/// Characters of a model's summary that are kept.
pub const COMPACTION_SUMMARY_MAX_CHARS: usize = 24_000;
/// Characters of internal notes, and of replacements of hidden blocks, that a summary keeps.
pub const COMPACTION_NOTES_MAX_CHARS: usize = 6_000;
/// A summary lists at most this many artifacts.
pub const COMPACTION_ARTIFACT_MAX_LINES: usize = 100;
/// Characters shown of an answer that was not understood.
pub const DECISION_RAW_MAX_CHARS: usize = 8_000;

/// Bytes of pictures and documents that a running turn keeps between two model calls; more are read again.
pub const MEDIA_HELD_MAX_BYTES: usize = 64_000_000;
/// Updates that wait for a slow subscriber before the oldest are left out. Every watched conversation has room for as many.
pub const SUBSCRIBER_QUEUE_UPDATES: usize = 128;

// Copies of conversations, and other nodes.

/// A line of an export or of an archived conversation has at most this many bytes: the longest answer of a model as a block.
pub const COPY_LINE_MAX_BYTES: u64 = 134_217_728;
/// The blocks of an imported conversation have at most this many bytes together; they are held until the last line was checked.
pub const IMPORT_BLOCKS_MAX_BYTES: u64 = 1_073_741_824;
/// What another node answers to a request that was handed on to it has at most this many bytes.
pub const NODE_ANSWER_MAX_BYTES: usize = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the behaviour contract states. A change here is a change of behaviour.
    #[test]
    fn stated_limits_have_their_stated_values() {
        assert_eq!((PATH_PART_MAX_BYTES, PATH_MAX_BYTES), (255, 1_024));
        assert_eq!(PROMPT_MAX_BYTES, 1_000_000);
        assert_eq!(ATTACHMENT_MAX_BYTES, 50_000_000);
        assert_eq!(
            (ZIP_MAX_ENTRIES, ZIP_UNPACKED_MAX_BYTES, ZIP_MAX_RATIO),
            (2_000, 120_000_000, 200)
        );
        assert_eq!((PDF_MAX_PAGES, TEXT_ATTACHMENT_MAX_BYTES), (500, 10_000_000));
        assert_eq!(
            (ANSWER_MAX_CALLS, TURN_MAX_ITERATIONS, VIOLATIONS_IN_A_ROW_MAX),
            (64, 15, 2)
        );
        assert_eq!(
            (VALUE_MAX_CHARS, FILE_CONTENT_MAX_CHARS, FILE_ENTRIES_MAX_COUNT),
            (48_000, 12_000, 500)
        );
        assert_eq!(EXEC_TEXT_MAX_CHARS, 20_000);
        assert_eq!(
            (SHELL_COMMAND_MAX_CHARS, EXEC_TIMEOUT_DEFAULT_SECONDS),
            (2_048, 600)
        );
        assert_eq!(
            (
                SEARCH_FILES_DEFAULT_HITS,
                MEMSEARCH_DEFAULT_HITS,
                MEMSEARCH_DEFAULT_DAYS
            ),
            (200, 5, 365)
        );
        assert_eq!((WEB_SEARCH_DEFAULT_RESULTS, TAIL_MAX_TOKENS), (8, 1_500));
        assert_eq!((COMPACTION_START_PERCENT, COMPACTION_KEEP_PERCENT), (90, 70));
    }
}
