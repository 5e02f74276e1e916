//! What a tool function keeps between its calls.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A shared value that a `#[tool]` function takes beside its arguments; several tools may share one.
///
/// A function with such a parameter becomes a tool that is made with the value, so that forgetting it does not
/// compile: `.tool(lookup(State::new(directory)))`.
pub struct State<T: ?Sized>(Arc<T>);

impl<T> State<T> {
    /// A state of this value.
    pub fn new(value: T) -> Self {
        State(Arc::new(value))
    }
}

impl<T: ?Sized> From<Arc<T>> for State<T> {
    fn from(value: Arc<T>) -> Self {
        State(value)
    }
}

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        State(self.0.clone())
    }
}

impl<T: ?Sized> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

// The value may be a secret or may not be printable.
impl<T: ?Sized> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}
