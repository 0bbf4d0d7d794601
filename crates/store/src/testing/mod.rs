//! What proves a store: the exam every store sits, the model it is compared with, and the doubles that
//! break under it. Compiled only with the feature `testing`.

pub mod bars;
pub mod batches;
pub mod campaign;
pub mod exam;
pub mod forgetful;
pub mod model;
pub mod observed;
pub mod planted;
pub mod table_rows;
