/**
 * One upstream behind its transport responds to JSON-RPC from its own chain, or as its present
 * fault demands.
 */
import type { Block } from '../../../engine/chain/types.ts'
import { encodeBlock } from '../../../engine/primitives/block-codec.ts'
import { bytesToHex, quantity } from '../../../engine/primitives/hex.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import type { Transport } from '../../../engine/sources/upstream/messages.ts'
import { latin1 } from '../../../engine/state/words.ts'
import { blockText, headerText, receiptAt, receiptsText } from '../../../rpc/json/json.ts'
import { ancestorAt, type TrueBlock, type TrueChain } from './chain.ts'
import type { VirtualClock } from './clock.ts'
import type { Network } from './network.ts'
import type { Random } from './random.ts'
import { STATE_METHODS, stateResponse } from './upstream-state.ts'

/**
 * `forks`: its own chain. `spoils`: a block that cannot be executed. `garbage`: blocks that
 * contradict their hash.
 * `foreign`: the upstream is on another chain for good, and slow to report that.
 */
export type Fault =
  | 'none'
  | 'lags'
  | 'forks'
  | 'spoils'
  | 'garbage'
  | 'hangs'
  | 'errs'
  | 'limits'
  | 'flickers'
  | 'foreign'
const LIES: readonly Fault[] = ['forks', 'spoils', 'foreign']
const FAULTS: readonly Fault[] = [
  ...(['lags', 'forks', 'forks', 'spoils', 'spoils', 'garbage', 'hangs'] as const),
  ...(['errs', 'limits', 'flickers'] as const),
]

type Call = { readonly id: number; readonly method: string; readonly params: readonly unknown[] }

export type UpstreamOptions = {
  readonly chain: TrueChain
  readonly network: Network
  readonly clock: VirtualClock
  readonly random: Random
  /**
   * This upstream's forks always leave the real chain below the final block, not only sometimes.
   */
  readonly forksBelowFinal: boolean
  /** The upstream has a head this long after the network. */
  readonly lateMs: number
  /** The upstream pushes new heads. */
  readonly isPushing: boolean
  readonly hasRawBlocks: boolean
  /** The deposits of this upstream cannot be rebuilt from their fields. */
  readonly hasOddDeposits: boolean
  /** The number of blocks below its head whose state it has. */
  readonly stateDepth: number
  readonly hasProofs: boolean
  /** Some responses about state take long, while its chain goes on. */
  readonly isStateSlow: boolean
  /** The upstream accepts a block hash as a parameter. */
  readonly takesHash: boolean
  readonly hasBlockReceipts: boolean
}

export class SimulatedUpstream implements Transport {
  fault: Fault = 'none'
  /**
   * A follower that restarts while no upstream gives proofs trusts every value, so a wrong one is
   * no fault then.
   */
  areProofsChecked = true
  readonly #options: UpstreamOptions
  /** The upstream has its own head while it lags or is on its own chain. */
  #own: TrueBlock | undefined
  /** The field that shows another chain. */
  #foreign: 'id' | 'genesis' | undefined
  #offlineUntilMs = 0
  #onPush = (_: unknown) => {}
  #subscriptions = 0
  #emitted: TrueBlock | undefined

  constructor(options: UpstreamOptions) {
    this.#options = options
    if (options.isPushing) this.#watch()
  }

