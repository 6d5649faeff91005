"""Taking a packed file apart and putting it together again with valid checksums.

Checksums stop accidents, not attackers: these tools change a file as an attacker would, so that
the checks behind the checksums are tested too.
"""

import json
import tempfile
import zlib
from dataclasses import replace

import numpy as np

from skinny import packing
from skinny.packing import adaptive, symbols
from skinny.packing.container import digest, header_digest
from skinny.packing.dictionary import DICTIONARY
from skinny.packing.header import read_header
from skinny.packing.manifest import PART, SMALL_PART, part_name


def take_apart(data):
    """Header entries, manifest and the bytes of every part, all free to be changed; small tensors
    as formats 1 and 2 have them."""
    header = read_header(data)
    fields = json.loads(header.text)
    parts = {name: bytearray(data[part.begin : part.end]) for name, part in header.parts.items()}
    book = json.loads(_inflate(bytes(parts.pop(PART)), header))
    fields.pop(PART)
    fields.pop("__metadata__")
    if SMALL_PART in parts:
        _unbundle(fields, book, parts, data)
    return fields, book, parts


def _inflate(packed, header):
    words = DICTIONARY if int(header.metadata["skinny"]) >= 3 else b""
    return zlib.decompressobj(zdict=words).decompress(packed)


def _unbundle(fields, book, parts, data):
    with tempfile.NamedTemporaryFile(suffix=".skinny") as file:
        file.write(data)
        file.flush()
        with packing.open(file.name) as opened:
            for name, record in book["tensors"].items():
                if "small" not in record:
                    continue
                del record["small"]
                record["check"] = ""
                entry = opened.entry(name)
                stored = {
                    role: (part.dtype, bytearray(data[part.begin : part.end]), list(part.shape))
                    for role, part in opened.stored_parts(name).items()
                }
                if entry.form == "adaptive":
                    entry = replace(entry, form="bitmask")
                    record["form"] = entry.form
                    stored |= _apart(entry, stored.pop("adaptive")[1])
                for role, (dtype, content, shape) in stored.items():
                    own = part_name(name, role, entry)
                    fields[own] = {"dtype": dtype, "shape": shape}
                    parts[own] = content
    for gone in ("small", "format"):
        del book[gone]
    del fields[SMALL_PART], parts[SMALL_PART]


def _apart(entry, coded):
    """Mask and symbols of a tensor in adaptive form, as formats 1 and 2 have them."""
    rows = entry.shape[0]
    stream = np.frombuffer(coded, np.uint8)
    mask, own = adaptive.decode(stream, rows, entry.count // rows, entry.kept)
    made = {"mask": mask, "symbols": symbols.encode(own)}
    return {role: ("U8", bytearray(part.tobytes()), [part.size]) for role, part in made.items()}


def format_of(data):
    """Of the graph: the format in which `put_together` makes a file of the same contents."""
    header = read_header(data)
    if int(header.metadata["skinny"]) < 3:
        return header.metadata["skinny"]
    part = header.parts[PART]
    return str(json.loads(_inflate(bytes(data[part.begin : part.end]), header))["format"])


def put_together(fields, book, parts, seal=True, format="1"):
    """The file's bytes. Offsets are made afresh for entries that leave them out."""
    if seal:
        _seal_tensors(fields, book, parts)
    packed = zlib.compress(json.dumps(book).encode())
    at = 0
    header = {"__metadata__": {"skinny": format, "manifest": digest(packed), "check": "0" * 16}}
    for name, entry in fields.items():
        header[name] = entry
        if isinstance(entry, dict) and name in parts:
            header[name] = entry | {"data_offsets": [at, at + len(parts[name])]}
            at += len(parts[name])
    shape = [len(packed)]
    header[PART] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + len(packed)]}
    return seal_header(header, b"".join(bytes(part) for part in parts.values()) + packed)


def seal_header(header, data):
    text = json.dumps(header, separators=(",", ":")).encode()
    check = header_digest(text, "0" * 16)
    text = text.replace(b'"check":"' + b"0" * 16, b'"check":"' + check.encode(), 1)
    return len(text).to_bytes(8, "little") + text + data


def _seal_tensors(fields, book, parts):
    tensors = book.get("tensors") if isinstance(book, dict) else None
    for name, record in tensors.items() if isinstance(tensors, dict) else ():
        if isinstance(record, dict) and "check" in record:
            roles = ("values", "symbols", "rest", "mask", "coded", "negative", "scales")
            own = [parts[key] for role in roles if (key := f"{name}:{role}") in parts]
            record["check"] = digest(*map(bytes, own or [parts.get(name, b"")]))
