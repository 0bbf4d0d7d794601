//! In which order a worker's commands are looked at.

use crate::Error;
use std::collections::BTreeMap;

/// The largest weight.
const WEIGHT: u8 = 100;

/// What every claim says about the order of its commands.
pub(super) struct Turns {
    /// None: as they are named.
    pub order: Option<String>,
    pub weights: BTreeMap<String, u8>,
}

impl Turns {
    /// One command needs no order.
    pub fn new(is_strict: bool, weights: BTreeMap<String, u8>, commands: &[String]) -> Result<Turns, Error> {
        if is_strict && !weights.is_empty() {
            return Err(Error::Settings("a strict worker has no weights".into()));
        }
        for (command, weight) in &weights {
            if !commands.contains(command) {
                return Err(Error::Settings(format!("a weight for {command}, which has no handler")));
            }
            if !(1..=WEIGHT).contains(weight) {
                return Err(Error::Settings(format!("the weight of {command} is not from 1 to {WEIGHT}")));
            }
        }
        match is_strict || commands.len() < 2 {
            true => Ok(Turns { order: None, weights: BTreeMap::new() }),
            false => Ok(Turns { order: Some("fair".to_owned()), weights }),
        }
    }

    /// As the body of a claim has them.
    pub fn weights_in_json(&self) -> Option<BTreeMap<String, i64>> {
        let weights = self.weights.iter().map(|(command, weight)| (command.clone(), i64::from(*weight)));
        (!self.weights.is_empty()).then(|| weights.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(is_strict: bool, weights: &[(&str, u8)], commands: &[&str]) -> Result<Turns, Error> {
        let weights = weights.iter().map(|(command, weight)| ((*command).to_owned(), *weight)).collect();
        let commands: Vec<String> = commands.iter().map(|command| (*command).to_owned()).collect();
        Turns::new(is_strict, weights, &commands)
    }

    #[test]
    fn several_commands_are_served_fairly_unless_it_is_strict() {
        assert_eq!(turns(false, &[], &["a", "b"]).unwrap().order.as_deref(), Some("fair"));
        assert_eq!(turns(true, &[], &["a", "b"]).unwrap().order, None);
        assert_eq!(turns(false, &[("a", 3)], &["a"]).unwrap().order, None);
        let weighed = turns(false, &[("a", 3)], &["a", "b"]).unwrap().weights_in_json().unwrap();
        assert_eq!(weighed, BTreeMap::from([("a".to_owned(), 3)]));
    }

    #[test]
    fn weights_that_cannot_work_are_refused() {
        for (is_strict, weight) in
            [(true, ("a", 3)), (false, ("c", 3)), (false, ("a", 0)), (false, ("a", 101))]
        {
            assert!(
                matches!(turns(is_strict, &[weight], &["a", "b"]), Err(Error::Settings(_))),
                "{weight:?}"
            );
        }
    }
}
