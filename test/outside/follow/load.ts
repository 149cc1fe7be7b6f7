/**
 * This load puts transfers, tokens, creations, self-destructs, reverts and deposits on the followed
 * chain.
 */
import { getContractAddress, type Hex, keccak256, numberToHex, pad } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { call } from '../../kit/node.ts'
import { TOKEN_CREATION, transferTo } from '../soak/token.ts'

/** Requests of the tests use these accounts and hashes. */
export type World = {
  readonly token: Hex
  readonly senders: readonly Hex[]
  readonly holders: readonly Hex[]
  /** The newest contracts, including those that destroyed themselves. */
  readonly contracts: readonly Hex[]
  /** The newest transactions. */
  readonly hashes: readonly Hex[]
}
export type Load = {
  readonly world: World
  readonly sent: Readonly<Record<string, number>>
  stop(): Promise<void>
}

const HOLDERS = 100
const RETAINED = 60
const DEPOSIT_MS = 2_500
/** The code runs SSTORE(7, 1) and creates a contract whose call runs CALLER SELFDESTRUCT. */
const MORTAL: Hex = '0x60016007556133ff5f526002601ef3'
/**
 * The code runs SSTORE(7, 1), CALLER SELFDESTRUCT, so the contract does not outlive its
 * transaction.
 */
const STILLBORN: Hex = '0x600160075533ff'
/** The code runs REVERT(0, 0). */
const FAILING: Hex = '0x60fd5f5360015ff3'
const SOME_GAS = 200_000n

type Sender = { readonly account: PrivateKeyAccount; nonce: number }
type Fields = { readonly to?: Hex; readonly data?: Hex; readonly value?: bigint }

/**
 * Starts the load.
 * @param rate transactions a second
 */
export async function startLoad(
  url: string,
  { rate, random }: { readonly rate: number; readonly random: () => number },
): Promise<Load> {
  // Checkers send from the first six accounts.
  const senders: Sender[] = DEV_ACCOUNTS.slice(6).map(({ privateKey }) => {
    return { account: privateKeyToAccount(privateKey as Hex), nonce: 0 }
  })
  const holders = Array.from({ length: HOLDERS }, (_, index) =>
    pad(numberToHex(0x10_0000 + index), { size: 20 }),
  )
  const contracts: Hex[] = []
  const mortals: Hex[] = []
  const hashes: Hex[] = []
  const sent: Record<string, number> = {}
  const holder = () => holders[Math.floor(random() * HOLDERS)]!
  const retain = <T>(list: T[], item: T) => {
    list.push(item)
    if (list.length > RETAINED) list.shift()
  }
  const send = async (sender: Sender, fields: Fields): Promise<Hex> => {
    const raw = await sender.account.signTransaction({
      chainId: 196,
      type: 'eip1559',
      nonce: sender.nonce,
      gas: SOME_GAS,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 1_000_000n,
      ...fields,
    })
    await call(`${url}/flashblocks`, 'eth_sendRawTransaction', [raw])
    sender.nonce++
    retain(hashes, keccak256(raw))
    return getContractAddress({ from: sender.account.address, nonce: BigInt(sender.nonce - 1) })
  }
  const token = await send(senders[0]!, { data: TOKEN_CREATION })
  const failing = await send(senders[0]!, { data: FAILING })
  const kinds: readonly (readonly [number, string, (sender: Sender) => Promise<unknown>])[] = [
    [40, 'transfers', (sender) => send(sender, { to: holder(), value: 1n })],
    [
      35,
      'token transfers',
      (sender) => send(sender, { to: token, data: transferTo(holder(), 1n) }),
    ],
    [
      8,
      'creations',
      async (sender) => {
        const made = await send(sender, { data: MORTAL })
        retain(contracts, made)
        mortals.push(made)
      },
    ],
    [
      5,
      'stillborn',
      async (sender) => retain(contracts, await send(sender, { data: STILLBORN, value: 1n })),
    ],
    [
      6,
      'self-destructs',
      async (sender) => send(sender, { to: mortals.shift() ?? holder(), value: 2n }),
    ],
    [6, 'reverts', (sender) => send(sender, { to: failing })],
  ]
  let isStopped = false
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
  const running = senders.map(async (sender) => {
    while (!isStopped) {
      const [, name, run] = chosen(kinds, random())
      await run(sender)
      sent[name] = (sent[name] ?? 0) + 1
      await pause((senders.length / rate) * 1_000 * 2 * random())
    }
  })
  const depositing = (async () => {
    while (!isStopped) {
      const deposit = { from: holder(), to: holder(), mint: '0x10', value: '0x5', gas: '0x30d40' }
      await call(`${url}/`, 'dev_deposit', [deposit]).catch(isLate)
      sent['deposits'] = (sent['deposits'] ?? 0) + 1
      await pause(DEPOSIT_MS)
    }
  })()
  const all = Promise.all([...running, depositing])
  // The caller gets the error by `stop`; until then it must not count as unhandled.
  all.catch(() => {})
  return {
    world: {
      token,
      holders,
      contracts,
      hashes,
      senders: senders.map(({ account }) => account.address),
    },
    sent,
    async stop() {
      isStopped = true
      await all
    },
  }
}

/**
 * Ignores the error of a deposit that waited too long for its block, because a busy machine makes
 * blocks late.
 */
function isLate(error: Error): void {
  if (!error.message.includes('is not in a block yet')) throw error
}

function chosen<Kind extends readonly [number, ...unknown[]]>(
  kinds: readonly Kind[],
  share: number,
): Kind {
  let at = share * kinds.reduce((sum, [weight]) => sum + weight, 0)
  for (const kind of kinds) {
    at -= kind[0]
    if (at < 0) return kind
  }
  return kinds[0]!
}
