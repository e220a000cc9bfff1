"""Documents taken out of a finished run: `corpusflow takedown`.

A document is taken out of the Sources' indexes, wide checkpoints, signals, quarantine, evidence of Exchanges and exports, in
every dataset of every plan the folder has seen. Rows keep their numbers: in an index or a wide checkpoint a removed row stays
as a row of nulls, so that nothing aligned to it is touched, and whatever looks at the run through `reader.py` does not see it.

Each shard concerned gets the next generation of its record; then seals are written again, exports published again, and the
old files deleted. Shards that hold none of the documents keep their files and digests. The counts become those of a run whose
Source skipped the documents (`dropped: {takedown: n}`). A takedown that was killed goes on where it was.

What it does not reach: the input itself, copies made by `corpusflow export`, models trained on the text, and other runs.
The shuffle files of Exchanges hold ids and text in forms of their own; they are of no further use to a finished run and are
let go. `verify --repair` still makes signals, tokens and export files again; indexes, wide checkpoints and an Exchange's
verdicts it cannot, since a stage would give their rows other numbers.
"""
