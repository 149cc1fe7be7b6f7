/** A node beside a process whose Node is too old for it: a child on the package's own Node, asked over loopback. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { launch } from './launch.ts'
import type { EndpointName, Started, StartOptions, Tell } from './transport.ts'

/** Characters of its output that are kept until it is ready. */
const MOST_OUTPUT = 20_000
/** It may drain its requests in ten seconds. */
const END_MS = 15_000

/** @throws {Error} whose message says what is wrong */
export async function startChild({ argv, tell, hasPort }: StartOptions): Promise<Started> {
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
    standard: openSocket('standard', url, tell),
    flashblocks: openSocket('flashblocks', url, tell),
  }
  return {
    url: hasPort ? url : '',
    ask: async (endpoint, body) => (await sockets[endpoint]).ask(body),
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

/** What a test has set for a node of its own is not for this one. */
const environment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('FLASHNODE_')))

/** Its address. @throws {Error} with its last words where it ends */
function ready(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = createPromise<string>()
  let output = ''
  const read = (text: string) => {
    output = (output + text).slice(-MOST_OUTPUT)
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

/** One connection for all of an endpoint: what subscriptions tell comes on it. */
async function openSocket(endpoint: EndpointName, url: string, tell: Tell) {
  const path = endpoint === 'standard' ? '/' : '/flashblocks'
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`)
  const waiting = new Map<number, Settling<string>>()
  socket.on('message', (data) => {
    const text = data.toString()
    const { id } = JSON.parse(text) as { readonly id?: number }
    if (id === undefined) tell(endpoint, text)
    else waiting.get(id)?.resolve(text)
  })
  socket.on('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the node is closed'))
  })
  await once(socket, 'open')
  return {
    async ask(body: string): Promise<string> {
      if (socket.readyState !== socket.OPEN) throw new Error('the node is closed')
      const { id } = JSON.parse(body) as { readonly id: number }
      const asked = createPromise<string>()
      waiting.set(id, asked)
      socket.send(body)
      return asked.promise.finally(() => waiting.delete(id))
    },
    close: () => socket.close(),
  }
}

type Settling<T> = {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}
/** `Promise.withResolvers`, which Node has from 22 on. */
function createPromise<T>(): Settling<T> {
  let settle: Omit<Settling<T>, 'promise'> | undefined
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject }
  })
  return { promise, ...settle! }
}
