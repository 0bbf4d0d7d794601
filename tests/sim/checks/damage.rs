//! Damage is seen: a store on a disk that changed a byte refuses to open, or has not needed that byte.

use super::{Checked, Violation};

pub fn unseen(checked: Checked) -> Checked {
    checked.map_err(|violation| Violation {
        check: "damage",
        what: format!("a changed byte of the journal was believed: {violation}"),
    })
}
