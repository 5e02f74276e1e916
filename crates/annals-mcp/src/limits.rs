//! Every bound on what a server may send, offer or take.

use std::time::Duration;

/// One message of a server. A longer one ends the connection.
pub const MESSAGE_MAX_BYTES: usize = 16 << 20;
/// Messages of a server between two requests to it. More ends the connection.
pub const MESSAGES_PER_REQUEST_MAX: usize = 20_000;
/// Bytes of a server between two requests to it. More ends the connection.
pub const BYTES_PER_REQUEST_MAX: usize = 64 << 20;
/// Tools of one server; those beyond are not offered.
pub const TOOLS_MAX: usize = 2_000;
/// Pages of one list.
pub const PAGES_MAX: usize = 200;
/// One tool's definition as JSON; a larger one is not offered.
pub const DEFINITION_MAX_BYTES: usize = 64 << 10;
/// A tool's description as the model reads it.
pub const DESCRIPTION_MAX_CHARS: usize = 2_000;
/// The description of one parameter.
pub const PARAMETER_DESCRIPTION_MAX_CHARS: usize = 500;
/// Parts of one result.
pub const RESULT_PARTS_MAX: usize = 256;
/// Files of one result.
pub const RESULT_FILES_MAX: usize = 32;
/// What a server says of a result or of a tool beside it (`_meta`), as JSON; more is not kept.
pub const META_MAX_BYTES: usize = 16 << 10;
/// Resources of a server in one list that the model reads; those beyond are counted.
pub const RESOURCES_SHOWN_MAX: usize = 100;
/// How often a server may answer one call with questions.
pub const ROUNDS_MAX: usize = 10;
/// Pages that a server may want opened before it does what it was asked; it is not told of those beyond.
pub const PAGES_ASKED_MAX: usize = 4;
/// Calls of one server that wait for a person; a further one takes the place of the oldest.
pub const PARKED_MAX: usize = 32;
/// What a server says of an error.
pub const ERROR_MAX_CHARS: usize = 2_000;
/// Notices of one call about what its server did; those beyond are counted.
pub const NOTICES_MAX: usize = 8;
/// Hosts that a server was kept from and that are told of at once.
pub const REFUSED_HOSTS_MAX: usize = 8;
/// Connections of a sandboxed server to its hosts at once; further ones wait.
pub const PROXY_CONNECTIONS_MAX: usize = 32;
/// The head of a request to the proxy of a sandboxed server.
pub const PROXY_HEAD_MAX_BYTES: usize = 16 << 10;

/// Until such a head is there.
pub const PROXY_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Until a host of a sandboxed server is resolved and connected to.
pub const PROXY_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection of a sandboxed server through which nothing passes.
pub const PROXY_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// From the start of a server to its list of tools.
pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
/// A call without a sign of life.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A call with signs of life.
pub const CALL_TIMEOUT_TOTAL: Duration = Duration::from_secs(600);
/// A call that waits for a person is kept open this long.
pub const PARKED_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The first pause before a server that asks only to be called again is; each further one is twice as long.
pub const ROUND_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
pub const ROUND_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Between two signs of life of a call that are passed on to people; those in between are lost.
pub const PROGRESS_PAUSE: Duration = Duration::from_millis(200);
/// Until a server says that it tells of changes.
pub const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// A list that is said to hold for a shorter time holds this long.
pub const LIST_TTL_MIN: Duration = Duration::from_secs(1);
/// A list of a server that tells nobody of changes, whatever it says.
pub const LIST_TTL_MAX: Duration = Duration::from_secs(300);
/// A server whose call is not waited for any more has this long to hear of it before its session ends.
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// Until a message to a server is taken.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The first pause after a failed start; each further one is twice as long.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// The client of a registry that installs a server.
pub const INSTALL_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// What such a client says that is heard.
pub const INSTALL_OUTPUT_MAX_BYTES: u64 = 4 << 20;
/// Lines of it that are told of when it fails.
pub const INSTALL_LINES_KEPT: usize = 12;

/// One answer of an authorization server, or one document about it.
pub const METADATA_MAX_BYTES: usize = 256 << 10;
/// Requests of one login or one renewal: documents may name any number of places.
pub const LOGIN_REQUESTS_MAX: usize = 32;
/// One of these requests.
pub const LOGIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks whether another process has renewed a login.
pub const LOGIN_LOCK_PAUSE: Duration = Duration::from_millis(25);
/// From the address for a browser to its return.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The head of a request to the listener of a login.
pub const REDIRECT_MAX_BYTES: usize = 16 << 10;
/// One request to it.
pub const REDIRECT_VISIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Such requests at once.
pub const REDIRECT_VISITS_MAX: usize = 16;
/// What a server says when it refuses a request; a longer one is not read.
pub const CHALLENGE_MAX_BYTES: usize = 4 << 10;
/// Scopes that a refusal may ask for.
pub const SCOPES_MAX: usize = 20;
/// One scope.
pub const SCOPE_MAX_BYTES: usize = 128;
/// A shorter token cannot be told from ordinary text.
pub const TOKEN_HIDDEN_MIN_BYTES: usize = 8;
/// Tokens of one server that are hidden: the newest.
pub const TOKENS_HIDDEN_MAX: usize = 32;
