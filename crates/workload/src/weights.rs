//! Weights of words: the relative frequencies of several actions, given as `create:20,read:80`.

use fsdyno_record::quote::short;
use fsdyno_record::{Count, suggest};

/// Maximum weight.
const MAX_WEIGHT: u64 = 1_000_000;

/// A weight for each word of a table, in its order; at least one is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights(Vec<u64>);

impl Weights {
    /// Parses `WORD:WEIGHT,WORD:WEIGHT...`; a word that is not given has the weight zero.
    ///
    /// # Errors
    /// A short description of the mistake.
    pub fn parse(text: &str, words: &[&str]) -> Result<Weights, String> {
        let mut weights = vec![None; words.len()];
        for part in text.split(',') {
            let (word, weight) = part
                .split_once(':')
                .ok_or_else(|| format!("'{}' is not WORD:WEIGHT", short(part)))?;
            let index = words.iter().position(|known| *known == word).ok_or_else(|| {
                let hint = suggest::hint(word, words.to_vec());
                format!("'{}' is not one of these words; {hint}", short(word))
            })?;
            let number = weight.parse().ok().map(|Count(weight)| weight);
            let number = number.filter(|number| *number <= MAX_WEIGHT).ok_or_else(|| {
                format!("'{}' is not a whole number from 0 to {}", short(weight), Count(MAX_WEIGHT))
            })?;
            if weights[index].replace(number).is_some() {
                return Err(format!("'{word}' is given twice"));
            }
        }
        let weights: Vec<u64> = weights.into_iter().map(Option::unwrap_or_default).collect();
        match weights.iter().any(|weight| *weight > 0) {
            true => Ok(Weights(weights)),
            false => Err("at least one weight must be above zero".to_string()),
        }
    }

    /// Returns the canonical spelling of these weights: the words in table order, excluding those of
    /// weight zero.
    pub fn show(&self, words: &[&str]) -> String {
        let parts: Vec<String> = words
            .iter()
            .zip(&self.0)
            .filter(|(_, weight)| **weight > 0)
            .map(|(word, weight)| format!("{word}:{weight}"))
            .collect();
        parts.join(",")
    }

    /// Returns the weight of the word with index `index`, or zero beyond the table.
    pub fn weight_of(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// Returns the sum of all weights, at least one.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the index of the word that `number`, which must be below the total, selects.
    #[inline]
    pub fn pick(&self, mut number: u64) -> usize {
        for (index, weight) in self.0.iter().enumerate() {
            if number < *weight {
                return index;
            }
            number -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &["create", "read", "unlink"];

    #[test]
    fn weights_are_parsed_in_any_order_and_shown_in_table_order() {
        let weights = Weights::parse("unlink:3,create:007,read:0", WORDS).unwrap();
        assert_eq!(weights.show(WORDS), "create:7,unlink:3");
        assert_eq!(
            (
                weights.weight_of(0),
                weights.weight_of(1),
                weights.weight_of(2),
                weights.weight_of(3)
            ),
            (7, 0, 3, 0)
        );
        assert_eq!(weights.total(), 10);
        let picked: Vec<usize> = (0..10).map(|number| weights.pick(number)).collect();
        assert_eq!(picked, [0, 0, 0, 0, 0, 0, 0, 2, 2, 2]);
    }

    #[test]
    fn each_mistake_is_described() {
        let error_of = |text| Weights::parse(text, WORDS).unwrap_err();
        assert_eq!(error_of("create"), "'create' is not WORD:WEIGHT");
        assert_eq!(error_of(""), "'' is not WORD:WEIGHT");
        assert_eq!(
            error_of("creat:1"),
            "'creat' is not one of these words; did you mean 'create'?"
        );
        assert_eq!(error_of("create:-1"), "'-1' is not a whole number from 0 to 1,000,000");
        assert_eq!(
            error_of("create:1000001"),
            "'1000001' is not a whole number from 0 to 1,000,000"
        );
        assert_eq!(error_of("create:1,read:2,create:1"), "'create' is given twice");
        assert_eq!(error_of("create:0,read:0"), "at least one weight must be above zero");
    }
}
