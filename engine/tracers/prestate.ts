/**
 * prestateTracer: the accounts and slots that a transaction touches, as they were before it. Diff
 * mode gives those that it changed, before and after it.
 */
import type { Touch } from '../evm/engine.ts'
import { OPCODES } from '../evm/opcodes.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../primitives/hex.ts'
import { EMPTY_HASH } from '../primitives/keccak.ts'
import { createAddress } from '../primitives/transaction-codec.ts'
import { equalBytes, ZERO_32 } from '../primitives/words.ts'
import { hexText, quantityText, switches } from './json.ts'
import {
  type TraceBudget,
  type TraceContext,
  type TracedState,
  type TraceOutput,
  type Tracer,
  TracerError,
  type TraceScene,
} from './types.ts'

type Account = {
  readonly balance: bigint
  readonly nonce: bigint
  readonly code: Bytes
  readonly codeHash: Bytes
  readonly isEmpty: boolean
  /** Values by key in hex. */
  readonly storage: Map<string, Bytes>
}
/** An account as it appears in the output. An undefined member is left out. */
type IncludedState = {
  readonly balance?: bigint | undefined
  readonly nonce?: bigint | undefined
  readonly code?: Bytes | undefined
  readonly codeHash?: Bytes | undefined
  readonly storage: ReadonlyMap<string, Bytes>
}
type Config = Readonly<
  Record<'diffMode' | 'disableCode' | 'disableStorage' | 'includeEmpty', boolean>
>

/**
 * Creates the tracer for one transaction or call.
 * @param config object with the switches of `Config`, false by default
 * @throws {TracerError} for an invalid configuration
 */
export function prestateTracer(config: unknown, context: TraceContext): Tracer {
  const options = switches(config, ['diffMode', 'disableCode', 'disableStorage', 'includeEmpty'])
  if (options.diffMode && options.includeEmpty)
    throw new TracerError('cannot use diffMode with includeEmpty', true)
  return new Prestate(options, context)
}

class Prestate implements Tracer {
  readonly sink: Tracer['sink']
  readonly #config: Config
  /** The budget only counts. The code that runs the transaction stops it at a limit. */
  readonly #budget: TraceBudget
  readonly #output: TraceOutput
  /** Accounts before the transaction, by address in hex. */
  readonly #touched = new Map<string, Account>()
  /** Addresses in hex. Both sets survive the revert of a frame, like go-ethereum's. */
  readonly #created = new Set<string>()
  readonly #deleted = new Set<string>()
  #scene: TraceScene | undefined
  /** JSON pieces. `end` makes them, because the live state may change afterwards. */
  #result: readonly string[] | undefined

