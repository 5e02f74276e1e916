//! Things by name, of which many requests ask at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Table<T>(Mutex<HashMap<String, Arc<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Table<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<T>> {
        self.lock().get(name).cloned()
    }

    pub(crate) fn insert(&self, name: String, thing: Arc<T>) {
        self.lock().insert(name, thing);
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Arc<T>> {
        self.lock().remove(name)
    }

    pub(crate) fn all(&self) -> Vec<(String, Arc<T>)> {
        let all = self.lock();
        all.iter()
            .map(|(name, thing)| (name.clone(), Arc::clone(thing)))
            .collect()
    }
}
