/** This module runs code in a thread of a node from outside, by the protocol of its debugger. */
import { WebSocket } from 'ws'
import type { RunningNode } from '../../kit/node.ts'

/** With this flag for `startNode` the node reports the port of its debugger. */
export const INSPECTED = '--inspect=127.0.0.1:0'

type Message = {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly sessionId: string; readonly workerInfo: { readonly url: string } }
}

export type Inspector = {
  /** Runs the expression in the first thread with this module. */
  run(module: string, expression: string): void
  close(): void
}

/** Resolves when `count` threads of the module are known. */
export async function inspect(
  node: RunningNode,
  module: string,
  count: number,
): Promise<Inspector> {
  const address = /Debugger listening on (ws:\S+)/.exec(node.output())?.[1]
  if (address === undefined) throw new Error('the node has no debugger')
  const socket = new WebSocket(address)
  const workers = new Map<string, string>()
  let nextId = 1
  const send = (method: string, params: object) =>
    socket.send(JSON.stringify({ id: nextId++, method, params }))
  const of = (name: string) => [...workers].filter(([, url]) => url.endsWith(name))
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('open', () => send('NodeWorker.enable', { waitForDebuggerOnStart: false }))
    socket.on('message', (data) => {
      const { method, params } = JSON.parse(data.toString()) as Message
      if (method === 'NodeWorker.attachedToWorker')
        workers.set(params!.sessionId, params!.workerInfo.url)
      if (method === 'NodeWorker.detachedFromWorker') workers.delete(params!.sessionId)
      if (of(module).length >= count) resolve()
    })
  })
  return {
    run(name, expression) {
      const [[sessionId] = ['']] = of(name)
      const message = JSON.stringify({
        id: 1,
        method: 'Runtime.evaluate',
        params: { expression },
      })
      send('NodeWorker.sendMessageToWorker', { sessionId, message })
    },
    close: () => socket.close(),
  }
}
