//! Idle conversations leave the database and come back: the archive's contract, races by seed, crashes, older nodes.

mod archive {
    mod contract;
    mod crashes;
    mod node;
    mod races;
    mod searched;
}
