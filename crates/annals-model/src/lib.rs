//! Language models behind one streaming trait.
