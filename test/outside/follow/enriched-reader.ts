/**
 * This client applies a node's enriched feed, and compares itself with the node after each
 * flashblock.
 */
import { once } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import { WebSocket } from 'ws'
import type { Hex } from '../../../engine/primitives/bytes.ts'
import {
  type AppliedBlock,
  EnrichedClient,
  type EnrichedJson,
} from '../../fixtures/enriched-client.ts'

export type EnrichedReader = {
  readonly client: EnrichedClient
  readonly found: {
    /**
     * The number of flashblocks after which the node was read; `fullBlocks` counts blocks that came
     * as a whole.
     */
    flashblocks: number
    fullBlocks: number
    responses: number
    /** The node had advanced too far to respond. */
    gone: number
    removed: number
    snapshots: number
    /** Messages with which a connection resumed where another one had ended. */
    resumed: number
    readonly differences: string[]
  }
  /** Ends the connection and reconnects with the last seen position. */
  reconnect(): Promise<void>
  /**
   * Waits for the open requests.
   * @throws {unknown} the error of a message that could not be applied
   */
  stop(): Promise<void>
}

type Question = {
  readonly what: string
  readonly method: string
  readonly params: readonly unknown[]
  /** undefined: the node's state at the client's base is expected. */
  readonly expected: unknown
  readonly atBase?: readonly unknown[]
}
/** The limits for one message, so that a batch stays small. */
const ACCOUNTS = 12
const SLOTS = 20
const EMPTY_CODE = '0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470'
const QUANTITIES = ['eth_getBalance', 'eth_getTransactionCount'] as const

export async function startReader(
  url: string,
  { others }: { readonly others: readonly Hex[] },
): Promise<EnrichedReader> {
  const client = new EnrichedClient()
  const found: EnrichedReader['found'] = {
    flashblocks: 0,
    fullBlocks: 0,
    responses: 0,
    gone: 0,
    removed: 0,
    snapshots: 0,
    resumed: 0,
    differences: [],
  }
  const requested = new Set<Promise<void>>()
  /**
   * The node did not have these: the block may be removed, and the client learns it from the next
   * message.
   */
  const absent: { readonly block: AppliedBlock; readonly what: string }[] = []
  let failure: unknown
  let since: string | undefined
  let socket = await open(url, '', listener(false))

  function listener(isReconnect: boolean): (data: Buffer) => void {
    let isFirst = true
    return (data) => {
      try {
        const message = JSON.parse(data.toString())
        if ('FlashnodeGap' in message) return
        if (isFirst && isReconnect && !message.snapshot) found.resumed++
        isFirst = false
        take(message)
      } catch (error) {
        failure ??= error
      }
    }
  }
  function take(message: EnrichedJson): void {
    const isNew = message.snapshot || message.seq > client.seq || message.run !== client.run
    client.apply(message)
    if (!isNew) return
    found.removed += client.removedNow
    if (message.snapshot) found.snapshots++
    const reported = message.flashblocks.at(-1)
    if (reported === undefined) return
    since = `${reported.number}:${reported.index}${reported.payload_id === null ? '' : `:${reported.payload_id}`}`
    const block = client.blockAt(reported.number)
    if (block === undefined) return
    const questions = questionsOf(client, { block, reported, others })
    const takenBack = (what: string) => absent.push({ block, what })
    const work = request(url, questions, { found, takenBack }).catch((error) => {
      failure ??= error
    })
    requested.add(work)
    void work.finally(() => requested.delete(work))
    if (reported.payload_id === null) found.fullBlocks++
    else found.flashblocks++
  }
  return {
    client,
    found,
    async reconnect() {
      socket.terminate()
      const query = since === undefined ? '' : `&since=${since}&run=${client.run}`
      socket = await open(url, query, listener(true))
    },
    async stop() {
      socket.terminate()
      await Promise.all(requested)
      for (const { block, what } of absent)
        if (client.blockAt(block.number) === block) found.differences.push(what)
        else found.gone++
      if (failure !== undefined) throw failure
    },
  }
}

