"""Why a record could not be read: the words that quarantine is counted by, for every Source, in one place.

A Source writes `reason: detail` into the column `quarantine`; the reason is one of these, the detail is for people.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """What stands before the colon."""

    # Of the file as stored, whatever its format.
    CUT_OFF = "cut_off"  # the file ends, or the next record starts, before this one is complete
    DAMAGED_COMPRESSION = "damaged_compression"  # a member or frame does not decode, or its checksum is wrong
    STRAY_BYTES = "stray_bytes"  # bytes where a member or a record should start
    TOO_LONG = "too_long"  # more bytes than the Source's limit
    NOT_UTF8 = "not_utf8"  # declared to be UTF-8, and is not
    WRONG_TYPE = "wrong_type"  # the text field or column holds something other than strings

    # WARC and ARC.
    BROKEN_HEADER = "broken_header"  # a header block without end
    BROKEN_LENGTH = "broken_length"  # a Content-Length that leads nowhere, and no border to mend it by
    WRONG_DIGEST = "wrong_digest"  # the block is not what its digest says

    # JSON lines.
    BROKEN_JSON = "broken_json"
    NOT_AN_OBJECT = "not_an_object"  # JSON, but no object
    TOO_DEEP = "too_deep"  # nested deeper than a parser can take
    NOT_JSONL = "not_jsonl"  # the file as a whole is of another kind

    # Tables.
    NO_TEXT_COLUMN = "no_text_column"  # the file as a whole has not the column that holds the text
    NOT_PARQUET = "not_parquet"  # no Parquet file, or its footer is damaged
    NOT_ARROW = "not_arrow"  # no Arrow IPC file or stream, or its schema is damaged
    DAMAGED_ROWS = "damaged_rows"  # a row group or record batch does not decode
    BROKEN_ROW = "broken_row"  # a CSV row with another number of fields than the header, or a quote without end

    # Plain text and archives.
    NOT_TEXT = "not_text"  # bytes of some other kind
    NOT_AN_ARCHIVE = "not_an_archive"  # neither tar nor zip
    DAMAGED_MEMBER = "damaged_member"  # an archive's member that cannot be read
    UNSAFE_MEMBER = "unsafe_member"  # a member's name leads out of the archive, or it is encrypted
    BOMB = "bomb"  # expands beyond any honest ratio
