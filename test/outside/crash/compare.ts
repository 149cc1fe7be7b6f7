/**
 * This module compares a node's responses after a start with everything that was visible before.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Hex } from 'viem'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { TOO_LONG } from '../../../engine/sources/sequencer/fill.ts'
import { decodeAccount } from '../../../engine/state/account-codec.ts'
import type { PlainChain } from '../../fixtures/plain-chain.ts'
import { callMany, type RunningNode } from '../../kit/node.ts'
import type { Receipt, Seen, VisibleBlock } from './load.ts'

export type Differences = {
  /** One line for each difference. */
  readonly found: string[]
  /** The number of compared hashes of blocks; receipts and edits are counted too. */
  hashes: number
  receipts: number
  edits: number
}
export const noDifferences = (): Differences => ({ found: [], hashes: 0, receipts: 0, edits: 0 })

/**
 * Compares what the last run made visible, as soon as the node is ready. Nothing may be missing
 * even for a moment.
 */
export async function compareNewest(node: RunningNode, seen: Seen, to: Differences): Promise<void> {
  const blocks = [...seen.canonical].slice(-NEWEST)
  await compareBlocks(`${node.url}/`, blocks, to)
  const head = Math.max(...(await numbersOf(node)))
  const complete = [...seen.complete].filter(([number]) => number <= head).slice(-NEWEST)
  await compareBlocks(`${node.url}/flashblocks`, complete, to)
  await compareReceipts(`${node.url}/flashblocks`, [...seen.receipts.values()].slice(-200), to)
  await comparePrefixes(node, [...seen.pending.values()].slice(-NEWEST), to)
  await compareEdits(node, [...seen.edits].slice(-NEWEST), to)
}
const NEWEST = 20
/** The node makes a block each second. */
const STANDSTILL_MS = 120_000

/**
 * Compares everything once it is canonical. A transaction is lost if nothing has become canonical
 * for a while.
 */
export async function compareAll(node: RunningNode, seen: Seen, to: Differences): Promise<void> {
  const root = `${node.url}/`
  let missing = [...seen.accepted.keys()]
  for (let movedAt = performance.now(); missing.length > 0; await sleep(200)) {
    const params = missing.map((hash) => [hash])
    const responses = await callMany(root, 'eth_getTransactionReceipt', params)
    const left = missing.filter((_, at) => responses[at] === null)
    if (left.length < missing.length) movedAt = performance.now()
    missing = left
    if (performance.now() - movedAt > STANDSTILL_MS) break
  }
  for (const hash of missing)
    if (await isLost(node, hash, seen.accepted.get(hash)!))
      to.found.push(`transaction ${hash} was accepted, is in no block and nobody waits for it`)
  await compareBlocks(root, [...seen.canonical], to)
  await compareBlocks(root, [...seen.complete], to)
  await compareReceipts(root, [...seen.receipts.values()], to)
  await compareEdits(node, [...seen.edits], to)
}

async function compareEdits(
  node: RunningNode,
  edits: readonly (readonly [address: Hex, balance: Hex])[],
  to: Differences,
): Promise<void> {
  const params = edits.map(([address]) => [address, 'latest'])
  const responses = await callMany(`${node.url}/`, 'eth_getBalance', params)
  for (const [at, [address, balance]] of edits.entries()) {
    to.edits++
    if (responses[at] !== balance)
      to.found.push(`${address} was edited to have ${balance} and has ${responses[at]}`)
  }
}

/**
 * Whether a transaction is lost. A transaction in the pool behind another of its sender is not
 * lost. If the sequencer gave it up, a resubmission gets the reason.
 */
async function isLost(node: RunningNode, hash: Hex, raw: Hex): Promise<boolean> {
  const [known] = await callMany(`${node.url}/flashblocks`, 'eth_getTransactionByHash', [[hash]])
  if (known !== null) return false
  const repeated = callMany(`${node.url}/flashblocks`, 'eth_sendRawTransaction', [[raw]])
  const response = await repeated.then(() => 'taken', String)
  return !response.includes(TOO_LONG)
}

async function numbersOf(node: RunningNode): Promise<readonly number[]> {
  const [canonical] = await callMany(`${node.url}/`, 'eth_blockNumber', [[]])
  const [complete] = await callMany(`${node.url}/flashblocks`, 'eth_blockNumber', [[]])
  return [Number(canonical), Number(complete)]
}

async function compareBlocks(
  url: string,
  visible: readonly (readonly [number: number, hash: Hex])[],
  to: Differences,
): Promise<void> {
  const params = visible.map(([number]) => [`0x${number.toString(16)}`, false])
  const responses = (await callMany(url, 'eth_getBlockByNumber', params)) as (VisibleBlock | null)[]
  for (const [at, [number, hash]] of visible.entries()) {
    to.hashes++
    if (responses[at]?.hash !== hash)
      to.found.push(`block ${number} was ${hash} and is ${responses[at]?.hash ?? 'gone'}`)
  }
}

