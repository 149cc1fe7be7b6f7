/**
 * The rounds of BLAKE2F (RFC 7693, 3.2; EIP-152), in steps between which the host polls its
 * deadline.
 */

/**
 * Input of the contract: rounds, 8 words of state, 16 of message, 2 of offset, flag of the final
 * block.
 */
const INPUT: usize = memory.data(213, 16)
const STATE: usize = INPUT + 4
const MESSAGE: usize = STATE + 64
const OFFSET: usize = MESSAGE + 128
const IS_FINAL: usize = OFFSET + 16
/** The vector v of the RFC. */
const WORK: usize = memory.data(128, 16)
const IV: usize = memory.data<u64>([
  0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1,
  0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
])
/** Byte offsets of the message words in the order of each of ten rounds (RFC 7693, 2.7). */
const SIGMA: usize = memory.data<u8>([
  0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120,
  112, 80, 32, 64, 72, 120, 104, 48, 8, 96, 0, 16, 88, 56, 40, 24,
  88, 64, 96, 0, 40, 16, 120, 104, 80, 112, 24, 48, 56, 8, 72, 32,
  56, 72, 24, 8, 104, 96, 88, 112, 16, 48, 40, 80, 32, 0, 120, 64,
  72, 0, 40, 56, 16, 32, 80, 120, 112, 8, 88, 96, 48, 64, 24, 104,
  16, 96, 48, 80, 0, 88, 64, 24, 32, 104, 56, 40, 120, 112, 8, 72,
  96, 40, 8, 120, 112, 104, 32, 80, 0, 56, 48, 24, 72, 16, 64, 88,
  104, 88, 56, 112, 96, 8, 24, 72, 40, 0, 120, 32, 64, 48, 16, 80,
  48, 120, 112, 72, 88, 24, 0, 64, 96, 16, 104, 56, 8, 32, 80, 40,
  80, 16, 64, 32, 56, 48, 8, 40, 120, 88, 72, 112, 24, 96, 104, 0,
])

/** Buffers for the input, and for the 64 bytes of the result after the last step. */
export function blake2fInput(): usize {
  return INPUT
}
export function blake2fOutput(): usize {
  return STATE
}

export function blake2fBegin(): void {
  memory.copy(WORK, STATE, 64)
  memory.copy(WORK + 64, IV, 64)
  store<u64>(WORK, load<u64>(WORK, 96) ^ load<u64>(OFFSET), 96)
  store<u64>(WORK, load<u64>(WORK, 104) ^ load<u64>(OFFSET, 8), 104)
  if (load<u8>(IS_FINAL)) store<u64>(WORK, ~load<u64>(WORK, 112), 112)
}

export function blake2fEnd(): void {
  for (let at: usize = 0; at < 64; at += 8)
    store<u64>(STATE + at, load<u64>(STATE + at) ^ load<u64>(WORK + at) ^ load<u64>(WORK + at, 64))
}

// @ts-ignore: decorator
@inline
function word(row: usize, at: usize): u64 {
  return load<u64>(MESSAGE + <usize>load<u8>(row + at))
}

