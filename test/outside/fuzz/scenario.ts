/**
 * This module makes random cases: accounts with programs, and a session of some transactions over
 * them.
 */
import type { Bytes, Hex } from '../../../engine/primitives/bytes.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { createAddress } from '../../../engine/primitives/transaction-codec.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import type { Dice } from '../cost/random.ts'
import type { Bound, CaseAccount, CaseMessage, CaseStep, FuzzCase } from './case.ts'
import { type CorpusTest, mutated } from './corpus.ts'
import { bytes, hexNumber, hexOf, slotValue, word } from './operands.ts'
import type { PrecompileInputs } from './precompile-inputs.ts'
import { program } from './program.ts'
import { RULES } from './rules.ts'
import type { Surroundings } from './surroundings.ts'

export type Sources = {
  readonly dice: Dice
  readonly corpus: readonly CorpusTest[]
  readonly precompiles: PrecompileInputs
}
type Accounts = Record<Hex, CaseAccount>

const addressHex = (n: number): Hex => `0x${n.toString(16).padStart(4, '0').repeat(10)}`
const SENDER = addressHex(0xa1)
const CONTRACTS = [addressHex(0xc1), addressHex(0xc2), addressHex(0xc3)]
const DELEGATED = addressHex(0xd1)
const PLAIN = addressHex(0xe1)
const NOBODY = addressHex(0xf1)
const COINBASE: Hex = '0xc0ffee0000000000000000000000000000000001'
const lowAddress = (n: number): Hex => `0x${n.toString(16).padStart(40, '0')}`

export function caseOf(sources: Sources): FuzzCase {
  const { dice, corpus } = sources
  const rules = dice.pick([...RULES.keys()])
  const kind = dice.int(10)
  const test = kind < 3 && corpus.length > 0 ? dice.pick(corpus) : undefined
  const accounts =
    test === undefined ? ownAccounts(sources, kind === 3) : corpusAccounts(sources, test)
  const steps = session(dice, accounts, test)
  return {
    rules,
    ...(dice.chance(0.04)
      ? { moved: { [1 + dice.int(9)]: dice.pick([PLAIN, NOBODY, CONTRACTS[0]!]) } }
      : {}),
    accounts,
    ...(dice.chance(0.1) ? { missing: missing(dice, accounts) } : {}),
    steps,
  }
}

function ownAccounts({ dice, precompiles }: Sources, isRaw: boolean): Accounts {
  const created = [0, 1, 2].map((nonce) =>
    hexOf(createAddress(hexToBytes(CONTRACTS[0]!), BigInt(nonce))),
  )
  const salted = saltedAddress(CONTRACTS[0]!, 0n, Uint8Array.of(0x5f, 0x5f, 0xfd))
  const around: Surroundings = {
    dice,
    addresses: [
      ...CONTRACTS,
      ...CONTRACTS,
      ...[DELEGATED, PLAIN, NOBODY, SENDER, COINBASE, salted, created[0]!],
      ...[1, 2, 3, 4, 5, 6, 9, 0x100].map(lowAddress),
    ],
    precompiles,
    nesting: 2,
    program,
  }
  const code = () => (isRaw ? bytes(dice, dice.int(60)) : program(around, 1 + dice.int(12)))
  const accounts: Accounts = {
    [SENDER]: { nonce: dice.int(3), balance: '0x56bc75e2d63100000' },
    [PLAIN]: { balance: dice.pick(['0x1', '0x0', '0xffff']) },
  }
  for (const address of CONTRACTS) accounts[address] = contract(dice, code())
  accounts[DELEGATED] = {
    balance: '0x64',
    code: `0xef0100${dice.pick([CONTRACTS[0]!, CONTRACTS[1]!, DELEGATED, NOBODY, lowAddress(2), PLAIN]).slice(2)}`,
  }
  // A creation may meet a contract, an account that has sent, orphaned storage, or a balance.
  if (dice.chance(0.3))
    accounts[dice.pick(created)] = dice.pick<CaseAccount>([
      { nonce: 1 },
      { code: '0x00', nonce: 1 },
      { balance: '0x5' },
      { balance: '0x5', storage: { '0x1': '0x2' } },
    ])
  return accounts
}

