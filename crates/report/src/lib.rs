//! Text, HTML, CSV and Markdown from stored trials.
