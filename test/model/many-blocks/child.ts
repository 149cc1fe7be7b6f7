/**
 * A process that makes blocks in a data directory, reports them and waits for SIGKILL.
 * Usage: `child.ts DIRECTORY BLOCKS`
 */
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { openNetwork } from './network.ts'

export type Made = {
  readonly blocks: number
  readonly transactions: number
  /** Number and hash of each block when it became canonical. */
  readonly hashes: readonly (readonly [number: number, hash: string])[]
  /** Hash of a transaction that is certainly in one of the blocks, and the account that it paid. */
  readonly lastHash: string
  readonly recipient: string
}

/** Each sender sends one transaction per block. */
const SENDERS = 2
/** Transactions of the last blocks may still be in the pool when the process is killed. */
const SENT_BEFORE = 4
/** Every fifth transaction writes a slot: its init code is SSTORE(1, n), and it leaves no code. */
const initCode = (value: number) => hexToBytes(`0x61${value.toString(16).padStart(4, '0')}60015500`)

const [path, count] = process.argv.slice(2)
const blocks = Number(count)
// The clock starts in the past, so that it reaches the present with the last block.
const network = await openNetwork(path!, Date.now() - (blocks + 5) * 1000)
const hashes: [number, string][] = []
let made = 0
let lastHash = ''
let recipient = ''

function submitNext(): void {
  const from = made % SENDERS
  const isCreation = made % 5 === 4
  const to = keccak256(bigintToBytes(BigInt(made), 8)).slice(0, 20)
  const signed = signTransaction(
    {
      type: 2,
      chainId: network.chainId,
      nonce: BigInt(Math.floor(made / SENDERS)),
      to: isCreation ? undefined : to,
      value: isCreation ? 0n : 1n,
      gasLimit: isCreation ? 100_000n : 21_000n,
      input: isCreation ? initCode(made & 0xffff) : new Uint8Array(0),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
    },
    hexToBytes(DEV_ACCOUNTS[from]!.privateKey),
  )
  network.submit(signed.raw)
  made++
  if (isCreation || network.canonical().number > blocks - SENT_BEFORE) return
  lastHash = bytesToHex(signed.hash)
  recipient = bytesToHex(to)
}

for (let at = -1; at < blocks; await network.step()) {
  const { number, hash } = network.canonical()
  if (number === at) continue
  at = number
  hashes.push([number, bytesToHex(hash)])
  for (let n = 0; n < SENDERS; n++) submitNext()
}
process.send!({
  blocks: hashes.at(-1)![0],
  transactions: made,
  hashes,
  lastHash,
  recipient,
} satisfies Made)
// The listener holds the process open.
process.on('message', () => {})
