//! Conditions with the same results, shown once.

use super::{Judged, Variant};

impl Judged {
    /// Merges conditions whose results are the same into one variant, named after all of them: `as then and as today`.
    /// A study run without historical or current conditions serves both, so if only such runs have trials, both have
    /// the same results.
    pub fn merged(&self) -> Judged {
        let mut variants: Vec<Variant> = Vec::new();
        for variant in &self.variants {
            match variants.iter_mut().find(|known| is_same(known, variant)) {
                Some(known) => {
                    known.name = format!("{} and {}", known.name, variant.name);
                    known.conditions = format!("{} and {}", known.conditions, variant.conditions);
                }
                None => variants.push(variant.clone()),
            }
        }
        Judged { variants, ..self.clone() }
    }
}

/// Returns true if two variants differ only in their names. Those of a timeline, which have a kernel, are never merged.
fn is_same(one: &Variant, other: &Variant) -> bool {
    one.kernel.is_none() && without_name(one) == without_name(other)
}

/// Returns a variant in JSON without its name, which is also in the reasons why some of its claims have no verdict. A
/// variant always has a JSON form.
fn without_name(variant: &Variant) -> Option<String> {
    let nameless = Variant { name: String::new(), conditions: String::new(), ..variant.clone() };
    let text = serde_json::to_string(&nameless).ok()?;
    Some(text.replace(&format!(" {}", variant.name), ""))
}

#[cfg(test)]
mod tests {
    use crate::study::sample;
    use crate::study::{Results, counts};
    use crate::{Format, Style};

    #[test]
    fn equal_results_of_two_conditions_are_shown_once() {
        let mut judged = sample::judged();
        assert_eq!(judged.merged(), judged, "different results");
        judged.variants[1] = super::Variant {
            name: "as today".into(),
            conditions: "as today".into(),
            ..judged.variants[0].clone()
        };
        // A claim without trials has the conditions in its reason.
        for variant in &mut judged.variants {
            variant.claims[5].why = format!("run 'forward' has not been run {}.", variant.name);
        }
        let merged = judged.merged();
        assert_eq!(merged.variants.len(), 1);
        assert!(counts(&merged)[0].starts_with("as then and as today: 6 claims: "));
        let text = |format: Format| format.write(&Results::of(&judged), Style::default()).unwrap();
        let shown = text(Format::Text);
        assert_eq!(shown.matches("as then and as today: ").count(), 2, "{shown}");
        assert_eq!(shown.matches("\n  C1 ").count(), 1, "{shown}");
        let page = crate::study_page(&judged, &[], Default::default(), None).unwrap();
        assert!(page.contains("as then and as today"));
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["variants"].as_array().unwrap().len(), 2, "programs find each variant");
    }

    #[test]
    fn kernels_of_a_timeline_are_never_merged() {
        let mut judged = sample::on_kernels();
        judged.variants[2] = judged.variants[1].clone();
        assert_eq!(judged.merged(), judged);
    }
}
