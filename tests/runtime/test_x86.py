"""The instructions of generated kernels are encoded as a disassembler reads them."""

import pytest

_native = pytest.importorskip("skinny._native", reason="the native extension was not built")
pytest.importorskip("capstone")
from tests.runtime.emulator import disassemble  # noqa: E402

GENERAL = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{i}" for i in range(8, 16))]
DISPLACEMENTS = [
    0,
    4,
    -4,
    60,
    64,
    127,
    128,
    -128,
    -129,
    508,
    512,
    -512,
    8128,
    8192,
    1 << 20,
    -(1 << 30),
]


def text(base: int, disp: int, index: int = 4, scale: int = 0) -> str:
    parts = GENERAL[base] + (f"+{GENERAL[index]}*{scale}" if scale > 1 else "")
    if scale == 1:
        parts += f"+{GENERAL[index]}"
    return f"[{parts}{disp:+d}]" if disp else f"[{parts}]"


def normal(operand: str) -> str:
    """An operand of capstone's without its size, in decimal and without blanks."""
    operand = operand.split(" ptr ")[-1].replace(" ", "").replace("*1", "")
    if "[" not in operand:
        return operand
    inside, _, after = operand[1:].partition("]")
    terms = [t for t in inside.replace("-", "+-").split("+") if t]
    numbers = [t for t in terms if t.lstrip("-")[0].isdigit()]
    names = [t for t in terms if t not in numbers]
    disp = sum(int(t, 0) for t in numbers)
    return f"[{'+'.join(names)}{disp:+d}]{after}" if disp else f"[{'+'.join(names)}]{after}"


def check(assembler, name: str, *operands: str) -> None:
    """The newest instruction is this one."""
    found = disassemble(assembler.code)[-1]
    assert (found[0], [normal(operand) for operand in found[1]]) == (name, list(operands))


@pytest.mark.parametrize("wide", [False, True], ids=["avx2", "avx512"])
def test_every_instruction_is_encoded_with_every_register(wide):
    vector, count = ("zmm", 32) if wide else ("ymm", 16)
    for i in range(count):
        a, b, c = i, (7 * i + 3) % count, (5 * i + 1) % count
        x, y, z = (f"{vector}{n}" for n in (a, b, c))
        base, other = i % 16, (3 * i + 5) % 16
        at = text(base, 8 * i - 64)
        disp = 8 * i - 64
        for method, given, name, operands in [
            ("vmovups_load", (a, base, disp, 4, 0), "vmovups", (x, at)),
            ("vmovups_store", (a, base, disp, 4, 0), "vmovups", (at, x)),
            ("vmovaps", (a, b), "vmovaps", (x, y)),
            ("vbroadcastss", (a, base, disp, 4, 0), "vbroadcastss", (x, at)),
            ("vaddps", (a, b, base, disp, 4, 0), "vaddps", (x, y, at)),
            ("vcvtdq2ps", (a, b), "vcvtdq2ps", (x, y)),
            ("vcvtps2dq", (a, b), "vcvtps2dq", (x, y)),
            ("vmaxps", (a, b, c), "vmaxps", (x, y, z)),
            ("vminps", (a, b, c), "vminps", (x, y, z)),
            ("vfmadd231ps", (a, b, c), "vfmadd231ps", (x, y, z)),
            ("vmulps", (a, b, c), "vmulps", (x, y, z)),
            ("vpackssdw", (a, b, c), "vpackssdw", (x, y, z)),
            ("vpackuswb", (a, b, c), "vpackuswb", (x, y, z)),
            ("vpaddsw", (a, b, c), "vpaddsw", (x, y, z)),
            ("vpshufb", (a, b, c), "vpshufb", (x, y, z)),
            ("vfmadd231ps_memory", (a, b, base, disp, 4, 0), "vfmadd231ps", (x, y, at)),
            ("mov", (base, other), "mov", (GENERAL[base], GENERAL[other])),
            ("add", (base, other), "add", (GENERAL[base], GENERAL[other])),
            ("lea", (other, base, disp, 4, 0), "lea", (GENERAL[other], at)),
            ("mov_load", (other, base, disp, 4, 0), "mov", (GENERAL[other], at)),
            ("prefetcht0", (base, disp, 4, 0), "prefetcht0", (at,)),
            ("prefetcht1", (base, disp, 4, 0), "prefetcht1", (at,)),
            ("prefetchw", (base, disp, 4, 0), "prefetchw", (at,)),
        ]:
            assembler = _native.Assembler(wide=wide)
            getattr(assembler, method)(*given)
            check(assembler, name, *operands)
        if wide:
            assembler = _native.Assembler(wide=True)
            assembler.vfmadd231ps_broadcast(a, b, base, 8 * i - 64, 4, 0)
            check(assembler, "vfmadd231ps", x, y, at + "{1to16}")
            assembler.vpdpbusd_broadcast(a, b, base, 8 * i - 64, 4, 0)
            check(assembler, "vpdpbusd", x, y, at + "{1to16}")
            assembler.vaddps_broadcast(a, b, base, 8 * i - 64, 4, 0)
            check(assembler, "vaddps", x, y, at + "{1to16}")
            assembler.vmulps_broadcast(a, b, base, 8 * i - 64, 4, 0)
            check(assembler, "vmulps", x, y, at + "{1to16}")
            assembler.vinserti32x8_upper(a, b, base, 8 * i - 64, 4, 0)
            check(assembler, "vinserti32x8", x, y, at, "1")


