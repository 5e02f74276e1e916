//! The block log and its sister ports on PostgreSQL.
