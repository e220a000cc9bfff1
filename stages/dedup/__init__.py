"""Duplicates, from whole documents to spans, over any number of shards.

In the order in which a pipeline runs them: `url` and `exact` (one document per key), `minhash` (near-duplicates, verified),
`lines` and `substring` (pieces of text that are elsewhere), `decontaminate` (pieces of benchmarks); `index` is the Sink that lets
later runs compare with this one.

What they share: `_order` (which document stays), `_shards` (how work is cut), `_runs` (files between phases), `_outbox` and
`_verdicts` (records sent through them), `_cutting` (text without spans). `_keyed` is the Exchange of url and exact, `_near`
that of minhash, `_pieces` that of lines, `_substrings` that of substring. `_scale` says what they take at any size.
"""
