//! Starting isolated processes, at about the cost of a plain start.
//!
//! ```text
//! Annals ─► launcher ─► supervisor (one a sandbox: namespaces, root, filters) ─► init (one a command: pid 1) ─► command
//! ```
//!
//! - The **launcher** is a helper process ([`crate::launcher`]), single-threaded and with an empty environment, so that everything below it forks from a small, clean memory that holds none of the host's secrets.
//! - A **supervisor** sets up a sandbox's isolation layers once and holds them. It is the first process of the sandbox.
//! - An **init** is the first process of one command's own process namespace. When the command ends, or the socket
//!   between init and Annals closes (timeout, cancel, death of Annals), init exits and the kernel ends the rest.
//!
//! Start reading at [`client`], which is the side that lives in Annals; all other modules run in the processes above.

pub(crate) mod client;
pub(crate) mod wire;

mod accounting;
pub(crate) mod cgroup;
mod context;
mod identity;
mod init;
mod landlock;
mod launcher;
pub(crate) mod probe;
pub(crate) mod rootfs;
mod seccomp;
mod supervisor;
mod syscalls;
mod tree;

pub(crate) use launcher::serve;
pub(crate) use syscalls::exit_now;
