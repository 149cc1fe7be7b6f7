/**
 * Makes one chain of logs for both servers. Each block has one log of a common or a rare contract.
 * A topic names one of a hundred holders.
 */
import { DEV_ACCOUNTS } from '../engine/chainspec/dev-accounts.ts'
import { chainSpec } from '../engine/chainspec/registry.ts'
import { encodeHeader, hashHeader } from '../engine/primitives/header.ts'
import { hexToBytes } from '../engine/primitives/hex.ts'
import { bloomOf, encodeStoredReceipt } from '../engine/primitives/receipt-codec.ts'
import { signTransaction } from '../engine/primitives/transaction-codec.ts'
import { encodeDiff } from '../engine/state/diff-codec.ts'
import { appendBlock, writeLabelledHeads } from '../engine/storage/blocks/append.ts'
import { importGenesis } from '../engine/storage/blocks/genesis-import.ts'
import { persistBlock } from '../engine/storage/blocks/persist.ts'
import { openDirectory } from '../engine/storage/directory/schema.ts'
import { openTrie } from '../engine/storage/trie/trie.ts'
import { rpc, type Server } from './servers.ts'

export const COMMON = `0x${'c0'.repeat(20)}`
export const RARE = `0x${'4a'.repeat(20)}`
export const EVENT = `0x${'e7'.repeat(32)}`
export const word = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`
const HOLDERS = 100
const contractOf = (block: number) => (block % 100 === 50 ? RARE : COMMON)

/**
 * LOG3 with CALLDATALOAD(32), CALLDATALOAD(0) and the event as topics, and 32 zero bytes as data.
 */
export const LOGGER_CODE = `0x6020356000357f${EVENT.slice(2)}60206000a3`

/**
 * Writes blocks 1 to `blocks` into a directory for `serve`, appended and persisted without
 * execution.
 */
export async function writeLogs(path: string, blocks: number): Promise<void> {
  const chain = chainSpec({ name: 'xlayer', dev: { genesisTimestamp: 1_700_000_000 } })
  const database = await openDirectory({ path, chain, chainName: 'xlayer' })
  importGenesis(database, chain)
  const trie = openTrie({ database })
  let header = chain.genesisHeader
  let parentHash = chain.genesisHash
  for (let number = 1; number <= blocks; number++) {
    const logs = [
      {
        address: hexToBytes(contractOf(number)),
        topics: [EVENT, word(number % HOLDERS), word(number)].map((topic) => hexToBytes(topic)),
        data: new Uint8Array(32),
      },
    ]
    const logsBloom = bloomOf(logs)
    const timestamp = header.timestamp + 1n
    header = { ...header, number: BigInt(number), parentHash, timestamp, logsBloom }
    const hash = hashHeader(header)
    const receipt = encodeStoredReceipt({
      type: 2,
      status: 1,
      cumulativeGasUsed: 23_000n,
      gasUsed: 23_000n,
      logsBloom,
      logs,
      contractAddress: undefined,
      effectiveGasPrice: 7n,
    })
    const transactions = [transactionOf(number)]
    appendBlock(database, {
      id: 0,
      parentId: 0,
      number,
      hash,
      parentHash,
      header: encodeHeader(header),
      transactions,
      receipts: [receipt],
      diff: NO_DIFF,
      partialHeaders: [],
    })
    const version = trie.fork(trie.base())
    const block = { number, hash }
    for (const _ of persistBlock({ database, trie, version, block, diff: NO_DIFF }));
    parentHash = hash
  }
  writeLabelledHeads(database, { safe: blocks, finalized: blocks })
  await database.close()
}

const NO_DIFF = encodeDiff([])

const transactionOf = (number: number) =>
  signTransaction(
    {
      type: 2,
      chainId: 196n,
      nonce: BigInt(number),
      gasLimit: 50_000n,
      value: 0n,
      maxFeePerGas: 7n,
      maxPriorityFeePerGas: 7n,
      accessList: [],
      to: hexToBytes(contractOf(number)),
      input: hexToBytes(dataOf(number)),
    },
    hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
  )
const dataOf = (number: number): `0x${string}` =>
  `0x${word(number % HOLDERS).slice(2)}${word(number).slice(2)}`

/** Flags of an anvil whose blocks have one transaction each. */
export const ONE_IN_BLOCK = ['--no-mining', '--gas-limit', '50000']

/** Makes the same logs by transactions, of which a hundred are mined at a time. */
export async function sendLogs({ url }: Server, blocks: number): Promise<void> {
  const [from] = (await rpc(url, 'eth_accounts', [])) as string[]
  for (const contract of [COMMON, RARE]) await rpc(url, 'anvil_setCode', [contract, LOGGER_CODE])
  for (let first = 1; first <= blocks; first += 100) {
    const batch = Array.from({ length: Math.min(100, blocks - first + 1) }, (_, at) => {
      const number = first + at
      const transaction = {
        from,
        to: contractOf(number),
        data: dataOf(number),
        gas: '0xc350',
        nonce: `0x${(number - 1).toString(16)}`,
        gasPrice: '0x3b9aca00',
      }
      return { jsonrpc: '2.0', id: number, method: 'eth_sendTransaction', params: [transaction] }
    })
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(batch) })
    const responses = (await response.json()) as { readonly error?: { readonly message: string } }[]
    const refused = responses.find(({ error }) => error !== undefined)?.error
    if (refused !== undefined) throw new Error(`eth_sendTransaction: ${refused.message}`)
    // A pool of all transactions would make each block take ten times as long.
    await rpc(url, 'anvil_mine', [`0x${batch.length.toString(16)}`])
  }
}