const contract = (dice: Dice, code: Bytes): CaseAccount => ({
  nonce: dice.pick([0, 1, 1, 5]),
  ...(dice.chance(0.5) ? { balance: dice.pick<Hex>(['0x1', '0x3e8', '0xde0b6b3a7640000']) } : {}),
  code: hexOf(code),
  ...(dice.chance(0.6) ? { storage: storage(dice) } : {}),
})

const storage = (dice: Dice): Record<Hex, Hex> =>
  Object.fromEntries(
    [0, 1, 2, 3]
      .filter(() => dice.chance(0.5))
      .map((key) => [hexNumber(BigInt(key)), hexNumber(slotValue(dice))]),
  )

const saltedAddress = (from: Hex, salt: bigint, init: Bytes): Hex => {
  const saltBytes = Buffer.from(salt.toString(16).padStart(64, '0'), 'hex')
  return hexOf(
    keccak256(concatBytes(Uint8Array.of(0xff), hexToBytes(from), saltBytes, keccak256(init))).slice(
      12,
    ),
  )
}

function corpusAccounts({ dice, corpus }: Sources, test: CorpusTest): Accounts {
  const accounts: Accounts = { ...test.accounts, [SENDER]: { balance: '0x56bc75e2d63100000' } }
  const others = Object.values(dice.pick(corpus).accounts).flatMap(({ code }) => code ?? [])
  const other = others.length === 0 ? bytes(dice, 30) : hexToBytes(dice.pick(others))
  for (const [address, account] of Object.entries(test.accounts))
    if (account.code !== undefined && dice.chance(0.5))
      accounts[address as Hex] = {
        ...account,
        code: hexOf(mutated(dice, hexToBytes(account.code), other)),
      }
  return accounts
}

function missing(dice: Dice, accounts: Accounts): string[] {
  const found: string[] = ['hash of block 99']
  for (const [address, { code, storage: slots }] of Object.entries(accounts)) {
    if (dice.chance(0.4)) found.push(`account ${address}`)
    if (code !== undefined && dice.chance(0.4))
      found.push(`code ${hexOf(keccak256(hexToBytes(code)))}`)
    for (const key of ['0x0', '0x1', ...Object.keys(slots ?? {})])
      if (dice.chance(0.3))
        found.push(`slot 0x${BigInt(key).toString(16).padStart(64, '0')} of ${address}`)
  }
  return [...new Set(found)]
}

/**
 * Makes one to four transactions like the execution layer does, with checkpoints to which some of
 * them revert.
 */
