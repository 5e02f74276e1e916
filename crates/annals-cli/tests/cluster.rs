//! Several `annals serve` on one PostgreSQL: any node takes any conversation, whatever dies.

#![allow(
    clippy::print_stderr,
    reason = "how often each fault occurred is part of the record"
)]

fn roles() {
    annals::launcher::init();
    annals_opensandbox_double::play_in_tests();
}

annals::sandbox::helpers_in_tests!(roles);

mod cluster {
    mod archive;
    mod chance;
    mod checks;
    mod client;
    mod faults;
    mod model;
    mod mutants;
    mod node_loss;
    mod nodes;
    mod promises;
    mod several;
}
