//! The only place that acts: it performs what the turn machine of `annals-core` says, and writes down what happened.
//!
//! The data goes one way: a prompt comes in, blocks are appended, deltas and blocks go out to listeners. The log is the
//! only truth; nothing here remembers what the log does not say. Read in this order:
//!
//! 1. [`world`]: time and chance, the only ways in for what cannot be replayed;
//! 2. [`runtime`], [`agent`] and [`session`]: what a program holds; [`request`] and [`turn`]: what it asks and gets;
//! 3. [`conversation`]: the one owner of a conversation, its queue and its lease; [`joining`]: callers of a turn that it goes
//!    on with by itself; [`handle`] and [`mail`]: what reaches it from outside; [`approval`] and [`input`]: what it waits
//!    for; [`worker`] and [`membership`]: work of processes that died, and who this process is among those that share the
//!    store;
//! 4. [`perform`] and [`driver`]: one request, and the loop, one screen;
//! 5. [`step`], [`ask`], [`gate`], [`calls`]: one model request, its answer, its calls checked, its calls run;
//! 6. [`journal`]: append before act, append before show;
//! 7. [`compaction`], [`attach`], [`media`]: context care, files that come with a prompt, what prompts show;
//! 8. [`listen`], [`subscription`] and [`hooks`]: who watches and who may interfere.

#![forbid(unsafe_code)]

pub mod agent;
pub mod attach;
pub mod builder;
pub mod handle;
pub mod hooks;
pub mod lineage;
pub mod listen;
pub mod request;
pub mod runtime;
pub mod session;
pub mod subscription;
pub mod turn;
pub mod worker;
pub mod world;
mod writer;

mod approval;
mod ask;
mod bounds;
mod caller;
mod calls;
mod compaction;
mod conversation;
mod driver;
mod durations;
mod error;
mod gate;
mod input;
mod instructions;
mod joining;
mod journal;
mod mail;
mod media;
mod membership;
mod offer;
mod parked;
mod partial;
mod pending;
mod perform;
mod policy;
mod policy_rows;
mod redaction;
mod removal;
mod rendered;
mod ring;
mod scope_budget;
mod sourced;
mod started;
mod step;
mod structured;
mod terms;

pub use agent::Agent;
pub use annals_core::block::payload::{
    ApprovalDecision, ApprovalRequest, Decision, InputAction, InputRequest, InputResponse,
};
pub use approval::Ask;
pub use attach::{Attachment, AttachmentError};
pub use builder::AgentBuilder;
pub use durations::{Counted, Durations};
pub use error::{BuildError, ErrorClass, RunError};
pub use handle::{ConversationHandle, Prompt, ToolCall, TurnState, TurnStatus};
pub use hooks::{HookCx, Hooks, Verdict};
pub use listen::{Delta, DeltaChannel, Listen, Relayed, Update};
pub use pending::{PendingApproval, PendingInput};
pub use policy::{Judged, PolicyFault, PolicyFiles, PolicySource};
pub use policy_rows::PolicyRows;
pub use rendered::Rendered;
pub use request::TurnRequest;
pub use runtime::Runtime;
pub use session::Session;
pub use subscription::Subscription;
pub use terms::{ClientFunction, TurnTerms};
pub use tokio_util::sync::CancellationToken;
pub use turn::{RunFailed, Turn, TurnFile};
pub use worker::{Agents, Worker, WorkerOptions};
pub use world::{Clock, Entropy, SystemClock, World};