@pytest.mark.parametrize("wide", [False, True], ids=["avx2", "avx512"])
@pytest.mark.parametrize("disp", DISPLACEMENTS)
def test_every_address_is_encoded(wide, disp):
    for base in range(16):
        for index, scale in [(4, 0), (0, 1), (8, 2), (9, 4), (13, 8), (5, 1)]:
            where = text(base, disp, index, scale)
            assembler = _native.Assembler(wide=wide)
            assembler.lea(3, base, disp, index, scale)
            check(assembler, "lea", "rbx", where)
            assembler.prefetcht1(base, disp, index, scale)
            check(assembler, "prefetcht1", where)
            assembler.vmovups_load(9, base, disp, index, scale)
            check(assembler, "vmovups", "zmm9" if wide else "ymm9", where)
            assembler.vbroadcastss(2, base, disp, index, scale)
            check(assembler, "vbroadcastss", "zmm2" if wide else "ymm2", where)


def test_constants_are_added_and_functions_end():
    assembler = _native.Assembler(wide=False)
    for value in (1, 127, 128, -128, -129, 1 << 30):
        assembler.add_value(9, value)
        mnemonic, (register, number) = disassemble(assembler.code)[-1]
        assert (mnemonic, register) == ("add", "r9")
        assert (int(number, 0) - value) % (1 << 64) == 0
    assembler.vzeroupper()
    assembler.ret()
    assert [name for name, _ in disassemble(assembler.code)[-2:]] == ["vzeroupper", "ret"]


def test_a_loop_jumps_back_to_its_begin():
    assembler = _native.Assembler(wide=True)
    assembler.ret()
    begin = len(assembler.code)
    assembler.add_value(9, -1)
    assembler.jnz(begin)
    name, (target,) = disassemble(assembler.code)[-1]
    assert (name, int(target, 0)) == ("jne", begin)


def test_four_weights_are_loaded_and_permuted():
    for i in range(16):
        assembler = _native.Assembler(wide=False)
        assembler.vbroadcastf128(i, i, 8 * i - 64, 4, 0)
        check(assembler, "vbroadcastf128", f"ymm{i}", text(i, 8 * i - 64))
        assembler.vpermilps(i, 15 - i, i % 4)
        check(
            assembler, "vpermilps", f"ymm{i}", f"ymm{15 - i}", hex(i % 4 * 0x55).replace("0x0", "0")
        )
