/**
 * Verifies responses of eth_getProof (EIP-1186) against a state root. The result is the proven
 * account and slots, or an error with the fault.
 */

import type { Bytes } from '../../primitives/bytes.ts'
import {
  field,
  isObject,
  Refusal,
  readArray,
  readBytes,
  readObject,
} from '../../primitives/json-fields.ts'
import { EMPTY_ROOT, keccak256 } from '../../primitives/keccak.ts'
import {
  decodeRlp,
  encodeRlp,
  RlpError,
  type RlpItem,
  readFixed,
  readList,
  readUint,
} from '../../primitives/rlp.ts'
import { nibbleAt } from '../../primitives/trie-root.ts'
import { bigintToBytes, equalBytes } from '../../primitives/words.ts'
import { encodeAccount } from '../../state/account-codec.ts'

export type ProvenAccount = {
  /** 72 bytes (state/account-codec.ts); undefined: there is no account. */
  readonly account: Bytes | undefined
  /** EMPTY_ROOT if there is no account. */
  readonly storageRoot: Bytes
  /** 32 bytes each, in the order of the keys; undefined: zero. */
  readonly slots: readonly (Bytes | undefined)[]
}

/** The requested keys, and the root under which they must be proven. */
export type ProofRequest = {
  readonly stateRoot: Bytes
  readonly address: Bytes
  readonly keys: readonly Bytes[]
}

/** An invalid proof; the message says which one, and where. */
export class ProofFault extends Error {
  override name = 'ProofFault'
}

/**
 * Limit of nodes in a proof. The longest path has 64 nibbles, and a node embedded in another may
 * also come separately.
 */
const MAX_NODES = 129

/**
 * Returns only proven values. Fields beside the proofs are ignored.
 * @throws {ProofFault}
 */
export function readProof(
  json: unknown,
  { stateRoot, address, keys }: ProofRequest,
): ProvenAccount {
  const { accountProof, storageProof } = readable(() => partsOf(json))
  const leaf = proven('accountProof', accountProof, { root: stateRoot, key: keccak256(address) })
  if (leaf === undefined)
    return { account: undefined, storageRoot: EMPTY_ROOT, slots: keys.map(() => undefined) }
  const { account, storageRoot } = readable(() => accountOf(leaf))
  if (storageProof.length !== keys.length)
    throw new ProofFault(
      `storageProof: ${keys.length} of them expected, got ${storageProof.length}`,
    )
  const slots = storageProof.map((nodes, at) => {
    const name = `storageProof[${at}]`
    const value = proven(name, nodes, { root: storageRoot, key: keccak256(keys[at]!) })
    return value && readable(() => slotOf(value, name))
  })
  return { account, storageRoot, slots }
}

/** @throws {Refusal} */
function partsOf(json: unknown) {
  const proof = readObject(json, 'eth_getProof')
  const storage = readArray(field(proof, 'storageProof'), 'storageProof')
  return {
    accountProof: nodesOf(field(proof, 'accountProof'), 'accountProof'),
    storageProof: storage.map((one, at) => {
      const name = `storageProof[${at}]`
      return nodesOf(isObject(one) ? field(one, 'proof') : one, `${name}.proof`)
    }),
  }
}

function nodesOf(value: unknown, name: string): readonly Bytes[] {
  const nodes = readArray(value, name)
  if (nodes.length > MAX_NODES) throw new Refusal(name, `at most ${MAX_NODES} nodes`, nodes.length)
  return nodes.map((node, at) => readBytes(node, `${name}[${at}]`))
}

type Sought = { readonly root: Bytes; readonly key: Bytes }

/**
 * Returns the value of a hashed key in the trie with this root; undefined: the nodes prove its
 * absence. Each node's hash is in its parent. A node shorter than 32 bytes is embedded in its
 * parent, and may also follow in the list.
 */
function proven(name: string, nodes: readonly Bytes[], { root, key }: Sought): Bytes | undefined {
  if (nodes.length === 0) {
    if (equalBytes(root, EMPTY_ROOT)) return undefined
    throw new ProofFault(`${name}: no node, and the root is that of no empty trie`)
  }
  const rest = nodes.values()
  let taken = 0
  const next = (hash: Bytes): RlpItem => {
    const { value: node } = rest.next()
    if (node === undefined) throw new ProofFault(`${name}: it ends after ${taken} nodes`)
    if (!equalBytes(keccak256(node), hash))
      throw new ProofFault(`${name}[${taken}]: its hash is not what is above it`)
    taken++
    return readable(() => decodeRlp(node), `${name}[${taken - 1}]`)
  }
  const within = (item: RlpItem): RlpItem => {
    const following = nodes[taken]
    if (following !== undefined && equalBytes(encodeRlp(item), following)) {
      rest.next()
      taken++
    }
    return item
  }
  const value = readable(() => walk(key, next(root), { next, within }), name)
  if (taken < nodes.length) throw new ProofFault(`${name}: ${nodes.length - taken} nodes too many`)
  return value
}

