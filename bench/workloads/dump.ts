/**
 * Makes an account dump of any size with its genesis and header. Every tenth account has code and
 * four slots.
 */
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { chainOfGenesis } from '../../engine/chainspec/registry.ts'
import { type Bytes, NO_BYTES } from '../../engine/primitives/bytes.ts'
import { bytesToHex, quantity } from '../../engine/primitives/hex.ts'
import { EMPTY_HASH, EMPTY_ROOT, keccak256 } from '../../engine/primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../../engine/primitives/rlp.ts'
import { trieRoot } from '../../engine/primitives/trie-root.ts'
import { bigintToBytes } from '../../engine/primitives/words.ts'
import { buildTrie } from '../../engine/storage/trie/build.ts'
import { indexIn, sortedHashes } from '../sorted-hashes.ts'

const LINES_IN_PIECE = 4_096

type Account = {
  readonly nonce: bigint
  readonly balance: bigint
  readonly code: Bytes
  readonly slots: readonly bigint[]
}

export const addressOf = (index: number): Bytes =>
  keccak256(bigintToBytes(BigInt(index), 8)).subarray(12)

function accountOf(index: number): Account {
  const isContract = index % 10 === 0
  const kind = Math.floor(index / 10) % 64
  return {
    nonce: BigInt(index % 3),
    balance: BigInt(index) * 10n ** 12n + 1n,
    code: isContract ? Uint8Array.of(0x60, kind, 0x00) : NO_BYTES,
    slots: isContract ? [1n, 2n, 3n, 4n].map((value) => value * BigInt(kind + 1)) : [],
  }
}

const storageRoots = new Map<string, Bytes>()
function storageRootOf({ slots }: Account): Bytes {
  if (slots.length === 0) return EMPTY_ROOT
  const name = slots.join()
  const known = storageRoots.get(name)
  if (known !== undefined) return known
  const root = trieRoot(
    slots.map((value, at) => ({
      key: keccak256(bigintToBytes(BigInt(at), 32)),
      value: encodeRlp(rlpUint(value)),
    })),
  )
  storageRoots.set(name, root)
  return root
}

/** Computes the root with memory only for the order of the hashes. */
function stateRootOf(size: number): Bytes {
  const builder = buildTrie({ column: 'accountTrie', prefix: NO_BYTES }, { put: () => {} })
  const words = sortedHashes(size, (index) => keccak256(addressOf(index)))
  for (let at = 0; at < size; at++) {
    const index = indexIn(words, at)
    const account = accountOf(index)
    const codeHash = account.code.length === 0 ? EMPTY_HASH : keccak256(account.code)
    builder.add(
      keccak256(addressOf(index)),
      encodeRlp([
        ...[rlpUint(account.nonce), rlpUint(account.balance)],
        ...[storageRootOf(account), codeHash],
      ]),
    )
  }
  return builder.finish()
}

function lineOf(index: number): string {
  const { nonce, balance, code, slots } = accountOf(index)
  const word = (value: bigint) => bytesToHex(bigintToBytes(value, 32))
  return JSON.stringify({
    address: bytesToHex(addressOf(index)),
    balance: quantity(balance),
    nonce: quantity(nonce),
    ...(code.length === 0 ? {} : { code: bytesToHex(code) }),
    ...(slots.length === 0
      ? {}
      : { storage: Object.fromEntries(slots.map((value, at) => [word(BigInt(at)), word(value)])) }),
  })
}

export function writeDump(folder: string, size: number): void {
  const forks = 'homestead eip150 eip155 eip158 byzantium constantinople petersburg istanbul'
  const config = {
    chainId: 7,
    terminalTotalDifficulty: 0,
    shanghaiTime: 0,
    ...Object.fromEntries(
      [...forks.split(' '), 'berlin', 'london'].map((fork) => [`${fork}Block`, 0]),
    ),
  }
  const genesis = { config, alloc: {}, gasLimit: '0x1c9c380', timestamp: '0x1' }
  const stateRoot = stateRootOf(size)
  const header = { ...chainOfGenesis(genesis).genesisHeader, number: 1n, stateRoot }
  const names: Readonly<Record<string, string>> = { ommersHash: 'sha3Uncles', coinbase: 'miner' }
  const json = Object.fromEntries(
    Object.entries(header).map(([name, value]) => [
      names[name] ?? name,
      typeof value === 'bigint' ? quantity(value) : bytesToHex(value),
    ]),
  )
  writeFileSync(join(folder, 'genesis.json'), JSON.stringify(genesis))
  writeFileSync(join(folder, 'header.json'), JSON.stringify(json))
  const file = openSync(join(folder, 'dump.jsonl'), 'w')
  writeSync(file, `${JSON.stringify({ root: bytesToHex(stateRoot) })}\n`)
  for (let from = 0; from < size; from += LINES_IN_PIECE) {
    const count = Math.min(LINES_IN_PIECE, size - from)
    writeSync(file, `${Array.from({ length: count }, (_, at) => lineOf(from + at)).join('\n')}\n`)
  }
  closeSync(file)
}
