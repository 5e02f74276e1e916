//! What stands in for the parsers in a program that was built without them. Content that needs one is refused before.

pub(super) mod archive {
    use crate::preflight::AttachmentRefused;

    pub(in crate::preflight) fn check(name: &str, _bytes: &[u8]) -> Result<(), AttachmentRefused> {
        Err(AttachmentRefused::NotBuilt {
            name: name.to_owned(),
        })
    }

    pub(in crate::preflight) fn office_mime(_bytes: &[u8]) -> Option<&'static str> {
        None
    }
}

pub(super) mod office {
    use crate::preflight::Described;

    pub(in crate::preflight) fn describe(_mime: &str, _bytes: &[u8]) -> Option<Described> {
        None
    }
}

pub(super) mod pdf {
    pub(in crate::preflight) fn count_pages(_bytes: &[u8]) -> Option<u32> {
        None
    }
}