type Steps = { next(hash: Bytes): RlpItem; within(item: RlpItem): RlpItem }

/**
 * @throws {RlpError} for malformed RLP
 * @throws {Refusal} for a malformed node
 */
function walk(key: Bytes, root: RlpItem, { next, within }: Steps): Bytes | undefined {
  let node = root
  for (let depth = 0; ; ) {
    // An empty string is the empty trie.
    if (isBytes(node)) return noValue(node)
    let child: RlpItem
    if (node.length === BRANCH_ITEMS) {
      if (depth === NIBBLES) throw new Refusal('node', 'no branch below a whole path')
      child = node[nibbleAt(key, depth++)]!
      if (isBytes(child) && child.length === 0) return undefined
    } else if (node.length === 2) {
      const { isLeaf, path } = pathOf(node[0]!)
      if (isLeaf !== (depth + path.length === NIBBLES))
        throw new Refusal('node', 'a leaf at the end of a path, and there only')
      if (path.some((nibble, at) => nibble !== nibbleAt(key, depth + at))) return undefined
      depth += path.length
      if (isLeaf) return leafValue(node[1]!)
      child = node[1]!
    } else throw new Refusal('node', `2 or ${BRANCH_ITEMS} items`, node.length)
    node = isBytes(child) ? next(readFixed(child, 32)) : within(child)
  }
}

const BRANCH_ITEMS = 17
const NIBBLES = 64

function noValue(bytes: Bytes): undefined {
  if (bytes.length > 0) throw new Refusal('node', 'a list', 'bytes')
}

function leafValue(item: RlpItem): Bytes {
  if (!isBytes(item) || item.length === 0) throw new Refusal('leaf', 'a value')
  return item
}

/** Hex-prefix encoding (yellow paper, appendix C). */
function pathOf(item: RlpItem): { readonly isLeaf: boolean; readonly path: readonly number[] } {
  const bytes = isBytes(item) ? item : undefined
  const flag = bytes?.[0]
  if (bytes === undefined || flag === undefined || flag >= 0x40)
    throw new Refusal('path', 'hex-prefix encoding')
  const isOdd = (flag & 0x10) !== 0
  if (!isOdd && (flag & 0x0f) !== 0) throw new Refusal('path', 'hex-prefix encoding')
  const path: number[] = []
  for (let at = isOdd ? 1 : 2; at < bytes.length * 2; at++) path.push(nibbleAt(bytes, at))
  const isLeaf = flag >= 0x20
  if (!isLeaf && path.length === 0) throw new Refusal('path', 'an extension that extends')
  return { isLeaf, path }
}

/**
 * Decodes a leaf of the state trie.
 * @throws {RlpError}
 * @throws {Refusal}
 */
function accountOf(leaf: Bytes): { readonly account: Bytes; readonly storageRoot: Bytes } {
  const items = readList(decodeRlp(leaf))
  if (items.length !== 4) throw new Refusal('account', '4 fields', items.length)
  const [nonce, balance, storageRoot, codeHash] = items
  const account = encodeAccount({
    nonce: readUint(nonce!, 8),
    balance: readUint(balance!, 32),
    codeHash: readFixed(codeHash!, 32),
  })
  return { account, storageRoot: readFixed(storageRoot!, 32) }
}

/**
 * Decodes a leaf of a storage trie.
 * @throws {RlpError}
 * @throws {Refusal}
 */
function slotOf(leaf: Bytes, name: string): Bytes {
  const value = readUint(decodeRlp(leaf), 32)
  if (value === 0n) throw new Refusal(name, 'a value that is not zero')
  return bigintToBytes(value, 32)
}

const isBytes = (item: RlpItem): item is Bytes => item instanceof Uint8Array

/** Turns decoding errors into a fault of the proof. */
function readable<T>(read: () => T, where?: string): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refusal || error instanceof RlpError)
      throw new ProofFault(`${where === undefined ? '' : `${where}: `}${error.message}`)
    throw error
  }
}
