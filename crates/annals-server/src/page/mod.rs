//! The web page: its files, and what it asks beyond the API of programs.
//!
//! Everything here is a reading of the timeline as of one block: trees of texts, what each model call spent, one moment
//! from all sides, what the model saw. What strangers wrote is made into trees in the content helper, never here.

mod arriving;
mod assets;
mod facts;
mod model_view;
mod moment;
mod pdf_pages;
mod proposal;
mod steps;
mod trees;
mod versions;
mod views;

pub(crate) use arriving::{Arriving, TreeEvent};
pub(crate) use assets::file;
pub(crate) use model_view::{ModelView, model_view};
pub(crate) use moment::{Moment, moment};
pub(crate) use pdf_pages::pdf_page;
pub(crate) use proposal::{Proposed, proposal};
pub(crate) use steps::{Steps, steps};
pub(crate) use trees::{Trees, TreesOf, trees};
pub(crate) use versions::{Preview, difference, preview};
pub(crate) use views::Views;
