//! Documents from markdown and HTML: PDF, PNG, DOCX, PPTX.
