/**
 * What HTTP itself costs: servers that know the results already and put an envelope around them. `http` is node:http alone; `llhttp` the
 * same parser as WebAssembly on net sockets, in the barest form; both give a WebSocket to ws.
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
function answerTo(body: string): string {
  const asked = JSON.parse(body) as Call | readonly Call[]
  return Array.isArray(asked) ? `[${asked.map(said).join(',')}]` : said(asked as Call)
}

const http = createHttpServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const text = answerTo(Buffer.concat(chunks).toString())
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
    webSocket.on('message', (data: Buffer) => webSocket.send(answerTo(data.toString()))),
  ),
)

const reader = new RequestReader()
/** Whole plain requests; a connection with anything else is Node's. */
function serve(socket: Socket): void {
  socket.on('error', () => socket.destroy())
  const read = (chunk: Buffer) => {
    let text = ''
    for (let at = 0; at < chunk.length; at = reader.end) {
      if (reader.read(chunk, at) !== 'whole') {
        socket.off('data', read).pause().unshift(chunk.subarray(at))
        http.emit('connection', socket)
        socket.resume()
        return
      }
      const answer = answerTo(chunk.toString('utf8', reader.end - reader.bodyBytes, reader.end))
      text += `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\naccess-control-allow-origin: *\r\n\r\n${answer}`
    }
    socket.write(text, 'latin1')
  }
  socket.on('data', read)
}

const server = kind === 'http' ? http : createNetServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