/** Opens a socket whose listener is set at once, because messages may come with the handshake. */
async function open(
  url: string,
  query: string,
  onMessage: (data: Buffer) => void,
): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/feed?enrich=1${query}`)
  socket.on('message', onMessage)
  await once(socket, 'open')
  return socket
}

/**
 * Makes the requests with the client's present values, because the client will have moved on when
 * the responses come.
 */
function questionsOf(
  client: EnrichedClient,
  {
    block,
    reported,
    others,
  }: {
    readonly block: AppliedBlock
    readonly reported: EnrichedJson['flashblocks'][number]
    readonly others: readonly Hex[]
  },
): readonly Question[] {
  const { number, index, payload_id: payloadId, final } = reported
  // A snapshot that ends on a complete block has the block's final header instead of the
  // flashblock's.
  const flashblockId =
    payloadId === null || final
      ? quantity(number)
      : { flashblock: { number: quantity(number), index: quantity(index), payloadId } }
  const base = quantity(client.base!.number)
  const question = (
    what: string,
    method: string,
    params: readonly unknown[],
    expected: unknown,
  ) => ({
    what: `${number}:${index} ${what}`,
    method,
    expected,
    params: [...params, flashblockId],
    atBase: [...params, base],
  })
  const addresses = [
    ...reported.accounts.slice(0, ACCOUNTS).map(({ address }) => address),
    ...others,
  ]
  const accounts = addresses.flatMap((address) => {
    const account = client.account(address)
    const values = account === null ? ['0x0', '0x0'] : [account?.balance, account?.nonce]
    const hash = account === null ? EMPTY_CODE : account?.codeHash
    const code = hash === EMPTY_CODE ? '0x' : hash && client.codes.get(hash)
    return [
      ...QUANTITIES.map((method, at) => question(address, method, [address], values[at])),
      question(address, 'eth_getCode', [address], code),
    ]
  })
  const slots = reported.accounts
    .flatMap(({ address, slots }) => slots.map(([key]) => [address, key] as const))
    .slice(0, SLOTS)
    .map(([address, key]) =>
      question(`${address} ${key}`, 'eth_getStorageAt', [address, key], client.slot(address, key)),
    )
  const { header, transactions } = block
  return [
    ...accounts,
    ...slots,
    {
      what: `${number}:${index}`,
      method: 'eth_getBlockReceipts',
      params: [flashblockId],
      expected: client.rpcReceipts(block),
    },
    {
      what: `${number}:${index}`,
      method: 'eth_getBlockByNumber',
      params: [flashblockId, false],
      expected: { ...header, transactions: transactions.map(({ hash }) => hash) },
    },
  ]
}

type Reply = {
  readonly id: number
  readonly result?: unknown
  readonly error?: { code: number; message: string }
}

async function request(
  url: string,
  questions: readonly Question[],
  {
    found,
    takenBack,
  }: { readonly found: EnrichedReader['found']; readonly takenBack: (what: string) => void },
) {
  const body = questions.flatMap(({ method, params, expected, atBase }, id) => [
    { jsonrpc: '2.0', id: 2 * id, method, params },
    ...(expected === undefined ? [{ jsonrpc: '2.0', id: 2 * id + 1, method, params: atBase }] : []),
  ])
  const response = await fetch(`${url}/flashblocks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const replies = new Map(((await response.json()) as Reply[]).map((reply) => [reply.id, reply]))
  for (const [id, { what, method, expected: own }] of questions.entries()) {
    const reply = replies.get(2 * id)!
    if (reply.error?.code === -32_001) {
      found.gone++
      continue
    }
    const { result } = reply
    if (result === null || reply.error?.code === -32_000) {
      takenBack(`${method} ${what}: ${JSON.stringify(reply.error ?? null)}`)
      continue
    }
    const expected = own ?? replies.get(2 * id + 1)?.result
    found.responses++
    // The feed has only the header of a block.
    const isBlock = method === 'eth_getBlockByNumber'
    const answer = isBlock && result ? pick(result, Object.keys(own as object)) : result
    if (reply.error === undefined && isDeepStrictEqual(answer, expected)) continue
    found.differences.push(
      `${method} ${what}: ${JSON.stringify(reply.error ?? answer)}, applied ${JSON.stringify(expected)}`,
    )
  }
}

const pick = (from: object, keys: readonly string[]) =>
  Object.fromEntries(keys.map((key) => [key, Reflect.get(from, key)]))
const quantity = (number: number): Hex => `0x${number.toString(16)}`
