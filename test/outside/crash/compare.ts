/** What a node shows after a start, held against everything that it had shown before. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Hex } from 'viem'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { TOO_LONG } from '../../../engine/sources/sequencer/fill.ts'
import { decodeAccount } from '../../../engine/state/account-codec.ts'
import type { PlainChain } from '../../fixtures/plain-chain.ts'
import { callMany, type RunningNode } from '../../kit/node.ts'
import type { Receipt, Seen, Shown } from './load.ts'

export type Differences = {
  /** One line each. */
  readonly found: string[]
  /** How many hashes of blocks, receipts and edits were compared. */
  hashes: number
  receipts: number
  edits: number
}
export const noDifferences = (): Differences => ({ found: [], hashes: 0, receipts: 0, edits: 0 })

/** What the last life showed, as soon as the node says that it is ready: nothing may be missing even for a moment. */
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
const STANDSTILL_MS = 20_000

/** Everything, once all of it is canonical. Gives up when nothing has become so for a while: what is not there by then is lost. */
export async function compareAll(node: RunningNode, seen: Seen, to: Differences): Promise<void> {
  const root = `${node.url}/`
  let missing = [...seen.accepted.keys()]
  for (let movedAt = performance.now(); missing.length > 0; await sleep(200)) {
    const params = missing.map((hash) => [hash])
    const answers = await callMany(root, 'eth_getTransactionReceipt', params)
    const left = missing.filter((_, at) => answers[at] === null)
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
  const answers = await callMany(`${node.url}/`, 'eth_getBalance', params)
  for (const [at, [address, balance]] of edits.entries()) {
    to.edits++
    if (answers[at] !== balance)
      to.found.push(`${address} was edited to have ${balance} and has ${answers[at]}`)
  }
}

/** Not so what is in the pool still, behind another of its sender, and what the sequencer gave up: it says so when it comes again. */
async function isLost(node: RunningNode, hash: Hex, raw: Hex): Promise<boolean> {
  const [known] = await callMany(`${node.url}/flashblocks`, 'eth_getTransactionByHash', [[hash]])
  if (known !== null) return false
  const again = callMany(`${node.url}/flashblocks`, 'eth_sendRawTransaction', [[raw]])
  const answer = await again.then(() => 'taken', String)
  return !answer.includes(TOO_LONG)
}

async function numbersOf(node: RunningNode): Promise<readonly number[]> {
  const [canonical] = await callMany(`${node.url}/`, 'eth_blockNumber', [[]])
  const [complete] = await callMany(`${node.url}/flashblocks`, 'eth_blockNumber', [[]])
  return [Number(canonical), Number(complete)]
}

async function compareBlocks(
  url: string,
  shown: readonly (readonly [number: number, hash: Hex])[],
  to: Differences,
): Promise<void> {
  const params = shown.map(([number]) => [`0x${number.toString(16)}`, false])
  const answers = (await callMany(url, 'eth_getBlockByNumber', params)) as (Shown | null)[]
  for (const [at, [number, hash]] of shown.entries()) {
    to.hashes++
    if (answers[at]?.hash !== hash)
      to.found.push(`block ${number} was ${hash} and is ${answers[at]?.hash ?? 'gone'}`)
  }
}

async function compareReceipts(
  url: string,
  shown: readonly Receipt[],
  to: Differences,
): Promise<void> {
  const params = shown.map(({ transactionHash }) => [transactionHash])
  const answers = (await callMany(url, 'eth_getTransactionReceipt', params)) as (Receipt | null)[]
  for (const [at, receipt] of shown.entries()) {
    to.receipts++
    const [was, is] = [receipt, answers[at]].map((one) => one && lastingOf(one))
    if (was !== is)
      to.found.push(`receipt of ${receipt.transactionHash} was ${was} and is ${is ?? 'gone'}`)
  }
}

/** What does not change when the block is sealed. */
function lastingOf(receipt: Receipt): string {
  const { blockNumber, transactionIndex, gasUsed, cumulativeGasUsed, status } = receipt
  const logs = receipt.logs.map(({ logIndex, topics }) => [logIndex, ...topics].join(' '))
  return [blockNumber, transactionIndex, gasUsed, cumulativeGasUsed, status, ...logs].join(' ')
}

/** A pending block that was shown is found by the hash it had then, with the transactions it had then. */
async function comparePrefixes(
  node: RunningNode,
  shown: readonly Shown[],
  to: Differences,
): Promise<void> {
  const params = shown.map(({ hash }) => [hash, false])
  const url = `${node.url}/flashblocks`
  const answers = (await callMany(url, 'eth_getBlockByHash', params)) as (Shown | null)[]
  for (const [at, was] of shown.entries()) {
    to.hashes++
    const is = answers[at]
    if (is?.number !== was.number || is.transactions.join() !== was.transactions.join())
      to.found.push(
        `pending block ${Number(was.number)} of hash ${was.hash} had ${was.transactions.length} transactions and has ${is?.transactions.length ?? 'gone'}`,
      )
  }
}

/** Every account and slot at the newest block, and some at older ones chosen by chance, as callers read them. */
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
  const ask = (method: string, from: typeof reads, slot: boolean) =>
    callMany(
      root,
      method,
      from.map(({ key, at }) => [
        address(key),
        ...(slot ? [`0x${key.slice(ADDRESS_LENGTH)}`] : []),
        height(at),
      ]),
    ) as Promise<Hex[]>
  const balances = await ask('eth_getBalance', accounts, false)
  const nonces = await ask('eth_getTransactionCount', accounts, false)
  const values = await ask('eth_getStorageAt', slots, true)
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
