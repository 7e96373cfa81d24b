//! Published tables, through the public interface.

mod layton;
mod published_tables;
