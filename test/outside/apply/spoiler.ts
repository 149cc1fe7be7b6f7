/** Between a leader and a replica: hands on its enriched feed, and plants one wrong thing when it is told to. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { LOOKS_BACK, type Plant } from './plants.ts'

export type Spoiler = {
  readonly url: string
  /** What comes from now on is handed on at once; others are as late as before. */
  lead(): void
  /** In the next message that it fits; resolves when it is sent. */
  plant(plant: Plant): Promise<void>
  stop(): void
}

/** Of those that do not lead: their copies come after the leading one's. */
const LATE_MS = 60

/** @param token that the leader asks for */
export async function startSpoiler(target: string, token: string): Promise<Spoiler> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false })
  await once(server, 'listening')
  let isLeading = false
  let due: { readonly plant: Plant; readonly done: () => void } | undefined
  const before: string[] = []

  const spoilt = (text: string): string => {
    const planted = due?.plant(text, before)
    before.push(text)
    if (before.length > LOOKS_BACK) before.shift()
    if (planted === undefined) return text
    due?.done()
    due = undefined
    return planted
  }
  server.on('connection', (client, { url }) => {
    // As text, which plants are in the words of; a reader takes both.
    const source = new WebSocket(`${target}${url}`.replace('&packed=1', ''), {
      headers: { 'x-feed-token': token },
      perMessageDeflate: false,
    })
    // In their order, however late each is.
    let line = Promise.resolve()
    source.on('message', (data: Buffer) => {
      const text = spoilt(data.toString())
      const late = isLeading ? 0 : LATE_MS
      const isDue = new Promise((resolve) => setTimeout(resolve, late))
      line = line.then(() => isDue).then(() => client.send(text))
    })
    source.on('error', () => client.terminate())
    source.on('close', () => client.terminate())
    client.on('error', () => source.terminate())
    client.on('close', () => source.terminate())
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `ws://127.0.0.1:${port}/feed`,
    lead() {
      isLeading = true
    },
    plant: (plant) =>
      new Promise((done) => {
        due = { plant, done }
      }),
    stop() {
      for (const client of server.clients) client.terminate()
      server.close()
    },
  }
}
