/** What `pending` was answered while a flashblock was the newest one, and the same questions asked of it later by number and index. */
import { isDeepStrictEqual } from 'node:util'
import { ask, type Reply } from '../../kit/batch.ts'
import type { World } from '../follow/load.ts'
import { balanceOf, slotOf, transferTo } from '../soak/token.ts'
import { type Place, parsePlace, textOf } from './place.ts'

type Question = (at: unknown) => readonly [method: string, params: readonly unknown[]]
export type Recorded = {
  readonly place: Place
  readonly questions: readonly Question[]
  readonly replies: readonly Reply[]
}
export type Reads = {
  /** Answers that are what was recorded. */
  equal: number
  /** Of flashblocks that were not the newest of their block any more, and of blocks below the newest. */
  older: number
  below: number
  /** Refused because they are not held any more. */
  gone: number
  replaced: number
  /** Questions that were asked again, because the node had no time for them. */
  late: number
  readonly faults: string[]
}
export type Recorder = ReturnType<typeof createRecorder>

/** Flashblocks that are kept in mind. */
const KEPT = 400
/** How often one that a node has no time for is asked again: then it is a fault. */
const MOST_LATE = 5

/** Of one node. */
export function createRecorder(node: {
  readonly url: string
  readonly world: World
  readonly random: () => number
  /** A block that it has itself: for what is older it asks others, and then not in the view of a batch. */
  readonly first: number
}) {
  const recorded = new Map<string, Recorded>()
  const reads: Reads = { equal: 0, older: 0, below: 0, gone: 0, replaced: 0, late: 0, faults: [] }
  const endpoint = `${node.url}/flashblocks`
  let newest: Place | undefined

  /** One batch: all of it is of one view. */
  async function record(): Promise<void> {
    const questions = questionsOf(node)
    const { place: text, replies } = await ask(endpoint, asked(questions, 'pending'))
    const place = parsePlace(text)
    if (place === undefined) return
    newest = place
    // A range that ends before it begins has another error with a number than with `pending`.
    if (place.number < node.first) return
    const block = replies[0]!.result as { readonly stateRoot: string }
    // All of it or nothing is to be compared; the next round asks again.
    if (replies.some(isLate)) {
      reads.late++
      return
    }
    // All of a block has another header than its last flashblock had.
    if (recorded.has(text) || !/^0x0+$/.test(block.stateRoot)) return
    recorded.set(text, { place, questions, replies })
    if (recorded.size > KEPT) recorded.delete(recorded.keys().next().value!)
  }

  /** A recorded flashblock of one of the newest `blocks`, asked again. */
  async function read(blocks: number): Promise<void> {
    const least = (newest?.number ?? 0) - blocks
    const chosen = [...recorded.values()].filter(({ place }) => place.number >= least)
    const one = chosen[Math.floor(node.random() * chosen.length)]
    if (one === undefined) return
    const { place, questions } = one
    const { number, index, payloadId } = place
    const isNamed = node.random() < 0.7
    const at = { flashblock: { number, index, ...(isNamed ? { payloadId } : {}) } }
    let { place: now, replies } = await ask(endpoint, asked(questions, at))
    for (let times = 0; replies.some(isLate) && times < MOST_LATE; times++) {
      reads.late++
      ;({ place: now, replies } = await ask(endpoint, asked(questions, at)))
    }
    judge({ one, now: parsePlace(now), at, isNamed }, replies)
  }

  type Asking = {
    readonly one: Recorded
    readonly now: Place | undefined
    readonly at: unknown
    readonly isNamed: boolean
  }
  function judge({ one, now, at, isNamed }: Asking, replies: readonly Reply[]): void {
    const { place, questions } = one
    for (const [index, reply] of replies.entries()) {
      const [method, params] = questions[index]!(at)
      const reason = (reply.error?.data as { readonly reason?: string } | undefined)?.reason
      if (reply.error?.code === -32_001 && (reason === 'gone' || reason === 'replaced')) {
        const fault = wrongRefusal(place, reply, now)
        if (fault === undefined) reads[reason]++
        else reads.faults.push(`${method} at ${textOf(place)}: ${fault}`)
        continue
      }
      if (isDeepStrictEqual(without(reply), without(one.replies[index]!))) {
        reads.equal++
        if (now !== undefined && now.number === place.number && now.index > place.index)
          reads.older++
        if (now !== undefined && now.number > place.number) reads.below++
      } else if (isNamed)
        reads.faults.push(
          `${method} at ${JSON.stringify(params.at(-1)).slice(0, 100)}: ${differences(without(reply), without(one.replies[index]!)).slice(0, 4).join(', ')}`,
        )
      // Without the payload's name it may be another one by now.
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

/** A refusal names what is held, and what it names is younger. */
function wrongRefusal(place: Place, { error }: Reply, now: Place | undefined): string | undefined {
  const { reason, oldest } = error!.data as {
    readonly reason: string
    readonly oldest?: { readonly number: string }
  }
  if (reason === 'replaced') return undefined
  if (oldest === undefined) return now === undefined ? undefined : 'nothing is held'
  // Blocks without flashblocks may stand between those that have some.
  const isOlder = place.number < Number(oldest.number)
  const cameWhole = error!.message.includes('came without flashblocks')
  return isOlder || cameWhole ? undefined : `gone, though ${oldest.number} is held`
}

const asked = (questions: readonly Question[], at: unknown) => questions.map((one) => one(at))

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
    // NUMBER, TIMESTAMP and BALANCE of the caller, in creation code that returns them.
    (at) => ['eth_call', [{ from, data: '0x435f5242602052334060405260605ff3' }, at]],
  ]
  return questions
}

/** Paths of what is not the same, with both values. */
export function differences(found: unknown, wanted: unknown, path = ''): string[] {
  if (isDeepStrictEqual(found, wanted)) return []
  if (typeof found === 'object' && typeof wanted === 'object' && found !== null && wanted !== null)
    return [...new Set([...Object.keys(found), ...Object.keys(wanted)])].flatMap((key) =>
      differences(Reflect.get(found, key), Reflect.get(wanted, key), `${path}.${key}`),
    )
  const text = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 80)
  return [`${path} ${text(found)} was ${text(wanted)}`]
}
