/**
 * Runs a node as a child on the package's own Node, for a process whose Node is too old; requests
 * go over loopback.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { launch } from './launch.ts'
import type { EndpointName, OnMessage, Started, StartOptions } from './transport.ts'

/** Maximum characters of output that are retained until the node is ready. */
const MAX_OUTPUT = 20_000
/** The child may drain its requests for ten seconds. */
const END_MS = 15_000

/** @throws {Error} saying what is wrong */
export async function startChild({ argv, onMessage, hasPort }: StartOptions): Promise<Started> {
  const { file, args, env } = launch(['dev', ...argv], environment())
  const withParent = ['--import', new URL('./with-parent.ts', import.meta.url).href]
  const child = spawn(file, [...withParent, ...args], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env,
  })
  const ended = once(child, 'exit')
  const url = await ready(child)
  child.stderr?.pipe(process.stderr, { end: false })
  child.stdout?.resume()
  const sockets = {
    standard: openSocket('standard', url, onMessage),
    flashblocks: openSocket('flashblocks', url, onMessage),
  }
  return {
    url: hasPort ? url : '',
    request: async (endpoint, body) => (await sockets[endpoint]).request(body),
    async close() {
      for (const socket of Object.values(sockets)) (await socket).close()
      const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
      child.kill('SIGTERM')
      await ended
      clearTimeout(timer)
      child.stderr?.unpipe(process.stderr)
    },
  }
}

/** FLASHNODE_ variables of a test must not configure this node. */
const environment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('FLASHNODE_')))

/** Resolves to the node's URL. @throws {Error} with the node's last output if it ends */
function ready(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = createPromise<string>()
  let output = ''
  const read = (text: string) => {
    output = (output + text).slice(-MAX_OUTPUT)
    const line = /^flashnode ready (\S+) /m.exec(output)
    if (line !== null) resolve(line[1]!)
  }
  child.stdout?.setEncoding('utf8').on('data', read)
  child.stderr?.setEncoding('utf8').on('data', read)
  child.once('error', reject)
  child.once('exit', (code) => {
    const said = [...output.matchAll(/^flashnode: (.*)$/gm)].at(-1)?.[1]
    reject(new Error(said ?? `the node ended with ${code} before it was ready: ${output}`))
  })
  return promise.finally(() => {
    child.stdout?.off('data', read)
    child.stderr?.off('data', read)
  })
}

/** Opens one connection for an endpoint, which also carries notifications of subscriptions. */
async function openSocket(endpoint: EndpointName, url: string, onMessage: OnMessage) {
  const path = endpoint === 'standard' ? '/' : '/flashblocks'
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`)
  const waiting = new Map<number, Settling<string>>()
  socket.on('message', (data) => {
    const text = data.toString()
    const { id } = JSON.parse(text) as { readonly id?: number }
    if (id === undefined) onMessage(endpoint, text)
    else waiting.get(id)?.resolve(text)
  })
  socket.on('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the node is closed'))
  })
  await once(socket, 'open')
  return {
    async request(body: string): Promise<string> {
      if (socket.readyState !== socket.OPEN) throw new Error('the node is closed')
      const { id } = JSON.parse(body) as { readonly id: number }
      const request = createPromise<string>()
      waiting.set(id, request)
      socket.send(body)
      return request.promise.finally(() => waiting.delete(id))
    },
    close: () => socket.close(),
  }
}

type Settling<T> = {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}
/** `Promise.withResolvers`, which Node has only since version 22. */
function createPromise<T>(): Settling<T> {
  let settle: Omit<Settling<T>, 'promise'> | undefined
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject }
  })
  return { promise, ...settle! }
}
