# The list of commands. `just` without a name prints it; each line works without just as well.

# this list
default:
    @just --list --unsorted

# a whole conversation in a minute: no key, no network
demo:
    cargo run -- demo

# everything that must hold: setup, tidy, fmt, clippy, tests, doc tests, instruction budgets
test:
    cargo xtask test

# the same without installing anything
check:
    cargo xtask test --no-setup

# the README's commands in a minimal Debian root, as root and as an ordinary user (an hour; needs root)
fresh:
    cargo xtask fresh

# tests of one crate: `just t annals-core`
t crate *filter:
    cargo nextest run -p {{crate}} {{filter}}

# look at changed snapshots and accept them one by one (cargo-insta)
review:
    cargo insta review

# format everything
fmt:
    cargo fmt --all

# benchmarks, all or by name: `just bench core`
bench *names:
    cargo xtask bench {{names}}

# the same work by other systems, side by side, and the page from it
peers:
    cargo xtask bench --peers --docs

# kill a writing store again and again
crash kills="1000" seed="1":
    cargo xtask crash --kills {{kills}} --seed {{seed}}

# pages that are made from code and notes
docs:
    cargo xtask docs

# the API documentation, in a browser
doc:
    cargo doc --workspace --no-deps --open

# licences, advisories and duplicates (cargo-deny)
deny:
    cargo deny check