/** @param first number of the first round, below 10 */
export function blake2fRounds(first: u32, count: u32): void {
  let v0 = load<u64>(WORK, 0)
  let v1 = load<u64>(WORK, 8)
  let v2 = load<u64>(WORK, 16)
  let v3 = load<u64>(WORK, 24)
  let v4 = load<u64>(WORK, 32)
  let v5 = load<u64>(WORK, 40)
  let v6 = load<u64>(WORK, 48)
  let v7 = load<u64>(WORK, 56)
  let v8 = load<u64>(WORK, 64)
  let v9 = load<u64>(WORK, 72)
  let v10 = load<u64>(WORK, 80)
  let v11 = load<u64>(WORK, 88)
  let v12 = load<u64>(WORK, 96)
  let v13 = load<u64>(WORK, 104)
  let v14 = load<u64>(WORK, 112)
  let v15 = load<u64>(WORK, 120)
  let row = SIGMA + (<usize>first << 4)
  for (; count > 0; count--) {
    v0 += v4 + word(row, 0)
    v12 = rotr<u64>(v12 ^ v0, 32)
    v8 += v12
    v4 = rotr<u64>(v4 ^ v8, 24)
    v0 += v4 + word(row, 1)
    v12 = rotr<u64>(v12 ^ v0, 16)
    v8 += v12
    v4 = rotr<u64>(v4 ^ v8, 63)
    v1 += v5 + word(row, 2)
    v13 = rotr<u64>(v13 ^ v1, 32)
    v9 += v13
    v5 = rotr<u64>(v5 ^ v9, 24)
    v1 += v5 + word(row, 3)
    v13 = rotr<u64>(v13 ^ v1, 16)
    v9 += v13
    v5 = rotr<u64>(v5 ^ v9, 63)
    v2 += v6 + word(row, 4)
    v14 = rotr<u64>(v14 ^ v2, 32)
    v10 += v14
    v6 = rotr<u64>(v6 ^ v10, 24)
    v2 += v6 + word(row, 5)
    v14 = rotr<u64>(v14 ^ v2, 16)
    v10 += v14
    v6 = rotr<u64>(v6 ^ v10, 63)
    v3 += v7 + word(row, 6)
    v15 = rotr<u64>(v15 ^ v3, 32)
    v11 += v15
    v7 = rotr<u64>(v7 ^ v11, 24)
    v3 += v7 + word(row, 7)
    v15 = rotr<u64>(v15 ^ v3, 16)
    v11 += v15
    v7 = rotr<u64>(v7 ^ v11, 63)
    v0 += v5 + word(row, 8)
    v15 = rotr<u64>(v15 ^ v0, 32)
    v10 += v15
    v5 = rotr<u64>(v5 ^ v10, 24)
    v0 += v5 + word(row, 9)
    v15 = rotr<u64>(v15 ^ v0, 16)
    v10 += v15
    v5 = rotr<u64>(v5 ^ v10, 63)
    v1 += v6 + word(row, 10)
    v12 = rotr<u64>(v12 ^ v1, 32)
    v11 += v12
    v6 = rotr<u64>(v6 ^ v11, 24)
    v1 += v6 + word(row, 11)
    v12 = rotr<u64>(v12 ^ v1, 16)
    v11 += v12
    v6 = rotr<u64>(v6 ^ v11, 63)
    v2 += v7 + word(row, 12)
    v13 = rotr<u64>(v13 ^ v2, 32)
    v8 += v13
    v7 = rotr<u64>(v7 ^ v8, 24)
    v2 += v7 + word(row, 13)
    v13 = rotr<u64>(v13 ^ v2, 16)
    v8 += v13
    v7 = rotr<u64>(v7 ^ v8, 63)
    v3 += v4 + word(row, 14)
    v14 = rotr<u64>(v14 ^ v3, 32)
    v9 += v14
    v4 = rotr<u64>(v4 ^ v9, 24)
    v3 += v4 + word(row, 15)
    v14 = rotr<u64>(v14 ^ v3, 16)
    v9 += v14
    v4 = rotr<u64>(v4 ^ v9, 63)
    row += 16
    if (row == SIGMA + 160) row = SIGMA
  }
  store<u64>(WORK, v0, 0)
  store<u64>(WORK, v1, 8)
  store<u64>(WORK, v2, 16)
  store<u64>(WORK, v3, 24)
  store<u64>(WORK, v4, 32)
  store<u64>(WORK, v5, 40)
  store<u64>(WORK, v6, 48)
  store<u64>(WORK, v7, 56)
  store<u64>(WORK, v8, 64)
  store<u64>(WORK, v9, 72)
  store<u64>(WORK, v10, 80)
  store<u64>(WORK, v11, 88)
  store<u64>(WORK, v12, 96)
  store<u64>(WORK, v13, 104)
  store<u64>(WORK, v14, 112)
  store<u64>(WORK, v15, 120)
}