  get pushes(): Transport['pushes'] {
    if (!this.#options.isPushing) return undefined
    return {
      onMessage: (listener) => {
        this.#onPush = listener
      },
      onClose() {},
    }
  }

  close(): void {
    this.#onPush = () => {}
  }

  get hasProofs(): boolean {
    return this.#options.hasProofs
  }

  get stateDepth(): number {
    return this.#options.stateDepth
  }

  get isLiar(): boolean {
    return LIES.includes(this.fault)
  }

  /**
   * Moves the upstream to another chain for good.
   * @param offlineMs the time without responses before
   */
  async leaveChain(offlineMs: number): Promise<void> {
    const { random, chain, network, clock } = this.#options
    this.fault = 'foreign'
    this.#foreign = random.pick(['id', 'genesis'] as const)
    this.#offlineUntilMs = clock.now() + offlineMs
    const from = Math.max(chain.genesis.number + 1, network.head.number - random.below(12))
    let own = ancestorAt(network.head, from)!
    for (let at = random.between(1, 4); at > 0; at--)
      own = await clock.during(chain.build(own, 1, { draw: () => [] }))
    this.#own = own
  }

  /** Sets another fault for a while; `mayLie`: the others can recognize a lie. */
  async trouble(mayLie: boolean): Promise<void> {
    const { random, chain, network } = this.#options
    if (this.fault === 'foreign') return
    const fault = random.pick(FAULTS)
    if (LIES.includes(fault) && !mayLie) return
    this.fault = fault
    this.#own = undefined
    if (fault === 'lags') this.#own = this.head
    if (fault === 'forks') await this.fork()
    if (fault === 'spoils') {
      const min = Math.max(network.finalized, chain.genesis.number + 1)
      const spoilt = ancestorAt(network.head, Math.max(min, network.head.number - random.below(3)))
      this.#own = chain.forge(spoilt!, spoiltFields(spoilt!, random))
    }
  }

  /**
   * Moves the upstream to its own chain, which does not grow.
   * @param max the maximum number of its own blocks
   */
  async fork(max = 14): Promise<void> {
    const { random, chain, network, clock, forksBelowFinal } = this.#options
    this.fault = 'forks'
    // Sometimes the fork starts below the final block.
    const min = chain.genesis.number + 1
    const final = Math.max(min, network.finalized - (random.chance(0.3) ? 2 : 0))
    const from = forksBelowFinal
      ? Math.max(min, network.finalized - 3)
      : Math.max(final, network.head.number - random.below(Math.min(14, max)))
    let own = ancestorAt(network.head, from)!
    const blocks = network.head.number - from + random.between(-1, 1)
    for (let at = Math.max(1, Math.min(12, blocks)); at > 0; at--)
      own = await clock.during(chain.build(own, 1, { draw: () => [] }))
    this.#own = own
  }

  mend(): void {
    if (this.fault === 'foreign') return
    this.fault = 'none'
    this.#own = undefined
  }

  /** Gives the newest block of its reports. */
  get head(): TrueBlock {
    const { network, clock, lateMs } = this.#options
    if (this.#own !== undefined) return this.#own
    const { seen } = network
    return (seen.findLast(({ atMs }) => atMs <= clock.now() - lateMs) ?? seen[0]!).head
  }

  exchange(message: string): Promise<unknown> {
    const { clock, random, isStateSlow } = this.#options
    const { fault } = this
    const wire: Call | Call[] = JSON.parse(message)
    return new Promise((resolve, reject) => {
      if (fault === 'hangs' && random.chance(0.9)) return
      const isOffline = clock.now() < this.#offlineUntilMs
      const isIdSlow = fault === 'foreign' && !isOffline && message.includes('eth_chainId')
      const ms = isIdSlow ? random.between(100, 7_000) : random.between(3, 120)
      clock.after(ms, () => {
        try {
          if (fault === 'errs' || isOffline) throw brokenResponse(random)
          if (fault === 'limits')
            throw new UpstreamError('limited', 'too many', { retryAfterMs: random.below(2_500) })
          const calls = Array.isArray(wire) ? wire : [wire]
          const responses = calls.map((call) => this.#respond(call))
          const give = () => resolve(Array.isArray(wire) ? responses : responses[0])
          const isOfState = calls.some(({ method }) => STATE_METHODS.has(method))
          const isSlow = isStateSlow && isOfState && random.chance(0.1)
          if (isSlow) clock.after(random.between(200, 1_500), give)
          else give()
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  #respond({ id, method, params }: Call): unknown {
    const result = this.#resultOf(method, params)
    return result === undefined
      ? { id, error: { code: -32601, message: `the method ${method} does not exist` } }
      : { id, result }
  }

  #resultOf(method: string, params: readonly unknown[]): unknown {
    const { chain, hasRawBlocks, hasBlockReceipts } = this.#options
    switch (method) {
      case 'eth_chainId':
        return quantity(chain.spec.chainId + (this.#foreign === 'id' ? 1n : 0n))
      case 'eth_subscribe':
        return `0x${(++this.#subscriptions).toString(16)}`
      case 'eth_getBlockByNumber': {
        const block = this.#find(String(params[0]))
        if (block === chain.genesis && this.#foreign === 'genesis')
          return { number: quantity(block.number), hash: `0x${'77'.repeat(32)}` }
        return block === undefined ? null : this.#jsonOf(block, params[1] === true)
      }
      case 'debug_getRawBlock': {
        if (!hasRawBlocks) return undefined
        const block = this.#byHash(String(params[0]))
        return block === undefined ? null : bytesToHex(rawOf(block))
      }
      case 'eth_getRawTransactionByHash': {
        const name = latin1(Buffer.from(String(params[0]).slice(2), 'hex'))
        const found = chain.transactions.get(name)
        return found === undefined ? null : bytesToHex(found.raw)
      }
      case 'eth_getBlockReceipts': {
        const block = hasBlockReceipts ? this.#byHash(String(params[0])) : undefined
        return block && JSON.parse(receiptsText(asBlock(block)))
      }
      case 'eth_getTransactionReceipt':
        return this.#receipt(String(params[0]))
      default:
        return STATE_METHODS.has(method) ? this.#state(method, params) : undefined
    }
  }

  #receipt(hash: string): unknown {
    const name = latin1(Buffer.from(hash.slice(2), 'hex'))
    for (let block: TrueBlock | undefined = this.head; block !== undefined; block = block.parent) {
      const at = block.executed.findIndex(({ transaction }) => latin1(transaction.hash) === name)
      if (at >= 0) return JSON.parse(receiptAt(asBlock(block), at)!)
    }
    return null
  }

  /** Makes a response about state; undefined: a refusal. */
  #state(method: string, params: readonly unknown[]): unknown {
    const { chain, random, hasProofs, takesHash, stateDepth } = this.#options
    const at = params.at(-1)
    if (method === 'eth_getProof' && !hasProofs) return undefined
    if (typeof at === 'object' && !takesHash) return undefined
    const { head } = this
    const block =
      typeof at === 'object'
        ? this.#byHash(String((at as { readonly blockHash?: unknown }).blockHash))
        : this.#find(String(at))
    // An upstream has only the blocks of its own chain.
    if (block === undefined || ancestorAt(head, block.number) !== block) return undefined
    if (head.number - block.number > stateDepth) return undefined
    const mayBeWrong = this.fault === 'garbage' && hasProofs && random.chance(0.5)
    const isWrong = mayBeWrong && this.areProofsChecked
    return stateResponse(method, params, {
      chain,
      block: isWrong ? (block.parent ?? block) : block,
    })
  }

  #byHash(hash: string): TrueBlock | undefined {
    if (this.#own !== undefined && bytesToHex(this.#own.hash) === hash) return this.#own
    return this.#options.chain.byHash.get(latin1(Buffer.from(hash.slice(2), 'hex')))
  }

  #find(name: string): TrueBlock | undefined {
    const { random, network, chain } = this.#options
    const { head } = this
    if (name === 'latest') return head
    if (name === 'finalized') return this.#agreed(head, network.finalized)
    if (name === 'safe') return this.#agreed(head, Math.max(network.finalized, head.number - 3))
    const number = Number(name)
    // Behind one address there may be several nodes, some of them late.
    const isLate = this.fault === 'flickers' && random.chance(0.5)
    const newest = isLate ? (ancestorAt(head, head.number - 2) ?? head) : head
    return number < chain.genesis.number ? undefined : ancestorAt(newest, number)
  }

  /**
   * Gives the newest block up to `max` that is also on the real chain. A final block is always on
   * the real chain.
   */
  #agreed(head: TrueBlock, max: number): TrueBlock {
    const { network } = this.#options
    let at = ancestorAt(head, Math.min(head.number, max))!
    while (ancestorAt(network.head, at.number) !== at) at = at.parent!
    return at
  }

  #jsonOf(block: TrueBlock, isFull: boolean): unknown {
    const { random, hasOddDeposits } = this.#options
    const json = JSON.parse(textOf(block, isFull)) as Record<string, unknown>
    if (this.fault === 'garbage' && random.chance(0.7)) return garbled(json, random)
    if (!hasOddDeposits || !isFull) return json
    const list = json['transactions'] as readonly Record<string, unknown>[]
    return {
      ...json,
      transactions: list.map((one) => (one['type'] === '0x7e' ? { ...one, mint: '0x77' } : one)),
    }
  }

  /** Pushes heads as the upstream gets them. */
  #watch(): void {
    const { clock } = this.#options
    const { head } = this
    if (head !== this.#emitted && this.fault !== 'hangs' && this.#subscriptions > 0) {
      this.#emitted = head
      const subscription = `0x${this.#subscriptions.toString(16)}`
      const result = JSON.parse(headerText(head.header, head.hash))
      this.#onPush({ method: 'eth_subscription', params: { subscription, result } })
    }
    clock.after(50, () => this.#watch())
  }
}

function brokenResponse(random: Random): UpstreamError {
  const kind = random.pick(['broken', 'unreachable', 'large'] as const)
  return new UpstreamError(kind, `as the history wants it: ${kind}`)
}

/** Draws one header field that follows from the rest of the block, with a wrong value. */
function spoiltFields({ header }: TrueBlock, random: Random) {
  const other = random.pick([
    ...(['stateRoot', 'receiptsRoot', 'withdrawalsRoot', 'requestsHash'] as const),
  ])
  if (random.chance(0.5)) return { [other]: new Uint8Array(32).fill(random.below(256)) }
  return random.pick([
    { gasUsed: header.gasUsed + 1n },
    { blobGasUsed: (header.blobGasUsed ?? 0n) + 1n },
    { excessBlobGas: (header.excessBlobGas ?? 0n) + 1n },
    { baseFeePerGas: (header.baseFeePerGas ?? 0n) + 1n },
    { logsBloom: new Uint8Array(256).fill(1) },
  ])
}

function garbled(json: Record<string, unknown>, random: Random): unknown {
  // Another hash of the first block shows another chain, and such an upstream is never used again.
  const isFirst = json['number'] === '0x0'
  const keys = Object.keys(json).filter((key) => !isFirst || key !== 'hash')
  const key = random.pick(keys)
  const value = json[key]
  if (random.chance(0.2)) return random.pick([null, 'text', 7, {}])
  if (Array.isArray(value)) return { ...json, [key]: value.slice(1) }
  return { ...json, [key]: typeof value === 'string' ? `${value.slice(0, -1)}7` : 7 }
}

const texts = new WeakMap<TrueBlock, Map<boolean, string>>()
function textOf(block: TrueBlock, isFull: boolean): string {
  const known = texts.get(block) ?? new Map<boolean, string>()
  texts.set(block, known)
  const found = known.get(isFull) ?? blockText(asBlock(block), isFull)
  known.set(isFull, found)
  return found
}

/** Makes a block with the fields that its text needs. */
function asBlock(block: TrueBlock): Block {
  const { header, hash, executed } = block
  return {
    header,
    hash,
    number: BigInt(block.number),
    flashblockIndex: undefined,
    isPersisted: false,
    logsBloom: header.logsBloom,
    transactionCount: executed.length,
    transaction: (at) => executed[at]?.transaction,
    receipt: (at) => executed[at]?.receipt,
    transactionHash: (at) => executed[at]?.transaction.hash,
    transactions: () => executed.map(({ transaction }) => transaction),
    transactionHashes: () => executed.map(({ transaction }) => transaction.hash),
    receipts: () => executed.map(({ receipt }) => receipt),
    logSummaries: () => [],
    tail: () => ({ ommers: [], withdrawals: [] }),
    firstLogIndex: (index) =>
      executed.slice(0, index).reduce((sum, { receipt }) => sum + receipt.logs.length, 0),
  }
}

const rawOf = ({ header, executed }: TrueBlock): Uint8Array =>
  encodeBlock({
    header,
    transactions: executed.map(({ transaction }) => transaction.raw),
    ommers: [],
    withdrawals: [],
  })