async function compareReceipts(
  url: string,
  visible: readonly Receipt[],
  to: Differences,
): Promise<void> {
  const params = visible.map(({ transactionHash }) => [transactionHash])
  const responses = (await callMany(url, 'eth_getTransactionReceipt', params)) as (Receipt | null)[]
  for (const [at, receipt] of visible.entries()) {
    to.receipts++
    const [was, is] = [receipt, responses[at]].map((one) => one && lastingOf(one))
    if (was !== is)
      to.found.push(`receipt of ${receipt.transactionHash} was ${was} and is ${is ?? 'gone'}`)
  }
}

/** Gives the fields of a receipt that do not change when the block is sealed. */
function lastingOf(receipt: Receipt): string {
  const { blockNumber, transactionIndex, gasUsed, cumulativeGasUsed, status } = receipt
  const logs = receipt.logs.map(({ logIndex, topics }) => [logIndex, ...topics].join(' '))
  return [blockNumber, transactionIndex, gasUsed, cumulativeGasUsed, status, ...logs].join(' ')
}

/**
 * Checks that a visible pending block is found by its old partial hash, with its old transactions.
 */
async function comparePrefixes(
  node: RunningNode,
  visible: readonly VisibleBlock[],
  to: Differences,
): Promise<void> {
  const params = visible.map(({ hash }) => [hash, false])
  const url = `${node.url}/flashblocks`
  const responses = (await callMany(url, 'eth_getBlockByHash', params)) as (VisibleBlock | null)[]
  for (const [at, was] of visible.entries()) {
    to.hashes++
    const is = responses[at]
    if (is?.number !== was.number || is.transactions.join() !== was.transactions.join())
      to.found.push(
        `pending block ${Number(was.number)} of hash ${was.hash} had ${was.transactions.length} transactions and has ${is?.transactions.length ?? 'gone'}`,
      )
  }
}

/**
 * Compares every account and slot at the newest block, and some at random older ones, like callers
 * read them.
 */
export async function compareState(
  node: RunningNode,
  plain: PlainChain,
  { to, random }: { readonly to: Differences; readonly random: () => number },
): Promise<number> {
  const root = `${node.url}/`
  const { number } = plain
  const [block] = (await callMany(root, 'eth_getBlockByNumber', [['latest', false]])) as {
    number: Hex
    stateRoot: Hex
  }[]
  const stateRoot = bytesToHex(plain.headerOf(number).stateRoot)
  if (Number(block!.number) !== number || block!.stateRoot !== stateRoot)
    to.found.push(
      `block ${Number(block!.number)} has the state root ${block!.stateRoot}, plainly block ${number} has ${stateRoot}`,
    )
  const latest = plain.keys.map((key) => ({ key, at: number }))
  const older = latest.map(({ key }) => ({ key, at: Math.floor(random() * (number + 1)) }))
  const reads = [...latest, ...older]
  const accounts = reads.filter(({ key }) => key.length === ADDRESS_LENGTH)
  const slots = reads.filter(({ key }) => key.length !== ADDRESS_LENGTH)
  const address = (key: Hex) => key.slice(0, ADDRESS_LENGTH)
  const height = (at: number) => `0x${at.toString(16)}`
  const request = (method: string, from: typeof reads, slot: boolean) =>
    callMany(
      root,
      method,
      from.map(({ key, at }) => [
        address(key),
        ...(slot ? [`0x${key.slice(ADDRESS_LENGTH)}`] : []),
        height(at),
      ]),
    ) as Promise<Hex[]>
  const balances = await request('eth_getBalance', accounts, false)
  const nonces = await request('eth_getTransactionCount', accounts, false)
  const values = await request('eth_getStorageAt', slots, true)
  const expect = (what: string, is: unknown, plainly: unknown) => {
    if (is !== plainly) to.found.push(`${what} is ${is}, plainly ${plainly}`)
  }
  for (const [index, { key, at }] of accounts.entries()) {
    const row = plain.rowAt(key, at)
    const account = row === undefined ? undefined : decodeAccount(hexToBytes(row))
    expect(`balance of ${key} at ${at}`, BigInt(balances[index]!), account?.balance ?? 0n)
    expect(`nonce of ${key} at ${at}`, BigInt(nonces[index]!), account?.nonce ?? 0n)
  }
  for (const [index, { key, at }] of slots.entries())
    expect(`slot ${key} at ${at}`, values[index], plain.rowAt(key, at) ?? `0x${'00'.repeat(32)}`)
  return 2 * accounts.length + slots.length
}
const ADDRESS_LENGTH = 42
