"""Statistics over all documents, as columns."""