function session(dice: Dice, accounts: Accounts, test: CorpusTest | undefined): CaseStep[] {
  const steps: CaseStep[] = []
  const targets = Object.keys(accounts) as Hex[]
  const transactions = dice.chance(0.5) ? 1 : 1 + dice.int(4)
  let nonce = accounts[SENDER]?.nonce ?? 0
  for (let left = transactions; left > 0; left--) {
    const isTakenBack = dice.chance(0.25)
    // A later run shows whether everything was reverted.
    if (isTakenBack && left === 1 && dice.chance(0.7)) left++
    if (isTakenBack) steps.push({ do: 'checkpoint' })
    // The override precedes the transaction, like in the execution layer, and defines the original
    // values.
    if (dice.chance(isTakenBack ? 0.4 : 0.12)) steps.push(override(dice, accounts))
    steps.push({ do: 'begin' })
    const message = messageOf(dice, targets, test)
    if (dice.chance(0.8)) steps.push({ do: 'warm', address: COINBASE })
    if (dice.chance(0.1))
      steps.push({ do: 'warm', address: dice.pick(targets), keys: ['0x0', '0x1'] })
    steps.push({ do: 'nonce', address: SENDER, nonce: ++nonce })
    if (dice.chance(0.15)) steps.push({ do: 'run', message, bound: bound(dice) })
    if (dice.chance(0.3)) {
      // An estimation of gas runs the same transaction like this and reverts it.
      const gas = message.gas * (1 + dice.int(2))
      const other = { ...message, gas, gasPrice: (message.gasPrice ?? 0) + 1 }
      const mark = isTakenBack ? 1 : 0
      steps.push({ do: 'checkpoint' }, run(dice, other), { do: 'revert', to: mark })
    }
    steps.push(run(dice, message))
    if (dice.chance(0.3))
      steps.push({ do: 'balance', address: COINBASE, wei: dice.pick(['0x0', '0x7']) })
    if (!isTakenBack || dice.chance(0.7)) steps.push({ do: 'end' })
    if (isTakenBack) {
      steps.push({ do: 'revert', to: 0 })
      nonce--
    }
  }
  return steps
}

const run = (dice: Dice, message: CaseMessage): CaseStep => ({
  do: 'run',
  message,
  ...(dice.chance(0.6)
    ? { trace: dice.chance(0.6) ? ('frames' as const) : ('steps' as const) }
    : {}),
})

function messageOf(dice: Dice, targets: readonly Hex[], test: CorpusTest | undefined): CaseMessage {
  const isTests = test !== undefined && dice.chance(0.7)
  const to = isTests
    ? test.to
    : dice.chance(0.06)
      ? dice.pick([NOBODY, lowAddress(1 + dice.int(17)), undefined])
      : dice.chance(0.8) && targets.includes(CONTRACTS[0]!)
        ? CONTRACTS[0]
        : dice.pick(targets)
  const input = isTests
    ? test.input
    : to === undefined
      ? creationInput(dice)
      : hexOf(bytes(dice, dice.int(100)))
  return {
    from: SENDER,
    ...(to === undefined ? {} : { to }),
    value: isTests
      ? test.value
      : dice.chance(0.7)
        ? '0x0'
        : hexNumber(dice.pick([1n, 1_000n, word(dice)])),
    gas: dice.chance(0.05) ? dice.int(3_000) : dice.size(5_000, 500_000),
    input,
    gasPrice: dice.int(100),
    ...(dice.chance(0.1) ? { baseFee: 0 } : {}),
    ...(dice.chance(0.2) ? { blobs: 1 + dice.int(2) } : {}),
  }
}

const creationInput = (dice: Dice): Hex =>
  dice.pick<Hex>([
    '0x',
    '0x60ef5f5360015ff3',
    '0x6160015ff3',
    '0x60015f5560205ff3',
    '0x33ff',
    '0x5f5ffd',
  ])

function override(dice: Dice, accounts: Accounts): CaseStep {
  const targets = Object.keys(accounts) as Hex[]
  const address = dice.pick(targets)
  const hasStorage = (one: Hex) => accounts[one]?.storage !== undefined && dice.chance(0.6)
  switch (dice.int(6)) {
    case 0:
    case 5:
      return { do: 'clear', address: targets.find(hasStorage) ?? address }
    case 1:
      return { do: 'slot', address, key: '0x1', value: hexNumber(slotValue(dice)) }
    case 2:
      return { do: 'code', address, code: hexOf(bytes(dice, dice.int(20))) }
    case 3:
      return { do: 'balance', address, wei: hexNumber(BigInt(dice.int(5))) }
    default:
      return { do: 'nonce', address, nonce: dice.int(10) }
  }
}

function bound(dice: Dice): Bound {
  switch (dice.int(3)) {
    case 0:
      return { fuel: 1 + dice.int(40) }
    case 1:
      return { polls: dice.int(3) }
    default:
      return { reads: dice.int(6) }
  }
}
