//! Questions on a terminal, each repeated until its answer is valid.

use std::io::{BufRead, Write};

use fsdyno_campaign::Failure;

/// A dialogue: writes questions and reads answers.
pub struct Asker<R, W> {
    /// The source of answers.
    pub answers: R,
    /// The destination of questions.
    pub questions: W,
    /// The number of the last question.
    pub number: usize,
}

impl<R: BufRead, W: Write> Asker<R, W> {
    /// Asks a question until `parse` accepts the answer; an empty answer selects the default.
    ///
    /// # Errors
    /// The input ended before the question was answered.
    pub fn ask<T>(
        &mut self,
        question: &str,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        self.number += 1;
        let _ = writeln!(self.questions, "{}. {question}", self.number);
        let prompt = default.map_or("> ".to_string(), |default| format!("[{default}] > "));
        loop {
            let answer = self.read_answer(&prompt)?;
            let answer = if answer.is_empty() { default.unwrap_or_default() } else { &answer };
            match parse(answer) {
                Ok(value) => return Ok(value),
                Err(error) => {
                    let _ = writeln!(self.questions, "{error}");
                }
            }
        }
    }

    /// Asks a yes-or-no question; any answer other than yes means no.
    pub fn confirm(&mut self, question: &str) -> bool {
        let answer = self.read_answer(&format!("{question} [y/N] ")).unwrap_or_default();
        ["y", "yes"].contains(&answer.to_lowercase().as_str())
    }

    fn read_answer(&mut self, prompt: &str) -> Result<String, Failure> {
        let _ = write!(self.questions, "{prompt}");
        let _ = self.questions.flush();
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(read) if read > 0 => Ok(line.trim().to_string()),
            _ => {
                Err(Failure::invalid_use("the answers ended before the questions; nothing was run"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purpose;

    #[test]
    fn an_invalid_answer_is_explained_in_one_line_and_read_again() {
        let answers = b"mial\n\n mail \nyes\n".as_slice();
        let mut asker = Asker { answers, questions: Vec::new(), number: 0 };
        let purpose = asker.ask("What for?", None, purpose::parse).unwrap();
        assert_eq!(purpose.name, "mail");
        assert!(asker.confirm("Run?"));
        assert!(!asker.confirm("Run?"), "the end of the input means no");
        assert!(asker.ask("On?", None, purpose::parse).is_err());
        let shown = String::from_utf8(asker.questions).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "1. What for?");
        assert_eq!(lines[1], "> unknown purpose 'mial': did you mean 'mail'?");
        assert!(lines[2].starts_with("> unknown purpose '': there are: mail, "), "{shown}");
    }

    #[test]
    fn an_empty_answer_is_the_default() {
        let mut asker = Asker { answers: b"\n".as_slice(), questions: Vec::new(), number: 0 };
        assert_eq!(asker.ask("?", Some("unpack"), purpose::parse).unwrap().name, "unpack");
    }
}
