//! Whether a type can be the arguments of a tool, known when it is compiled.
//!
//! Models send an object, so the arguments are a struct with named fields. A type's JSON Schema is a value at run time;
//! what can be told before is whether it is one of the standard types that are never an object. Everything else is
//! checked when the agent is built ([`SpecError`](crate::SpecError)).

use std::collections::{BTreeSet, HashSet};
use std::marker::PhantomData;

/// Asks about `T`: `Probe::<T>::MAY_BE_OBJECT`.
pub struct Probe<T>(PhantomData<T>);

/// The answer for every type that has none of its own below. Inherent constants win over those of a trait.
pub trait MayBeObject {
    /// Whether the type's schema may be that of an object.
    const MAY_BE_OBJECT: bool = true;
}

impl<T> MayBeObject for Probe<T> {}

macro_rules! never_an_object {
    ($($type:ty),* $(,)?) => {
        $(impl Probe<$type> {
            /// Whether the type's schema may be that of an object.
            pub const MAY_BE_OBJECT: bool = false;
        })*
    };
}

never_an_object! {
    (), bool, char, f32, f64, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, String,
    serde_json::Value,
}

macro_rules! never_an_object_of {
    ($($type:ident),*) => {
        $(impl<T> Probe<$type<T>> {
            /// Whether the type's schema may be that of an object.
            pub const MAY_BE_OBJECT: bool = false;
        })*
    };
}

never_an_object_of!(Vec, Option, BTreeSet);

impl<T, S> Probe<HashSet<T, S>> {
    /// Whether the type's schema may be that of an object.
    pub const MAY_BE_OBJECT: bool = false;
}

impl<T, const N: usize> Probe<[T; N]> {
    /// Whether the type's schema may be that of an object.
    pub const MAY_BE_OBJECT: bool = false;
}
