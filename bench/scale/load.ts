/**
 * Load in a process of its own: requests from several addresses over persistent connections, one at
 * a time on each. HAProxy sends each address to one node.
 */
import { connect, type Socket } from 'node:net'

export type LoadOptions = {
  readonly port: number
  readonly path: string
  /** Body of a request; `#` is replaced by eight digits that are unique. */
  readonly body: string
  readonly addresses: number
  readonly connections: number
  readonly seconds: number
}
/** The result, which goes to the parent process at the end. */
export type Loaded = {
  readonly responses: number
  readonly seconds: number
  readonly faults: number
  readonly fault: string
}

const options = JSON.parse(process.argv[2]!) as LoadOptions
const { port, path, body, addresses, connections, seconds } = options
let next = Math.floor(Math.random() * 0x7000_0000)
let responses = 0
let faults = 0
let fault = ''
let isOver = false

function request(): string {
  const own = body.replace('#', (next++).toString(16).padStart(8, '0'))
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${own.length}\r\n\r\n${own}`
}

function run(localAddress: string): Socket {
  const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true })
  let text = ''
  socket.on('connect', () => socket.write(request()))
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
    const head = text.indexOf('\r\n\r\n')
    if (head < 0) return
    const length = /content-length: (\d+)/i.exec(text.slice(0, head))
    if (length === null || text.length < head + 4 + Number(length[1])) return
    if (text.startsWith('HTTP/1.1 200') && text.includes('"result"', head)) responses++
    else {
      faults++
      fault ||= text
    }
    text = ''
    if (!isOver) socket.write(request())
  })
  socket.on('error', ({ message }) => {
    faults++
    fault ||= message
  })
  return socket
}

const sockets = Array.from({ length: addresses * connections }, (_, at) =>
  run(`127.0.40.${1 + (at % addresses)}`),
)
const started = performance.now()
setTimeout(() => {
  isOver = true
  const loaded: Loaded = {
    responses,
    seconds: (performance.now() - started) / 1_000,
    faults,
    fault,
  }
  for (const socket of sockets) socket.destroy()
  console.log(JSON.stringify(loaded))
}, seconds * 1_000)
