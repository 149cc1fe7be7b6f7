/** These pieces of programs call, create and destroy. */
import { concatBytes } from '../../../engine/primitives/words.ts'
import { type Draft, op, push, pushDataOffset } from './draft.ts'
import { bytes, callGas, length, offset, wei } from './operands.ts'
import { spoilt } from './precompile-inputs.ts'
import { addressOf, type Surroundings } from './surroundings.ts'

const CALL = 0xf1
const CALLCODE = 0xf2
const KINDS = [CALL, CALL, CALLCODE, 0xf4, 0xfa]

export function calls(draft: Draft, around: Surroundings) {
  const { dice } = around
  if (dice.chance(0.06)) {
    push(draft, addressOf(around))
    return op(draft, 0xff)
  }
  if (dice.chance(0.25)) return precompileCall(draft, around)
  callTo(draft, around, addressOf(around))
  afterCall(draft, around)
}

function callTo(draft: Draft, { dice }: Surroundings, to: bigint) {
  push(draft, length(dice))
  push(draft, offset(dice))
  push(draft, length(dice))
  push(draft, offset(dice))
  callWith(draft, dice.pick(KINDS), {
    to,
    value: wei(dice),
    gas: dice.chance(0.4) ? undefined : callGas(dice),
  })
}

/** Writes a call; the memory range is on the stack already. `gas`: undefined passes all gas. */
function callWith(
  draft: Draft,
  kind: number,
  {
    to,
    value,
    gas,
  }: { readonly to: bigint; readonly value: bigint; readonly gas: bigint | undefined },
): void {
  if (kind === CALL || kind === CALLCODE) push(draft, value)
  push(draft, to)
  if (gas === undefined) op(draft, 0x5a)
  else push(draft, gas)
  op(draft, kind)
}

/** Reads the returned data, sometimes beyond its end. */
function afterCall(draft: Draft, { dice }: Surroundings) {
  const kind = dice.int(6)
  if (kind === 0) return op(draft, 0x3d)
  if (kind > 2) return
  if (kind === 1) op(draft, 0x3d)
  else push(draft, BigInt(dice.int(40)))
  const from = dice.chance(0.7) ? 0 : dice.pick([1, 1, dice.int(40)])
  push(draft, BigInt(from))
  push(draft, offset(dice))
  op(draft, 0x3e)
}

function precompileCall(draft: Draft, around: Surroundings) {
  const { dice, precompiles } = around
  const [number, inputs] = dice.pick(precompiles)
  const input = spoilt(dice, dice.pick(inputs))
  const at = dice.int(40)
  push(draft, BigInt(input.length))
  pushDataOffset(draft, input)
  push(draft, BigInt(at))
  op(draft, 0x39)
  push(draft, BigInt(dice.pick([0, 1, 32, 64, 128])))
  push(draft, BigInt(dice.int(64)))
  push(draft, BigInt(input.length))
  push(draft, BigInt(at))
  const gas = dice.chance(0.7) ? undefined : BigInt(dice.int(4_000))
  callWith(draft, dice.pick(KINDS), { to: BigInt(number), value: dice.chance(0.9) ? 0n : 1n, gas })
  afterCall(draft, around)
}

/** Writes CREATE or CREATE2; a program may repeat it and meet its own contract. */
export function creation(draft: Draft, around: Surroundings) {
  const { dice } = around
  const init = initCode(around)
  push(draft, BigInt(init.length))
  pushDataOffset(draft, init)
  push(draft, 0n)
  op(draft, 0x39)
  for (let times = dice.chance(0.2) ? 2 : 1; times > 0; times--) {
    const isSalted = dice.chance(0.6)
    if (isSalted) push(draft, BigInt(dice.int(2)))
    push(draft, dice.chance(0.95) ? BigInt(init.length) : length(dice))
    push(draft, 0n)
    push(draft, wei(dice))
    op(draft, isSalted ? 0xf5 : 0xf0)
  }
  if (dice.chance(0.5)) return
  // The call goes to the new contract.
  for (let left = 4; left > 0; left--) push(draft, 0n)
  push(draft, 0n)
  op(draft, 0x85, 0x5a, CALL)
}

function initCode(around: Surroundings): Uint8Array {
  const { dice, nesting } = around
  switch (dice.int(8)) {
    case 0:
      return new Uint8Array(0)
    case 1:
      // The init code returns one byte of memory: 0xef…, 0x60…, or others.
      return Uint8Array.of(
        0x60,
        dice.pick([0xef, 0x60, 0x00, 0x5b]),
        0x5f,
        0x53,
        0x60,
        0x01,
        0x5f,
        0xf3,
      )
    case 2:
      // The init code returns zeros around the size limit of a contract.
      return Uint8Array.of(0x61, 0x60, dice.int(2), 0x5f, 0xf3)
    case 3:
      return bytes(dice, dice.int(12))
    case 4:
      return Uint8Array.of(0x60, 0x01, 0x5f, 0x55, 0x33, 0xff)
    default:
      return nesting === 0 ? Uint8Array.of(0x5f, 0x5f, 0xfd) : returning(around)
  }
}

/** Makes init code that returns a program, sometimes after running another one. */
function returning(around: Surroundings): Uint8Array {
  const inner = { ...around, nesting: around.nesting - 1 }
  const code = around.program(inner, 1 + around.dice.int(4))
  if (around.dice.chance(0.3)) return code
  const size = code.length
  return concatBytes(
    Uint8Array.of(0x61, size >> 8, size & 0xff, 0x80, 0x60, 0x0b, 0x5f, 0x39, 0x5f, 0xf3, 0x00),
    code,
  )
}