  constructor(config: Config, { budget, output }: TraceContext) {
    this.#config = config
    this.#budget = budget
    this.#output = output
    this.sink = { touch: (touch) => this.#record(touch) }
  }

  start(scene: TraceScene): void {
    this.#scene = scene
    const { state, from, coinbase, authorities } = scene
    let { to } = scene
    if (to === undefined) {
      to = createAddress(from, state.account(from).nonce)
      this.#created.add(bytesToHex(to))
    } else this.#touchDelegate(to)
    for (const address of [from, to, coinbase, ...authorities]) this.#touch(address)
  }

  end(): void {
    const { diffMode, includeEmpty } = this.#config
    if (diffMode) {
      this.#result = this.#diffTexts()
      return
    }
    const included = [...this.#touched].filter(([, { isEmpty }]) => includeEmpty || !isEmpty)
    this.#result = accountTexts(
      included.map(([name, account]) => [name, this.#includedState(account)]),
    )
  }

  writeResult(): void {
    if (this.#result === undefined) throw new TracerError('the transaction was not applied')
    for (const text of this.#result) this.#output.write(text)
  }

  get #state(): TracedState {
    return this.#scene!.state
  }

  /** Records the values before the opcode, because the engine reports a touch before its effect. */
  #record({ op, address, target, key, isFailed }: Touch): void {
    this.#budget.step()
    if (isFailed) return
    if (key !== undefined) this.#touchSlot(address, key)
    if (target === undefined) return
    this.#touch(target)
    const name = OPCODES[op]?.name ?? ''
    if (CREATIONS.has(name)) this.#created.add(bytesToHex(target))
    else if (CALLS.has(name)) this.#touchDelegate(target)
    else if (name === 'SELFDESTRUCT') this.#destroy(bytesToHex(address))
  }

  /** Marks an account as deleted. EIP-6780 spares contracts from before the transaction. */
  #destroy(hexAddress: string): void {
    const isSpared = this.#scene!.rules.keepsDestroyed && !this.#created.has(hexAddress)
    if (!isSpared) this.#deleted.add(hexAddress)
  }

  /** Records the account whose code the address runs by delegation (EIP-7702). */
  #touchDelegate(address: Bytes): void {
    if (!this.#scene!.rules.hasDelegations) return
    const code = this.#state.code(address)
    if (code.length === 23 && equalBytes(code.subarray(0, 3), DELEGATION))
      this.#touch(code.slice(3))
  }

  #touch(address: Bytes): Account {
    const name = bytesToHex(address)
    const known = this.#touched.get(name)
    if (known !== undefined) return known
    const { balance, nonce, codeHash } = this.#state.account(address)
    const code = this.#state.code(address).slice()
    const isEmpty = balance === 0n && nonce === 0n && code.length === 0
    const account = { balance, nonce, code, codeHash, isEmpty, storage: new Map<string, Bytes>() }
    this.#touched.set(name, account)
    this.#budget.spend(ACCOUNT_BYTES + (this.#config.disableCode ? 0 : code.length * 2))
    return account
  }

  #touchSlot(address: Bytes, key: Bytes): void {
    if (this.#config.disableStorage) return
    const { storage } = this.#touch(address)
    const name = bytesToHex(key)
    if (storage.has(name)) return
    storage.set(name, this.#state.slot(address, key).slice())
    this.#budget.spend(SLOT_BYTES)
  }

  #includedState({ balance, nonce, code, codeHash, storage }: Account): IncludedState {
    return {
      balance,
      nonce: nonce === 0n ? undefined : nonce,
      code: this.#config.disableCode || code.length === 0 ? undefined : code,
      codeHash: equalBytes(codeHash, EMPTY_HASH) ? undefined : codeHash,
      storage,
    }
  }

  #diffTexts(): readonly string[] {
    const pre: [string, IncludedState][] = []
    const post: [string, IncludedState][] = []
    for (const [name, account] of this.#touched) {
      if (this.#deleted.has(name)) {
        if (!account.isEmpty) pre.push([name, this.#includedState(account)])
        continue
      }
      const changes = this.#changesOf(name, account)
      if (changes === undefined) continue
      post.push([name, changes.post])
      if (!account.isEmpty)
        pre.push([name, { ...this.#includedState(account), storage: changes.storageBefore }])
    }
    return ['{"post":', ...accountTexts(post), ',"pre":', ...accountTexts(pre), '}']
  }

  /** @returns undefined if nothing changed */
  #changesOf(
    name: string,
    before: Account,
  ): { post: IncludedState; storageBefore: Map<string, Bytes> } | undefined {
    const address = hexToBytes(name)
    const { balance, nonce, codeHash } = this.#state.account(address)
    const code = this.#state.code(address)
    const storageBefore = new Map<string, Bytes>()
    const storage = new Map<string, Bytes>()
    let isSlotChanged = false
    for (const [key, value] of before.storage) {
      const now = this.#state.slot(address, hexToBytes(key))
      if (equalBytes(now, value)) continue
      isSlotChanged = true
      if (!equalBytes(value, ZERO_32)) storageBefore.set(key, value)
      if (!equalBytes(now, ZERO_32)) storage.set(key, now.slice())
    }
    const isHashChanged = !equalBytes(codeHash, before.codeHash)
    const post: IncludedState = {
      balance: balance === before.balance ? undefined : balance,
      nonce: nonce === before.nonce || nonce === 0n ? undefined : nonce,
      code: this.#config.disableCode || equalBytes(code, before.code) ? undefined : code.slice(),
      codeHash: isHashChanged ? codeHash : undefined,
      storage,
    }
    const isChanged =
      isSlotChanged || isHashChanged || balance !== before.balance || nonce !== before.nonce
    return isChanged ? { post, storageBefore } : undefined
  }
}

const DELEGATION = Uint8Array.of(0xef, 0x01, 0x00)
const CREATIONS: ReadonlySet<string> = new Set(['CREATE', 'CREATE2'])
const CALLS: ReadonlySet<string> = new Set(['CALL', 'CALLCODE', 'DELEGATECALL', 'STATICCALL'])
/** Approximate bytes of an account and of a slot as text. */
const ACCOUNT_BYTES = 250
const SLOT_BYTES = 140

function accountTexts(accounts: readonly (readonly [string, IncludedState])[]): readonly string[] {
  const sorted = [...accounts].sort(([a], [b]) => (a < b ? -1 : 1))
  const texts = sorted.map(
    ([name, account], index) => `${index === 0 ? '' : ','}"${name}":${accountText(account)}`,
  )
  return ['{', ...texts, '}']
}

function accountText({ balance, code, codeHash, nonce, storage }: IncludedState): string {
  const members: string[] = []
  if (balance !== undefined) members.push(`"balance":${quantityText(balance)}`)
  if (code !== undefined) members.push(`"code":${hexText(code)}`)
  if (codeHash !== undefined) members.push(`"codeHash":${hexText(codeHash)}`)
  if (nonce !== undefined) members.push(`"nonce":${nonce}`)
  if (storage.size > 0) {
    const slots = [...storage].sort(([a], [b]) => (a < b ? -1 : 1))
    const texts = slots.map(([key, value]) => `"${key}":${hexText(value)}`)
    members.push(`"storage":{${texts.join(',')}}`)
  }
  return `{${members.join(',')}}`
}
