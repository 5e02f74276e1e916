//! Side effects behind walls: commands, files and code as data.
