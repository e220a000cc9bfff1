"""The stages that come with corpusflow, in reading order: ingest, access, clean, language, quality,
toxicity, dedup, tokenize, export.

A stage's name in a config is its module path below this package. `kernels` holds pure functions on buffers.
"""

__corpusflow_stages__ = True
