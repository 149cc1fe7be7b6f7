/**
 * Programs of the state tests (CONFORMANCE_DIR, statetest): their accounts and calls are mutated.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { Bytes, Hex } from '../../../engine/primitives/bytes.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import type { Dice } from '../cost/random.ts'
import type { CaseAccount } from './case.ts'
import { hexOf } from './operands.ts'

const PACKS = join(
  process.env['CONFORMANCE_DIR'] ?? '../shared/conformance',
  'statetest/packs/visible',
)
/** Tests that run for seconds find too little for their time here. */
const SLOW =
  /TimeConsuming|QuadraticComplexity|vmPerformance|random_statetest|Attack|modexp|kzg|bls12/i
const MAX_CODE_BYTES = 3_000
const MAX_ACCOUNTS = 10

export type CorpusTest = {
  readonly accounts: Readonly<Record<Hex, CaseAccount>>
  readonly to: Hex | undefined
  readonly input: Hex
  readonly value: Hex
}
export const hasCorpus = existsSync(PACKS)

type Unit = {
  readonly pre: Record<
    string,
    { nonce?: string; balance?: string; code?: string; storage?: Record<string, string> }
  >
  readonly txs: readonly string[]
}

/** Reads the tests of some random packs; the list is empty without the corpus. */
export function corpusTests(dice: Dice, packs: number): CorpusTest[] {
  if (!hasCorpus) return []
  const files = readdirSync(PACKS)
    .filter((file) => file.endsWith('.gz') && !SLOW.test(file))
    .toSorted()
  const chosen = Array.from({ length: packs }, () => dice.pick(files))
  return chosen.flatMap((file) =>
    gunzipSync(readFileSync(join(PACKS, file)))
      .toString()
      .split('\n')
      .filter((line) => line !== '' && line.length < 20_000 && !SLOW.test(line.slice(0, 200)))
      .flatMap((line) => testOf(JSON.parse(line), dice)),
  )
}

function testOf({ pre, txs }: Unit, dice: Dice): CorpusTest[] {
  const entries = Object.entries(pre)
  const codeBytes = entries.reduce((sum, [, { code = '' }]) => sum + code.length / 2, 0)
  if (entries.length > MAX_ACCOUNTS || codeBytes > MAX_CODE_BYTES) return []
  try {
    const transaction = decodeTransaction(hexToBytes(dice.pick(txs) as Hex))
    const { to, input, value } = transaction
    return [
      {
        accounts: Object.fromEntries(
          entries.map(([at, account]) => [addressHex(at), fields(account)]),
        ),
        to: to === undefined ? undefined : hexOf(to),
        input: hexOf(input.slice(0, 2_000)),
        value: `0x${(value & ((1n << 64n) - 1n)).toString(16)}`,
      },
    ]
  } catch {
    // The test's transaction is invalid.
    return []
  }
}

const addressHex = (at: string): Hex => `0x${BigInt(at).toString(16).padStart(40, '0')}`
const number = (hex: string | undefined): Hex =>
  hex === undefined || hex === '0x' ? '0x0' : (hex as Hex)

const fields = ({ nonce, balance, code, storage }: Unit['pre'][string]): CaseAccount => ({
  nonce: Number(BigInt.asUintN(32, BigInt(number(nonce)))),
  balance: number(balance),
  ...(code === undefined || code === '0x' ? {} : { code: evenHex(code) }),
  ...(storage === undefined ? {} : { storage: storage as Record<Hex, Hex> }),
})
const evenHex = (hex: string): Hex => (hex.length % 2 === 0 ? (hex as Hex) : `0x0${hex.slice(2)}`)

/** Makes one to three changes of bytes. Inserted pieces come from `other`. */
export function mutated(dice: Dice, code: Bytes, other: Bytes): Bytes {
  let bytes = [...code]
  for (let times = 1 + dice.int(3); times > 0; times--) bytes = mutatedOnce(dice, bytes, other)
  return Uint8Array.from(bytes.slice(0, 2 * MAX_CODE_BYTES))
}

function mutatedOnce(dice: Dice, code: readonly number[], other: Bytes): number[] {
  const bytes = [...code]
  const at = dice.int(bytes.length + 1)
  switch (dice.int(6)) {
    case 0:
      bytes[Math.min(at, Math.max(0, bytes.length - 1))] = dice.int(256)
      return bytes
    case 1:
      bytes.splice(at, 0, dice.int(256))
      return bytes
    case 2:
      bytes.splice(at, 1 + dice.int(4))
      return bytes
    case 3: {
      const from = dice.int(other.length + 1)
      bytes.splice(at, dice.int(8), ...other.slice(from, from + 1 + dice.int(20)))
      return bytes
    }
    case 4:
      // Neighbouring opcodes are similar.
      if (at < bytes.length) bytes[at] = (bytes[at]! + (dice.chance(0.5) ? 1 : 255)) & 0xff
      return bytes
    default:
      return bytes.slice(0, at)
  }
}
