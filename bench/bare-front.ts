/**
 * Measures the cost of HTTP itself: these servers know the results and only add the envelope.
 * `http` is node:http alone; `llhttp` is the same parser as WebAssembly on net sockets, in the
 * barest form. Both pass WebSockets to ws.
 * Usage: node bench/bare-front.ts http|llhttp FILE (results by method, JSON); prints its port.
 */
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Socket } from 'node:net'
import { WebSocketServer } from 'ws'
import { RequestReader } from '../rpc/wire/request-reader.ts'

const [kind, file] = process.argv.slice(2)
const results: Readonly<Record<string, string>> = JSON.parse(readFileSync(file!, 'utf8'))

type Call = { readonly id: number; readonly method: string }
const said = ({ id, method }: Call) => `{"jsonrpc":"2.0","id":${id},"result":${results[method]}}`
function responseTo(body: string): string {
  const request = JSON.parse(body) as Call | readonly Call[]
  return Array.isArray(request) ? `[${request.map(said).join(',')}]` : said(request as Call)
}

const http = createHttpServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const text = responseTo(Buffer.concat(chunks).toString())
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': text.length,
      'access-control-allow-origin': '*',
    })
    response.end(text, 'latin1')
  })
})
const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
http.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) =>
  webSockets.handleUpgrade(request, socket, head, (webSocket) =>
    webSocket.on('message', (data: Buffer) => webSocket.send(responseTo(data.toString()))),
  ),
)

const reader = new RequestReader()
/** Handles full plain requests; Node takes over a connection with anything else. */
function serve(socket: Socket): void {
  socket.on('error', () => socket.destroy())
  const read = (chunk: Buffer) => {
    let text = ''
    for (let at = 0; at < chunk.length; at = reader.end) {
      if (reader.read(chunk, at) !== 'complete') {
        socket.off('data', read).pause().unshift(chunk.subarray(at))
        http.emit('connection', socket)
        socket.resume()
        return
      }
      const response = responseTo(chunk.toString('utf8', reader.end - reader.bodyBytes, reader.end))
      text += `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${response.length}\r\naccess-control-allow-origin: *\r\n\r\n${response}`
    }
    socket.write(text, 'latin1')
  }
  socket.on('data', read)
}

const server = kind === 'http' ? http : createNetServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
