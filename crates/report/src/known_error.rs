//! How far figures of a kind were from the truth, as reports say it beside them. Which figures have which error is a
//! table of the crate that predicts them; each row names the command that measures it.

use serde::{Deserialize, Serialize};

/// The error known of a class of predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownError {
    /// The class.
    pub class: String,
    /// What predictions were compared with.
    pub against: String,
    /// Mean of the relative errors; `None`: not measured yet.
    pub mean: Option<f64>,
    /// The largest of them.
    pub worst: Option<f64>,
    /// The command that measures it, and where that was done.
    pub source: String,
}

impl KnownError {
    /// For people.
    pub fn text(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match (self.mean, self.worst) {
            (Some(mean), Some(worst)) => format!(
                "{}: mean {}, worst {} against {} ({})",
                self.class,
                percent(mean),
                percent(worst),
                self.against,
                self.source
            ),
            _ => format!("{}: not measured against {}", self.class, self.against),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_figures_says_so() {
        let known = KnownError {
            class: "tape".to_string(),
            against: "a real one".to_string(),
            mean: None,
            worst: None,
            source: String::new(),
        };
        assert_eq!(known.text(), "tape: not measured against a real one");
        let measured = KnownError { mean: Some(0.021), worst: Some(0.1), source: "a command".to_string(), ..known };
        assert_eq!(measured.text(), "tape: mean 2.1 %, worst 10.0 % against a real one (a command)");
    }
}
