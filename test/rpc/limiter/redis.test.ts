/** The store of the shared rate limit runs over a connection to a server that responds late. */
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { openRedis } from '../../../rpc/limiter/redis.ts'

let server: Server | undefined
afterEach(() => {
  server?.close()
})

/** The script's result: 1,024 × the end of the second + its remaining milliseconds. */
const END_OF_SECOND = (Date.now() + 1_000) * 1_024 + 1_000

/** Starts a server that responds to the limiter's script on demand. */
async function startStore() {
  const waiting: (() => void)[] = []
  const sockets: Socket[] = []
  let connections = 0
  server = createServer({ allowHalfOpen: true }, (socket) => {
    // Only the first connection gets responses.
    const isFirst = ++connections === 1
    sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      const text = bytes.toString()
      if (!isFirst) return
      // The responses follow the order of the requests: `hello` and names first, then `info`, then
      // the script.
      for (const [name] of text.matchAll(/\b(hello|client|info|evalsha)\r\n/gi))
        if (/hello/i.test(name)) socket.write('%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n')
        else if (/client/i.test(name)) socket.write('+OK\r\n')
        else if (/info/i.test(name)) socket.write('$9\r\nloading:0\r\n')
        else waiting.push(() => socket.write(`*2\r\n:1\r\n:${END_OF_SECOND}\r\n`))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    url: `redis://127.0.0.1:${port}`,
    waiting,
    close() {
      for (const socket of sockets) socket.destroy()
    },
  }
}
const until = async (is: () => boolean) => {
  while (!is()) await new Promise((resolve) => setTimeout(resolve, 5))
}

test('a silent store is disconnected at once, and late responses do not revive it', async () => {
  const { url, waiting, close } = await startStore()
  const reasons: string[] = []
  const stores = openRedis(url, { onDisconnected: (reason) => reasons.push(reason), now: Date.now })
  const store = stores.open('test')
  await until(() => store.isUp)
  expect(stores.isDisconnected).toBe(false)

  const first = store.take('a', 1, 100)
  const later = new Promise((resolve) => setTimeout(resolve, 500)).then(() =>
    Promise.allSettled([store.take('b', 1, 100)]),
  )
  await expect(first).rejects.toThrow('no answer within 1000 ms')
  await new Promise(setImmediate)
  expect(store.isUp).toBe(false)
  expect(stores.isDisconnected).toBe(true)
  for (const respond of waiting) respond()
  await later
  expect(store.isUp).toBe(false)
  expect(stores.isDisconnected).toBe(true)
  expect(reasons).toEqual(['no answer within 1000 ms'])

  stores.close()
  close()
})
