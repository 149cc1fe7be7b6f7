/**
 * This thread proxies JSON-RPC over HTTP between a follower and its upstream. It limits the methods
 * and the calls a second, adds a delay, and simulates all faults of an upstream.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { forgedBlock, wrongBlock, wrongProof } from './lies.ts'
import type { ProxyOptions, ToProxy, UpstreamFault } from './wires.ts'

type Call = { readonly id?: unknown; readonly method?: unknown; readonly params?: unknown }
type JsonResponse = { readonly id: unknown; readonly result?: unknown }

const options = workerData as ProxyOptions
const main = parentPort!
const sockets = new Set<Socket>()
const counts = new Map<string, number>()
let fault: UpstreamFault = 'none'
const bucket = { tokens: options.callsPerSecond ?? 0, atMs: performance.now() }

const server = createServer((incoming, response) => {
  void serve(incoming, response).catch((error: Error) => response.destroy(error))
})
server.on('connection', (socket) => {
  if (fault === 'cut') {
    socket.destroy()
    return
  }
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  main.postMessage({ type: 'listening', url: `http://127.0.0.1:${port}` })
})
main.on('message', (message: ToProxy) => {
  if (message.type === 'fault') {
    fault = message.fault
    if (fault === 'cut') for (const socket of sockets) socket.destroy()
    main.postMessage({ type: 'done' })
  } else if (message.type === 'counts') {
    main.postMessage({ type: 'counts', counts: Object.fromEntries(counts) })
    if (message.isReset) counts.clear()
  } else {
    for (const socket of sockets) socket.destroy()
    server.close()
    main.close()
  }
})

async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await textOf(incoming)
  const calls = [JSON.parse(body)].flat() as Call[]
  for (const { method } of calls) counts.set(String(method), (counts.get(String(method)) ?? 0) + 1)
  // The request gets no response and no error.
  if (fault === 'silence') return
  if (fault === '429' || !takes(calls.length)) {
    counts.set('429', (counts.get('429') ?? 0) + 1)
    response.writeHead(429, { 'retry-after': '1', 'content-type': 'text/plain' }).end('slow down')
    return
  }
  if (options.delayMs !== undefined && calls.some(isDelayed))
    await new Promise((resolve) => setTimeout(resolve, options.delayMs))
  const responses: unknown[] = []
  const passed: Call[] = []
  for (const one of calls) {
    const error = await refusalOf(one)
    if (error === undefined) passed.push(one)
    else responses.push({ jsonrpc: '2.0', id: one.id ?? null, error })
  }
  if (passed.length > 0) {
    const text = await forward(JSON.stringify(passed))
    const given = [JSON.parse(text)].flat() as JsonResponse[]
    const byId = new Map(passed.map((call) => [call.id, call]))
    responses.push(...given.map((reply) => spoilt(reply, byId.get(reply.id))))
  }
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body.trimStart().startsWith('[') ? responses : responses[0]))
}

const isDelayed = ({ method }: Call): boolean => options.delayed?.includes(String(method)) ?? true

async function refusalOf({ method, params }: Call) {
  const name = String(method)
  if (options.methods !== undefined && !options.methods.includes(name))
    return { code: -32601, message: `the method ${name} does not exist` }
  if (options.stateBlocks === undefined || !OF_STATE.test(name)) return undefined
  const [head, number] = await Promise.all([
    sendRequest('eth_blockNumber', []).then(Number),
    numberOf((params as readonly unknown[] | undefined)?.at(-1)),
  ])
  if (number === undefined || head - number <= options.stateBlocks) return undefined
  return { code: -32000, message: 'missing trie node' }
}
const OF_STATE = /^eth_(get(Proof|Balance|Code|TransactionCount|StorageAt)|call)$/

/** Gives the number of a block; undefined: the newest. */
async function numberOf(block: unknown): Promise<number | undefined> {
  const hash =
    typeof block === 'object' && block !== null
      ? (block as { blockHash?: unknown }).blockHash
      : block
  if (typeof hash !== 'string' || !hash.startsWith('0x')) return undefined
  if (hash.length < 66) return Number(hash)
  const found = (await sendRequest('eth_getBlockByHash', [hash, false])) as {
    number: string
  } | null
  return found === null ? undefined : Number(found.number)
}

async function sendRequest(method: string, params: readonly unknown[]): Promise<unknown> {
  const text = await forward(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
  return (JSON.parse(text) as JsonResponse).result
}

/** Takes calls from a bucket of one second's calls. */
function takes(calls: number): boolean {
  const { callsPerSecond } = options
  if (callsPerSecond === undefined) return true
  const now = performance.now()
  bucket.tokens = Math.min(
    callsPerSecond,
    bucket.tokens + ((now - bucket.atMs) / 1_000) * callsPerSecond,
  )
  bucket.atMs = now
  if (bucket.tokens < calls) return false
  bucket.tokens -= calls
  return true
}

function spoilt(response: JsonResponse, call: Call | undefined): JsonResponse {
  if (call === undefined || typeof response.result !== 'object' || response.result === null)
    return response
  const isBlock = call.method === 'eth_getBlockByNumber' || call.method === 'eth_getBlockByHash'
  const result = response.result as Record<string, unknown>
  if (fault === 'wrong-block' && isBlock) return { ...response, result: wrongBlock(result) }
  if (fault === 'forged-block' && isBlock) return { ...response, result: forgedBlock(result) }
  if (fault === 'wrong-proof' && call.method === 'eth_getProof')
    return { ...response, result: wrongProof(result) }
  return response
}

function forward(body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const sent = request(options.target, { method: 'POST', headers }, (response) => {
      textOf(response).then(resolve, reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

async function textOf(stream: IncomingMessage): Promise<string> {
  stream.setEncoding('utf8')
  let text = ''
  for await (const chunk of stream) text += chunk
  return text
}
