//! The client against servers that run: a stranger's server of many mechanisms, and real ones.

mod client {
    mod asking;
    mod conformance;
    mod hostile;
    mod hosts;
    mod http;
    mod linked;
    mod login;
    mod prefix;
    mod real;
    mod stage;
    mod turns;
}

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);
