//! The web page, and what it draws: markdown, code, differences and tables as small JSON trees.
