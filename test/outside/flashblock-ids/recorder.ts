/**
 * This recorder stores responses for `pending` while a flashblock is the newest one. It compares
 * them with later reads by number and index.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Reply, sendRequest } from '../../kit/batch.ts'
import type { World } from '../follow/load.ts'
import { balanceOf, slotOf, transferTo } from '../soak/token.ts'
import { type FlashblockId, parseFlashblockId, textOf } from './flashblock-id.ts'

type Question = (at: unknown) => readonly [method: string, params: readonly unknown[]]
export type Recorded = {
  readonly flashblockId: FlashblockId
  readonly questions: readonly Question[]
  readonly replies: readonly Reply[]
}
export type Reads = {
  /** Responses that are equal to the recorded ones. */
  equal: number
  /**
   * Reads of flashblocks that were no longer the newest of their block, and of blocks below the
   * newest.
   */
  older: number
  below: number
  /** Reads that were refused because the flashblock is no longer retained. */
  gone: number
  replaced: number
  /** Reads that were repeated because the node had no time for them. */
  late: number
  readonly faults: string[]
}
export type Recorder = ReturnType<typeof createRecorder>

/** The recorder retains this many flashblocks. */
const RETAINED = 400
/** A read is repeated this often before it counts as a fault. */
const MAX_LATE = 5

/** Makes the recorder of one node. */
export function createRecorder(node: {
  readonly url: string
  readonly world: World
  readonly random: () => number
  /**
   * The first block that the node has itself. For older blocks it asks others, outside of the view
   * of a batch.
   */
  readonly first: number
}) {
  const recorded = new Map<string, Recorded>()
  const reads: Reads = { equal: 0, older: 0, below: 0, gone: 0, replaced: 0, late: 0, faults: [] }
  const endpoint = `${node.url}/flashblocks`
  let newest: FlashblockId | undefined

  /** Records one batch, whose responses all come from one view. */
  async function record(): Promise<void> {
    const questions = questionsOf(node)
    const { flashblockId: text, replies } = await sendRequest(endpoint, query(questions, 'pending'))
    const flashblockId = parseFlashblockId(text)
    if (flashblockId === undefined) return
    newest = flashblockId
    // A range that ends before its start gives another error for a number than for `pending`.
    if (flashblockId.number < node.first) return
    const block = replies[0]!.result as { readonly stateRoot: string }
    // Only a complete batch can be compared; the next round tries again.
    if (replies.some(isLate)) {
      reads.late++
      return
    }
    // A complete block has another header than its last flashblock.
    if (recorded.has(text) || !/^0x0+$/.test(block.stateRoot)) return
    recorded.set(text, { flashblockId, questions, replies })
    if (recorded.size > RETAINED) recorded.delete(recorded.keys().next().value!)
  }

  /** Reads a recorded flashblock of one of the newest `blocks` again. */
  async function read(blocks: number): Promise<void> {
    const min = (newest?.number ?? 0) - blocks
    const chosen = [...recorded.values()].filter(({ flashblockId }) => flashblockId.number >= min)
    const one = chosen[Math.floor(node.random() * chosen.length)]
    if (one === undefined) return
    const { flashblockId, questions } = one
    const { number, index, payloadId } = flashblockId
    const isNamed = node.random() < 0.7
    const at = { flashblock: { number, index, ...(isNamed ? { payloadId } : {}) } }
    let { flashblockId: now, replies } = await sendRequest(endpoint, query(questions, at))
    for (let times = 0; replies.some(isLate) && times < MAX_LATE; times++) {
      reads.late++
      ;({ flashblockId: now, replies } = await sendRequest(endpoint, query(questions, at)))
    }
    judge({ one, now: parseFlashblockId(now), at, isNamed }, replies)
  }

  type RecordedRequest = {
    readonly one: Recorded
    readonly now: FlashblockId | undefined
    readonly at: unknown
    readonly isNamed: boolean
  }
  function judge({ one, now, at, isNamed }: RecordedRequest, replies: readonly Reply[]): void {
    const { flashblockId, questions } = one
    for (const [index, reply] of replies.entries()) {
      const [method, params] = questions[index]!(at)
      const reason = (reply.error?.data as { readonly reason?: string } | undefined)?.reason
      if (reply.error?.code === -32_001 && (reason === 'gone' || reason === 'replaced')) {
        const fault = wrongRefusal(flashblockId, reply, now)
        if (fault === undefined) reads[reason]++
        else reads.faults.push(`${method} at ${textOf(flashblockId)}: ${fault}`)
        continue
      }
      if (isDeepStrictEqual(without(reply), without(one.replies[index]!))) {
        reads.equal++
        if (
          now !== undefined &&
          now.number === flashblockId.number &&
          now.index > flashblockId.index
        )
          reads.older++
        if (now !== undefined && now.number > flashblockId.number) reads.below++
      } else if (isNamed)
        reads.faults.push(
          `${method} at ${JSON.stringify(params.at(-1)).slice(0, 100)}: ${differences(without(reply), without(one.replies[index]!)).slice(0, 4).join(', ')}`,
        )
      // Without the payload id, the read may meet another payload by now.
      else reads.replaced++
    }
  }

  return {
    record,
    read,
    reads,
    get size() {
      return recorded.size
    },
  }
}

