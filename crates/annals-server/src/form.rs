//! Forms with files (`multipart/form-data`): fields are held, files go to the artifact store as they arrive.

use annals_core::block::{Blob, BlobDigest};
use annals_core::limits::ATTACHMENT_MAX_BYTES;
use annals_store::ArtifactDraft;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::problem::Problem;
use crate::request::{Pace, too_large};

/// A form that is being received.
pub(crate) struct Form {
    parts: Multipart,
    taken_bytes: u64,
    pace: Pace,
}

/// One part of a form.
pub(crate) struct Part {
    pub(crate) name: String,
    /// What the client calls the file, if it is one.
    pub(crate) file: Option<String>,
    pub(crate) received: Received,
}

/// What a part held.
pub(crate) enum Received {
    Field(Vec<u8>),
    File(Blob),
}

impl Received {
    pub(crate) fn digest(&self) -> BlobDigest {
        match self {
            Received::File(blob) => blob.digest,
            Received::Field(bytes) => BlobDigest::of(bytes),
        }
    }
}

impl Part {
    /// Adds what the part means to the digest of its request: each client chooses its own boundary.
    pub(crate) fn add_to(&self, hash: &mut Sha256) {
        for text in [self.name.as_str(), self.file.as_deref().unwrap_or_default()] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(self.received.digest().0);
    }
}

impl FromRequest<App> for Form {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        // Parts are counted as they arrive; the framework's own limit is far below that of a file.
        DefaultBodyLimit::disable().apply(&mut request);
        let parts = Multipart::from_request(request, app).await;
        Ok(Form {
            parts: parts.map_err(|error| Problem::bad_request(error.body_text()))?,
            taken_bytes: 0,
            pace: Pace::new(&app.limits),
        })
    }
}

impl Form {
    /// The next part, whole. Ends with an error where a part or all of them are too large, or come too slowly.
    pub(crate) async fn next(&mut self, app: &App) -> Result<Option<Part>, Problem> {
        let next = self.pace.wait(self.parts.next_field()).await?;
        let Some(mut field) = next.map_err(broken)? else {
            return Ok(None);
        };
        Ok(Some(Part {
            name: field.name().unwrap_or_default().to_owned(),
            file: field.file_name().map(str::to_owned),
            received: receive(&mut field, app, &mut self.taken_bytes, &mut self.pace).await?,
        }))
    }
}

fn broken(error: MultipartError) -> Problem {
    Problem::bad_request(error.body_text())
}

async fn receive(
    field: &mut Field<'_>,
    app: &App,
    taken_bytes: &mut u64,
    pace: &mut Pace,
) -> Result<Received, Problem> {
    let (mut sink, max_bytes) = match field.file_name() {
        Some(_) => {
            let draft = app.agent.artifacts().draft().await;
            (
                Sink::File(draft.map_err(Problem::internal)?),
                ATTACHMENT_MAX_BYTES,
            )
        }
        None => (Sink::Field(Vec::new()), app.limits.json_max_bytes as u64),
    };
    let mut part_bytes = 0;
    while let Some(piece) = pace.wait(field.chunk()).await?.map_err(broken)? {
        pace.came(piece.len());
        *taken_bytes += piece.len() as u64;
        part_bytes += piece.len() as u64;
        if part_bytes > max_bytes {
            return Err(too_large(max_bytes));
        }
        if *taken_bytes > app.limits.upload_max_bytes {
            return Err(too_large(app.limits.upload_max_bytes));
        }
        sink.write(&piece).await?;
    }
    sink.end().await
}

/// Where the bytes of a part go.
enum Sink {
    Field(Vec<u8>),
    File(ArtifactDraft),
}

impl Sink {
    async fn write(&mut self, piece: &[u8]) -> Result<(), Problem> {
        match self {
            Sink::Field(bytes) => bytes.extend_from_slice(piece),
            Sink::File(draft) => draft.write(piece).await.map_err(Problem::internal)?,
        }
        Ok(())
    }

    async fn end(self) -> Result<Received, Problem> {
        Ok(match self {
            Sink::Field(bytes) => Received::Field(bytes),
            Sink::File(draft) => Received::File(draft.keep().await.map_err(Problem::internal)?.blob),
        })
    }
}
