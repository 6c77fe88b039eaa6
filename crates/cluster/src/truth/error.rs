//! What can go wrong with a recording or with measuring it again.

/// An operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lab.
    #[error(transparent)]
    Lab(#[from] signpost_lab::Error),
    /// The API server did not take or give what was asked.
    #[error("kubectl {command}: {source}")]
    Kubectl {
        /// The first words of the command.
        command: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The recording, or what is served in it, does not parse.
    #[error("recording {file}: {message}")]
    Recording {
        /// The recording.
        file: &'static str,
        /// The line, and what is wrong with it.
        message: String,
    },
}
