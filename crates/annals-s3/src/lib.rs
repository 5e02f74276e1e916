//! Artifacts in a bucket that speaks S3.
