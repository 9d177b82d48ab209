#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the kept corpus of the file readers' fuzzers: python3 tests/fuzz/make_corpus.py

The files are small and readable here, so that a change of a format shows in review.
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    folder = HERE / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def pad(data, multiple):
    return data + bytes(-len(data) % multiple)


# ---- .npy ----
def npy(version, header, data):
    width = "<H" if version == 1 else "<I"
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(width, len(text)) + text + data


def npy_header(descr, fortran, shape):
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"


put("npy", "f4", npy(1, npy_header("<f4", False, "(2, 3)"), bytes(24)))
put("npy", "fortran", npy(2, npy_header(">i2", True, "(2, 3)"), bytes(12)))
put("npy", "scalar", npy(3, npy_header("|b1", False, "()"), b"\1"))
put("npy", "empty", npy(1, npy_header("<f8", False, "(0, 4)"), b""))
put("npy", "struct", npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
                         bytes(4)))
put("npy", "python2", npy(1, '{"shape":(3L,),"fortran_order":True,"descr":"=i4"}', bytes(12)))


# ---- .safetensors: a byte of flags first, see fuzz_safetensors.c ----
def safetensors(header, data):
    text = json.dumps(header, separators=(",", ":")).encode()
    return bytes([64 + len(data)]) + struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, first, last):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


put("safetensors", "none", safetensors({}, b""))
put("safetensors", "two", safetensors({
    "__metadata__": {"format": "pt"},
    "w": tensor("F32", [2, 1], 0, 8),
    "b": tensor("BF16", [], 8, 10)}, bytes(10)))
put("safetensors", "order", safetensors({
    "z": tensor("BOOL", [2], 8, 10),
    "empty": tensor("U8", [0], 8, 8),
    "a": tensor("I64", [1], 0, 8)}, bytes(10)))
put("safetensors", "other", safetensors({"q": tensor("F8_E4M3", [3], 0, 3)}, bytes(3)))
put("safetensors", "escape", safetensors({"\u00e9\n": tensor("U8", [1], 0, 1)}, bytes(1)))


# ---- .mt: a byte of flags and a short superblock, see fuzz_mt.c ----
def record(fixed, tail):
    size = 4 + len(fixed) + len(tail)
    return pad(struct.pack("<I", size + -size % 8) + fixed + tail, 8)


def mt_tensor(name, order, dtype, shape, offset, size, fmt=0):
    dims = b"".join(struct.pack("<Q", extent) for extent in shape)
    fixed = struct.pack("<HBBIIQQQ", len(name), dtype, len(shape), order, fmt, offset, size, 0)
    return record(fixed, dims + name)


def mt_format(name, elements, size):
    return record(struct.pack("<IIHH", elements, size, len(name), 0), name)


def mt_text(key, value):
    return record(struct.pack("<HHII", 1, len(key), len(value), 0), key + value)


def mt(data, formats, tensors, texts, minor=0, flags=3, required=0):
    data = pad(data, 64)
    directory = struct.pack("<IIII", len(tensors), len(texts), len(formats), 0)
    directory += b"".join(formats + tensors + texts)
    offset = 4096 + len(data)
    end = offset + len(directory)
    head = b"\x89MEC\r\n\x1a\n" + struct.pack("<HHI", 2, minor, 4096)
    head += struct.pack("<QQQQQQ", required, 0, end, offset, len(directory), 0)
    head += struct.pack("<II", 4096, 0)
    return bytes([flags]) + head + data + directory


put("mt", "none", mt(b"", [], [], []))
put("mt", "two", mt(bytes(64 + 34), [mt_format(b"q8_0", 32, 34)],
                    [mt_tensor(b"a", 1, 11, [1, 2], 4160, 34, 1),
                     mt_tensor(b"b", 0, 1, [3], 4096, 12)],
                    [mt_text(b"key", b"value")]))
put("mt", "later", mt(bytes(16), [mt_format(b"q9_z", 16, 16)],
                      [mt_tensor(b"q", 0, 11, [4], 4096, 16, 1)], [], minor=3))
put("mt", "empty", mt(bytes(1), [], [mt_tensor(b"", 0, 10, [], 4096, 1),
                                mt_tensor(b"x", 1, 2, [0, 7], 4160, 0)], []))
put("mt", "needs", mt(b"", [], [], [], required=1 << 9))
put("mt", "unsealed", mt(bytes(8), [], [mt_tensor(b"t", 0, 9, [1], 4096, 8)], [], flags=0))


# ---- plugins: ELF for x86-64, one segment to map, one of notes ----
def elf_plugin(abi=1, name=b"acme", align=8, before=b""):
    described = struct.pack("<IIIiQ32s", 56, abi, 0, 7, 0, name)
    notes = before + struct.pack("<III", 12, 56, 1) + b"MecanTensor\0" + described
    start = 64 + 2 * 56
    total = start + len(notes)
    return (b"\x7fELF\2\1\1" + bytes(9)
            + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
            + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, total, total, 4096)
            + struct.pack("<IIQQQQQQ", 4, 4, start, start, start, len(notes), len(notes), align)
            + notes)


put("elf", "empty", b"")
put("elf", "plugin", elf_plugin())
put("elf", "other-abi", elf_plugin(abi=2))
put("elf", "gnu-note-first", elf_plugin(align=4, before=struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(20)))
