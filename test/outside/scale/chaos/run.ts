/** All clients of the test on one world: they begin together, and end together when nothing is sent any more. */
import { type Hex, numberToHex, pad } from 'viem'
import { call } from '../../../kit/node.ts'
import { until } from '../../follow/nodes.ts'
import { TOKEN_CREATION } from '../../soak/token.ts'
import { dealtMany } from '../dealt.ts'
import type { Scene } from './events.ts'
import { openJournal } from './journal.ts'
import { askTooMuch } from './limited.ts'
import { listen, KINDS as TOLD } from './listeners.ts'
import { createNotes, endConnections, pause } from './notes.ts'
import { type Around, readAlone } from './readers.ts'
import { createSenders, type Sending, send, sign } from './senders.ts'
import { sendByViem, startWatchers } from './stock.ts'
import type { World } from './world.ts'

const HOLDERS = 12
const SENDERS = 3
const READERS = 8
/** Addresses of the caller who asks too often. */
const GREEDY = 6
/** Of each kind. */
const LISTENERS = 2
const WAIT_MS = 20_000

export type Run = Awaited<ReturnType<typeof begin>>

export async function begin(world: World, random: () => number) {
  const notes = createNotes()
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
    ...{ url, dev, notes, token, holders, sent, random, isOver: () => !isSending },
  }
  const around: Around = {
    ...{ url, dev, journal, notes, random, isOver: () => isOver },
    nodeOf: async (address) => (await world.balancer.stuck()).get(address) ?? 'none',
    readers: new Map(),
    subjects: {
      ...{ senders: addresses, holders, token, sent },
      nextNonce: (sender) => senders.find(({ account }) => account.address === sender)!.nonce,
    },
  }
  let scene: Scene | undefined
  const all = [
    ...senders.map((one) => send(sending, one)),
    sendByViem({ url, notes, isOver: () => !isSending }),
    ...Array.from({ length: READERS }, (_, which) =>
      readAlone(around, { net: 23, which, of: READERS, isAsking: false }),
    ),
    ...Array.from({ length: READERS }, (_, which) =>
      readAlone(around, { net: 24, which, of: READERS, isAsking: true }),
    ),
  ]
  const limited = askTooMuch({ url, addresses: greedy, notes, isOver: () => isOver }, () =>
    scene?.newReplica === undefined ? world.replicas : [...world.replicas, scene.newReplica],
  )
  const listeners = TOLD.flatMap((kind, which) =>
    Array.from({ length: LISTENERS }, (_, at) =>
      listen({ url, journal, notes }, kind, `127.0.25.${which * LISTENERS + at + 1}`),
    ),
  )
  const watchers = startWatchers({ url, notes, isOver: () => isOver })
  return {
    ...{ notes, journal, listeners, watchers, sent, limited },
    /** Every reader has moved on since the last event, and was sent to a replica: HAProxy knows all of them. */
    isSettled: () =>
      until(async () => {
        const stuck = await world.balancer.stuck()
        return [...around.readers.values()].every(
          ({ from, round }) => round === notes.ended() && stuck.has(from),
        )
      }, WAIT_MS),
    onScene(one: Scene) {
      scene = one
    },
    /** Nothing is sent any more; who listens hears of what there was. */
    async end() {
      isSending = false
      await Promise.all(all.slice(0, SENDERS + 1))
      const head = journal.canonical
      const isHeard = async () =>
        watchers.every(({ heights }) => (heights.at(-1) ?? 0) >= head) && journal.canonical > head
      await until(isHeard, WAIT_MS)
      // Before the chain stands still: HAProxy sends nobody to replicas without news.
      isOver = true
      await Promise.all([...all, limited])
      await call(`${dev}/`, 'dev_pause')
      // The pause seals a block. A replica that has the sealed block before its last flashblock does not tell that flashblock, and nothing later would
      // show that this is why. So the last one is of a block that is not sealed.
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
/** Everybody hears of the last flashblock of a chain that stands still. */
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
