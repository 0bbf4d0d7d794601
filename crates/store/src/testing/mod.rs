//! What proves a store: the exam every store sits, and the model it is compared with. Compiled only with
//! the feature `testing`.

pub mod exam;
pub mod forgetful;
pub mod model;
