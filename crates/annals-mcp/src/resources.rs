//! What a server has besides tools: resources to read and prompts to send. They are for people; what of the resources the model
//! may read is in [`linked`](crate::linked).

use std::collections::HashSet;

use rmcp::model::{
    ClientRequest, ContentBlock, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
    ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams,
    ResourceContents, ServerResult,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::connection::{Connection, ConnectionError};
use crate::limits;
use crate::result::{decoded, file_name};
use crate::text;

/// A resource as the server describes it, in words that were cleaned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceInfo {
    /// Its address, by which it is read.
    pub uri: String,
    /// A name for people.
    pub name: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What type it is said to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A prompt as the server describes it, in words that were cleaned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it can be told.
    pub arguments: Vec<PromptArgument>,
}

/// One thing that a prompt can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt is nothing without it.
    pub is_required: bool,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// A file name that leads nowhere.
    pub file_name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

fn line(words: &str) -> String {
    text::one_line(words, limits::PARAMETER_DESCRIPTION_MAX_CHARS)
}

fn other_answer() -> ConnectionError {
    ConnectionError::Protocol("it answered another question than the one asked".to_owned())
}

impl Connection {
    /// What can be read, as far as the server lists it.
    pub async fn resources(&self) -> Result<Vec<ResourceInfo>, ConnectionError> {
        let request = |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        self.listed(request, |result| match result {
            ServerResult::ListResourcesResult(page) => {
                let info = |resource: rmcp::model::Resource| ResourceInfo {
                    uri: text::clean(&resource.uri).text,
                    name: line(resource.title.as_deref().unwrap_or(&resource.name)),
                    description: resource.description.as_deref().map(line),
                    mime_type: resource.mime_type.as_deref().map(line),
                };
                Some((page.resources.into_iter().map(info).collect(), page.next_cursor))
            }
            _ => None,
        })
        .await
    }

    /// The prompts that the server has.
    pub async fn prompts(&self) -> Result<Vec<PromptInfo>, ConnectionError> {
        let request = |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        self.listed(request, |result| match result {
            ServerResult::ListPromptsResult(page) => {
                let argument = |argument: rmcp::model::PromptArgument| PromptArgument {
                    name: line(&argument.name),
                    description: argument.description.as_deref().map(line),
                    is_required: argument.required == Some(true),
                };
                let info = |prompt: rmcp::model::Prompt| PromptInfo {
                    name: line(&prompt.name),
                    description: prompt.description.as_deref().map(line),
                    arguments: prompt.arguments.into_iter().flatten().map(argument).collect(),
                };
                Some((page.prompts.into_iter().map(info).collect(), page.next_cursor))
            }
            _ => None,
        })
        .await
    }

    /// Reads a resource: one content, or several that it consists of.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<Content>, ConnectionError> {
        let contents = self.resource_contents(uri).await?.into_iter();
        contents.map(content).collect()
    }

    /// The same as the server sent it.
    pub(crate) async fn resource_contents(
        &self,
        uri: &str,
    ) -> Result<Vec<ResourceContents>, ConnectionError> {
        let params = ReadResourceRequestParams::new(uri);
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        match self.asked(request).await? {
            ServerResult::ReadResourceResult(mut read) => {
                read.contents.truncate(limits::RESULT_FILES_MAX);
                Ok(read.contents)
            }
            ServerResult::InputRequiredResult(_) => Err(ConnectionError::InputRequired),
            _ => Err(other_answer()),
        }
    }

    /// A prompt with these arguments, as a text to send. Of what is not text, a line says what it was.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<String, ConnectionError> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let prompt = match self.asked(request).await? {
            ServerResult::GetPromptResult(prompt) => prompt,
            ServerResult::InputRequiredResult(_) => return Err(ConnectionError::InputRequired),
            _ => return Err(other_answer()),
        };
        let words = prompt
            .messages
            .into_iter()
            .take(limits::RESULT_PARTS_MAX)
            .map(|message| match message.content {
                ContentBlock::Text(text) => text.text,
                ContentBlock::Resource(embedded) => match embedded.resource {
                    ResourceContents::TextResourceContents { text, .. } => text,
                    _ => "[a file that is not text]".to_owned(),
                },
                ContentBlock::ResourceLink(link) => format!("[resource {}]", link.uri),
                ContentBlock::Image(_) => "[a picture]".to_owned(),
                _ => "[something that is not text]".to_owned(),
            });
        let words: Vec<String> = words.map(|words| text::clean(&words).text).collect();
        Ok(words.join("\n\n"))
    }

    /// All pages of a list, within bounds.
    async fn listed<T>(
        &self,
        request: impl Fn(PaginatedRequestParams) -> ClientRequest,
        page: impl Fn(ServerResult) -> Option<(Vec<T>, Option<String>)>,
    ) -> Result<Vec<T>, ConnectionError> {
        let (mut listed, mut cursor, mut seen) = (Vec::new(), None, HashSet::new());
        for _ in 0..limits::PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let (items, next) = page(self.asked(request(params)).await?).ok_or_else(other_answer)?;
            listed.extend(items.into_iter().take(limits::TOOLS_MAX - listed.len()));
            match next {
                Some(next) if listed.len() < limits::TOOLS_MAX && seen.insert(next.clone()) => {
                    cursor = Some(next)
                }
                _ => break,
            }
        }
        Ok(listed)
    }
}

fn content(contents: ResourceContents) -> Result<Content, ConnectionError> {
    let (uri, mime_type, bytes) = match contents {
        ResourceContents::TextResourceContents {
            uri, mime_type, text, ..
        } => {
            let mime_type = mime_type.unwrap_or_else(|| "text/plain".to_owned());
            (uri, mime_type, text.into_bytes())
        }
        ResourceContents::BlobResourceContents {
            uri, mime_type, blob, ..
        } => {
            let bytes = decoded(&blob)
                .map_err(|_| ConnectionError::Protocol("its resource is not base64".to_owned()))?;
            (uri, mime_type.unwrap_or_default(), bytes)
        }
        _ => return Err(other_answer()),
    };
    Ok(Content {
        file_name: file_name(&uri, &mime_type),
        bytes,
    })
}