const isLate = ({ error }: Reply): boolean => error?.code === -32_002
const without = ({ result, error }: Reply) => ({ result, error })

/** Checks that a refusal names the retained range, and that the range is younger. */
function wrongRefusal(
  flashblockId: FlashblockId,
  { error }: Reply,
  now: FlashblockId | undefined,
): string | undefined {
  const { reason, oldest } = error!.data as {
    readonly reason: string
    readonly oldest?: { readonly number: string }
  }
  if (reason === 'replaced') return undefined
  if (oldest === undefined) return now === undefined ? undefined : 'nothing is held'
  // Blocks without flashblocks may come between those that have some.
  const isOlder = flashblockId.number < Number(oldest.number)
  const isFullBlock = error!.message.includes('came without flashblocks')
  return isOlder || isFullBlock ? undefined : `gone, though ${oldest.number} is held`
}

const query = (questions: readonly Question[], at: unknown) => questions.map((one) => one(at))

function questionsOf({
  world,
  random,
  first,
}: {
  readonly world: World
  readonly random: () => number
  readonly first: number
}) {
  const fromBlock = `0x${first.toString(16)}`
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!
  const everybody = [...world.senders, ...world.holders, ...world.contracts, world.token]
  const some = <T>(count: number, make: () => T) => Array.from({ length: count }, make)
  const from = pick(world.senders)
  const data = transferTo(pick(world.holders), 1n)
  const questions: Question[] = [
    (at) => ['eth_getBlockByNumber', [at, true]],
    (at) => ['eth_getHeaderByNumber', [at]],
    (at) => ['eth_getBlockReceipts', [at]],
    (at) => ['eth_getBlockTransactionCountByNumber', [at]],
    (at) => ['eth_getTransactionByBlockNumberAndIndex', [at, '0x0']],
    (at) => ['eth_getLogs', [{ fromBlock, toBlock: at, address: world.token }]],
    (at) => ['eth_estimateGas', [{ from, to: world.token, data }, at]],
    (at) => ['debug_traceCall', [{ from, to: world.token, data }, at, { tracer: 'callTracer' }]],
    (at) => ['debug_traceBlockByNumber', [at, { tracer: 'callTracer' }]],
    ...some(8, (): Question => {
      const address = pick(everybody)
      return (at) => ['eth_getBalance', [address, at]]
    }),
    ...some(6, (): Question => {
      const slot = slotOf(pick(world.holders))
      return (at) => ['eth_getStorageAt', [world.token, slot, at]]
    }),
    ...some(6, (): Question => {
      const call = { to: world.token, data: balanceOf(pick(world.holders)) }
      return (at) => ['eth_call', [call, at]]
    }),
    // Creation code that returns NUMBER, TIMESTAMP and the caller's BALANCE.
    (at) => ['eth_call', [{ from, data: '0x435f5242602052334060405260605ff3' }, at]],
  ]
  return questions
}

/** Lists the paths of differences, with both values. */
export function differences(found: unknown, wanted: unknown, path = ''): string[] {
  if (isDeepStrictEqual(found, wanted)) return []
  if (typeof found === 'object' && typeof wanted === 'object' && found !== null && wanted !== null)
    return [...new Set([...Object.keys(found), ...Object.keys(wanted)])].flatMap((key) =>
      differences(Reflect.get(found, key), Reflect.get(wanted, key), `${path}.${key}`),
    )
  const text = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 80)
  return [`${path} ${text(found)} was ${text(wanted)}`]
}
