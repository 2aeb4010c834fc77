"""The random seed that core derives from a run id: SipHash-1-3 with zero keys, as Rust hashes a string."""

_MASK = 0xFFFFFFFFFFFFFFFF


def random_seed(run_id: str) -> int:
    data = run_id.encode() + b"\xff"
    state = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]
    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[index : index + 8], "little") for index in range(0, whole, 8)]
    words.append((len(data) & 0xFF) << 56 | int.from_bytes(data[whole:], "little"))
    for word in words:
        state[3] ^= word
        _round(state)
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(3):
        _round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & _MASK
    v[1] = _rotated(v[1], 13) ^ v[0]
    v[0] = _rotated(v[0], 32)
    v[2] = (v[2] + v[3]) & _MASK
    v[3] = _rotated(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & _MASK
    v[3] = _rotated(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & _MASK
    v[1] = _rotated(v[1], 17) ^ v[2]
    v[2] = _rotated(v[2], 32)


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK
