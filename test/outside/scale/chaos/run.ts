/**
 * All clients of the test run on one world: they start together, and end together after the last
 * transaction.
 */
import { type Hex, numberToHex, pad } from 'viem'
import { call } from '../../../kit/node.ts'
import { until } from '../../follow/nodes.ts'
import { TOKEN_CREATION } from '../../soak/token.ts'
import { dealtMany } from '../dealt.ts'
import type { Scene } from './events.ts'
import { openJournal } from './journal.ts'
import { requestTooMuch } from './limited.ts'
import { KINDS as EMITTED, listen } from './listeners.ts'
import { createObservations, endConnections, pause } from './observations.ts'
import { type Around, readAlone } from './readers.ts'
import { createSenders, type Sending, send, sign } from './senders.ts'
import { sendByViem, startWatchers } from './stock.ts'
import type { World } from './world.ts'

const HOLDERS = 12
const SENDERS = 3
const READERS = 8
/** The number of addresses of the caller who exceeds the limit. */
const GREEDY = 6
/** The number of listeners of each kind. */
const LISTENERS = 2
const WAIT_MS = 20_000

export type Run = Awaited<ReturnType<typeof start>>

export async function start(world: World, random: () => number) {
  const observations = createObservations()
  const holders = Array.from({ length: HOLDERS }, (_, at) =>
    pad(numberToHex(0x20_0000 + at), { size: 20 }),
  )
  const senders = createSenders(SENDERS)
  const addresses = senders.map(({ account }) => account.address)
  const journal = await openJournal(world.dev, [...addresses, ...holders])
  const token = await deploy(world, senders[0]!)
  const { url } = world.balancer
  const greedy = await dealtMany(world, 22, GREEDY)
  const dev = world.dev.url
  let isOver = false
  let isSending = true
  const sent: Hex[] = []
  const sending: Sending = {
    url,
    dev,
    observations,
    token,
    holders,
    sent,
    random,
    isOver: () => !isSending,
  }
  const around: Around = {
    url,
    dev,
    journal,
    observations,
    random,
    isOver: () => isOver,
    nodeOf: async (address) => (await world.balancer.stuck()).get(address) ?? 'none',
    readers: new Map(),
    subjects: {
      senders: addresses,
      holders,
      token,
      sent,
      nextNonce: (sender) => senders.find(({ account }) => account.address === sender)!.nonce,
    },
  }
  let scene: Scene | undefined
  const all = [
    ...senders.map((one) => send(sending, one)),
    sendByViem({ url, observations, isOver: () => !isSending }),
    ...Array.from({ length: READERS }, (_, which) =>
      readAlone(around, { net: 23, which, of: READERS, isRequesting: false }),
    ),
    ...Array.from({ length: READERS }, (_, which) =>
      readAlone(around, { net: 24, which, of: READERS, isRequesting: true }),
    ),
  ]
  const limited = requestTooMuch(
    { url, addresses: greedy, observations, isOver: () => isOver },
    () =>
      scene?.newReplica === undefined ? world.replicas : [...world.replicas, scene.newReplica],
  )
  const listeners = EMITTED.flatMap((kind, which) =>
    Array.from({ length: LISTENERS }, (_, at) =>
      listen({ url, journal, observations }, kind, `127.0.25.${which * LISTENERS + at + 1}`),
    ),
  )
  const watchers = startWatchers({ url, observations, isOver: () => isOver })
  return {
    observations,
    journal,
    listeners,
    watchers,
    sent,
    limited,
    /**
     * Whether every reader has changed its address since the last event, and HAProxy has assigned
     * all of them.
     */
    isSettled: () =>
      until(async () => {
        const stuck = await world.balancer.stuck()
        return [...around.readers.values()].every(
          ({ from, round }) => round === observations.ended() && stuck.has(from),
        )
      }, WAIT_MS),
    onScene(one: Scene) {
      scene = one
    },
    /** Ends the senders, and waits until the listeners have received everything. */
    async end() {
      isSending = false
      await Promise.all(all.slice(0, SENDERS + 1))
      const head = journal.canonical
      const isReceived = async () =>
        watchers.every(({ heights }) => (heights.at(-1) ?? 0) >= head) && journal.canonical > head
      await until(isReceived, WAIT_MS)
      // The readers end before the chain stands still, because HAProxy sends no requests to
      // replicas without news.
      isOver = true
      await Promise.all([...all, limited])
      await call(`${dev}/`, 'dev_pause')
      // The pause seals a block. A replica that has the sealed block before its last flashblock
      // does not emit that flashblock. No later event would give the reason. So the last flashblock
      // must belong to a block that is not sealed.
      await call(`${dev}/`, 'dev_step')
      await pause(QUIET_MS)
      for (const one of listeners) one.stop()
      await Promise.all(listeners.map(({ ended }) => ended))
      for (const one of watchers) await one.stop()
      journal.close()
      endConnections()
    },
  }
}
/** All listeners receive the last flashblock of a paused chain within this time. */
const QUIET_MS = 3_000

async function deploy(
  { dev }: World,
  sender: ReturnType<typeof createSenders>[number],
): Promise<Hex> {
  const raw = await sign(sender, { data: TOKEN_CREATION })
  sender.nonce++
  const hash = await call(`${dev.url}/flashblocks`, 'eth_sendRawTransaction', [raw])
  const receipt = async () =>
    (await call(`${dev.url}/`, 'eth_getTransactionReceipt', [hash])) as {
      contractAddress: Hex
    } | null
  await until(async () => (await receipt()) !== null, WAIT_MS)
  return (await receipt())!.contractAddress
}
